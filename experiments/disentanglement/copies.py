"""Baseline and measure of the experiment: labels doubled at random, and the share of positives within reach."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_int
from tagwood.trees.copies import with_copies, without_empty_leaves
from tagwood.trees.label_tree import LabelTree


def duplicate_at_random(tree: LabelTree, n_copies: int, seed: int = 0) -> LabelTree:
    """Return `tree` with `n_copies` more copies of random labels in random leaves."""
    check_int(n_copies, "n_copies", low=0)
    rng = np.random.default_rng(seed)
    label = np.concatenate([tree.labels, rng.integers(0, tree.n_labels, n_copies)])
    leaf = np.concatenate([tree.leaf_of_copy, rng.choice(tree.leaves, n_copies)])
    return without_empty_leaves(with_copies(tree, label, leaf))[0]


def count_covered(tree: LabelTree, Y: sparse.csr_array, matched: ArrayLike) -> int:
    """Return how many positives (row, label) have their label in a leaf that the row is matched to.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0, 1], [2, 3]])
    >>> Y = sparse.csr_array([[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1]])
    >>> count_covered(tree, Y, [[1], [1], [2]])
    2
    """
    places = np.asarray(matched)
    row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    covered = np.zeros(Y.nnz, dtype=bool)
    for leaves in _leaves_by_copy(tree):
        leaf = leaves[Y.indices]
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
