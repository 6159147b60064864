"""Arrays and training of a hierarchical softmax: decisions, paths to labels, embeddings.

In: bags of words, label sets and a binary `LabelTree` with one label per leaf. Out: the arrays of the kernels. Rows,
labels and learning rates of an epoch are chosen here; the kernel runs one epoch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._sparse import CsrParts
from tagwood.errors import InputError
from tagwood.models.base import Progress
from tagwood.storage import State
from tagwood.trees.label_tree import LabelTree

FIRST, SECOND, EVEN = -1, -2, -3  # decisions without a vector; as in cpp/softmax/softmax.hpp
_I32 = NDArray[np.int32]
_F32 = NDArray[np.float32]
_LINE = 64  # bytes of a cache line


class SoftmaxArrays(NamedTuple):
    """The arrays of a trained model in the order of the kernels; embeddings are flat."""

    inputs: _F32
    outputs: _F32
    parent: _I32
    child_ptr: _I32
    label_ptr: _I32
    labels: _I32
    decision: _I32


class Paths(NamedTuple):
    """The learned decisions on the path to each label: 2 · decision, + 1 for the second child."""

    ptr: NDArray[np.int64]
    steps: _I32


def check_binary(tree: LabelTree) -> LabelTree:
    """Return `tree` if every inner node has two children and every leaf one label."""
    children = np.diff(tree.child_ptr)
    sizes = np.diff(tree.label_ptr)
    if np.any((children != 0) & (children != 2)) or np.any(sizes[children == 0] != 1) or tree.has_copies:
        raise InputError(
            "the tree must be binary, with every label in a leaf of its own",
            given=f"nodes of up to {children.max()} children, leaves of up to {sizes.max()} labels",
            hint="Build it with arity=2 and max_leaf_size=1.",
        )
    return tree


def number_decisions(tree: LabelTree, seen: NDArray[np.bool_]) -> _I32:
    """Return the decision of each inner node; `seen` (n_labels,) marks the labels with training rows.

    If only one side has such labels, nothing can be learned: the path goes to that side. If neither has, both are even.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[[0], [1]], [[2], [3]]])
    >>> number_decisions(tree, np.array([True, True, True, False]))[:3].tolist()
    [0, 1, -1]
    """
    has = tree.nodes_with(seen)
    inner = np.flatnonzero(np.diff(tree.child_ptr))
    first = tree.child_ptr[inner]
    left, right = has[first], has[first + 1]
    decision = np.full(tree.n_nodes, EVEN, dtype=np.int32)
    decision[inner[left & ~right]] = FIRST
    decision[inner[right & ~left]] = SECOND
    both = inner[left & right]
    decision[both] = np.arange(both.size)
    return decision


def label_paths(tree: LabelTree, decision: _I32) -> Paths:
    """Return the learned decisions on the path to each label, from the root down.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0], [[1], [2]]])
    >>> paths = label_paths(tree, np.array([0, -3, 1, -3, -3], dtype=np.int32))
    >>> paths.ptr.tolist(), paths.steps.tolist()
    ([0, 1, 3, 5], [0, 1, 2, 1, 3])
    """
    labels, node = tree.labels, tree.leaf_of_copy
    owners, steps = [], []
    while labels.size:
        above = tree.parent[node]
        inside = above >= 0
        labels, node, above = labels[inside], node[inside], above[inside]
        learned = decision[above] >= 0
        side = (node != tree.child_ptr[above])[learned]
        owners.append(labels[learned])
        steps.append(2 * decision[above[learned]] + side)
        node = above
    owner = np.concatenate(owners[::-1]) if owners else np.empty(0, dtype=np.int32)
    flat = np.concatenate(steps[::-1]) if steps else np.empty(0, dtype=np.int32)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=tree.n_labels))])
    return Paths(ptr.astype(np.int64), flat[np.argsort(owner, kind="stable")].astype(np.int32))


def label_leaves(tree: LabelTree) -> _I32:
    """Return (n_labels,) the leaf of each label."""
    leaves = np.empty(tree.n_labels, dtype=np.int32)
    leaves[tree.labels] = tree.leaf_of_copy
    return leaves


def restore_arrays(
    state: State, n_features: int, dimension: int, n_labels: int
) -> tuple[LabelTree, SoftmaxArrays]:
    """Return the tree and the arrays of a stored model, after checks that keep the kernels within bounds."""
    parent, label_ptr, labels = (
        state.array(name, np.int32, (None,)) for name in ("parent", "label_ptr", "labels")
    )
    tree = check_binary(LabelTree.from_trusted(parent, label_ptr, labels, n_labels))
    inputs = state.array("inputs", np.float32, (n_features, dimension)).reshape(-1)
    outputs = state.array("outputs", np.float32, (None, dimension)).reshape(-1)
    decision = state.array("decision", np.int32, (tree.n_nodes,))
    arrays = SoftmaxArrays(inputs, outputs, parent, tree.child_ptr, label_ptr, labels, decision)
    return tree, arrays


def new_embeddings(n_rows: int, dimension: int) -> _F32:
    """Return a flat array of zeros that starts at a cache line: a row of 128 floats then covers eight, not nine."""
    size = n_rows * dimension
    buffer = np.zeros(size + _LINE // 4, dtype=np.float32)
    start = -buffer.ctypes.data % _LINE // 4
    return buffer[start : start + size]


def start_embeddings(n_rows: int, dimension: int, random: np.random.Generator) -> _F32:
    """Return embeddings drawn evenly from ±1/dimension, as fastText does."""
    values = new_embeddings(n_rows, dimension)
    random.random(dtype=np.float32, out=values)
    values -= 0.5
    values *= 2.0 / dimension
    return values


class SoftmaxPlan(NamedTuple):
    """Settings of the training."""

    dimension: int
    epochs: int
    rate: float
    all_positives: bool
    seed: int
    threads: int


def train(
    X: CsrParts, Y: sparse.csr_array, tree: LabelTree, plan: SoftmaxPlan, report: Progress
) -> SoftmaxArrays:
    """Return the arrays of a trained model."""
    random = np.random.default_rng(plan.seed)
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    decision = number_decisions(tree, counts > 0)
    paths = label_paths(tree, decision)
    inputs = start_embeddings(X.n_cols, plan.dimension, random)
    outputs = new_embeddings(int(decision.max()) + 1 if decision.max() >= 0 else 0, plan.dimension)
    indptr, labels = Y.indptr.astype(np.int64), Y.indices.astype(np.int32)
    rows = np.flatnonzero(np.diff(indptr)).astype(np.int32)
    for epoch in range(plan.epochs):
        report("training", epoch / plan.epochs)
        targets = (indptr, labels) if plan.all_positives else _draw_one(indptr, labels, random)
        first, last = (plan.rate * (1 - done / plan.epochs) for done in (epoch, epoch + 1))
        order = random.permutation(rows)
        _kernels.softmax_epoch(
            inputs, outputs, plan.dimension, X.indptr, X.indices, X.data, targets[0], targets[1],
            paths.ptr, paths.steps, order, first, last, plan.threads,
        )  # fmt: skip
    _check_finite(outputs, plan.rate)
    return SoftmaxArrays(inputs, outputs, tree.parent, tree.child_ptr, tree.label_ptr, tree.labels, decision)


def _draw_one(
    indptr: NDArray[np.int64], labels: NDArray[np.int32], random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return one label of each row that has any, as label sets."""
    sizes = np.diff(indptr)
    has = sizes > 0
    place = (random.random(has.sum()) * sizes[has]).astype(np.int64)
    return np.concatenate([[0], np.cumsum(has)]).astype(np.int64), labels[indptr[:-1][has] + place]


def _check_finite(outputs: NDArray[np.float32], rate: float) -> None:
    if not np.isfinite(outputs.sum(dtype=np.float64)):
        raise InputError(
            "learning_rate must be small enough for training to stay finite",
            given=f"{rate:g}",
            hint="Try a fifth of it.",
        )
