"""Sparse synthetic problems with the label statistics of the large public sets.

In: sizes and a seed. Out: a `Problem` with train and test parts as CSR arrays with 32-bit indices. Benchmarks that
need hundreds of thousands of labels use `power_law` and its presets.

Decisions. A power-law problem has a hidden order of the labels. Neighbours in that order occur on the same rows and
share words, on three scales (16, 256 and 4,096 labels), so that a good label tree exists and a random one is worse.
Memory is bounded by the result and one chunk of rows: prototypes are never stored, word j of label l is a hash of
(l, j).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._check import check_float, check_int
from tagwood.errors import InputError

_CHUNK_TOKENS = 4_000_000
_SHIFTS = np.array([0, 4, 8, 12], dtype=np.uint64)  # own words, then words shared by 16, 256, 4,096 neighbours
_LEVEL_SHARES = np.array([0.4, 0.3, 0.15, 0.15])
_LEVEL_WORDS = np.array([24, 48, 96, 192], dtype=np.uint64)  # distinct words per label and per neighbourhood
_STOP_WORDS = 30  # flattens the head of the background words, as stop-word removal does
_DUPLICATES = 1.04  # a label dealt twice to the same row counts once


@dataclass(frozen=True, eq=False)
class Problem:
    """Features and labels of a train and a test part.

    Parameters
    ----------
    X_train, X_test
        (n_rows, n_features) float32 CSR, rows of norm 1, columns rising.
    Y_train, Y_test
        (n_rows, n_labels) float32 CSR of ones, columns rising. Every label stands on a training row.
    """

    X_train: sparse.csr_array
    Y_train: sparse.csr_array
    X_test: sparse.csr_array
    Y_test: sparse.csr_array


def power_law(
    n_train: int,
    n_test: int,
    n_labels: int,
    n_features: int,
    *,
    labels_per_row: float = 5.0,
    nnz_per_row: float = 75.0,
    exponent: float = 0.6,
    noise: float = 0.6,
    seed: int = 0,
) -> Problem:
    """Return a sparse problem with Zipf labels, topics and tf-idf weights, as real extreme sets have them.

    1. Label counts fall as rank ** -exponent, at least one training row each.
    2. The label slots, ordered by topic with jitter, are dealt out to rows: neighbours stand together.
    3. A row's words come from the prototypes of its labels and their neighbourhoods, and from a Zipf
       background.
    4. Weights are (1 + log tf) * idf with the idf of the train part; rows get norm 1.

    Parameters
    ----------
    n_train, n_test
        Rows of the two parts, at least 1 each.
    n_labels, n_features
        Sizes of the label and feature space. n_train * labels_per_row must be at least n_labels.
    labels_per_row, nnz_per_row
        Means, met within a few per cent; single rows vary.
    exponent
        Of the label counts; 0 is flat, 1 is the classical Zipf law.
    noise
        Share of words that say nothing about the labels, 0 to 0.95.
    seed
        Same seed, same problem.

    Examples
    --------
    >>> problem = power_law(200, 50, 100, 500, labels_per_row=3, nnz_per_row=20, seed=1)
    >>> problem.X_train.shape, problem.Y_test.shape
    ((200, 500), (50, 100))
    """
    for name, value in (("n_train", n_train), ("n_test", n_test), ("n_labels", n_labels)):
        check_int(value, name, low=1)
    check_int(n_features, "n_features", low=_STOP_WORDS)
    check_float(labels_per_row, "labels_per_row", low=1, high=n_labels)
    check_float(nnz_per_row, "nnz_per_row", low=1, high=n_features / 4)
    check_float(exponent, "exponent", low=0, high=2)
    check_float(noise, "noise", low=0, high=0.95)
    slots = round(n_train * labels_per_row * _DUPLICATES)
    if slots < n_labels:
        raise InputError(f"n_train * labels_per_row must be at least the {n_labels:,} labels", given=f"{slots:,}")
    rng = np.random.default_rng(seed)
    counts = _zipf_counts(n_labels, slots, exponent)[rng.permutation(n_labels)]
    test_counts = rng.multinomial(round(n_test * labels_per_row * _DUPLICATES), counts / counts.sum())
    # Labels are numbered by hidden place while rows are made; public ids are shuffled so that they tell
    # nothing.
    public = rng.permutation(n_labels).astype(np.int32)
    words = _Words(n_features, nnz_per_row, noise, int(rng.integers(1 << 62)))
    parts = []
    for n_rows, part_counts in ((n_train, counts), (n_test, test_counts)):
        labels = _deal_labels(part_counts, n_rows, labels_per_row, rng)
        parts.append((_draw_words(labels, words, rng), _relabel(labels, public)))
    (X_train, Y_train), (X_test, Y_test) = parts
    idf = np.log((1 + n_train) / (1 + np.bincount(X_train.indices, minlength=n_features))) + 1
    return Problem(_weigh(X_train, idf), Y_train, _weigh(X_test, idf), Y_test)


def amazon_670k_like(scale: float = 1.0, seed: int = 0) -> Problem:
    """Return a problem with the sizes of Amazon-670K: 490,449 rows, 670,091 labels, 135,909 features.

    Parameters
    ----------
    scale
        Above 0 to 1: multiplies rows and labels; the features shrink with its square root, as vocabularies
        do.
    seed
        Same seed, same problem.
    """
    return _preset(scale, (490_449, 153_025, 670_091, 135_909), 5.45, 76.0, seed)


def amazon_3m_like(scale: float = 1.0, seed: int = 0) -> Problem:
    """Return a problem with the sizes of Amazon-3M: 1,717,899 rows, 2,812,281 labels, 337,067 features.

    Parameters as in `amazon_670k_like`. At scale 1 the result alone takes about 1.8 GB.
    """
    return _preset(scale, (1_717_899, 742_507, 2_812_281, 337_067), 36.0, 50.0, seed)


def amazon_3m_few(scale: float = 1.0, seed: int = 0) -> Problem:
    """Return a problem with the sizes of Amazon-3M, but the 5.45 labels per row of Amazon-670K.

    Parameters as in `amazon_670k_like`. Training cost grows with labels times rows: this one takes minutes where
    `amazon_3m_like` takes hours.
    """
    return _preset(scale, (1_717_899, 742_507, 2_812_281, 337_067), 5.45, 50.0, seed)


def _preset(
    scale: float, sizes: tuple[int, int, int, int], labels_per_row: float, nnz_per_row: float, seed: int
) -> Problem:
    check_float(scale, "scale", above=0)
    check_float(scale, "scale", high=1)
    n_train, n_test, n_labels = (max(100, round(size * scale)) for size in sizes[:3])
    n_features = max(1000, round(sizes[3] * scale**0.5))
    return power_law(
        n_train,
        n_test,
        n_labels,
        n_features,
        labels_per_row=labels_per_row,
        nnz_per_row=nnz_per_row,
        seed=seed,
    )


def _zipf_counts(n_labels: int, total: int, exponent: float) -> NDArray[np.int64]:
    """Return falling counts of at least 1 that sum up to `total`."""
    shape = np.arange(1, n_labels + 1, dtype=np.float64) ** -exponent
    low, high = 0.0, float(total)
    for _ in range(60):
        middle = (low + high) / 2
        if np.maximum(1, np.floor(middle * shape)).sum() > total:
            high = middle
        else:
            low = middle
    counts = np.maximum(1, np.floor(low * shape)).astype(np.int64)
    missing = total - int(counts.sum())
    counts[:missing] += 1
    counts[0] += max(0, missing - n_labels)
    return counts


def _deal_labels(
    counts: NDArray[np.int64], n_rows: int, labels_per_row: float, rng: np.random.Generator
) -> sparse.csr_array:
    """Return Y (n_rows, n_labels): each label on about `counts` rows, neighbours together."""
    n_slots = int(counts.sum())
    # A slot's place is its label's place among all slots plus jitter. The jitter is as wide as a
    # neighbourhood, and wider for frequent labels, which would otherwise fall on the same row several times.
    width = 12 * n_slots / counts.size + 10 * labels_per_row * counts
    place = np.repeat(np.cumsum(counts) - counts / 2, counts)
    place += np.repeat(width, counts) * (rng.random(n_slots, dtype=np.float32) - 0.5)
    stray = rng.random(n_slots, dtype=np.float32) < 0.1
    place[stray] = rng.random(int(stray.sum())) * n_slots
    place -= place.min()
    # The place in the high bits and the label in the low ones: one sort without an index array.
    keys = (place * (2.0**32 / (place.max() + 1))).astype(np.uint64) << np.uint64(31)
    del place, stray
    keys |= np.repeat(np.arange(counts.size, dtype=np.uint64), counts)
    keys.sort()
    labels = (keys & np.uint64(2**31 - 1)).astype(np.int32)
    del keys
    # One slot for every row, the others with a gamma spread.
    share = np.cumsum(rng.gamma(2.0, size=n_rows))
    ends = np.arange(1, n_rows + 1) + np.round(share * ((n_slots - n_rows) / share[-1])).astype(np.int64)
    matrix = _csr(np.ones(n_slots, dtype=np.float32), labels, np.concatenate([[0], ends]), counts.size)
    matrix.sum_duplicates()
    return matrix[rng.permutation(n_rows)]


@dataclass(frozen=True)
class _Words:
    """How words are drawn: sizes, noise and the salt of the hash."""

    n_features: int
    nnz_per_row: float
    noise: float
    salt: int


def _draw_words(labels: sparse.csr_array, words: _Words, rng: np.random.Generator) -> sparse.csr_array:
    """Return word counts (n_rows, n_features), chunk by chunk."""
    n_rows = labels.shape[0]
    step = max(1, int(_CHUNK_TOKENS / words.nnz_per_row))
    chunks = [_draw_chunk(labels[start : start + step], words, rng) for start in range(0, n_rows, step)]
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([sizes for sizes, _, _ in chunks]))])
    indices = np.concatenate([columns for _, columns, _ in chunks])
    data = np.concatenate([counts for _, _, counts in chunks])
    return _csr(data, indices, indptr, words.n_features)


def _draw_chunk(
    labels: sparse.csr_array, words: _Words, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    n_rows, n_features = labels.shape[0], words.n_features
    sizes = np.diff(labels.indptr)
    # Some words are repetitions, hence the factor.
    lengths = 1 + rng.poisson(rng.gamma(4.0, 1.03 * words.nnz_per_row / 4.0, size=n_rows))
    n_tokens = int(lengths.sum())
    row = np.repeat(np.arange(n_rows), lengths)
    pick = labels.indptr[row] + (rng.random(n_tokens, dtype=np.float32) * sizes[row] * 0.999999).astype(np.int64)
    background = rng.random(n_tokens, dtype=np.float32) < words.noise
    background |= sizes[row] == 0
    pick[background] = 0
    column = _prototype_words(labels.indices[pick], words, rng)
    zipf = np.exp(rng.random(int(background.sum())) * np.log((n_features + _STOP_WORDS) / _STOP_WORDS))
    column[background] = (zipf * _STOP_WORDS - _STOP_WORDS).astype(np.int64)
    np.minimum(column, n_features - 1, out=column)
    # Ranks become columns by a fixed shuffle (an affine map, prime to n_features), so that columns tell
    # nothing.
    keys = row * n_features + (column * _coprime(n_features) + 7) % n_features
    keys.sort()
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(first, append=n_tokens).astype(np.float32)
    kept = keys[first]
    per_row = np.bincount(kept // n_features, minlength=n_rows)
    return per_row, (kept % n_features).astype(np.int32), counts


def _prototype_words(labels: NDArray[np.int32], words: _Words, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the rank of one word for each label: of its own or of a neighbourhood's prototype."""
    bounds = np.cumsum(_LEVEL_SHARES)[:-1].astype(np.float32)
    level = np.searchsorted(bounds, rng.random(labels.size, dtype=np.float32), side="right")
    # Squaring the uniform number makes the first words of a prototype the frequent ones.
    slot = (rng.random(labels.size, dtype=np.float32) ** 2 * _LEVEL_WORDS[level]).astype(np.uint64)
    owner = labels.astype(np.uint64) >> _SHIFTS[level]
    key = (owner << np.uint64(12)) | (slot << np.uint64(3)) | level.astype(np.uint64)
    uniform = (_hash(key + np.uint64(words.salt)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    # Density over ranks ~ rank ** -1/2: topical words are rarer than background words.
    return (uniform**2 * words.n_features).astype(np.int64)


def _hash(key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return well mixed bits (the finaliser of splitmix64)."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


def _coprime(size: int) -> int:
    """Return a multiplier near the golden section of `size` that has no divisor in common with it."""
    step = max(1, int(size * 0.618))
    while np.gcd(step, size) != 1:
        step += 1
    return step


def _relabel(labels: sparse.csr_array, public: NDArray[np.int32]) -> sparse.csr_array:
    matrix = _csr(labels.data, public[labels.indices], labels.indptr, labels.shape[1])
    matrix.has_sorted_indices = False
    matrix.sort_indices()
    matrix.data[:] = 1.0
    return matrix


def _weigh(counts: sparse.csr_array, idf: NDArray[np.float64]) -> sparse.csr_array:
    data = (1 + np.log(counts.data)) * idf.astype(np.float32)[counts.indices]
    return _unit_rows(_csr(data, counts.indices, counts.indptr, counts.shape[1]))


def _unit_rows(matrix: sparse.csr_array) -> sparse.csr_array:
    data = _kernels.normalize_rows(matrix.indptr.astype(np.int64), matrix.data, 1)
    return _csr(data, matrix.indices, matrix.indptr, matrix.shape[1])


def _csr(
    data: NDArray[np.float32], indices: NDArray[np.int32], indptr: NDArray[Any], n_columns: int
) -> sparse.csr_array:
    """Return a CSR array with 32-bit indices: SciPy widens them where `indptr` is wider than it has to be."""
    width = np.int32 if indices.size <= np.iinfo(np.int32).max else np.int64
    return sparse.csr_array((data, indices, indptr.astype(width)), shape=(indptr.size - 1, n_columns))
