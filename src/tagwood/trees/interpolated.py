"""Interpolated label trees: λ moves from similar labels together to frequent labels near the root.

In: label features V and label frequencies. Out: a `LabelTree` in which frequent labels are found faster.

Decisions
---------
* f(λ) and the objective (4) are the paper's, with f and f̃ renormalised inside each node; α is rounded after every step.
  A step whose rounding costs more than the step gained is undone, so the objective never falls.
* The fractional label of Lemma 1 goes to the nearer side, to the left if both are equally near; labels with equal keys
  are ordered by number. Neither side is empty.
* The paper describes `direct` only in words. Here it is f(λ) = (1−λ/2)/L + λ/2 f̃, smoothed, with λ/2 as the weight of
  the coding term.
* Line 6 of the paper's Algorithm 2 adds p of the chosen *label* to f̃, but labels have no p. It must be the p of the
  current row, so that f̃ sums to the total of p. Ties go to the smaller label in both algorithms.
* Wide nodes (`arity` above 2) open the most frequent branches until they have `arity` children; at λ=0 they join whole
  generations as in `build_balanced_tree`.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import check_choice, check_finite, check_float, check_threads
from tagwood._lazy import sparse
from tagwood._sparse import check_features, check_labels, csr_parts
from tagwood.errors import InputError
from tagwood.trees.balanced import Splits, check_arity, split_labels, tree_from_splits, tree_of_nodes
from tagwood.trees.label_tree import LabelTree

_F64 = NDArray[np.float64]
CONSTRUCTIONS = ("marginal", "greedy")
# The paper's λ′ for linear trees; `lambda_grid` turns them into λ.
PAPER_GRID = (0.0, 0.5, 1.0, 2.0, 6.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 100000.0)


def build_interpolated_tree(
    V: Any,
    Y_or_frequencies: Any,
    *,
    lam: float = 1.0,
    arity: int = 2,
    max_leaf_size: int = 100,
    gamma: float = 0.1,
    direct: bool = False,
    frequencies: str = "marginal",
    seed: int = 0,
    threads: int | None = None,
) -> LabelTree:
    """Split labels so that similar labels stay together and frequent ones are near the root, weighted by `lam`.

    Parameters
    ----------
    V
        (n_labels, n_features) label features with rows of norm 1, as from `label_centroids`.
    Y_or_frequencies
        (n_rows, n_labels) label sets to count, one number per label, or `LabelFrequencies`.
    lam
        λ from 0 to 2. 0: balanced 2-means, which ignores frequencies. 1: both halves of a split are equally frequent.
        2: Fano coding, which ignores features. Values up to 1 usually cost no precision.
    arity
        Largest number of children of a node, a power of two. 2 as in the paper; 16 is faster to search.
    max_leaf_size
        Largest number of labels in a leaf.
    gamma
        Smoothing of the frequencies, for labels that are rarer in training than later.
    direct
        Interpolate directly from 0 to 2, without passing through 1.
    frequencies
        How f̃ is counted from label sets (see `label_frequencies`); used for λ above 1 and with `direct`.
    seed, threads
        The same seed gives the same tree for any number of threads.

    Examples
    --------
    >>> V = [[1.0, 0], [0, 1], [1, 0], [0, 1]]
    >>> tree = build_interpolated_tree(V, [7, 1, 2, 1], lam=1.0, max_leaf_size=1)
    >>> tree.label_depths().tolist()
    [1, 3, 2, 3]
    """
    parts = csr_parts(check_features(V, name="V"))
    check_float(lam, "lam", low=0, high=2)
    check_float(gamma, "gamma", low=0)
    check_choice(frequencies, "frequencies", CONSTRUCTIONS)
    counted = as_frequencies(Y_or_frequencies, frequencies)
    if counted.n_labels != parts.n_rows:
        raise InputError(
            f"label frequencies must have one entry for each of the {parts.n_rows:,} labels of V",
            given=f"{counted.n_labels:,}",
        )
    splits = split_labels(
        parts,
        counted.marginal,
        counted.coding,
        lam=float(lam),
        gamma=float(gamma) if lam > 0 else 0.0,  # equal weights stay equal
        direct=bool(direct),
        max_leaf_size=max_leaf_size,
        seed=seed,
        threads=check_threads(threads),
    )
    if lam == 0 or arity == 2:
        return tree_from_splits(splits, arity=arity)
    return join_by_frequency(splits, counted.marginal, arity)


def lambda_grid(points: ArrayLike = PAPER_GRID) -> NDArray[np.float64]:
    """Return λ = 2λ′ / (1 + λ′) for λ′ >= 0: evenly different trees from λ=0 towards 2.

    Examples
    --------
    >>> lambda_grid([0, 1, 3]).tolist()
    [0.0, 1.0, 1.5]
    """
    raw = np.asarray(points, dtype=np.float64)
    if raw.size and not (raw.min() >= 0 and np.isfinite(raw).all()):
        raise InputError("λ′ must be finite and not negative", given=str(raw.min()))
    result: NDArray[np.float64] = 2 * raw / (1 + raw)
    return result


@dataclass(frozen=True, eq=False)
class LabelFrequencies:
    """How often labels occur, counted in two ways.

    Parameters
    ----------
    marginal
        (n_labels,) f: the total frequency of the rows with the label.
    coding
        (n_labels,) f̃: each row counts for one of its labels only, because a search for one correct label needs only
        that one near the root. Many labels have 0.

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


