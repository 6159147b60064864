"""Copies of labels (label disentanglement): a label gets a leaf wherever many of its rows arrive.

In: a tree, label sets Y and the leaves to which a trained matcher sends the rows. Out: a new `LabelTree` with copies.
`reassign_labels` gives each label a fixed number of leaves, `reassign_by_gain` adds copies where they are worth the
training work.

Decisions
---------
* `reassign_labels`: a label's leaves are the `copies` largest entries of its row of Y'M (M: row by leaf, 0/1); ties go
  to the smaller leaf, and entries of 0 are not taken. A label without matched rows keeps its leaves, so that every
  label stays in the tree. With `max_leaf_size`, pairs of a label and a leaf are accepted in order of their counts
  while both have space; a label that would get no leaf keeps its old one.
* `reassign_by_gain` solves the cover problem of the paper (Problem 7) greedily. A row reaches leaf p of w with weight
  1 - p/w; of a label's leaves the best counts. Training a leaf costs its labels times its rows to the power of 1.25
  (1.0 to 1.2 were measured, more beyond the caches). First every label, those with most rows first, moves to the most
  valuable leaf if it reaches more than its own; a move must gain twice its price, because for most labels it is an
  estimate from few rows. Then leaves are added, highest reach per work first, until `growth` or `work` is used up.
* Leaves may lose all labels, so that nodes keep their numbers for a matcher that knows them; `without_empty_leaves`
  removes them, and inner nodes without leaves too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._lazy import sparse
from tagwood._sparse import csr_parts, top_k_rows
from tagwood.trees.label_tree import LabelTree


def reassign_labels(
    tree: LabelTree,
    Y: sparse.csr_array,
    matched: NDArray[np.integer],
    copies: int = 2,
    *,
    max_leaf_size: int | None = None,
) -> LabelTree:
    """Return `tree` with each label in the leaves where most of its rows arrive.

    Parameters
    ----------
    tree
        The tree whose nodes are kept.
    Y
        (n_rows, n_labels) label sets.
    matched
        (n_rows, width) leaves that the matcher found for each row, best first; -1 for unused places.
    copies
        Largest number of leaves per label; 1 means no copies.
    max_leaf_size
        Largest number of labels in a leaf; default no limit.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0, 1], [2, 3]])
    >>> Y = sparse.csr_array(np.eye(4)[[0, 0, 1, 2, 3]])
    >>> new = reassign_labels(tree, Y, np.array([[1], [2], [1], [2], [2]]))
    >>> new.leaves_of(0).tolist(), new.leaves_of(2).tolist()
    ([1, 2], [2])
    """
    counts = count_arrivals(tree, Y, matched)
    if max_leaf_size is None or max_leaf_size >= tree.n_labels:
        best = top_k_rows(counts, copies)
        label = np.repeat(np.arange(tree.n_labels, dtype=np.int32), np.diff(best.indptr))
        leaf = best.indices.astype(np.int32)
    else:
        label, leaf = _accept_pairs(counts, copies, max_leaf_size)
    return with_copies(tree, label, leaf)


def reassign_by_gain(
    tree: LabelTree,
    Y: sparse.csr_array,
    matched: NDArray[np.integer],
    *,
    width: int | None = None,
    growth: float = 1.3,
    work: float = np.inf,
    price: float = 0.0,
    least_gain: int = 1,
    max_copies: int = 3,
    brings_all: bool = False,
) -> LabelTree:
    """Return `tree` with labels in the leaves that reach most of their rows, and copies where they are worth the work.

    Parameters
    ----------
    tree, Y, matched
        As for `reassign_labels`. Of a label with several leaves, only the first is used.
    width
        Number of places of `matched` that count as reached; default all. A label brings to a leaf the rows matched
        there at any place.
    growth
        Largest total number of copies, as a multiple of the number of labels.
    work
        Largest training work, as a multiple of the work in `tree`.
    price
        Share of all positives that work equal to training all leaves of `tree` once must bring into reach.
    least_gain
        Smallest number of rows that a further copy must gain.
    max_copies
        Largest number of leaves per label.
    brings_all
        Train all rows of a label in all its leaves, not only in those they are matched to.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0, 1], [2, 3]])
    >>> Y = sparse.csr_array(np.eye(4)[[0, 0, 0, 0, 1, 2, 3]])
    >>> new = reassign_by_gain(tree, Y, np.array([[1], [1], [2], [2], [1], [2], [2]]), growth=1.25)
    >>> [new.leaves_of(label).tolist() for label in range(4)]
    [[1, 2], [1], [2], [2]]
    """
    label_rows, n_places = csr_parts(Y.T.tocsr()), matched.shape[1]
    first = np.empty(tree.n_labels, dtype=np.int32)
    first[tree.labels[::-1]] = tree.leaf_of_copy[::-1]
    pairs = _kernels.place_labels(
        label_rows.indptr,
        label_rows.indices,
        first,
        np.ascontiguousarray(matched, dtype=np.int32).ravel(),
        n_places,
        n_places if width is None else width,
        tree.n_nodes,
        brings_all,
        price,
        growth,
        work,
        least_gain,
        max_copies,
    )
    return with_copies(tree, *pairs)


def count_arrivals(tree: LabelTree, Y: sparse.csr_array, matched: NDArray[np.integer]) -> sparse.csr_array:
    """Return Y'M (n_labels, n_nodes): the number of rows of each label that the matcher sends to each leaf."""
    used = matched >= 0
    indptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    leaves = matched[used]
    arrived = sparse.csr_array(
        (np.ones(leaves.size, dtype=np.float32), leaves, indptr), shape=(Y.shape[0], tree.n_nodes)
    )
    counts = (Y.T.tocsr() @ arrived).tocsr()
    counts.sort_indices()
    return counts


