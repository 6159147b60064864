"""Change a trained tree without training it anew: classifiers of labels go on from their present weights.

In: `TreeWeights`, and new rows with labels. Out: `TreeWeights` that have learned them.

Decisions
---------
* The weights of a classifier are a sum over the rows it was trained on. An update keeps that sum and solves for the new
  rows alone, in the leaves of their labels: the dual problem with the variables of the old rows fixed. It needs no old
  rows, and its work grows with the new ones.
* Biases stay: they balance a label's rows against all others of the leaf, and the few new ones would shift them by far
  too much. Classifiers of inner nodes stay: some more rows hardly change where a text belongs.
* A label that had no rows goes to the leaf in which the paths of its rows end, beside similar labels. It has nothing to
  start from, so it is trained on all rows of its leaf, old ones included.
* Where labels have copies, a row teaches those that its beam reaches, or all of them if it reaches none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tagwood._lazy import sparse
from tagwood._sparse import CsrParts
from tagwood.models.linear_tree.training import NodeRows, TreeTraining
from tagwood.models.linear_tree.weights import (
    NO_ROWS_MARGIN,
    TrainedBlocks,
    TreeWeights,
    assemble,
    blocks_of,
    n_outputs,
    ranges,
    read_outputs,
)
from tagwood.trees.label_tree import LabelTree

_I64 = NDArray[np.int64]
_PLACING_WIDTH = 10  # beam width in which the rows of a new label vote for its leaf


@dataclass(frozen=True)
class TreeUpdate:
    """A tree about to learn new rows.

    Parameters
    ----------
    weights
        The trained tree.
    tree
        The same tree with new labels in their leaves; see `grow_tree`.
    fresh
        (n_copies,) which entries of ``tree.labels`` are trained from zero: those that had no rows and have some now.
    without_rows
        (n_copies,) which entries of ``tree.labels`` still have no rows.
    """

    weights: TreeWeights
    tree: LabelTree
    fresh: NDArray[np.bool_]
    without_rows: NDArray[np.bool_]

    @classmethod
    def plan(cls, weights: TreeWeights, X: CsrParts, Y: sparse.csr_array, threads: int) -> TreeUpdate:
        """Return the update by new rows X (n_new, n_features) with labels Y (n_new, n_labels)."""
        tree = grow_tree(weights, X, Y, threads)
        without = np.arange(tree.n_labels) >= weights.tree.n_labels
        if weights.untrained is not None:
            without[: weights.tree.n_labels] |= weights.untrained.mask
        taught = np.bincount(Y.indices, minlength=tree.n_labels) > 0
        return cls(weights, tree, (without & taught)[tree.labels], (without & ~taught)[tree.labels])

    def needed_labels(self) -> _I64:
        """Return the labels whose old rows the update needs: those in the leaves of labels trained from zero."""
        leaves = np.unique(self.tree.leaf_of_copy[self.fresh]).astype(np.int64)
        first, sizes = self.tree.label_ptr[leaves].astype(np.int64), np.diff(self.tree.label_ptr)[leaves]
        return np.unique(self.tree.labels[ranges(first, sizes.astype(np.int64))]).astype(np.int64)

    def run(self, new: TreeTraining, everything: TreeTraining) -> TreeWeights:
        """Return the updated tree.

        Parameters
        ----------
        new
            The new rows.
        everything
            Old and new rows, of which labels that are trained from zero take the rows of their leaves.
        """
        tree, rows = self.tree, new.rows_of_nodes(self.tree)
        grown = tree.leaf_of_copy[tree.labels >= self.weights.tree.n_labels]
        nodes = np.arange(tree.n_nodes)
        leaf = np.diff(tree.label_ptr) > 0
        touched = leaf & ((np.diff(rows.ptr) > 0) | np.isin(nodes, grown))
        others = nodes[~touched & (n_outputs(tree, nodes) > 0)]
        parts = [blocks_of(self.weights, others, others)] if others.size else []
        if touched.any():
            parts.append(self._train_leaves(new, rows, nodes[touched], everything))
        made = assemble(tree, parts, self.weights.link, new.solver.weights)
        outputs = tree.child_ptr[tree.leaf_of_copy] - 1 + np.arange(tree.labels.size)
        made.arrays.bias[outputs[self.without_rows]] = NO_ROWS_MARGIN
        return made

    def _train_leaves(self, new: TreeTraining, rows: NodeRows, leaves: _I64, everything: TreeTraining) -> TrainedBlocks:
        """Train leaves on the new rows, from what they have learned so far."""
        tree, n_features = self.tree, new.X.n_cols
        first = np.concatenate([[0], np.cumsum(n_outputs(tree, leaves))])
        kept = ranges(first[:-1], n_outputs(self.weights.tree, leaves))  # new labels are the last ones of a leaf
        start = read_outputs(self.weights, leaves, n_features).renumbered(kept, int(first[-1]))
        if self.fresh.any():
            place = np.flatnonzero(self.fresh)  # in tree.labels, leaf by leaf
            at = np.searchsorted(leaves, tree.leaf_of_copy[place])
            names = first[at] + place - tree.label_ptr[leaves[at]]
            trained = read_outputs(self._train_fresh(everything), leaves, n_features)
            start = start.replaced(names, trained.renumbered(names, int(first[-1])))
        return new.train_nodes(tree, leaves, rows, rows, start)

    def _train_fresh(self, everything: TreeTraining) -> TreeWeights:
        """Train the labels without classifiers on all rows of their leaves."""
        seen = everything.rows_of_nodes(self.tree)
        small = self.tree.only(self.fresh)
        trained = everything.train_nodes(small, np.flatnonzero(np.diff(small.label_ptr)), seen, seen)
        return assemble(small, [trained], self.weights.link, everything.solver.weights)


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
