"""Training of a softmax tree: epochs of stochastic gradient descent. In: bags, label sets, a tree. Out: embeddings.

Which rows, labels and rates come when is decided here; the kernel does one epoch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._sparse import CsrParts
from tagwood.errors import InputError
from tagwood.models.softmax_weights import (
    SoftmaxArrays,
    label_paths,
    new_embeddings,
    number_decisions,
    start_embeddings,
)
from tagwood.models.tree_training import Progress
from tagwood.trees.label_tree import LabelTree


class Plan(NamedTuple):
    """Settings of the training."""

    dimension: int
    epochs: int
    rate: float
    all_positives: bool
    seed: int
    threads: int


def train(X: CsrParts, Y: sparse.csr_array, tree: LabelTree, plan: Plan, report: Progress) -> SoftmaxArrays:
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
