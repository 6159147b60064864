"""Training of a label tree: which rows each node sees, block by block. In: X, Y and a tree. Out: `TreeWeights`.

Teacher forcing: a node's classifiers see the rows that have a label below it. All nodes are then independent and are
trained in any order. With matcher-aware negatives a node also sees the rows that the levels above send to it, so
levels are trained from the top down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._check import check_choice, check_float, check_int
from tagwood._sparse import CsrParts, csr_parts
from tagwood.errors import InputError
from tagwood.models.linear_tree.weights import BLOCK_OUTPUTS, TrainedBlocks, TreeWeights, assemble, link_power
from tagwood.trees.label_tree import LabelTree

# SECTION models.entry_weights
# Weights of positive entries and of rows, from what users pass. In: Y and weights. Out: arrays for training.


_A, _B = 0.55, 1.5  # the repository's default propensity model
_HUB_SHARE = 0.25  # a label on more of the rows is a hub


class EntryWeights(NamedTuple):
    """What the positive entries and the rows of Y weigh in training.

    `label_rows` is Y transposed, its data the weights that the user gave (`weighted`: whether he did). `leaf_weights`
    are the weights of the same entries for the classifiers of labels, where rare labels count more; empty where they
    are all 1. `row_weights` has one number per row, or none.
    """

    label_rows: CsrParts
    weighted: bool
    leaf_weights: NDArray[np.float32]
    row_weights: NDArray[np.float32]


def entry_weights(Y: sparse.csr_array, sample_weight: Any, rare_label_weight: float | None) -> EntryWeights:
    """Return the weights of the entries of Y (checked, (n_rows, n_labels)).

    Parameters
    ----------
    Y
        Label sets.
    sample_weight
        None, one positive number per row, or a sparse matrix with one positive number per entry of Y.
    rare_label_weight
        0: labels count alike; 1: by their inverse propensity, scaled to a mean of 1 over the entries. None: 1, or 0
        where a label stands on more than a quarter of the labelled rows.
    """
    rows = leaves = np.empty(0, dtype=np.float32)
    entries = Y
    if sparse.issparse(sample_weight):
        entries = _per_entry(Y, sparse.csr_array(sample_weight))
    elif sample_weight is not None:
        rows = _per_row(sample_weight, Y.shape[0])
    label_rows = csr_parts(entries.T.tocsr())
    weighted = entries is not Y
    n_labelled = int(np.count_nonzero(np.diff(Y.indptr)))
    if rare_label_weight is None:
        rare_label_weight = 0.0 if np.diff(label_rows.indptr).max() > _HUB_SHARE * n_labelled else 1.0
    if rare_label_weight > 0:
        leaves = _rare_label_weights(label_rows, rare_label_weight, n_labelled)
    elif weighted:
        leaves = label_rows.data
    return EntryWeights(label_rows, weighted, leaves, rows)


def _per_row(sample_weight: Any, n_rows: int) -> NDArray[np.float32]:
    weights = np.asarray(sample_weight, dtype=np.float32)
    if weights.shape != (n_rows,) or not np.all(np.isfinite(weights)) or not np.all(weights > 0):
        raise InputError(
            f"sample_weight must hold one positive number for each of the {n_rows:,} rows",
            given=f"an array of shape {weights.shape}",
            hint="Leave out rows that should not count.",
        )
    return weights


def _per_entry(Y: sparse.csr_array, weights: sparse.csr_array) -> sparse.csr_array:
    if weights.shape != Y.shape:
        raise InputError(f"sample_weight must have the shape of Y, {Y.shape}", given=str(weights.shape))
    joined = sparse.csr_array(Y.multiply(weights))
    joined.eliminate_zeros()
    if joined.nnz != Y.nnz or not np.all(np.isfinite(joined.data)) or np.any(joined.data <= 0):
        raise InputError("sample_weight must hold a positive number for each entry of Y")
    return joined.astype(np.float32)


def _rare_label_weights(
    label_rows: CsrParts, rare_label_weight: float, n_labelled: int
) -> NDArray[np.float32]:
    counts = np.diff(label_rows.indptr)
    scale = (np.log(max(n_labelled, 3)) - 1) * (_B + 1) ** _A
    per_label = (1 + scale * (counts + _B) ** -_A) ** rare_label_weight
    per_entry = np.repeat(per_label, counts)
    weights: NDArray[np.float32] = (label_rows.data * per_entry / per_entry.mean()).astype(np.float32)
    return weights


# SECTION models.negatives
# Matcher-aware negatives: the rows that the trained upper levels of a tree wrongly send to a node.
#
# In: the rows each node has by its labels, and the matcher trained so far. Out: the same with the matched rows added.


def with_matched_rows(
    teacher: Any, matcher: TreeWeights, X: CsrParts, nodes: NDArray[np.int64], width: int, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Return rows of `nodes` (one level of the tree) with those that a beam of `width` sends there.

    Parameters
    ----------
    teacher
        `ptr`, `rows`, `weights` of each node by its labels.
    matcher
        The model so far: every level above `nodes` is trained.
    nodes
        All nodes of one level, rising.
    """
    cut = int(nodes[-1]) + 1
    upper = _upper_part(matcher, cut)
    found, _ = upper.leaves(X, width, threads)
    row = np.repeat(np.arange(X.n_rows), width)
    node = found.ravel().astype(np.int64)
    labelled = np.zeros(X.n_rows, dtype=bool)  # rows without labels take no part in training
    labelled[teacher.rows[teacher.ptr[0] : teacher.ptr[1]]] = True
    here = (node >= nodes[0]) & labelled[row]  # leaves higher up and unused places are not of this level
    begin, end = teacher.ptr[nodes[0]], teacher.ptr[cut]
    own = np.repeat(nodes, np.diff(teacher.ptr[nodes[0] : cut + 1]))
    keys = np.concatenate([node[here] * X.n_rows + row[here], own * X.n_rows + teacher.rows[begin:end]])
    keys = np.unique(keys)
    ptr = np.searchsorted(keys, np.arange(teacher.ptr.size, dtype=np.int64) * X.n_rows).astype(np.int64)
    return ptr, (keys % X.n_rows).astype(np.int32), np.empty(0, np.float32)


