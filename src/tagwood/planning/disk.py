"""Training from disk: what it needs, and whether data go that way. In: figures of the data, a limit. Out: `DiskNeeds`.

Texts, counts of n-grams and features are in files; the label sets, the vocabulary, label features, the rows of nodes,
the largest node's numbers per row and the model stay in memory. What the limit leaves beyond those is for features.

Decisions: the terms are the arrays that each stage holds, not measured constants; the largest stage counts.
"""

from __future__ import annotations

from typing import NamedTuple

from tagwood.models.linear_tree import LinearTree
from tagwood.planning.figures import DataFigures
from tagwood.planning.forecast import (
    TOGETHER,
    Forecast,
    encoder_bytes,
    has_forecast,
    parts_of,
    tree_shape,
)
from tagwood.tagger import Tagger

# Bytes by what they belong to; a lane is one of up to 16 classifiers that are trained together, with 4 bytes each.
_PAIR = 40  # a label of a row: label sets, of training rows and of all, and the same by label, with weights
_ROW = 24  # a row: places of its text, features and labels
_LARGEST_NODE_ROW = 96  # a row of the root: 16 lanes, order of visits, norm, place
_LARGEST_NODE_FEATURE = 100  # a feature of the root: 16 lanes, a quarter to spare, numbering
_SPELLED_FEATURE = 80  # a feature while its spelling is collected
_VISIT = 16  # a row of a node, while the rows of nodes are collected
_SPLIT_COPY = 400e6  # most of the label features that are copied while labels are split
_SAMPLED_TEXTS, _SAMPLED_WORD = 3000, 350  # texts whose words are counted for new labels, and bytes of such a word
_PAGES = 20e6  # of files that have been read and not yet released
_CHUNK = 50e6  # texts of a chunk, their n-grams and their features
_SPARE = 1.1  # memory that the allocator has not returned
_LEAST_WORK = 16e6  # for features: less would read the files too often
_SLOWER = 2.4  # CPU time against training in memory, measured with features of four times the limit


class DiskNeeds(NamedTuple):
    """What training from disk needs."""

    least_bytes: float  # memory without which it does not work
    fixed_bytes: float  # of that, what is there while features are in memory
    disk_bytes: float
    feature_bytes: float  # of all features
    cpu_seconds: float

    def work_bytes(self, limit: float, threads: int) -> int:
        """Return the bytes of features that may be in memory within a limit.

        Beside a row's features, every thread has their numbers in the node that it trains.
        """
        left = max(limit - self.fixed_bytes, _LEAST_WORK)
        return int(left * 8 / (10 + 4 * threads))


def has_disk_way(tagger: Tagger) -> bool:
    """Whether a Tagger can be trained from disk: one linear tree, or several, on TF-IDF features."""
    model = tagger.model
    plain = model is None or (
        isinstance(model, LinearTree) and model.tree == "interpolated" and model.solver.negatives == "teacher"
    )
    return has_forecast(tagger) and plain and tagger.effective_quality == "fast"


def disk_needs(figures: DataFigures, tagger: Tagger, forecast: Forecast, used_bytes: float, threads: int) -> DiskNeeds:
    """Return what training needs with texts and features in files.

    Parameters
    ----------
    figures, forecast
        Those of the same Tagger; the forecast is for training in memory.
    used_bytes
        Memory of a process that has read the labels and written the texts.
    threads
        Threads that train.
    """
    texts, labels = figures.texts, figures.labels
    model = parts_of(tagger)[1]
    visits = sum(level.visits for level in tree_shape(labels, model, TOGETHER).levels)
    vocabulary = encoder_bytes(tagger, texts.n_features)
    label_features = 8 * labels.tree_features
    model_bytes = forecast.model_bytes.expected
    sample = _SAMPLED_TEXTS * figures.characters / figures.rows
    sample += _SAMPLED_WORD * min(texts.n_features, _SAMPLED_TEXTS * texts.per_row)
    always = used_bytes + _PAGES + _PAIR * labels.pairs + _ROW * figures.rows + vocabulary
    with_features = max(
        _CHUNK + _SPELLED_FEATURE * texts.n_features,
        2 * label_features + 12 * threads * texts.n_features,
        _VISIT * visits + _LARGEST_NODE_ROW * figures.rows + _LARGEST_NODE_FEATURE * threads * texts.n_features,
    )
    without = max(
        label_features + min(label_features, _SPLIT_COPY) + 12 * threads * texts.n_features,
        _VISIT / 2 * visits + 2.5 * model_bytes,
        model_bytes + sample,
    )
    fixed = _SPARE * (always + with_features)
    features = 8 * figures.rows * texts.per_row
    disk = figures.characters + features + 16 * texts.distinct + label_features + 2 * model_bytes
    least = max(fixed + _LEAST_WORK, _SPARE * (always + without))
    return DiskNeeds(least, fixed, disk, features, _SLOWER * forecast.cpu_seconds.expected)
