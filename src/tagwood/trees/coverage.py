"""Copies only where they pay: a label lives in the leaves that reach most of its rows for the work they cost.

In: a tree, label sets Y and the leaves a matcher sends the rows to. Out: a `LabelTree` with copies, bounded in size.

Decisions
---------
* A row reaches its first leaf fully and its last hardly: place p of w counts 1 - p/w. What a label's leaves reach
  together is, row by row, what the best of them reaches.
* Training a leaf costs its labels times its rows, and a little more where these are many: rows to the power of 1.25 (on
  our sets 1.0 to 1.2 were measured, and more beyond the caches). A place in a leaf with many rows is dear, and a rare
  label may be as dear as a frequent one. Every leaf of a label has to be worth its work: `price` says what share of all
  positives the work of training all leaves once would have to bring into reach.
* First every label takes the leaf that is worth most, if it reaches more than its own, labels with many rows first. A
  move has to be worth twice its price: for most labels it is a guess from few rows.
* Then leaves are added for what a label's leaves do not reach yet, those first that reach most for their work: the
  greedy choice for the cover problem that finding the best leaves is (the paper's Problem 7). It ends where
  `growth` times the labels or `work` times the work is used up. `reassign_labels` takes the largest counts instead,
  which may be the same rows twice, and asks no price.
* A few frequent labels with three leaves win more, for the same work, than many labels with two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood import _kernels
from tagwood._check import check_float, check_int
from tagwood._sparse import csr_parts
from tagwood.trees.label_tree import LabelTree
from tagwood.trees.reassign import check_label_sets, check_matched, with_copies, without_empty_leaves


def reassign_by_gain(
    tree: LabelTree,
    Y: Any,
    matched: ArrayLike,
    *,
    width: int | None = None,
    growth: float = 1.3,
    work: float | None = None,
    price: float = 0.0,
    least_gain: int = 1,
    max_copies: int = 3,
    brings_all: bool = False,
    keep_empty: bool = False,
) -> LabelTree:
    """Return `tree` with labels in the leaves that reach most of their rows, and copies where these are worth it.

    Parameters
    ----------
    tree, Y, matched, keep_empty
        As for `reassign_labels`. Of a label with several leaves the first counts.
    width
        Places of `matched` that count as reached, from the first on; default all. Which rows a label brings is said by
        all places.
    growth
        Most copies of all labels together, as a multiple of the number of labels.
    work
        Most work of training leaves, as a multiple of the work in `tree`; None is no limit.
    price
        Share of all positives that as much work as training all leaves of `tree` once would have to win.
    least_gain
        Rows that a further copy must win.
    max_copies
        Most leaves of one label.
    brings_all
        Whether all rows of a label are trained on in all its leaves, not only in those they are matched to.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0, 1], [2, 3]])
    >>> Y = [[0], [0], [0], [0], [1], [2], [3]]
    >>> new = reassign_by_gain(tree, Y, [[1], [1], [2], [2], [1], [2], [2]], growth=1.25)
    >>> [new.leaves_of(label).tolist() for label in range(4)]
    [[1, 2], [1], [2], [2]]
    """
    check_float(growth, "growth", low=1.0)
    if work is not None:
        check_float(work, "work", low=1.0)
    check_float(price, "price", low=0.0)
    check_int(least_gain, "least_gain", low=1)
    check_int(max_copies, "max_copies", low=1)
    label_rows = csr_parts(check_label_sets(tree, Y).T.tocsr())
    places = check_matched(tree, matched, label_rows.n_cols)
    n_places = places.shape[1]
    width = n_places if width is None else check_int(width, "width", low=1, high=n_places)
    first = np.empty(tree.n_labels, dtype=np.int32)
    first[tree.labels[::-1]] = tree.leaf_of_copy[::-1]
    pairs = _kernels.place_labels(
        label_rows.indptr,
        label_rows.indices,
        first,
        np.ascontiguousarray(places, dtype=np.int32).ravel(),
        n_places,
        width,
        tree.n_nodes,
        brings_all,
        price,
        growth,
        np.inf if work is None else work,
        least_gain,
        max_copies,
    )
    new = with_copies(tree, *pairs)
    return new if keep_empty else without_empty_leaves(new)[0]


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
