"""Label frequencies, the coding half of an interpolated tree. In: label sets Y. Out: `LabelFrequencies` f and f̃.

Decisions
---------
* Line 6 of the paper's Algorithm 2 adds p of the chosen *label* to f̃; labels have no p. It must be the p of the row
  at hand, so that f̃ sums to the total of p (test: each row gives its whole frequency to one label).
* Ties between labels of equal frequency go to the smaller label, in both algorithms.
* Frequencies are sums of p and are not normalised: every use renormalises them over the labels of a node, and sums of
  whole numbers stay exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_choice, check_finite
from tagwood._sparse import check_labels
from tagwood.errors import InputError

_F64 = NDArray[np.float64]

CONSTRUCTIONS = ("marginal", "greedy")


@dataclass(frozen=True, eq=False)
class LabelFrequencies:
    """How often labels stand on rows, counted in two ways.

    Parameters
    ----------
    marginal
        (n_labels,) f: the frequency of the rows with the label.
    coding
        (n_labels,) f̃: each row counted for one of its labels only. A search for one right label needs that one near
        the root, not all of them. Many labels have 0.

    Examples
    --------
    >>> LabelFrequencies([3, 1]).coding
    array([3., 1.])
    """

    marginal: _F64
    coding: _F64 = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        marginal = _check_frequencies(self.marginal, "label frequencies")
        coding = marginal if self.coding is None else _check_frequencies(self.coding, "coding", marginal.size)
        object.__setattr__(self, "marginal", marginal)
        object.__setattr__(self, "coding", coding)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.marginal.size


def label_frequencies(
    Y: Any, row_frequencies: Any = None, *, construction: str = "marginal"
) -> LabelFrequencies:
    """Count labels.

    Parameters
    ----------
    Y
        (n_rows, n_labels) label sets, or the label ids of each row.
    row_frequencies
        (n_rows,) p: how often each row occurs, for example how often a query is asked; default 1 each.
    construction
        Of f̃: ``"marginal"`` gives each row to its most frequent label; ``"greedy"`` takes the most frequent label,
        removes its rows, and so on. The first one serves searches for several labels better.

    Examples
    --------
    >>> f = label_frequencies([[0, 1], [0], [1, 2], [1]])
    >>> f.marginal, f.coding
    (array([2., 3., 1.]), array([1., 3., 0.]))
    """
    labels = check_labels(Y)
    check_choice(construction, "construction", CONSTRUCTIONS)
    if row_frequencies is None:
        p = np.ones(labels.shape[0])
    else:
        p = _check_frequencies(row_frequencies, "row_frequencies", labels.shape[0])
    weights = np.repeat(p, np.diff(labels.indptr))
    marginal = np.bincount(labels.indices, weights, labels.shape[1]).astype(np.float64)
    make = _most_frequent_label if construction == "marginal" else _greedy_cover
    return LabelFrequencies(marginal, make(labels, p, marginal))


def interpolated_frequencies(
    frequencies: LabelFrequencies, lam: float, *, gamma: float = 0.1, direct: bool = False
) -> _F64:
    """Return f(λ) over all labels of `frequencies` taken as the labels of one node; sums to 1.

    λ=0 gives every label the same weight, λ=1 its marginal frequency, λ=2 its coding frequency; `gamma` smooths. The
    splitter computes the same inside each node (`cpp/split_sides.cpp`).

    Examples
    --------
    >>> f = LabelFrequencies(np.array([3.0, 1.0]), np.array([4.0, 0.0]))
    >>> [interpolated_frequencies(f, lam, gamma=0).tolist() for lam in (0, 1, 1.5, 2)]
    [[0.5, 0.5], [0.75, 0.25], [0.875, 0.125], [1.0, 0.0]]
    """
    n = frequencies.n_labels
    f, f_tilde = _shares(frequencies.marginal), _shares(frequencies.coding)
    if direct:  # straight from equal weights to coding frequencies, without the stop at f
        near, similarity, coding = np.full(n, 1 / n), 1 - lam / 2, lam / 2
    else:
        near, similarity, coding = f ** min(lam, 1.0), 2 - lam, max(lam - 1, 0.0)
    top = similarity * near + coding * f_tilde + gamma / n
    bottom = similarity * near.sum() + coding + gamma
    result: _F64 = top / bottom
    return result


def as_frequencies(given: Any, construction: str) -> LabelFrequencies:
    """Return what a caller passed for label frequencies, counted if it was Y."""
    if isinstance(given, LabelFrequencies):
        return given
    if not sparse.issparse(given) and _is_vector(given):
        return LabelFrequencies(np.asarray(given))
    return label_frequencies(given, construction=construction)


def _is_vector(given: Any) -> bool:
    if isinstance(given, list | tuple):
        return bool(given) and all(isinstance(item, int | float | np.number) for item in given)
    return bool(np.ndim(given) == 1)


def _most_frequent_label(labels: sparse.csr_array, p: _F64, marginal: _F64) -> _F64:
    # Algorithm 2. Labels become ranks by falling frequency; the smallest rank of a row is its most frequent label.
    by_rank = np.argsort(-marginal, kind="stable")
    rank = np.empty_like(by_rank)
    rank[by_rank] = np.arange(by_rank.size)
    used = np.flatnonzero(np.diff(labels.indptr))
    if used.size == 0:
        return np.zeros(marginal.size)
    best = np.minimum.reduceat(rank[labels.indices], labels.indptr[used])
    return np.bincount(by_rank[best], p[used], marginal.size).astype(np.float64)


def _greedy_cover(labels: sparse.csr_array, p: _F64, marginal: _F64) -> _F64:
    # Algorithm 1. A heap of upper bounds: frequencies only fall, so a stale top is pushed again with its present value.
    columns = labels.tocsc()
    row_ptr, row_labels = labels.indptr.tolist(), labels.indices.tolist()
    label_ptr, label_rows = columns.indptr.tolist(), columns.indices.tolist()
    weight, open_rows, left = p.tolist(), (p > 0).tolist(), marginal.tolist()
    heap = [(-value, label) for label, value in enumerate(left) if value > 0]
    heapify(heap)
    coding = np.zeros(marginal.size)
    while heap:
        bound, label = heappop(heap)
        if -bound > left[label]:
            if left[label] > 0:
                heappush(heap, (-left[label], label))
            continue
        rows = [row for row in label_rows[label_ptr[label] : label_ptr[label + 1]] if open_rows[row]]
        coding[label] = sum(weight[row] for row in rows)
        for row in rows:
            open_rows[row] = False
            for other in row_labels[row_ptr[row] : row_ptr[row + 1]]:
                left[other] -= weight[row]
        left[label] = 0.0
    return coding


def _shares(values: _F64) -> _F64:
    total = values.sum()
    return values / total if total > 0 else np.full(values.size, 1 / values.size)


def _check_frequencies(values: ArrayLike, name: str, size: int | None = None) -> _F64:
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or (size is not None and array.size != size):
        shape = "one number per label" if size is None else f"{size:,} numbers"
        raise InputError(f"{name} must hold {shape}", given=f"an array of shape {array.shape}")
    check_finite(array, name)
    if array.min() < 0:
        raise InputError(f"{name} must not be negative", given=str(array.min()))
    array.flags.writeable = False
    return array
