"""Random softmax trees, and a small library of texts whose labels show in their words."""

from __future__ import annotations

import numpy as np

from tagwood._sparse import CsrParts
from tagwood.models.softmax_tree import SoftmaxArrays, number_decisions
from tagwood.trees.label_tree import LabelTree


def random_binary_tree(rng: np.random.Generator, n_labels: int) -> LabelTree:
    """A binary tree of any shape with one label a leaf."""

    def grow(labels: list[int]) -> list:
        if len(labels) == 1:
            return labels
        cut = int(rng.integers(1, len(labels)))
        return [grow(labels[:cut]), grow(labels[cut:])]

    return LabelTree.from_nested(grow(rng.permutation(n_labels).tolist()), n_labels)


def random_softmax(
    rng: np.random.Generator, tree: LabelTree, n_features: int, dimension: int, seen: np.ndarray
) -> SoftmaxArrays:
    """A model with random embeddings."""
    decision = number_decisions(tree, seen)
    n_outputs = max(0, int(decision.max()) + 1)
    inputs, outputs = (rng.normal(size=n * dimension).astype(np.float32) for n in (n_features, n_outputs))
    return SoftmaxArrays(inputs, outputs, tree.parent, tree.child_ptr, tree.label_ptr, tree.labels, decision)


def random_bags(rng: np.random.Generator, n_rows: int, n_features: int) -> CsrParts:
    """Rows of positive weights that sum to 1; some may be empty."""
    values = rng.random((n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.4)
    values /= np.maximum(values.sum(axis=1, keepdims=True), 1e-9)
    rows, columns = np.nonzero(values)
    indptr = np.searchsorted(rows, np.arange(n_rows + 1)).astype(np.int64)
    return CsrParts(indptr, columns.astype(np.int32), values[rows, columns].astype(np.float32), n_features)


def topic_texts(n_rows: int = 400, n_labels: int = 12, seed: int = 0) -> tuple[list[str], list[list[int]]]:
    """Texts of six words of one or two topics, and the numbers of the topics; topic 0 is the most frequent."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, n_labels + 1)
    texts, labels = [], []
    for _ in range(n_rows):
        topics = rng.choice(n_labels, size=rng.integers(1, 3), replace=False, p=share / share.sum())
        words = [f"t{topic}w{rng.integers(5)}" for topic in topics for _ in range(6 // len(topics))]
        texts.append(" ".join(rng.permutation(words).tolist()))
        labels.append(sorted(topics.tolist()))
    return texts, labels
