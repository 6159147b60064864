"""Copies only where they pay: a label gets one more leaf for the rows that its other leaves do not reach.

In: a tree, label sets Y and the leaves a matcher sends the rows to. Out: a `LabelTree` with copies, bounded in size.

Decisions
---------
* First every label gets one leaf, as by `reassign_labels`. Then leaves are added for the positives that the leaves a
  label has do not reach: the greedy choice for the cover problem that finding the best leaves is (the paper's Problem
  7). `reassign_labels` takes the largest counts instead, which may be the same rows twice.
* Further leaves are served by the positives they win, strongest first, and end where `growth` times the number of
  labels is used up or fewer than `least_gain` positives are won. The more rows a leaf has, the more a copy costs: it
  must also win a share of the positives of the leaf's labels.
* A limit on leaf size grows with the model: `growth` times as many labels with copies as without. Leaves stay even, so
  that neither training nor search has a few large ones to pay for.
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
    reassign_labels,
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
    keep_empty: bool = False,
) -> LabelTree:
    """Return `tree` with labels in the leaves that reach most of their rows, and copies where these gain enough.

    Parameters
    ----------
    tree, Y, matched, keep_empty
        As for `reassign_labels`.
    max_leaf_size
        Most labels in a leaf before copies are added, and `growth` times as many with them; default no limit.
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
    labels = check_label_sets(tree, Y)
    new = reassign_labels(tree, labels, matched, 1, max_leaf_size=max_leaf_size, keep_empty=True)
    limit = tree.n_labels if max_leaf_size is None else round(growth * max_leaf_size)
    for _ in range(max_copies - 1):
        spare = max(0, int(growth * tree.n_labels) - new.labels.size)
        held = np.bincount(labels.indices, minlength=tree.n_labels)[new.labels]
        least = least_share * np.bincount(new.leaf_of_copy, weights=held, minlength=tree.n_nodes)
        label, leaf = _winning_copies(new, labels, matched, np.maximum(least, least_gain), limit)
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


def _winning_copies(
    tree: LabelTree, Y: sparse.csr_array, matched: ArrayLike, least: NDArray[np.float64], limit: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return labels and one more leaf for each, those first that win most of the positives not yet covered.

    A copy must win the `least` of its leaf.
    """
    missed = Y.copy()
    missed.data = (~find_covered(tree, Y, matched)).astype(np.float32)
    missed.eliminate_zeros()
    counts = count_arrivals(tree, missed, matched)
    counts.data[counts.data < least[counts.indices]] = 0
    counts.eliminate_zeros()
    return serve_claims(counts, 1, np.maximum(limit - np.diff(tree.label_ptr), 0))
