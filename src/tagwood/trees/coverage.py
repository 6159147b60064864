"""Copies only where they pay: a label gets one more leaf for the rows that its other leaves do not reach.

In: a tree, label sets Y and the leaves a matcher sends the rows to. Out: a `LabelTree` with copies, bounded in size.

Decisions
---------
* First every label gets the leaf where most of its rows arrive. Rare labels have many leaves with equally many: among
  these a label stays where it is, or else takes the leaf that is the first choice of most rows. Then leaves are added
  for the positives that the leaves a label has do not reach: the greedy choice for the cover problem that finding
  the best leaves is (the paper's Problem 7). `reassign_labels` takes the largest counts instead, which may be the
  same rows twice.
* Further leaves are served by the positives they win, strongest first, and end where `growth` times the number of
  labels is used up or fewer than `least_gain` positives are won. The more rows a leaf has, the more a copy costs: it
  must also win a share of the positives of the leaf's labels.
* A limit on leaf size grows with the model: `growth` times as many labels with copies as without. Training a leaf costs
  its rows times its labels, and labels crowd into leaves with many rows: with `crowding`, these have less room, and
  leaves with few rows have more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_float, check_int
from tagwood.trees.label_tree import LabelTree
from tagwood.trees.reassign import (
    check_label_sets,
    check_matched,
    count_arrivals,
    serve_claims,
    with_copies,
    without_empty_leaves,
)


def reassign_by_gain(
    tree: LabelTree,
    Y: Any,
    matched: ArrayLike,
    *,
    growth: float = 1.2,
    least_gain: int = 1,
    least_share: float = 0.0,
    max_copies: int = 2,
    max_leaf_size: int | None = None,
    crowding: float = 0.0,
    keep_empty: bool = False,
) -> LabelTree:
    """Return `tree` with labels in the leaves that reach most of their rows, and copies where these gain enough.

    Parameters
    ----------
    tree, Y, matched, keep_empty
        As for `reassign_labels`.
    max_leaf_size
        Most labels in a leaf before copies are added, and `growth` times as many with them; default no limit.
    crowding
        Power of a leaf's positives by which its limit falls; limits are `max_leaf_size` on average, and at most twice
        and at least half of it. 0 has the same limit for all leaves.
    growth
        Most copies of all labels together, as a multiple of the number of labels.
    least_gain, least_share
        Positives that a further copy must win, and their share of the positives of all labels in its leaf.
    max_copies
        Most leaves of one label.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0, 1], [2, 3]])
    >>> Y = [[0], [0], [0], [0], [1], [2], [3]]
    >>> new = reassign_by_gain(tree, Y, [[1], [1], [2], [2], [1], [2], [2]], growth=1.25)
    >>> [new.leaves_of(label).tolist() for label in range(4)]
    [[1, 2], [1], [2], [2]]
    """
    check_float(growth, "growth", low=1.0)
    check_int(least_gain, "least_gain", low=1)
    check_float(least_share, "least_share", low=0.0, high=1.0)
    check_int(max_copies, "max_copies", low=1)
    check_float(crowding, "crowding", low=0.0)
    labels = check_label_sets(tree, Y)
    most = tree.n_labels if max_leaf_size is None else check_int(max_leaf_size, "max_leaf_size", low=1)
    limits = _leaf_limits(tree, labels, most, crowding)
    new = with_copies(tree, *serve_claims(_first_claims(tree, labels, matched), 1, limits))
    for _ in range(max_copies - 1):
        spare = max(0, int(growth * tree.n_labels) - new.labels.size)
        least = np.maximum(least_share * _positives_of_nodes(new, labels), least_gain)
        label, leaf = _winning_copies(new, labels, matched, least, np.round(growth * limits))
        pairs = np.concatenate([new.labels, label[:spare]]), np.concatenate([new.leaf_of_copy, leaf[:spare]])
        new = with_copies(new, *pairs)
    return new if keep_empty else without_empty_leaves(new)[0]


def count_covered(tree: LabelTree, Y: Any, matched: ArrayLike) -> int:
    """Return how many positives (row, label) have their label in a leaf that the row is matched to.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0, 1], [2, 3]])
    >>> count_covered(tree, [[0], [2], [1, 3]], [[1], [1], [2]])
    2
    """
    return int(find_covered(tree, check_label_sets(tree, Y), matched).sum())


def find_covered(tree: LabelTree, Y: sparse.csr_array, matched: ArrayLike) -> NDArray[np.bool_]:
    """Return for each entry of Y whether its label is in a leaf that the row is matched to."""
    places = check_matched(tree, matched, Y.shape[0])
    row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    covered = np.zeros(Y.nnz, dtype=bool)
    for leaves in _leaves_by_copy(tree):
        leaf = leaves[Y.indices]
        for place in range(places.shape[1]):
            covered |= (places[row, place] == leaf) & (leaf >= 0)
    return covered


def _leaves_by_copy(tree: LabelTree) -> NDArray[np.int64]:
    """Return (most copies, n_labels): each label's leaves from the first to the last, -1 where it has fewer."""
    order = np.argsort(tree.labels, kind="stable")
    label = tree.labels[order]
    number = np.arange(label.size) - np.searchsorted(label, label)
    leaves = np.full((int(number.max(initial=0)) + 1, tree.n_labels), -1, dtype=np.int64)
    leaves[number, label] = tree.leaf_of_copy[order]
    return leaves