def _upper_part(matcher: TreeWeights, cut: int) -> TreeWeights:
    # Nodes from `cut` on are not there yet, so the nodes of the last level look like leaves to the beam.
    arrays = matcher.arrays
    clipped = np.minimum(arrays.child_ptr[: cut + 1], cut)
    return replace(matcher, arrays=arrays._replace(child_ptr=clipped, label_ptr=arrays.label_ptr[: cut + 1]))


LOSSES = {"squared-hinge": 0, "logistic": 1}
WEIGHT_DTYPES = {"float32": 0, "float16": 1, "int8": 2}
NEGATIVES = ("teacher", "teacher+matcher")

# Work handed to the kernel at once, in row visits: between two portions Python shows progress and hears Ctrl-C.
_PORTION = 4_000_000

# Bias of a label without rows: behind every label that some row has.
_NO_ROWS_MARGIN = -100.0

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Solver:
    """Settings of the linear classifiers.

    Parameters
    ----------
    loss
        ``"squared-hinge"`` (fast, sharp, the default) or ``"logistic"``.
    bias
        Value of the constant feature.
    tolerance
        Stop a classifier when the violations of a sweep span no more than this. 0.1 trains a fifth faster and costs a
        tenth of a point here and there.
    negatives
        ``"teacher"``: a node is trained on the rows with a label below it; ``"teacher+matcher"``: also on the rows that
        the trained upper levels send there, which is slower and helps where the tree often errs.
    link
        From margin to score: ``"l3-hinge"``, ``"l2-hinge"``, ``"l4-hinge"``, ``"l1-hinge"`` or ``"sigmoid"``.
    max_sweeps
        Most sweeps over a node's rows.
    threshold
        Weights smaller than this are dropped: larger means smaller models.
    weights
        How weights are stored: ``"int8"`` with a scale per block (smallest, fastest), ``"float16"`` or ``"float32"``.
    """

    loss: str = "squared-hinge"
    bias: float = 1.0
    tolerance: float = 0.05
    max_sweeps: int = 100
    threshold: float = 0.1
    weights: str = "int8"
    negatives: str = "teacher"
    link: str = "l3-hinge"

    def check(self) -> None:
        """Raise `InputError` for values that do not fit."""
        check_choice(self.loss, "loss", LOSSES)
        check_choice(self.weights, "weights", WEIGHT_DTYPES)
        check_choice(self.negatives, "negatives", NEGATIVES)
        link_power(self.link)
        check_float(self.bias, "bias", low=0)
        check_float(self.tolerance, "tolerance", above=0)
        check_float(self.threshold, "threshold", low=0)
        check_int(self.max_sweeps, "max_sweeps", low=1, high=1_000_000)


