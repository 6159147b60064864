"""Copies only where they pay: a label gets one more leaf for the rows that its other leaves do not reach.

In: a tree, label sets Y and the leaves a matcher sends the rows to. Out: a `LabelTree` with copies, bounded in size.

Decisions
---------
* Choosing the best leaves of a label is a cover problem (the paper's Problem 7), and the greedy choice is the usual
  one: first the leaf that most of its rows reach, then the leaf that most of the *rest* reach, and so on.
  `reassign_labels` takes the largest counts instead, which may be the same rows twice.
* All claims, first leaves and further copies, are served by the positives they win, strongest first: under a limit on
  leaf size a further copy of a frequent label goes before the first choice of a rare one, which keeps its old leaf.
* Further copies end where `growth` times the number of labels is used up or fewer than `least_gain` positives are won.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood._check import check_float, check_int
from tagwood.trees.label_tree import LabelTree
from tagwood.trees.reassign import check_label_sets, check_matched, with_copies, without_empty_leaves

_I64 = NDArray[np.int64]


def reassign_by_gain(
    tree: LabelTree,
    Y: Any,
    matched: ArrayLike,
    *,
    growth: float = 1.3,
    least_gain: int = 1,
    max_copies: int = 2,
    max_leaf_size: int | None = None,
    keep_empty: bool = False,
) -> LabelTree:
    """Return `tree` with labels in the leaves that reach most of their rows, and copies where these gain enough.

    Parameters
    ----------
    tree, Y, matched, max_leaf_size, keep_empty
        As for `reassign_labels`.
    growth
        Most copies of all labels together, as a multiple of the number of labels.
    least_gain
        Positives that a further copy must win.
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
    check_int(max_copies, "max_copies", low=1)
    labels = check_label_sets(tree, Y)
    places = check_matched(tree, matched, labels.shape[0])
    limit = tree.n_labels if max_leaf_size is None else check_int(max_leaf_size, "max_leaf_size", low=1)
    steps = _greedy_cover(labels, places, tree.n_nodes, max_copies)
    label, leaf, gain = (np.concatenate([step[i] for step in steps]) for i in range(3))
    further = np.arange(label.size) >= steps[0][0].size
    spare = int(growth * tree.n_labels) - tree.n_labels
    room, taken = [limit] * tree.n_nodes, []
    for claim in np.argsort(-gain, kind="stable").tolist():
        if further[claim] and (spare <= 0 or gain[claim] < least_gain):
            continue
        if room[leaf[claim]] > 0:
            room[leaf[claim]] -= 1
            spare -= int(further[claim])
            taken.append(claim)
    new = with_copies(tree, label[taken], leaf[taken])
    return new if keep_empty else without_empty_leaves(new)[0]


def count_covered(tree: LabelTree, Y: Any, matched: ArrayLike) -> int:
    """Return how many positives (row, label) have their label in a leaf that the row is matched to.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0, 1], [2, 3]])
    >>> count_covered(tree, [[0], [2], [1, 3]], [[1], [1], [2]])
    2
    """
    labels = check_label_sets(tree, Y)
    places = check_matched(tree, matched, labels.shape[0])
    held = np.unique(tree.leaf_of_copy.astype(np.int64) * tree.n_labels + tree.labels)
    covered = np.zeros(labels.nnz, dtype=bool)
    row = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))
    for place in range(places.shape[1]):
        leaf = places[row, place].astype(np.int64)
        keys = leaf * tree.n_labels + labels.indices
        at = np.minimum(np.searchsorted(held, keys), held.size - 1)
        covered |= (held[at] == keys) & (leaf >= 0)
    return int(covered.sum())


def _greedy_cover(
    Y: sparse.csr_array, places: NDArray[Any], n_nodes: int, max_copies: int
) -> list[tuple[_I64, _I64, _I64]]:
    """Return per step the labels that found one more leaf, that leaf, and the positives it wins."""
    width = places.shape[1]
    entry_row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    leaf = places[entry_row].astype(np.int64).ravel()
    entry = np.repeat(np.arange(Y.nnz), width)
    label = np.repeat(Y.indices.astype(np.int64), width)
    open_ = leaf >= 0
    steps = []
    for _ in range(max_copies):
        entry, label, leaf = entry[open_], label[open_], leaf[open_]
        keys, counts = np.unique(label * n_nodes + leaf, return_counts=True)
        order = np.lexsort((keys, -counts, keys // n_nodes))
        best = order[np.concatenate([[True], np.diff(keys[order] // n_nodes) > 0])] if keys.size else order
        of, to = keys[best] // n_nodes, keys[best] % n_nodes
        steps.append((of, to, counts[best].astype(np.int64)))
        chosen = np.full(Y.shape[1], -1, dtype=np.int64)
        chosen[of] = to
        reached = np.zeros(Y.nnz, dtype=bool)
        reached[entry[leaf == chosen[label]]] = True
        open_ = ~reached[entry]
    return steps
