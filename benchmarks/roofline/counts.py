"""What training, search and fusion must at least read and compute, counted from models and data.

In: fitted models and rows. Out: `Work` per row. Nothing is measured here.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood.models.linear_tree.weights import TreeWeights, log_probability, read_node
from tagwood.models.row_index import RowIndex

LINE = 64  # bytes of a cache line
WEIGHTS = 1 << 20  # bytes, about, of the weights of a block in training


class Work(NamedTuple):
    """Multiply-adds, bytes read one after the other, and cache lines read at random from `table` bytes."""

    multiply_adds: float
    streamed: float
    lines: float
    table: float

    def __mul__(self, factor: float) -> Work:  # type: ignore[override]
        """Return the work of several rows, or of a part of one."""
        return Work(self.multiply_adds * factor, self.streamed * factor, self.lines * factor, self.table)


class SweepCounter:
    """Counts the multiply-adds of `train_blocks` while it stands in its place."""

    def __init__(self) -> None:
        self.passes = 0.0  # features of rows that all visits read, times outputs
        self._train = _kernels.train_blocks

    def __enter__(self) -> SweepCounter:
        _kernels.train_blocks = self._counted  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        _kernels.train_blocks = self._train

    def _counted(self, *arguments: Any) -> Any:
        found = self._train(*arguments)
        indptr, begin, end, rows = arguments[0], arguments[4], arguments[5], arguments[6]
        below = np.concatenate([[0], np.cumsum(np.diff(indptr)[rows])])
        entries = below[end] - below[begin]  # of the rows of each block
        self.passes += float((found[-1] * entries / np.maximum(end - begin, 1)).sum())
        return found

    def work(self) -> Work:
        """Return the work so far.

        A row is multiplied with the weights of an output and added to them. Sixteen outputs share a pass: their weights
        of a feature are a cache line.
        """
        return Work(2 * self.passes, 8 * self.passes / 16, 2 * self.passes / 16, WEIGHTS)


def visited_nodes(weights: TreeWeights, scores: NDArray[np.float64], k: int, width: int) -> list[int]:
    """Return the nodes that a beam evaluates for one row, given the log probability of every output.

    Scores multiply along a path, so the best open node comes first, on any level; the search ends when `k` labels are
    better than any open node.
    """
    tree = weights.tree
    visited, found = [], []
    taken = np.zeros(int(tree.depth.max()) + 1, dtype=int)
    open_nodes = [(0.0, 0)]
    while open_nodes:
        score, node = heapq.heappop(open_nodes)
        if len(found) == k and found[0] > -score:
            break
        level = int(tree.depth[node])
        if taken[level] >= width:
            continue
        visited.append(node)
        first, last = int(tree.child_ptr[node]), int(tree.child_ptr[node + 1])
        if first < last:
            taken[level] += 1
            for child in range(first, last):
                above = int(tree.label_ptr[node])
                heapq.heappush(open_nodes, (score - scores[child - 1 + above], child))
            continue
        taken[level:] += 1  # a leaf keeps its place in the beams below
        begin, end = int(tree.label_ptr[node]), int(tree.label_ptr[node + 1])
        for value in scores[first - 1 + begin : first - 1 + end] - score:
            heapq.heappush(found, value)
            if len(found) > k:
                heapq.heappop(found)
    return visited


def search_work(weights: TreeWeights, X: sparse.csr_array, k: int, width: int) -> tuple[Work, float]:
    """Return the mean work of a beam search, and how many nodes it evaluates per row."""
    tree = weights.tree
    nodes = [read_node(weights, node, X.shape[1]) for node in range(tree.n_nodes)]
    margins = (X @ sparse.vstack(nodes).T).toarray() + weights.arrays.bias
    scores = log_probability(margins, weights.link)
    counts = sparse.csr_array(sparse.vstack([sparse.csr_array((node != 0).sum(axis=0)[None]) for node in nodes]))
    blocks = np.array([-(-node.shape[0] // 256) for node in nodes])
    entry = 1 + weights.arrays.weights.itemsize
    look_ups = hits = entries = n_visited = 0.0
    for row in range(X.shape[0]):
        visited = visited_nodes(weights, scores[row], k, width)
        features = X.indices[X.indptr[row] : X.indptr[row + 1]]
        matched = counts[visited][:, features]
        look_ups += features.size * blocks[visited].sum()
        hits, entries = hits + matched.nnz, entries + matched.sum()
        n_visited += len(visited)
    # A look-up reads a bucket and its remainders, a hit the counts and its entries.
    lines = 2 * look_ups + 2 * hits + entries * entry / LINE
    table = sum(array.nbytes for array in weights.arrays)
    n = X.shape[0]
    return Work(entries / n, entries * entry / n, lines / n, table), n_visited / n


def index_work(index: RowIndex, queries: sparse.csr_array) -> Work:
    """Return the mean work of adding up all rows of an index that share features with a query."""
    postings = float(np.diff(index.feature_ptr)[queries.indices].sum()) / queries.shape[0]
    return Work(postings, 5 * postings, postings, 4 * index.n_rows)
