"""Change a trained tree without training it anew: blocks that are taken over, and classifiers that are exchanged.

In: `TreeWeights`, and rows with labels. Out: `TreeWeights` in which only the classifiers of some labels are trained.

Decisions
---------
* Classifiers of inner nodes stay: some more rows hardly change where a text belongs. A label's classifier is trained
  again if the label has new rows, on all rows of its leaf, old and new; the others of the leaf stay.
* A new label goes to the leaf in which the paths of its rows end, with its similar labels.
* Solvers start from zero: what they would start from (one number per row and classifier) is not stored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._sparse import CsrParts
from tagwood.models.linear_tree.training import WEIGHT_DTYPES, TreeTraining
from tagwood.models.linear_tree.weights import (
    BLOCK_OUTPUTS,
    NO_ROWS_MARGIN,
    TrainedBlocks,
    TreeWeights,
    assemble,
    blocks_of,
    read_node,
)
from tagwood.trees.label_tree import LabelTree

_I64 = NDArray[np.int64]
_PLACING_WIDTH = 10  # beam width in which the rows of a new label vote for its leaf


def update_tree(
    weights: TreeWeights, training: TreeTraining, new_rows: CsrParts, new_labels: sparse.csr_array
) -> TreeWeights:
    """Return the tree with the labels of new rows trained again, or added.

    Parameters
    ----------
    weights
        The trained tree.
    training
        All rows, old and new, with the label table grown.
    new_rows, new_labels
        (n_new, n_features) features and (n_new, n_labels) label sets of the new rows.
    """
    tree = grow_tree(weights, new_rows, new_labels, training.threads)
    n_features = new_rows.n_cols
    changed = np.bincount(new_labels.indices, minlength=tree.n_labels) > 0
    changed[weights.tree.n_labels :] = True
    touched = changed[tree.labels]
    leaves = np.unique(tree.leaf_of_copy[touched]).astype(np.int64)
    others = np.setdiff1d(np.flatnonzero(np.diff(tree.child_ptr) + np.diff(tree.label_ptr)), leaves)
    parts = [blocks_of(weights, others, others)] if others.size else []
    if leaves.size:
        seen = training.rows_of_nodes(tree)
        small = tree.only(touched)
        trained = training.train_nodes(small, leaves, seen, seen)
        fresh = assemble(small, [trained], weights.link, training.solver.weights)
        nodes = [_merged(weights, fresh, tree, touched, int(leaf), n_features) for leaf in leaves]
        parts.append(_packed(nodes, leaves, n_features, training.solver.weights))
    made = assemble(tree, parts, weights.link, training.solver.weights)
    without = np.flatnonzero(np.diff(training.weights.label_rows.indptr)[tree.labels] == 0)
    without = without[tree.labels[without] >= weights.tree.n_labels]
    made.arrays.bias[tree.child_ptr[tree.leaf_of_copy[without]] - 1 + without] = NO_ROWS_MARGIN
    return made


def grow_tree(weights: TreeWeights, X: CsrParts, Y: sparse.csr_array, threads: int) -> LabelTree:
    """Return the tree with labels from `n_labels` on added, each to the leaf that most of its rows of X reach."""
    tree = weights.tree
    first, n_labels = tree.n_labels, int(Y.shape[1])
    if n_labels == first:
        return tree
    own = sparse.coo_array(Y)
    row, label = own.coords[0][own.coords[1] >= first], own.coords[1][own.coords[1] >= first]
    rows = np.unique(row)
    homes = np.full(n_labels - first, tree.leaves[0], dtype=np.int64)
    if rows.size:
        part = X.to_scipy()[rows]
        from_rows = CsrParts(part.indptr.astype(np.int64), part.indices.astype(np.int32), part.data, X.n_cols)
        found, scores = weights.leaves(from_rows, _PLACING_WIDTH, threads)
        at = np.searchsorted(rows, row)
        votes = found[at].ravel(), np.repeat(label - first, _PLACING_WIDTH)
        use = votes[0] >= 0
        shape = (n_labels - first, tree.n_nodes)
        total = sparse.csr_array((scores[at].ravel()[use], (votes[1][use], votes[0][use])), shape=shape)
        for new in np.flatnonzero(np.diff(total.indptr)):
            mine = slice(total.indptr[new], total.indptr[new + 1])
            homes[new] = total.indices[mine][np.argmax(total.data[mine])]
    leaf = np.concatenate([tree.leaf_of_copy, homes])
    order = np.argsort(leaf, kind="stable")  # new labels after the old ones of their leaf
    labels = np.concatenate([tree.labels, np.arange(first, n_labels)])[order]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(leaf, minlength=tree.n_nodes))])
    return LabelTree(tree.parent, ptr, labels, n_labels)


def _merged(
    old: TreeWeights, fresh: TreeWeights, tree: LabelTree, touched: NDArray[np.bool_], leaf: int, n_features: int
) -> tuple[sparse.csr_array, NDArray[np.float32]]:
    """Return the weights and biases of a leaf: fresh ones of touched labels, the old ones of others."""
    mine = touched[tree.label_ptr[leaf] : tree.label_ptr[leaf + 1]]
    before, after = read_node(old, leaf, n_features), read_node(fresh, leaf, n_features)
    place = np.where(mine, before.shape[0] + np.cumsum(mine) - 1, np.arange(mine.size))
    biases = np.concatenate([_biases(old, leaf, before.shape[0]), _biases(fresh, leaf, after.shape[0])])
    return sparse.csr_array(sparse.vstack([before, after]))[place], biases[place]


def _biases(weights: TreeWeights, leaf: int, n_outputs: int) -> NDArray[np.float32]:
    first = int(weights.tree.child_ptr[leaf]) - 1 + int(weights.tree.label_ptr[leaf])
    return weights.arrays.bias[first : first + n_outputs]


def _packed(
    nodes: list[tuple[sparse.csr_array, NDArray[np.float32]]], leaves: _I64, n_features: int, weight_dtype: str
) -> TrainedBlocks:
    """Return the blocks of leaves with given weights and biases."""
    outputs = np.array([W.shape[0] for W, _ in nodes], dtype=np.int64)
    n_blocks = -(-outputs // BLOCK_OUTPUTS)
    ends, columns = [0], []
    for W, _ in nodes:
        edges = np.append(np.arange(0, W.shape[0], BLOCK_OUTPUTS), W.shape[0])[1:]
        ends += (ends[-1] + W.indptr[edges] - W.indptr[0]).tolist()
        columns.append(np.repeat(np.arange(W.shape[0]) % BLOCK_OUTPUTS, np.diff(W.indptr)))
    place = np.arange(int(n_blocks.sum())) - np.repeat(np.cumsum(n_blocks) - n_blocks, n_blocks)
    sizes = np.minimum(np.repeat(outputs, n_blocks) - place * BLOCK_OUTPUTS, BLOCK_OUTPUTS)
    packed = _kernels.pack_blocks(
        np.array(ends, dtype=np.int64),
        np.concatenate([W.indices for W, _ in nodes]).astype(np.int32),
        np.concatenate(columns).astype(np.int32),
        np.concatenate([W.data for W, _ in nodes]).astype(np.float32),
        sizes,
        n_features,
        WEIGHT_DTYPES[weight_dtype],
    )
    return TrainedBlocks(np.repeat(leaves, n_blocks), (*packed[:10], np.concatenate([bias for _, bias in nodes])))