class NodeRows(NamedTuple):
    """Rows of each node (``rows[ptr[i]:ptr[i + 1]]``, rising) and, as positives of the parent, their weights."""

    ptr: NDArray[np.int64]
    rows: NDArray[np.int32]
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class TreeTraining:
    """Everything that stays the same over the nodes of one tree.

    Parameters
    ----------
    X
        (n_rows, n_features) features.
    weights
        Y transposed, and what its entries and rows weigh.
    copy_rows
        (n_copies, n_rows) which rows each entry of the tree's `labels` brings to its leaf; default all rows of the
        label. Rows that another label brings there are the label's positives all the same.
    """

    X: CsrParts
    weights: EntryWeights
    C: float
    solver: Solver
    seed: int
    threads: int
    copy_rows: CsrParts | None = None

    def train(
        self,
        tree: LabelTree,
        matcher_width: int | None,
        progress: Progress | None = None,
        known: TrainedBlocks | None = None,
    ) -> TreeWeights:
        """Train all classifiers of `tree`; with `matcher_width`, also on the rows a beam of that width sends.

        Nodes whose blocks are `known` are not trained again.
        """
        teacher = self.rows_of_nodes(tree)
        done, total = 0.0, float(self._costs(tree, teacher, np.arange(tree.n_nodes)).sum()) or 1.0
        trained: list[TrainedBlocks] = [] if known is None else [known]
        for nodes in self._stages(tree, matcher_width):
            seen = teacher
            if matcher_width is not None and nodes[0] != 0:
                matcher = self._assemble(tree, trained)
                seen = NodeRows(
                    *with_matched_rows(teacher, matcher, self.X, nodes, matcher_width, self.threads)
                )
            todo = nodes if known is None else np.setdiff1d(nodes, known.nodes)
            for portion in self._portions(tree, teacher, todo):
                trained.append(self._train_nodes(tree, portion, seen, teacher))
                done += float(self._costs(tree, teacher, portion).sum())
                if progress is not None:
                    progress("training", min(done / total, 1.0))
        return self._assemble(tree, trained)

    def train_matcher(self, tree: LabelTree) -> TreeWeights:
        """Train the inner nodes of `tree` alone: enough to match rows to leaves, not to rank labels."""
        rows = self.rows_of_nodes(tree)
        inner = np.flatnonzero(np.diff(tree.child_ptr) > 0)
        portions = self._portions(tree, rows, inner)
        return self._assemble(tree, [self._train_nodes(tree, portion, rows, rows) for portion in portions])

    def rows_of_nodes(self, tree: LabelTree) -> NodeRows:
        """Return the rows with a label below each node."""
        source, labels = self.weights.label_rows, tree.labels
        if self.copy_rows is not None:
            source, labels = self.copy_rows, np.arange(tree.labels.size, dtype=np.int32)
        head = (*source[:3], self.X.n_rows)
        return NodeRows(*_kernels.node_rows(*head, tree.parent, tree.label_ptr, labels, self.threads))

    @staticmethod
    def _stages(tree: LabelTree, matcher_width: int | None) -> Iterator[NDArray[np.int64]]:
        if matcher_width is None:
            yield np.arange(tree.n_nodes)
            return
        for level in range(int(tree.depth.max()) + 1):
            yield np.flatnonzero(tree.depth == level)

    @staticmethod
    def _costs(tree: LabelTree, rows: NodeRows, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        outputs = np.diff(tree.child_ptr)[nodes] + np.diff(tree.label_ptr)[nodes]
        costs: NDArray[np.int64] = np.diff(rows.ptr)[nodes] * (outputs + 8)
        return costs

    def _portions(
        self, tree: LabelTree, rows: NodeRows, nodes: NDArray[np.int64]
    ) -> Iterator[NDArray[np.int64]]:
        # Inner nodes and leaves have different outputs, so they are never mixed in one call. Empty leaves have none.
        leaf = np.diff(tree.child_ptr)[nodes] == 0
        for kind in (nodes[~leaf], nodes[leaf & (np.diff(tree.label_ptr)[nodes] > 0)]):
            if kind.size:
                part = np.cumsum(self._costs(tree, rows, kind)) // (_PORTION * self.threads)
                yield from np.split(kind, np.flatnonzero(np.diff(part)) + 1)

    def _train_nodes(
        self, tree: LabelTree, nodes: NDArray[np.int64], seen: NodeRows, teacher: NodeRows
    ) -> TrainedBlocks:
        leaf = tree.child_ptr[nodes[0]] == tree.child_ptr[nodes[0] + 1]
        begin, end = (tree.label_ptr, tree.label_ptr) if leaf else (tree.child_ptr, tree.child_ptr)
        first, last = begin[nodes].astype(np.int64), end[nodes + 1].astype(np.int64)
        n_blocks = -(-(last - first) // BLOCK_OUTPUTS)
        block_nodes = np.repeat(nodes, n_blocks)
        place = np.arange(block_nodes.size) - np.repeat(np.cumsum(n_blocks) - n_blocks, n_blocks)
        block_first = np.repeat(first, n_blocks) + place * BLOCK_OUTPUTS
        block_last = np.minimum(block_first + BLOCK_OUTPUTS, np.repeat(last, n_blocks))
        output_ptr = np.concatenate([[0], np.cumsum(block_last - block_first)]).astype(np.int64)
        outputs = np.arange(output_ptr[-1]) + np.repeat(
            block_first - output_ptr[:-1], block_last - block_first
        )
        if leaf:
            outputs, label_rows = tree.labels[outputs], self.weights.label_rows
            ptr, rows, weights = label_rows.indptr, label_rows.indices, self.weights.leaf_weights
        else:
            ptr, rows = teacher.ptr, teacher.rows
            weights = teacher.weights if self.weights.weighted else np.empty(0, np.float32)
        trained = _kernels.train_blocks(
            *self.X,
            seen.ptr[block_nodes],
            seen.ptr[block_nodes + 1],
            seen.rows,
            output_ptr,
            ptr[outputs],
            ptr[outputs + 1],
            rows,
            weights,
            self.weights.row_weights,
            (block_nodes * 1_000_003 + place).astype(np.int64),
            LOSSES[self.solver.loss],
            self.C,
            self.solver.bias,
            self.solver.tolerance,
            self.solver.max_sweeps,
            self.solver.threshold,
            WEIGHT_DTYPES[self.solver.weights],
            self.seed,
            self.threads,
        )
        return TrainedBlocks(block_nodes, trained[:-1])  # the last one counts sweeps

    def _assemble(self, tree: LabelTree, trained: list[TrainedBlocks]) -> TreeWeights:
        weights = assemble(tree, trained, self.solver.link, link_power(self.solver.link), self.solver.weights)
        leaf_of = np.repeat(np.arange(tree.n_nodes), np.diff(tree.label_ptr))
        without_rows = np.flatnonzero(np.diff(self.weights.label_rows.indptr)[tree.labels] == 0)
        weights.arrays.bias[tree.child_ptr[leaf_of[without_rows]] - 1 + without_rows] = _NO_ROWS_MARGIN
        return weights