def with_copies(tree: LabelTree, label: NDArray[np.integer], leaf: NDArray[np.integer]) -> LabelTree:
    """Return `tree` with the given (label, leaf) pairs; labels without a pair keep their leaves.

    Nodes keep their numbers; leaves may become empty.
    """
    lost = np.ones(tree.n_labels, dtype=bool)
    lost[label] = False
    keep = lost[tree.labels]
    label = np.concatenate([label, tree.labels[keep]]).astype(np.int64)
    leaf = np.concatenate([leaf, tree.leaf_of_copy[keep]]).astype(np.int64)
    places = np.unique(leaf * tree.n_labels + label)
    sizes = np.bincount(places // tree.n_labels, minlength=tree.n_nodes)
    label_ptr = np.concatenate([[0], np.cumsum(sizes)])
    return LabelTree(tree.parent, label_ptr, places % tree.n_labels, tree.n_labels)


def without_empty_leaves(tree: LabelTree) -> tuple[LabelTree, NDArray[np.int64]]:
    """Return `tree` without empty leaves, and the former number of each remaining node.

    Examples
    --------
    >>> new, former = without_empty_leaves(LabelTree.from_nested([[0, 1], [], [2]]))
    >>> new.n_leaves, former.tolist()
    (2, [0, 1, 3])
    """
    alive = tree.nodes_with(np.ones(tree.n_labels, dtype=bool))
    number = np.cumsum(alive) - 1
    parent = tree.parent[alive].astype(np.int64)
    parent[1:] = number[parent[1:]]
    label_ptr = np.append(tree.label_ptr[:-1][alive], tree.label_ptr[-1])
    return LabelTree(parent, label_ptr, tree.labels, tree.n_labels), np.flatnonzero(alive)


def _accept_pairs(counts: sparse.csr_array, copies: int, limit: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return (label, leaf) pairs, largest counts first: at most `copies` per label and `limit` per leaf."""
    order = np.argsort(-counts.data, kind="stable")  # ties: the smaller label, then the smaller leaf
    label = np.repeat(np.arange(counts.shape[0], dtype=np.int32), np.diff(counts.indptr))[order]
    leaf = counts.indices.astype(np.int32)[order]
    capacity = np.full(counts.shape[1], limit, dtype=np.int64)
    most = min(copies, np.iinfo(np.int32).max)
    accepted = _kernels.accept_pairs(label, leaf, most, counts.shape[0], capacity).astype(bool)
    return label[accepted], leaf[accepted]
