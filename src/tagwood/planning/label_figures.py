"""How many features the labels' rows have, from a sample of labels. In: texts, labels. Out: `LabelFigures`.

A label's features are those of its rows: their number decides how long a label tree is built and how large a model is.
Labels are drawn with a chance that grows with their rows, since frequent ones have most of the features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood.data.dataset import Dataset
from tagwood.features.terms import count_ngrams
from tagwood.features.texts import packed_chunks
from tagwood.features.tfidf import TfidfEncoder
from tagwood.features.unicode import char_tables
from tagwood.planning.text_figures import TextFigures

_LABELS = 120
_CHARACTERS = 4_000_000
_ROWS = (6, 32)  # least and most rows of a label that are read
_SIZE_POWER = 0.7  # features of a label grow about so with its rows


@dataclass(frozen=True)
class LabelFigures:
    """What the labels are.

    Parameters
    ----------
    n_labels, used, pairs
        Labels of the table, labels with rows, and pairs of row and label.
    features, tree_features
        Different features of a label's rows, summed over the labels; and so many at most as the tree takes of each.
    log_rows
        Mean of ln(1 + rows of a label) over the pairs: classifiers of frequent labels need more sweeps.
    row_sizes, row_counts
        Labels per row that occur, and on how many rows.
    """

    n_labels: int
    used: int
    pairs: int
    features: float
    tree_features: float
    log_rows: float
    row_sizes: NDArray[np.int64]
    row_counts: NDArray[np.int64]


class _Read(NamedTuple):
    """Different n-grams in some rows of a label, and in half of them."""

    rows: int
    features: float
    half_rows: int
    half_features: float


def measure_labels(
    data: Dataset,
    encoder: TfidfEncoder,
    texts: TextFigures,
    scale: float,
    per_label: int,
    random: np.random.Generator,
) -> LabelFigures:
    """Return the figures of the labels when `scale` times the rows of `data` are trained on.

    `per_label` is the most features of a label that the tree takes.
    """
    by_label = sparse.csr_array(data.labels.T)
    counts = np.diff(by_label.indptr).astype(np.float64)
    used = np.flatnonzero(counts)
    chosen, weight = _draw(counts[used], random)
    rows = data.texts or ()
    most = int(np.clip(_CHARACTERS / _LABELS / _mean_length(rows, random), *_ROWS))
    total = tree = 0.0
    for place, times in zip(chosen.tolist(), weight.tolist(), strict=True):
        label = used[place]
        own = by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]
        some = [rows[row] for row in random.permutation(own)[:most].tolist()]
        found = _label_features(_read(some, encoder), texts, counts[label] * scale)
        total += times * found
        tree += times * min(found, per_label)
    sizes, numbers = np.unique(np.diff(data.labels.indptr), return_counts=True)
    pairs = float(counts.sum())
    return LabelFigures(
        data.n_labels,
        int(used.size),
        round(pairs * scale),
        total,
        tree,
        float((counts * np.log1p(counts * scale)).sum() / pairs),
        sizes.astype(np.int64),
        np.round(numbers * scale).astype(np.int64),
    )


def _draw(
    counts: NDArray[np.float64], random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return places of a systematic sample by size, and how many labels each stands for."""
    size = counts**_SIZE_POWER
    step = size.sum() / min(_LABELS, counts.size)
    order = random.permutation(counts.size)
    hits = (np.arange(min(_LABELS, counts.size)) + random.random()) * step
    places = order[np.minimum(np.searchsorted(np.cumsum(size[order]), hits), counts.size - 1)]
    return places, step / size[places]


def _read(texts: list[str], encoder: TfidfEncoder) -> _Read:
    analysis = encoder._analysis()
    folds = char_tables(analysis.fold).folds
    half = (len(texts) + 1) // 2
    all_keys = count_ngrams(packed_chunks(texts, folds), analysis, 1)[0].size
    half_keys = count_ngrams(packed_chunks(texts[:half], folds), analysis, 1)[0].size
    return _Read(len(texts), float(all_keys), half, float(half_keys))


def _label_features(read: _Read, texts: TextFigures, rows: float) -> float:
    """Return the different features of a label on so many rows; n-grams that become no feature are taken off."""
    dropped = texts.tokens - texts.per_row  # of a row; nearly all of them stand in no other
    most = texts.n_features
    least = min(texts.per_row * 0.2, read.features)
    found = max(read.features - dropped * read.rows, least)
    if rows <= read.rows or read.rows == read.half_rows:
        return float(min(found * min(1.0, rows / read.rows), most))
    half = max(read.half_features - dropped * read.half_rows, least / 2)
    slope = float(np.clip(np.log(found / half) / np.log(read.rows / read.half_rows), 0.1, 1.0))
    return float(min(found * (rows / read.rows) ** (0.85 * slope), most))  # growth slows down further on


def _mean_length(rows: Sequence[str], random: np.random.Generator) -> float:
    some = random.integers(len(rows), size=min(1000, len(rows)))
    return max(1.0, float(np.mean([len(rows[row]) for row in some.tolist()])))
