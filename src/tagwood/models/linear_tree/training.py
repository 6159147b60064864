"""Train the classifiers of a label tree. In: rows, label sets, a tree. Out: `TreeWeights`.

Every node is a small one-vs-rest problem over the rows that have a label below it: its outputs are its children, or the
labels of a leaf. With teacher negatives nodes are independent and are trained in any order. With matcher-aware
negatives a node is also trained on the rows that the levels above send to it, so levels are trained from the top down.

With a `Runner`, the tree is cut into parts of at most a certain work: single large nodes, and runs of neighbouring
subtrees. Where it is cut depends on tree and rows alone. The classifiers of a node do not depend on which others are
trained with it, so the parts join to the same bits as one training of all.

Features may be `StoredRows`, in files: a part then reads its own rows into memory, and a node with more rows than fit
reads them anew in every sweep, in the order in which it would visit them in memory. The bits are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._check import check_choice, check_float, check_int
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, check_features, csr_parts
from tagwood.errors import InputError
from tagwood.features.base import centroid_parts
from tagwood.features.stored import StoredRows, return_memory, stored_centroids
from tagwood.models.base import Progress
from tagwood.models.linear_tree.weights import (
    BLOCK_OUTPUTS,
    NO_ROWS_MARGIN,
    OutputWeights,
    TrainedBlocks,
    TreeWeights,
    assemble,
    link_power,
)
from tagwood.models.tasks import Job, Runner
from tagwood.plugins import load_plugin
from tagwood.storage import State
from tagwood.trees.balanced import build_balanced_tree
from tagwood.trees.interpolated import build_interpolated_tree, label_frequencies
from tagwood.trees.label_tree import LabelTree

LOSSES = {"squared-hinge": 0, "logistic": 1}
WEIGHT_DTYPES = {"float32": 0, "float16": 1, "int8": 2}
NEGATIVES = ("teacher", "teacher+matcher")
TREES = ("interpolated", "auto")  # builders of this package; others are plugins

_PROPENSITY_A, _PROPENSITY_B = 0.55, 1.5  # default propensity model of the XMC repository
_HUB_SHARE = 0.25  # a label on a larger share of the rows is a hub
# Largest features of a label that shape the tree: more take time and memory and gain nothing, and with 256, test rows
# unlike the training rows (debian-depends) lose half a point of P@1. Very large label spaces take fewer, so that label
# features stay below 2 GB.
TREE_FEATURES = 512
_TREE_ENTRIES = 1 << 28
_MATCHER_WIDTH = 10  # beam width of matcher-aware negatives, as in `rank`
_PORTION = 4_000_000  # row visits per kernel call; between two calls Python reports progress and handles Ctrl-C
# Work of a part: at most this share of a tree, but not less than some tenths of a second, which pay for handing it out.
_MOST_PARTS = 1024
_LEAST_PART = 500_000


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
        Stop a classifier when the violations of a sweep span no more than this. Smaller values train longer and
        change P@k by less than chance.
    negatives
        ``"teacher"``: a node is trained on the rows with a label below it; ``"teacher+matcher"``: also on the rows that
        the trained upper levels send there, which is slower and helps where the tree often errs.
    link
        From margin to score: ``"l3-hinge"``, ``"l2-hinge"``, ``"l4-hinge"``, ``"l1-hinge"`` or ``"sigmoid"``.
    max_sweeps
        Most sweeps over a node's rows, those over the rows that the sweep before has moved included.
    threshold
        Weights smaller than this are dropped; a larger threshold makes smaller models.
    weights
        How weights are stored: ``"int8"`` with a scale per block (smallest, fastest), ``"float16"`` or ``"float32"``.
    """

    loss: str = "squared-hinge"
    bias: float = 1.0
    tolerance: float = 0.1
    max_sweeps: int = 100
    threshold: float = 0.1
    weights: str = "int8"
    negatives: str = "teacher"
    link: str = "l3-hinge"

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        check_choice(self.loss, "loss", LOSSES)
        check_choice(self.weights, "weights", WEIGHT_DTYPES)
        check_choice(self.negatives, "negatives", NEGATIVES)
        link_power(self.link)
        check_float(self.bias, "bias", low=0)
        check_float(self.tolerance, "tolerance", above=0)
        check_float(self.threshold, "threshold", low=0)
        check_int(self.max_sweeps, "max_sweeps", low=1, high=1_000_000)


