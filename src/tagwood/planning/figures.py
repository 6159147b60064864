"""`DataFigures`: everything a forecast needs to know about the data, measured on samples in about a second.

In: a dataset and an encoder. Out: numbers of n-grams, features and labels.

Decisions: the n-grams of a quarter, a half and all of a random sample are counted, and the growth is extrapolated to
the number of rows by a power law (Heaps) whose exponent keeps falling as it fell inside the sample. The features of a
label are those of its rows; labels are sampled with a probability that grows with their rows, because frequent labels
have most of the features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._lazy import sparse
from tagwood.data.dataset import Dataset
from tagwood.data.stored_texts import StoredTexts
from tagwood.errors import InputError
from tagwood.features.base import char_tables, packed_chunks
from tagwood.features.tfidf import TfidfEncoder, count_ngrams
from tagwood.models.linear_tree.training import TREE_FEATURES

SAMPLE_CHARACTERS = 6_000_000
SAMPLE_ROWS = 30_000
_LABELS = 120
_CHARACTERS = 4_000_000
_ROWS = (6, 32)  # least and most rows of a label that are read
_SIZE_POWER = 0.7  # features of a label grow about so with its rows


@dataclass(frozen=True)
class TextFigures:
    """N-grams and features of texts."""

    tokens: float  # distinct n-grams of a text, on average
    distinct: float  # distinct n-grams of all texts
    # n_features, per_row: N-grams that become features, and how many of them a text has on average
    n_features: float
    per_row: float


def measure_texts(
    texts: Sequence[str], encoder: TfidfEncoder, n_rows: int, random: np.random.Generator, threads: int
) -> TextFigures:
    """Return the figures of `n_rows` texts, of which `texts` are all or more; a sample is read."""
    sample = draw_texts(texts, SAMPLE_CHARACTERS, min(SAMPLE_ROWS, n_rows), random)
    analysis, limits = encoder.analysis(), encoder.term_limits()
    tables = char_tables(analysis.fold)
    borders = [0, len(sample) // 4, len(sample) // 2, len(sample)]
    keys, counts, rows = np.empty(0, np.uint64), np.empty(0, np.int64), 0
    found: dict[int, TextFigures] = {}  # by number of rows
    for begin, end in pairwise(borders):
        chunks = packed_chunks(sample[begin:end], tables.folds)
        more_keys, more_counts, n_more = count_ngrams(chunks, analysis, threads)
        keys, counts = _kernels.merge_counts(keys, counts, more_keys, more_counts)
        rows += n_more
        if rows:
            kept = _features(counts, rows, limits)
            found[rows] = TextFigures(counts.sum() / rows, float(keys.size), *kept)
    return _grown(found, n_rows)


def draw_texts(texts: Sequence[str], characters: int, most: int, random: np.random.Generator) -> list[str]:
    """Return a random sample of about `characters` characters and at most `most` texts."""
    order = random.permutation(len(texts))[:most]
    chosen: list[str] = []
    for row in order.tolist():
        chosen.append(texts[row])
        characters -= len(texts[row])
        if characters <= 0:
            break
    return chosen


def _features(counts: NDArray[np.int64], rows: int, limits: tuple[float, float, int | None]) -> tuple[float, float]:
    """Return how many n-grams the limits of an encoder keep, and how many of those a text has on average."""
    low, high = (limit if isinstance(limit, int) else limit * rows for limit in limits[:2])
    kept = counts[(counts >= max(1, low)) & (counts <= high)]
    most = limits[2]
    if most is not None and kept.size > most:
        kept = np.partition(kept, kept.size - most)[kept.size - most :]
    return float(kept.size), float(kept.sum() / rows)


def _grown(found: dict[int, TextFigures], n_rows: int) -> TextFigures:
    tokens = list(found.values())[-1].tokens

    def grown(name: str) -> float:
        return extrapolate(list(found), [getattr(one, name) for one in found.values()], n_rows)

    n_features, distinct = grown("n_features"), max(grown("distinct"), 1.0)
    return TextFigures(tokens, distinct, min(n_features, distinct), min(grown("per_row"), tokens))


def extrapolate(sizes: Sequence[int], values: Sequence[float], size: int) -> float:
    """Extrapolate values at growing sizes to `size`, by a power law with a falling exponent.

    Examples
    --------
    >>> round(extrapolate([1, 2, 4], [10.0, 20.0, 40.0], 16), 3)  # a straight line
    160.0
    >>> extrapolate([4], [7.0], 16)
    7.0
    """
    if len(sizes) < 3 or size <= sizes[-1] or min(values) <= 0:
        return float(values[-1])
    slopes = np.diff(np.log(values)) / np.diff(np.log(sizes))
    fall = min(max(slopes[0] - slopes[1], 0.0), 0.1) / np.log(2)  # per unit of log size
    way = np.log(size / sizes[-1])
    slope = max(slopes[1] - fall * way / 2, slopes[1] / 2)  # the mean over the way
    return float(values[-1] * np.exp(slope * way))


@dataclass(frozen=True)
class LabelFigures:
    """Labels, their rows and their features."""

    # n_labels, used, pairs: labels of the table, labels with rows, and pairs of row and label
    n_labels: int
    used: int
    pairs: int
    # features, tree_features: distinct features of a label's rows, summed over the labels; and the same with
    # at most TREE_FEATURES per label
    features: float
    tree_features: float
    # Mean of ln(1 + rows of a label) over the pairs: classifiers of frequent labels need more sweeps
    log_rows: float
    # row_sizes, row_counts: labels per row that occur, and on how many rows
    row_sizes: NDArray[np.int64]
    row_counts: NDArray[np.int64]


class _Read(NamedTuple):
    """Distinct n-grams in some rows of a label, and in half of them."""

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


def _draw(counts: NDArray[np.float64], random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return places of a systematic sample by size, and the number of labels that each represents."""
    size = counts**_SIZE_POWER
    step = size.sum() / min(_LABELS, counts.size)
    order = random.permutation(counts.size)
    hits = (np.arange(min(_LABELS, counts.size)) + random.random()) * step
    places = order[np.minimum(np.searchsorted(np.cumsum(size[order]), hits), counts.size - 1)]
    return places, step / size[places]


