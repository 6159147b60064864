"""Label disentanglement, the pure part: give a label a copy in each leaf where its rows arrive.

In: a tree, label sets Y and the leaves a trained matcher sends the rows to. Out: a new `LabelTree` with copies.

Decisions
---------
* A label's leaves are the `copies` largest entries of its row of Y'M (M: row by leaf, 0/1); ties go to the leaf with
  the smaller number. Entries of 0 are not taken: a label gets fewer copies where fewer leaves see its rows.
* A label that no matched row carries keeps the leaves it had, so that every label stays covered.
* With `max_leaf_size`, a copy goes to a full leaf only in place of nothing: the strongest claims are served first, a
  claim on a full leaf passes on to the label's next leaf, and a label that would end without any keeps its old leaf.
* Leaves that lose all labels disappear, and inner nodes without leaves with them, unless they are to be kept for a
  matcher that knows them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._check import check_float, check_int
from tagwood._sparse import check_labels, csr_parts, top_k_rows
from tagwood.errors import InputError
from tagwood.trees.label_tree import LabelTree


def reassign_labels(
    tree: LabelTree,
    Y: Any,
    matched: ArrayLike,
    copies: int = 2,
    *,
    max_leaf_size: int | None = None,
    keep_empty: bool = False,
) -> LabelTree:
    """Return `tree` with every label in the leaves where most of its rows arrive.

    Parameters
    ----------
    tree
        The tree whose nodes are kept.
    Y
        (n_rows, n_labels) label sets.
    matched
        (n_rows, width) leaves that the matcher picked for each row, -1 for unused places.
    copies
        Most leaves of a label. 1 re-assigns without overlap.
    max_leaf_size
        Most labels in a leaf; default no limit.
    keep_empty
        Keep leaves without labels, so that all nodes keep their numbers.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0, 1], [2, 3]])
    >>> new = reassign_labels(tree, [[0], [0], [1], [2], [3]], [[1], [2], [1], [2], [2]])
    >>> new.leaves_of(0).tolist(), new.leaves_of(2).tolist()
    ([1, 2], [2])
    """
    check_int(copies, "copies", low=1)
    labels = check_label_sets(tree, Y)
    counts = count_arrivals(tree, labels, matched)
    limit = tree.n_labels if max_leaf_size is None else check_int(max_leaf_size, "max_leaf_size", low=1)
    if limit >= tree.n_labels:
        best = top_k_rows(counts, copies)
        label = np.repeat(np.arange(tree.n_labels, dtype=np.int32), np.diff(best.indptr))
        leaf = best.indices.astype(np.int32)
    else:
        label, leaf = _accept_pairs(counts, copies, limit)
    new = with_copies(tree, label, leaf)
    return new if keep_empty else without_empty_leaves(new)[0]


def duplicate_at_random(tree: LabelTree, n_copies: int, seed: int = 0) -> LabelTree:
    """Return `tree` with `n_copies` more copies of random labels in random leaves: the baseline to beat."""
    check_int(n_copies, "n_copies", low=0)
    rng = np.random.default_rng(seed)
    label = np.concatenate([tree.labels, rng.integers(0, tree.n_labels, n_copies)])
    leaf = np.concatenate([tree.leaf_of_copy, rng.choice(tree.leaves, n_copies)])
    return without_empty_leaves(with_copies(tree, label, leaf))[0]


def count_arrivals(tree: LabelTree, Y: sparse.csr_array, matched: ArrayLike) -> sparse.csr_array:
    """Return Y'M: (n_labels, n_nodes) how many rows of each label the matcher sends to each leaf."""
    places = check_matched(tree, matched, Y.shape[0])
    used = places >= 0
    indptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    leaves = places[used]
    arrived = sparse.csr_array(
        (np.ones(leaves.size, dtype=np.float32), leaves, indptr), shape=(Y.shape[0], tree.n_nodes)
    )
    counts = (Y.T.tocsr() @ arrived).tocsr()
    counts.sort_indices()
    return counts


def check_matched(tree: LabelTree, matched: ArrayLike, n_rows: int) -> NDArray[Any]:
    """Return the (n_rows, width) leaves that rows were matched to, checked."""
    places = np.asarray(matched)
    if places.ndim != 2 or places.shape[0] != n_rows or places.dtype.kind not in "iu":
        raise InputError(f"matched must hold leaves for each of the {n_rows:,} rows of Y")
    leaves = places[places >= 0]
    if leaves.size and (leaves.max() >= tree.n_nodes or not np.isin(leaves, tree.leaves).all()):
        raise InputError("matched must hold leaves of the tree", given="other nodes")
    return places


def with_copies(tree: LabelTree, label: NDArray[np.integer], leaf: NDArray[np.integer]) -> LabelTree:
    """Return `tree` with labels put into leaves, pair by pair; labels without a pair keep their leaves.

    Nodes keep their numbers; leaves may end empty.
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
    """Return `tree` without leaves that hold no label, and the former number of each node that is left.

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


def check_label_sets(tree: LabelTree, Y: Any) -> sparse.csr_array:
    """Return label sets over the labels of the tree, checked."""
    labels = check_labels(Y)
    if labels.shape[1] != tree.n_labels:
        raise InputError(f"Y must have the tree's {tree.n_labels:,} labels", given=f"{labels.shape[1]:,}")
    return labels


def _accept_pairs(
    counts: sparse.csr_array, copies: int, limit: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Give labels the leaves they claim, largest counts first: at most `copies` each, and `limit` labels per leaf."""
    order = np.argsort(-counts.data, kind="stable")  # ties: the smaller label, then the smaller leaf
    label = np.repeat(np.arange(counts.shape[0], dtype=np.int32), np.diff(counts.indptr))[order]
    leaf = counts.indices.astype(np.int32)[order]
    most, room = min(copies, np.iinfo(np.int32).max), np.full(counts.shape[1], limit, dtype=np.int64)
    served = _kernels.accept_pairs(label, leaf, most, counts.shape[0], room).astype(bool)
    return label[served], leaf[served]


# SECTION trees.coverage
# Copies only where they pay: a label lives in the leaves that reach most of its rows for the work they cost.
#
# In: a tree, label sets Y and the leaves a matcher sends the rows to. Out: a `LabelTree` with copies, bounded in size.
#
# Decisions
# ---------
# * A row reaches its first leaf fully and its last hardly: place p of w counts 1 - p/w. What a label's leaves reach
#   together is, row by row, what the best of them reaches.
# * Training a leaf costs its labels times its rows, and a little more where these are many: rows to the power of
# 1.25 (on
#   our sets 1.0 to 1.2 were measured, and more beyond the caches). A place in a leaf with many rows is dear, and a rare
#   label may be as dear as a frequent one. Every leaf of a label has to be worth its work: `price` says what share
# of all
#   positives the work of training all leaves once would have to bring into reach.
# * First every label takes the leaf that is worth most, if it reaches more than its own, labels with many rows first. A
#   move has to be worth twice its price: for most labels it is a guess from few rows.
# * Then leaves are added for what a label's leaves do not reach yet, those first that reach most for their work: the
#   greedy choice for the cover problem that finding the best leaves is (the paper's Problem 7). It ends where
#   `growth` times the labels or `work` times the work is used up. `reassign_labels` takes the largest counts instead,
#   which may be the same rows twice, and asks no price.
# * A few frequent labels with three leaves win more, for the same work, than many labels with two.


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