class EntryWeights(NamedTuple):
    """Weights of the positive entries and of the rows of Y in training.

    `label_rows` is Y transposed, with the user's weights as data (`weighted`: whether there are any). `leaf_weights`
    are the weights of the same entries for the classifiers of labels, where rare labels count more; empty if all are
    1. `row_weights` has one number per row, or none.
    """

    label_rows: CsrParts
    weighted: bool
    leaf_weights: NDArray[np.float32]
    row_weights: NDArray[np.float32]


class LabelUsage(NamedTuple):
    """Rows of each label, and all rows with labels."""

    counts: NDArray[np.int64]
    n_rows: int


def entry_weights(
    Y: sparse.csr_array, sample_weight: Any, rare_label_weight: float | None, usage: LabelUsage | None = None
) -> EntryWeights:
    """Return the weights of the entries of Y (n_rows, n_labels); the other parameters are those of `LinearTree`.

    Inverse propensities of rare labels are scaled to a mean of 1 over the entries. They follow from the counts of Y, or
    from `usage` where Y is only a part of the rows.
    """
    rows = leaves = np.empty(0, dtype=np.float32)
    entries = Y
    if sparse.issparse(sample_weight):
        entries = _per_entry(Y, sparse.csr_array(sample_weight))
    elif sample_weight is not None:
        rows = _per_row(sample_weight, Y.shape[0])
    label_rows = csr_parts(entries.T.tocsr())
    weighted = entries is not Y
    if usage is None:
        usage = LabelUsage(np.diff(label_rows.indptr), int(np.count_nonzero(np.diff(Y.indptr))))
    if rare_label_weight is None:
        rare_label_weight = 0.0 if usage.counts.max() > _HUB_SHARE * usage.n_rows else 1.0
    if rare_label_weight > 0:
        leaves = _rare_label_weights(label_rows, rare_label_weight, usage)
    elif weighted:
        leaves = label_rows.data
    return EntryWeights(label_rows, weighted, leaves, rows)