def _first_claims(tree: LabelTree, Y: sparse.csr_array, matched: ArrayLike) -> sparse.csr_array:
    """Return (n_labels, n_nodes) how many rows of each label arrive at each leaf, with fractions that decide ties.

    Among equals a label's own leaf is best, then the leaf that is the first choice of most rows.
    """
    places = check_matched(tree, matched, Y.shape[0])
    arrived, first = (count_arrivals(tree, Y, part) for part in (places, places[:, :1]))
    own = (np.full(tree.labels.size, 0.5), (tree.labels, tree.leaf_of_copy))
    claims = arrived + sparse.csr_array(own, shape=arrived.shape) + first * (0.4 / max(arrived.max(), 1.0))
    claims.sort_indices()
    return claims


def _leaf_limits(tree: LabelTree, Y: sparse.csr_array, most: int, crowding: float) -> NDArray[np.int64]:
    """Return (n_nodes,) the most labels of each leaf: `most` on average, fewer where more positives are."""
    if most >= tree.n_labels:
        return np.full(tree.n_nodes, most, dtype=np.int64)
    share = np.maximum(_positives_of_nodes(tree, Y), 1.0) ** -crowding
    share /= share[tree.leaves].mean()
    limits: NDArray[np.int64] = np.round(most * np.clip(share, 0.5, 2.0)).astype(np.int64)
    return np.maximum(limits, 1)


def _positives_of_nodes(tree: LabelTree, Y: sparse.csr_array) -> NDArray[np.float64]:
    """Return (n_nodes,) how many positives the labels of each leaf have together."""
    held = np.bincount(Y.indices, minlength=tree.n_labels)[tree.labels]
    return np.bincount(tree.leaf_of_copy, weights=held, minlength=tree.n_nodes).astype(np.float64)


def _winning_copies(
    tree: LabelTree, Y: sparse.csr_array, matched: ArrayLike, least: NDArray[np.float64], limits: NDArray[Any]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return labels and one more leaf for each, those first that win most of the positives not yet covered.

    A copy must win the `least` of its leaf, and a leaf holds at most as many labels as its limit.
    """
    missed = Y.copy()
    missed.data = (~find_covered(tree, Y, matched)).astype(np.float32)
    missed.eliminate_zeros()
    counts = count_arrivals(tree, missed, matched)
    counts.data[counts.data < least[counts.indices]] = 0
    counts.eliminate_zeros()
    return serve_claims(counts, 1, np.maximum(limits - np.diff(tree.label_ptr), 0))