def _read(texts: list[str], encoder: TfidfEncoder) -> _Read:
    analysis = encoder.analysis()
    folds = char_tables(analysis.fold).folds
    half = (len(texts) + 1) // 2
    all_keys = count_ngrams(packed_chunks(texts, folds), analysis, 1)[0].size
    half_keys = count_ngrams(packed_chunks(texts[:half], folds), analysis, 1)[0].size
    return _Read(len(texts), float(all_keys), half, float(half_keys))


def _label_features(read: _Read, texts: TextFigures, rows: float) -> float:
    """Return the number of distinct features of a label with `rows` rows, without n-grams that become no feature."""
    dropped = texts.tokens - texts.per_row  # per row; nearly all of them occur in no other row
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


@dataclass(frozen=True)
class DataFigures:
    """What a forecast needs to know about a dataset."""

    rows: int  # rows to train on
    characters: float  # characters of all their texts
    # texts, labels: figures of the texts and of the labels
    texts: TextFigures
    labels: LabelFigures
    grouped: bool  # whether labels are known for groups only


def measure_figures(
    data: Dataset, encoder: TfidfEncoder, *, share: float = 1.0, seed: int = 0, threads: int = 1
) -> DataFigures:
    """Measure a dataset with texts; `share` of its rows will be trained on.

    Reads a sample of texts and labels: about a second for a dataset of any size.

    Examples
    --------
    >>> data = Dataset([[0], [1], [0]] * 4, texts=["oak tree", "sea water", "old oak"] * 4)
    >>> figures = measure_figures(data, TfidfEncoder(ngrams=(1, 1)))
    >>> figures.rows, figures.texts.n_features, figures.labels.pairs
    (12, 5.0, 12)
    """
    if data.texts is None:
        raise InputError("a forecast needs texts", given="features only")
    if data.labels.nnz == 0:
        raise InputError("a forecast needs labels", given="none", hint="Look at the data with: tagwood check")
    random = np.random.default_rng(seed)
    rows = max(1, round(share * data.n_rows))
    texts = measure_texts(data.texts, encoder, rows, random, threads)
    labels = measure_labels(data, encoder, texts, rows / data.n_rows, TREE_FEATURES, random)
    total = data.texts.n_bytes if isinstance(data.texts, StoredTexts) else sum(map(len, data.texts))
    characters = float(total) * rows / data.n_rows
    return DataFigures(rows, characters, texts, labels, data.groups is not None)