def _per_row(sample_weight: Any, n_rows: int) -> NDArray[np.float32]:
    weights = np.asarray(sample_weight, dtype=np.float32)
    if weights.shape != (n_rows,) or not np.all(np.isfinite(weights)) or not np.all(weights > 0):
        raise InputError(
            f"sample_weight must hold one positive number for each of the {n_rows:,} rows",
            given=f"an array of shape {weights.shape}",
            hint="Drop rows that should not count.",
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


def _rare_label_weights(label_rows: CsrParts, rare_label_weight: float, usage: LabelUsage) -> NDArray[np.float32]:
    scale = (np.log(max(usage.n_rows, 3)) - 1) * (_PROPENSITY_B + 1) ** _PROPENSITY_A
    per_label = (1 + scale * (usage.counts + _PROPENSITY_B) ** -_PROPENSITY_A) ** rare_label_weight
    mean = np.repeat(per_label, usage.counts).mean()
    per_entry = np.repeat(per_label, np.diff(label_rows.indptr))
    weights: NDArray[np.float32] = (label_rows.data * per_entry / mean).astype(np.float32)
    return weights


def check_trees(tree: LabelTree | list[LabelTree], n_trees: int, n_labels: int) -> list[LabelTree]:
    """Return the given trees: as many as the ensemble has, over the labels of Y."""
    given = tree if isinstance(tree, list) else [tree]
    if len(given) != n_trees or any(t.n_labels != n_labels for t in given):
        raise InputError(
            f"fit with n_trees={n_trees} needs as many trees over the {n_labels:,} labels of Y",
            given=f"{len(given)} tree(s) over {[t.n_labels for t in given]} labels",
        )
    return given


class TreeShape(NamedTuple):
    """Which trees to build: the name of the builder, λ and the sizes of `LinearTree`."""

    builder: str
    lam: float
    arity: int
    max_leaf_size: int


def shaping_features(
    features: CsrParts | StoredRows, label_rows: CsrParts, given: Any, threads: int
) -> sparse.csr_array:
    """Return (n_labels, any) features to group labels by: those given, or the mean of each label's rows."""
    n_labels = label_rows.n_rows
    if given is None:
        limit = min(TREE_FEATURES, max(64, _TREE_ENTRIES // n_labels))
        if isinstance(features, StoredRows):
            return stored_centroids(features, label_rows, limit, threads).to_scipy()
        return centroid_parts(features, label_rows, limit, threads).to_scipy()
    V = check_features(given, name="label_features")
    if V.shape[0] != n_labels:
        raise InputError(f"label_features must have one row for each of the {n_labels:,} labels of Y")
    return V


def shape_labels(shared: tuple[CsrParts | StoredRows, CsrParts], part: None, threads: int) -> State:
    """Compute the features to group labels by, as a task with one part."""
    return State("LabelFeatures", arrays=csr_parts(shaping_features(*shared, None, threads)).arrays())


def build_tree(shared: tuple[CsrParts, CsrParts, TreeShape], seed: int, threads: int) -> State:
    """Build the tree of one seed from label features V and label sets Y, as a task."""
    V, Y, shape = shared[0].to_scipy(), shared[1].to_scipy(), shared[2]
    sizes: dict[str, Any] = {"arity": shape.arity, "max_leaf_size": shape.max_leaf_size, "threads": threads}
    if shape.builder not in TREES:
        tree = load_plugin("trees", shape.builder)(V, Y, seed=seed, **sizes)
    elif shape.lam == 0:  # the balanced tree, which needs no frequencies
        tree = build_balanced_tree(V, seed=seed, **sizes)
    else:
        tree = build_interpolated_tree(V, label_frequencies(Y), lam=shape.lam, seed=seed, **sizes)
    return State("LabelTree", params={"n_labels": tree.n_labels}, arrays=tree.arrays())


def build_trees(
    V: sparse.csr_array, Y: sparse.csr_array, shape: TreeShape, seeds: range, runner: Runner
) -> list[LabelTree]:
    """Return one tree per seed."""
    job = Job("label tree", build_tree, (csr_parts(V), csr_parts(Y), shape), list(seeds))
    return [LabelTree.from_state(state, state.param("n_labels", int)) for state in runner.run(job)]


class NodeRows(NamedTuple):
    """Rows of each node (``rows[ptr[i]:ptr[i + 1]]``, rising) and, as positives of the parent, their weights.

    `guests` has a 1 for each row that a leaf sees only because some of its labels are known to be wrong there: the row
    is a negative of these labels and says nothing about the others. Empty if there are none.
    """

    ptr: NDArray[np.int64]
    rows: NDArray[np.int32]
    weights: NDArray[np.float32]
    guests: NDArray[np.uint8] = np.empty(0, np.uint8)


@dataclass(frozen=True)
class TreeTraining:
    """The training data and settings of one tree.

    Parameters
    ----------
    X
        (n_rows, n_features) features, in memory or in files.
    weights
        Y transposed, with the weights of its entries and rows.
    copy_rows
        (n_copies, n_rows) which rows each entry of the tree's `labels` brings to its leaf; default all rows of the
        label. Rows that another label brings there are the label's positives all the same.
    rejected
        (n_labels, n_rows) rows for which each label is known to be wrong, or None.
    """

    X: CsrParts | StoredRows
    weights: EntryWeights
    C: float
    solver: Solver
    seed: int
    threads: int
    copy_rows: CsrParts | None = None
    rejected: CsrParts | None = None

    @property
    def loaded(self) -> CsrParts:
        """The features, for steps that need all of them in memory."""
        assert isinstance(self.X, CsrParts)
        return self.X

    def train(
        self, tree: LabelTree, progress: Progress | None = None, known: TrainedBlocks | None = None
    ) -> TreeWeights:
        """Train all classifiers of `tree`, except those of nodes whose blocks are `known`."""
        teacher = self.rows_of_nodes(tree)
        done, total = 0.0, float(self.costs(tree, teacher, np.arange(tree.n_nodes)).sum()) or 1.0
        trained: list[TrainedBlocks] = [] if known is None else [known]
        for nodes in self.stages(tree):
            seen = self.seen_rows(tree, teacher, trained, nodes)
            todo = nodes if known is None else np.setdiff1d(nodes, known.nodes)
            for portion in self._portions(tree, teacher, todo):
                trained.append(self.train_nodes(tree, portion, seen, teacher))
                done += float(self.costs(tree, teacher, portion).sum())
                if progress is not None:
                    progress("training", min(done / total, 1.0))
        return self.assemble(tree, trained)

    def seen_rows(
        self, tree: LabelTree, teacher: NodeRows, trained: list[TrainedBlocks], nodes: NDArray[np.int64]
    ) -> NodeRows:
        """Return the rows that `nodes` of one stage are trained on, given the blocks of all stages before."""
        seen = teacher
        if self.solver.negatives != "teacher" and nodes[0] != 0:
            matcher = self.assemble(tree, trained)
            seen = with_matched_rows(teacher, matcher, self.loaded, nodes, _MATCHER_WIDTH, self.threads)
        return seen if self.rejected is None else with_rejected_rows(seen, tree, self.rejected, self.X.n_rows)

    def train_matcher(self, tree: LabelTree) -> TreeWeights:
        """Train the inner nodes of `tree` alone: enough to match rows to leaves, not to rank labels."""
        rows = self.rows_of_nodes(tree)
        inner = np.flatnonzero(np.diff(tree.child_ptr) > 0)
        portions = self._portions(tree, rows, inner)
        return self.assemble(tree, [self.train_nodes(tree, portion, rows, rows) for portion in portions])

    def rows_of_nodes(self, tree: LabelTree) -> NodeRows:
        """Return the rows with a label below each node."""
        source, labels = self.weights.label_rows, tree.labels
        if self.copy_rows is not None:
            source, labels = self.copy_rows, np.arange(tree.labels.size, dtype=np.int32)
        head = (*source[:3], self.X.n_rows)
        return NodeRows(*_kernels.node_rows(*head, tree.parent, tree.label_ptr, labels, self.threads))

    def stages(self, tree: LabelTree) -> Iterator[NDArray[np.int64]]:
        """Yield the nodes that can be trained together: all, or a level at a time with matcher-aware negatives."""
        if self.solver.negatives == "teacher":
            yield np.arange(tree.n_nodes)
            return
        for level in range(int(tree.depth.max()) + 1):
            yield np.flatnonzero(tree.depth == level)

    @staticmethod
    def costs(tree: LabelTree, rows: NodeRows, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the work of training each node, in visits of rows."""
        outputs = np.diff(tree.child_ptr)[nodes] + np.diff(tree.label_ptr)[nodes]
        costs: NDArray[np.int64] = np.diff(rows.ptr)[nodes] * (outputs + 8)
        return costs

    def _portions(self, tree: LabelTree, rows: NodeRows, nodes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        # Inner nodes and leaves have different outputs, so they are never mixed in one call. Empty leaves have none.
        leaf = np.diff(tree.child_ptr)[nodes] == 0
        for kind in (nodes[~leaf], nodes[leaf & (np.diff(tree.label_ptr)[nodes] > 0)]):
            if kind.size:
                part = np.cumsum(self.costs(tree, rows, kind)) // (_PORTION * self.threads)
                yield from np.split(kind, np.flatnonzero(np.diff(part)) + 1)

    def train_nodes(
        self,
        tree: LabelTree,
        nodes: NDArray[np.int64],
        seen: NodeRows,
        teacher: NodeRows,
        start: OutputWeights | None = None,
    ) -> TrainedBlocks:
        """Train `nodes`, either all inner ones or all leaves with labels, on the rows they have `seen`.

        `start` has weights to start from, of the outputs of one node after the other; default zero.
        """
        leaf = tree.child_ptr[nodes[0]] == tree.child_ptr[nodes[0] + 1]
        bounds = (tree.label_ptr if leaf else tree.child_ptr).astype(np.int64)
        first, last = bounds[nodes], bounds[nodes + 1]
        n_blocks = -(-(last - first) // BLOCK_OUTPUTS)
        block_nodes = np.repeat(nodes, n_blocks)
        place = np.arange(block_nodes.size) - np.repeat(np.cumsum(n_blocks) - n_blocks, n_blocks)
        block_first = np.repeat(first, n_blocks) + place * BLOCK_OUTPUTS
        block_last = np.minimum(block_first + BLOCK_OUTPUTS, np.repeat(last, n_blocks))
        output_ptr = np.concatenate([[0], np.cumsum(block_last - block_first)]).astype(np.int64)
        outputs = np.arange(output_ptr[-1]) + np.repeat(block_first - output_ptr[:-1], block_last - block_first)
        if leaf:
            outputs, label_rows = tree.labels[outputs], self.weights.label_rows
            ptr, rows, weights = label_rows.indptr, label_rows.indices, self.weights.leaf_weights
        else:
            ptr, rows = teacher.ptr, teacher.rows
            weights = teacher.weights if self.weights.weighted else np.empty(0, np.float32)
        guests: tuple[Any, ...] = ()
        if leaf and seen.guests.size and self.rejected is not None:
            wrong = self.rejected
            guests = (seen.guests, wrong.indptr[outputs], wrong.indptr[outputs + 1], wrong.indices)
        X, chunk = (self.X.parts, self.X.max_entries) if isinstance(self.X, StoredRows) else (self.X, 0)
        trained = _kernels.train_blocks(
            *X,
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
            chunk,
            chunk > 0,
            () if start is None else start.by_block(output_ptr),
            guests,
        )
        return TrainedBlocks(block_nodes, trained[:-1])  # the last one counts visits of rows

    def assemble(self, tree: LabelTree, trained: list[TrainedBlocks]) -> TreeWeights:
        """Join trained blocks; labels without rows get their constant margin."""
        weights = assemble(tree, trained, self.solver.link, self.solver.weights)
        without_rows = np.flatnonzero(np.diff(self.weights.label_rows.indptr)[tree.labels] == 0)
        leaves = tree.leaf_of_copy[without_rows]
        weights.arrays.bias[tree.child_ptr[leaves] - 1 + without_rows] = NO_ROWS_MARGIN
        return weights


class TreePlan(NamedTuple):
    """A tree to train: how, which tree, and the blocks of nodes that need no training."""

    training: TreeTraining
    tree: LabelTree
    known: TrainedBlocks | None = None


class PartOfTree(NamedTuple):
    """Nodes ``first:last``, which are neighbours on one level, of a tree; with `below` also all nodes below them."""

    number: int
    first: int
    last: int
    below: bool

    def levels(self, tree: LabelTree) -> Iterator[NDArray[np.int64]]:
        """Yield the nodes level by level."""
        first, last = self.first, self.last
        while first < last:
            yield np.arange(first, last)
            first, last = (int(tree.child_ptr[first]), int(tree.child_ptr[last])) if self.below else (0, 0)


class NodesToTrain(NamedTuple):
    """What the parts of one tree are trained from."""

    training: TreeTraining
    tree: LabelTree
    seen: NodeRows
    teacher: NodeRows
    known: NDArray[np.int64]


def train_part(shared: tuple[NodesToTrain, ...], part: PartOfTree, threads: int) -> State:
    """Train the nodes of a part; the result has a piece for each level, inner nodes and leaves apart."""
    training, tree, seen, teacher, known = shared[part.number]
    training = replace(training, X=rows_in_memory(training.X, seen, part, tree), threads=threads)
    inner, filled = np.diff(tree.child_ptr) > 0, np.diff(tree.label_ptr) > 0
    pieces = {}
    for level, nodes in enumerate(part.levels(tree)):
        todo = np.setdiff1d(nodes, known)
        for kind, mine in (("inner", todo[inner[todo]]), ("leaves", todo[filled[todo]])):
            if mine.size:
                pieces[f"{kind}_{level}"] = training.train_nodes(tree, mine, seen, teacher).state()
    return State("PartOfTree", parts=pieces)


def rows_in_memory(
    X: CsrParts | StoredRows, seen: NodeRows, part: PartOfTree, tree: LabelTree
) -> CsrParts | StoredRows:
    """Return features with those of the rows of a part in memory, unless they are too many: then as they are."""
    if not isinstance(X, StoredRows):
        return X
    return_memory()  # of the part before
    levels = [seen.rows[seen.ptr[nodes[0]] : seen.ptr[nodes[-1] + 1]] for nodes in part.levels(tree)]
    rows = np.unique(np.concatenate(levels))
    return X.take(rows) if int(X.sizes[rows].sum()) <= X.max_entries else X


def train_in_parts(plans: Sequence[TreePlan], runner: Runner, progress: Progress | None) -> list[TreeWeights]:
    """Train trees as one job, or one job for each level with matcher-aware negatives; the same bits as `train`."""
    teachers = [plan.training.rows_of_nodes(plan.tree) for plan in plans]
    trained: list[list[TrainedBlocks]] = [[] if plan.known is None else [plan.known] for plan in plans]
    stages = [list(plan.training.stages(plan.tree)) for plan in plans]
    for stage in range(max(map(len, stages))):
        shared, parts = [], []
        for number, (plan, teacher) in enumerate(zip(plans, teachers, strict=True)):
            training, tree, known = plan
            nodes = stages[number][stage] if stage < len(stages[number]) else np.empty(0, dtype=np.int64)
            seen = training.seen_rows(tree, teacher, trained[number], nodes) if nodes.size else teacher
            done = np.empty(0, dtype=np.int64) if known is None else known.nodes
            shared.append(NodesToTrain(training, tree, seen, teacher, done))
            parts += _cut(training, tree, teacher, number, nodes)
        parts.sort(key=lambda part: -part[1])
        job = Job("training", train_part, tuple(shared), [part for part, _ in parts])
        results = runner.run(job, progress)
        for number in range(len(plans)):
            mine = [result for (part, _), result in zip(parts, results, strict=True) if part.number == number]
            trained[number] += _joined_pieces(mine)
    return [plan.training.assemble(plan.tree, blocks) for plan, blocks in zip(plans, trained, strict=True)]


def _cut(
    training: TreeTraining, tree: LabelTree, rows: NodeRows, number: int, nodes: NDArray[np.int64]
) -> list[tuple[PartOfTree, int]]:
    """Cut all nodes of a tree, or those of one level, into parts; return them with their work."""
    costs = training.costs(tree, rows, np.arange(tree.n_nodes))
    limit = max(int(costs.sum()) // _MOST_PARTS, _LEAST_PART)
    entries, most = stored_entries(training.X, rows)
    whole = nodes.size == tree.n_nodes
    if whole:
        for node in range(tree.n_nodes - 1, 0, -1):  # the work of a node and all below it
            costs[tree.parent[node]] += costs[node]
    own = training.costs(tree, rows, np.arange(tree.n_nodes))
    parts: list[tuple[PartOfTree, int]] = []
    stack = [(0, 1)] if whole else [(int(nodes[0]), int(nodes[-1]) + 1)] if nodes.size else []
    while stack:
        first, last = stack.pop()
        begin = first
        for node in range(first, last):
            run = slice(begin, node + 1)
            if begin < node and (int(costs[run].sum()) > limit or int(entries[run].sum()) > most):
                parts.append((PartOfTree(number, begin, node, whole), int(costs[begin:node].sum())))
                begin = node
            if costs[node] > limit or entries[node] > most:
                parts.append((PartOfTree(number, node, node + 1, False), int(own[node])))
                begin = node + 1
                if whole:
                    stack.append((int(tree.child_ptr[node]), int(tree.child_ptr[node + 1])))
        if begin < last:
            parts.append((PartOfTree(number, begin, last, whole), int(costs[begin:last].sum())))
    return parts


def stored_entries(X: CsrParts | StoredRows, rows: NodeRows) -> tuple[NDArray[np.int64], int]:
    """Return the stored features of each node's rows, and how many fit into memory; all, if they are there already."""
    entries = np.zeros(rows.ptr.size - 1, dtype=np.int64)
    if not isinstance(X, StoredRows):
        return entries, 1
    sizes = X.sizes
    for node, (begin, end) in enumerate(pairwise(rows.ptr.tolist())):
        entries[node] = sizes[rows.rows[begin:end]].sum()
    return entries, X.max_entries


def _joined_pieces(results: list[State]) -> list[TrainedBlocks]:
    """Return the pieces of all parts in the order of one training: inner nodes, then leaves, each by number."""
    pieces = [(name, TrainedBlocks.from_state(piece)) for result in results for name, piece in result.parts.items()]
    pieces.sort(key=lambda item: (item[0].startswith("leaves"), int(item[1].nodes[0])))
    return [blocks for _, blocks in pieces]


def with_rejected_rows(seen: NodeRows, tree: LabelTree, rejected: CsrParts, n_rows: int) -> NodeRows:
    """Return the rows of all nodes with, as guests of a leaf, those for which a label there is known to be wrong."""
    sizes = np.diff(rejected.indptr)[tree.labels]
    leaves = np.repeat(tree.leaf_of_copy.astype(np.int64), sizes)
    rows = [rejected.indices[rejected.indptr[label] : rejected.indptr[label + 1]] for label in tree.labels[sizes > 0]]
    if not rows:
        return seen
    own = np.repeat(np.arange(seen.ptr.size - 1, dtype=np.int64), np.diff(seen.ptr))
    own = own * n_rows + seen.rows
    keys = np.union1d(own, leaves * n_rows + np.concatenate(rows))
    ptr = np.searchsorted(keys, np.arange(seen.ptr.size, dtype=np.int64) * n_rows).astype(np.int64)
    guests = np.isin(keys, own, invert=True).astype(np.uint8)
    return NodeRows(ptr, (keys % n_rows).astype(np.int32), np.empty(0, np.float32), guests)


def with_matched_rows(
    teacher: NodeRows,
    matcher: TreeWeights,
    X: CsrParts,
    nodes: NDArray[np.int64],
    beam_width: int,
    threads: int,
) -> NodeRows:
    """Return the rows of all `nodes` of one level with those that a beam wrongly sends there.

    `teacher` has the rows of each node by its labels; in `matcher` every level above is trained.
    """
    cut = int(nodes[-1]) + 1
    # Nodes from `cut` on are not there yet, so the nodes of the last level look like leaves to the beam.
    arrays = matcher.arrays
    clipped = np.minimum(arrays.child_ptr[: cut + 1], cut)
    above = arrays._replace(child_ptr=clipped, label_ptr=arrays.label_ptr[: cut + 1])
    found, _ = replace(matcher, arrays=above).leaves(X, beam_width, threads)
    row = np.repeat(np.arange(X.n_rows), beam_width)
    node = found.ravel().astype(np.int64)
    labelled = np.zeros(X.n_rows, dtype=bool)  # rows without labels take no part in training
    labelled[teacher.rows[teacher.ptr[0] : teacher.ptr[1]]] = True
    here = (node >= nodes[0]) & labelled[row]  # leaves higher up and unused places are not of this level
    begin, end = teacher.ptr[nodes[0]], teacher.ptr[cut]
    own = np.repeat(nodes, np.diff(teacher.ptr[nodes[0] : cut + 1]))
    keys = np.concatenate([node[here] * X.n_rows + row[here], own * X.n_rows + teacher.rows[begin:end]])
    keys = np.unique(keys)
    ptr = np.searchsorted(keys, np.arange(teacher.ptr.size, dtype=np.int64) * X.n_rows).astype(np.int64)
    return NodeRows(ptr, (keys % X.n_rows).astype(np.int32), np.empty(0, np.float32))
