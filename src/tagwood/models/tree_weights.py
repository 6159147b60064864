"""`TreeWeights`: a label tree with its trained classifiers. In: blocks from training. Out: searches.

The layout is made for the one question a search asks, "which weights does this node have for feature f?": each node is
a small hash table by feature (see `cpp/blocks.hpp`). The arrays are used as they lie on disk, so a model is
memory-mapped in milliseconds, and rows searched together visit a node together, so its weights stay in cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._sparse import CsrParts
from tagwood.models.links import log_probability
from tagwood.trees.label_tree import LabelTree

BLOCK_OUTPUTS = 256  # columns of a block are one byte
BUCKET_SCAN = 32  # the kernels read this many slots at once, so as many spare ones end their arrays

_EMPTY_MASK = np.empty(0, dtype=np.uint8)


class ModelArrays(NamedTuple):
    """What the search kernels read, in their order; `cpp/blocks.hpp` and `cpp/search.hpp` say what each one is."""

    child_ptr: NDArray[np.int32]
    label_ptr: NDArray[np.int32]
    labels: NDArray[np.int32]
    block_ptr: NDArray[np.int64]
    bucket_ptr: NDArray[np.int64]
    buckets: NDArray[np.uint32]
    slot_ptr: NDArray[np.int64]
    remainder_ptr: NDArray[np.int64]
    remainders: NDArray[np.uint8]
    counts: NDArray[np.uint8]
    entry_ptr: NDArray[np.int64]
    columns: NDArray[np.uint8]
    weights: NDArray[np.float32] | NDArray[np.float16] | NDArray[np.int8]
    scales: NDArray[np.float32]
    bias: NDArray[np.float32]


class Found(NamedTuple):
    """Result of a search: `k` places per row, the first `found` of them used."""

    labels: NDArray[np.int32]
    scores: NDArray[np.float32]
    found: NDArray[np.int32]
    evaluated: NDArray[np.int32]
    bound: NDArray[np.float32]


@dataclass(frozen=True)
class SearchPlan:
    """How to search: `exact` or a beam of `width`; `max_nodes` bounds an exact search (0: no bound)."""

    exact: bool = False
    width: int = 10
    max_nodes: int = 0
    merge: str = "mean"
    allowed: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class TreeWeights:
    """A trained label tree: the tree, its arrays and the link between margins and scores."""

    tree: LabelTree
    arrays: ModelArrays
    link: str
    link_power: int

    @cached_property
    def max_outputs(self) -> int:
        """Largest number of outputs of a node."""
        return int((np.diff(self.tree.child_ptr) + np.diff(self.tree.label_ptr)).max())

    @cached_property
    def _head(self) -> tuple[ModelArrays, int, int, int]:
        return (self.arrays, self.tree.n_labels, self.max_outputs, self.link_power)

    def search(self, X: CsrParts, k: int, plan: SearchPlan, threads: int) -> Found:
        """Find the best `k` labels of each row; copies of a label are joined as the plan says."""
        if not self.tree.has_copies:
            return self.search_places(X, k, plan, 0, threads)
        from tagwood.models.copy_search import search_copies

        return search_copies(self, X, k, plan, threads)

    def search_places(self, X: CsrParts, k: int, plan: SearchPlan, copies: int, threads: int) -> Found:
        """Call the kernel for the best `k` places; `copies`: 0 left apart, 1 joined by mean, 2 by maximum."""
        label_mask = node_mask = _EMPTY_MASK
        if plan.allowed is not None:
            label_mask = plan.allowed.astype(np.uint8)
            node_mask = self.tree.nodes_with(plan.allowed).astype(np.uint8)
        # More than every node is no more: the kernel sets places for the whole beam aside.
        width, max_nodes = min(plan.width, self.tree.n_nodes), min(plan.max_nodes, self.tree.n_nodes)
        return Found(
            *_kernels.search(
                *self._head, *X, plan.exact, k, width, max_nodes, copies, label_mask, node_mask, threads
            )
        )

    def leaves(self, X: CsrParts, width: int, threads: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the (n_rows, width) leaves a beam ends in, -1 where it found fewer, and their path scores."""
        leaves, scores = _kernels.beam_leaves(*self._head, *X, width, threads)
        return leaves.reshape(-1, width), scores.reshape(-1, width)

    def margins(
        self,
        X: CsrParts,
        rows: NDArray[np.int64],
        nodes: NDArray[np.int32],
        outputs: NDArray[np.int32],
        threads: int,
    ) -> NDArray[np.float32]:
        """Return the margin of output ``outputs[i]`` of node ``nodes[i]`` for row ``rows[i]``."""
        order = np.lexsort((nodes, rows))
        ptr = np.searchsorted(rows[order], np.arange(X.n_rows + 1)).astype(np.int64)
        arrays, n_labels, max_outputs, _ = self._head
        found = _kernels.margins(
            arrays, n_labels, max_outputs, *X, ptr, nodes[order], outputs[order], threads
        )
        out = np.empty(rows.size, dtype=np.float32)
        out[order] = found
        return out

    def score_copies(
        self, X: CsrParts, rows: NDArray[np.int64], copies: NDArray[np.int64], threads: int
    ) -> NDArray[np.float64]:
        """Return log scores of entries of ``tree.labels`` (places `copies`) for rows `rows`, without a search."""
        tree = self.tree
        node = tree.leaf_of_copy[copies]
        output = (copies - tree.label_ptr[node]).astype(np.int32)
        total = np.zeros(rows.size)
        left = np.arange(rows.size)
        while left.size:
            z = self.margins(X, rows[left], node[left], output[left], threads)
            total[left] += log_probability(z, self.link)
            left = left[node[left] != 0]
            above = tree.parent[node[left]]
            output[left] = node[left] - tree.child_ptr[above]
            node[left] = above
        return total


