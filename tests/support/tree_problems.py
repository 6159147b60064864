"""Random label trees, models with random weights, and small problems for the tests of label trees."""

from __future__ import annotations

import numpy as np
from reference import blocks as reference_blocks
from scipy import sparse

from tagwood._sparse import CsrParts, csr_parts
from tagwood.models.linear_tree.weights import BLOCK_OUTPUTS, TrainedBlocks, TreeWeights, assemble
from tagwood.trees.label_tree import LabelTree


def random_tree(rng: np.random.Generator, n_labels: int, n_copies: int = 0) -> LabelTree:
    """A tree with leaves at different depths; `n_copies` labels sit in a second leaf where there is one."""

    def grow(labels: list[int], depth: int) -> list:
        if len(labels) < 2 or depth == 4 or rng.random() < 0.2 * depth:
            return labels
        cuts = np.sort(
            rng.choice(np.arange(1, len(labels)), min(len(labels) - 1, int(rng.integers(1, 4))), replace=False)
        )
        return [grow(part.tolist(), depth + 1) for part in np.split(np.array(labels), cuts)]

    nested = grow(rng.permutation(n_labels).tolist(), 0)
    leaves: list[list[int]] = []
    stack = [nested]
    while stack:
        item = stack.pop()
        if item and isinstance(item[0], list):
            stack.extend(item)
        else:
            leaves.append(item)
    for label in rng.permutation(n_labels)[:n_copies].tolist():
        free = [leaf for leaf in leaves if label not in leaf]
        if free:
            free[rng.integers(len(free))].append(label)
    return LabelTree.from_nested(nested, n_labels)


def random_weights(
    rng: np.random.Generator,
    tree: LabelTree,
    n_features: int,
    link: str = "l3-hinge",
    weight_dtype: str = "float32",
    density: float = 0.4,
) -> TreeWeights:
    """A model over `tree` with random sparse weights, packed by the NumPy writer."""
    parts = []
    for node in range(tree.n_nodes):
        n_outputs = int(np.diff(tree.child_ptr)[node] + np.diff(tree.label_ptr)[node])
        for first in range(0, n_outputs, BLOCK_OUTPUTS):
            n = min(BLOCK_OUTPUTS, n_outputs - first)
            W = rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < density)
            parts.append(trained_block(node, W, rng.normal(size=n), weight_dtype))
    return assemble(tree, parts, link, weight_dtype)


def trained_block(node: int, W: np.ndarray, bias: np.ndarray, weight_dtype: str) -> TrainedBlocks:
    """One block of weights in the form in which `train_blocks` returns it."""
    buckets, remainders, counts, columns, weights, scale = reference_blocks.write_block(W, weight_dtype)
    stored = (buckets.size // 2, counts.size, remainders.size, columns.size)
    pairs, slots, stretch, entries = (np.array([size], dtype=np.int64) for size in stored)
    arrays = (
        pairs, buckets, slots, stretch, remainders, counts, entries, columns, weights.view(np.uint8), scale,
        bias.astype(np.float32), np.ones(1, dtype=np.int64),
    )  # fmt: skip
    return TrainedBlocks(np.array([node], dtype=np.int64), arrays)


def random_rows(rng: np.random.Generator, n_rows: int, n_features: int, density: float = 0.4) -> CsrParts:
    """Random sparse features; some rows may be empty."""
    values = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < density)
    return csr_parts(sparse.csr_array(values.astype(np.float32)))


def planted_problem(
    seed: int = 0, n_rows: int = 150, n_labels: int = 20, n_features: int = 40
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """X with rows of norm 1, and Y: label l shows in the features l, l + n_labels, ... among noise."""
    rng = np.random.default_rng(seed)
    Y = np.zeros((n_rows, n_labels), dtype=np.float32)
    for row in range(n_rows):
        Y[row, rng.choice(n_labels, min(n_labels, int(rng.integers(1, 4))), replace=False)] = 1
    Y[np.arange(n_labels) % n_rows, np.arange(n_labels)] = 1
    shown = np.tile(Y, (1, -(-n_features // n_labels)))[:, :n_features] * rng.uniform(0.5, 1, (n_rows, n_features))
    X = shown + (rng.random((n_rows, n_features)) < 0.05) * rng.uniform(0, 0.3, (n_rows, n_features))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    return sparse.csr_array(X.astype(np.float32)), sparse.csr_array(Y)


def same_arrays(one: TreeWeights, two: TreeWeights) -> bool:
    """Whether two models have the same bits."""
    pairs = zip(one.arrays, two.arrays, strict=True)
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)