def label_frequencies(Y: Any, row_frequencies: Any = None, *, construction: str = "marginal") -> LabelFrequencies:
    """Count the labels of rows.

    Parameters
    ----------
    Y
        (n_rows, n_labels) label sets, or the label ids of each row.
    row_frequencies
        (n_rows,) p: how often each row occurs, such as the number of times a query was sent; default 1 each.
    construction
        Of f̃: ``"marginal"`` counts each row for its most frequent label; ``"greedy"`` repeatedly takes the most
        frequent label and removes its rows. Use the first for searches for several labels.

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


def as_frequencies(given: Any, construction: str) -> LabelFrequencies:
    """Return `LabelFrequencies` from label sets, one number per label, or `LabelFrequencies`."""
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
    # Algorithm 1. A heap of upper bounds: frequencies only fall, so a stale top is pushed again with its current value.
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


def _check_frequencies(values: ArrayLike, name: str, size: int | None = None) -> _F64:
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or (size is not None and array.size != size):
        shape = "one number per label" if size is None else f"{size:,} numbers"
        raise InputError(f"{name} must have {shape}", given=f"an array of shape {array.shape}")
    check_finite(array, name)
    if array.min() < 0:
        raise InputError(f"{name} must not be negative", given=str(array.min()))
    array.flags.writeable = False
    return array


def join_by_frequency(splits: Splits, frequency: _F64, arity: int) -> LabelTree:
    """Turn binary splits into a tree whose nodes have up to `arity` children, frequent labels near the root.

    Of equally frequent branches the one nearer to the root is opened first, so that equal frequencies and equal halves
    give whole generations.

    Examples
    --------
    >>> begin, end = np.array([0, 0, 1, 1, 2, 2, 3]), np.array([4, 1, 4, 2, 4, 3, 4])
    >>> left = np.array([1, -1, 3, -1, 5, -1, -1], dtype=np.int32)  # (0 (1 (2 3)))
    >>> splits = Splits(np.arange(4, dtype=np.int32), begin, end, left)
    >>> join_by_frequency(splits, np.ones(4), arity=4).label_depths().tolist()
    [1, 1, 1, 1]
    """
    check_arity(arity)
    order, begin, end, left = splits
    below = np.concatenate([[0.0], np.cumsum(frequency[order])])
    mass = (below[begin] - below[end]).tolist()  # negative: a heap returns its smallest item
    lefts, starts = left.tolist(), begin.tolist()
    nodes, parents = [0], [-1]
    for at, node in enumerate(nodes):  # grows while it is read: breadth-first
        if lefts[node] >= 0:
            children = _open_branches(node, mass, lefts, arity)
            children.sort(key=starts.__getitem__)
            nodes.extend(children)
            parents.extend([at] * len(children))
    return tree_of_nodes(np.array(nodes), np.array(parents), splits)


def _open_branches(node: int, mass: list[float], left: list[int], arity: int) -> list[int]:
    leaves: list[int] = []
    branches = [(mass[node], node)]
    while branches and len(branches) + len(leaves) < arity:
        _, heaviest = heappop(branches)
        for child in (left[heaviest], left[heaviest] + 1):
            if left[child] >= 0:
                heappush(branches, (mass[child], child))
            else:
                leaves.append(child)
    return leaves + [branch for _, branch in branches]
