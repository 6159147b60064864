"""Baseline and measure of the experiment: labels doubled at random, and the share of positives within reach."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import check_int
from tagwood.trees.copies import check_label_sets, check_matched, with_copies, without_empty_leaves
from tagwood.trees.label_tree import LabelTree


def duplicate_at_random(tree: LabelTree, n_copies: int, seed: int = 0) -> LabelTree:
    """Return `tree` with `n_copies` more copies of random labels in random leaves."""
    check_int(n_copies, "n_copies", low=0)
    rng = np.random.default_rng(seed)
    label = np.concatenate([tree.labels, rng.integers(0, tree.n_labels, n_copies)])
    leaf = np.concatenate([tree.leaf_of_copy, rng.choice(tree.leaves, n_copies)])
    return without_empty_leaves(with_copies(tree, label, leaf))[0]


def count_covered(tree: LabelTree, Y: Any, matched: ArrayLike) -> int:
    """Return how many positives (row, label) have their label in a leaf that the row is matched to.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0, 1], [2, 3]])
    >>> count_covered(tree, [[0], [2], [1, 3]], [[1], [1], [2]])
    2
    """
    positives = check_label_sets(tree, Y)
    places = check_matched(tree, matched, positives.shape[0])
    row = np.repeat(np.arange(positives.shape[0]), np.diff(positives.indptr))
    covered = np.zeros(positives.nnz, dtype=bool)
    for leaves in _leaves_by_copy(tree):
        leaf = leaves[positives.indices]
        for place in range(places.shape[1]):
            covered |= (places[row, place] == leaf) & (leaf >= 0)
    return int(covered.sum())


def _leaves_by_copy(tree: LabelTree) -> NDArray[np.int64]:
    """Return (most copies, n_labels): each label's leaves from the first to the last, -1 where it has fewer."""
    order = np.argsort(tree.labels, kind="stable")
    label = tree.labels[order]
    number = np.arange(label.size) - np.searchsorted(label, label)
    leaves = np.full((int(number.max(initial=0)) + 1, tree.n_labels), -1, dtype=np.int64)
    leaves[number, label] = tree.leaf_of_copy[order]
    return leaves