class TrainedBlocks(NamedTuple):
    """Blocks as `train_blocks` returns them, for the nodes they belong to, in order."""

    nodes: NDArray[np.int64]
    arrays: tuple[NDArray[np.generic], ...]


def assemble(
    tree: LabelTree, trained: Sequence[TrainedBlocks], link: str, link_power: int, weight_dtype: str
) -> TreeWeights:
    """Join trained blocks into one model; nodes that were not trained yet have no outputs to search."""
    nodes = np.concatenate([part.nodes for part in trained])
    joined = [np.concatenate([part.arrays[i] for part in trained]) for i in range(11)]
    bucket_sizes, buckets, slot_sizes, remainder_sizes, remainders, counts = joined[:6]
    entry_sizes, columns, weights, scales, biases = joined[6:]
    block_ptr = np.zeros(tree.n_nodes, dtype=np.int64)
    first = np.flatnonzero(np.concatenate([[True], nodes[1:] != nodes[:-1]]))
    block_ptr[nodes[first]] = first
    arrays = ModelArrays(
        tree.child_ptr,
        tree.label_ptr,
        tree.labels,
        block_ptr,
        _starts(bucket_sizes),
        buckets,
        _starts(slot_sizes),
        _starts(remainder_sizes),
        np.concatenate([remainders, np.zeros(BUCKET_SCAN, np.uint8)]),
        np.concatenate([counts, np.zeros(BUCKET_SCAN, np.uint8)]),
        _starts(entry_sizes),
        columns,
        weights.view(weight_dtype),
        scales,
        _bias_in_node_order(tree, nodes[first], biases),
    )
    return TreeWeights(tree, arrays, link, link_power)


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _bias_in_node_order(
    tree: LabelTree, nodes: NDArray[np.int64], biases: NDArray[np.float32]
) -> NDArray[np.float32]:
    counts = np.diff(tree.child_ptr) + np.diff(tree.label_ptr)
    first = tree.child_ptr[:-1].astype(np.int64) - 1 + tree.label_ptr[:-1]
    sizes = counts[nodes].astype(np.int64)
    starts = _starts(sizes)
    places = np.arange(starts[-1]) + np.repeat(first[nodes] - starts[:-1], sizes)
    out = np.zeros(int(counts.sum()), dtype=np.float32)
    out[places] = biases
    return out


def pair_scores(
    weights: TreeWeights, X: CsrParts, pairs: NDArray[np.int64], merge: str, threads: int
) -> NDArray[np.float64]:
    """Return the scores of (row, label) pairs; copies of a label count by their mean or their best."""
    order = np.argsort(weights.tree.labels, kind="stable")
    starts = np.searchsorted(weights.tree.labels[order], np.arange(weights.tree.n_labels + 1))
    first, count = starts[pairs[:, 1]], np.diff(starts)[pairs[:, 1]]
    pair = np.repeat(np.arange(pairs.shape[0]), count)
    offset = np.arange(pair.size) - np.repeat(np.cumsum(count) - count, count)
    copies = order[np.repeat(first, count) + offset]
    scores = np.exp(weights.score_copies(X, pairs[pair, 0], copies, threads))
    if merge == "mean":
        return np.bincount(pair, weights=scores, minlength=pairs.shape[0]) / np.maximum(count, 1)
    best = np.zeros(pairs.shape[0])
    np.maximum.at(best, pair, scores)
    return best
