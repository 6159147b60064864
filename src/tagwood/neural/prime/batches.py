"""Which queries and labels are compared in a step: batches of similar queries (NGAME), positives by inverse propensity.

In: label sets, and the memory of query embeddings. Out: batches for the training loop, and the pairs of each.

Decisions
---------
* A batch holds moments, not rows: ``epoch * n_rows + row``. The positives depend only on the moment and the seed, so
  that an interruption does not change them.
* Clusters come from the native splitter of the label trees (balanced spherical 2-means), applied to the embeddings that
  training leaves in the memory: the queries are encoded for it only once, at the start. Longer embeddings are first
  projected to 64 random directions, and few iterations are made: batches need similar queries, not the best split.
* Rows without labels are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from tagwood._sparse import CsrParts
from tagwood.metrics.propensity import LabelCounts, inverse_propensity
from tagwood.neural.prime.loss import Pairs
from tagwood.neural.prime.network import QueryMemory, entries_of
from tagwood.neural.training import Rows
from tagwood.trees.balanced import split_labels

CLUSTER_SIZE = 32  # maximum number of queries per cluster; a batch holds several clusters
REFRESH = 5  # epochs between two clusterings of the queries
_PROJECTED = 64  # directions used for clustering


class Drawn(NamedTuple):
    """The rows of the queries of a step, its distinct labels in ascending order, and pairs of positions in both."""

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    pairs: Pairs


class Positives:
    """Draw positives for the queries of Y, a canonical CSR array.

    `count` labels of each query are drawn without replacement, all if it has fewer: in proportion to their inverse
    propensity, or with equal probability.
    """

    def __init__(self, Y: sparse.csr_array, count: int, *, by_propensity: bool = True, seed: int = 0) -> None:
        self.n_rows = int(Y.shape[0])
        self.indptr, self.labels = Y.indptr.astype(np.int64), Y.indices.astype(np.int64)
        counts = np.bincount(self.labels, minlength=Y.shape[1])
        weights = inverse_propensity(LabelCounts(counts, max(1, self.n_rows)))
        self.weights = weights if by_propensity else np.ones_like(weights)
        self.count, self.seed = count, seed

    def draw(self, moments: Rows) -> Drawn:
        """Return the queries, labels and pairs of moments.

        Examples
        --------
        >>> Y = sparse.csr_array([[1.0, 1, 0], [0, 1, 1], [0, 0, 1]])
        >>> drawn = Positives(Y, count=2).draw(np.array([0, 2]))
        >>> drawn.rows.tolist(), drawn.labels.tolist()
        ([0, 2], [0, 1, 2])
        >>> drawn.pairs.true.tolist()
        [[True, True, False], [False, False, True]]
        """
        rows = moments % self.n_rows
        place, label = entries_of(self.indptr, self.labels, rows)
        # The smallest of exponential waiting times with these rates are a weighted draw without replacement.
        waits = -np.log(_uniform(moments[place], label, self.seed)) / self.weights[label]
        order = np.lexsort((waits, place))
        first = np.searchsorted(place, np.arange(rows.size))
        chosen = np.arange(order.size) - first[place[order]] < self.count
        query, own = place[order][chosen], label[order][chosen]
        labels, at = np.unique(own, return_inverse=True)
        true = np.zeros((rows.size, labels.size), dtype=bool)
        slot = np.searchsorted(labels, label)
        here = labels[np.minimum(slot, max(0, labels.size - 1))] == label
        true[place[here], slot[here]] = True
        pairs = Pairs(torch.from_numpy(query), torch.from_numpy(at), torch.from_numpy(true))
        return Drawn(rows, labels, pairs)


def _uniform(moments: NDArray[np.int64], labels: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """Return a pseudo-random number in (0, 1) for each moment and label, a function of these and the seed."""
    value = _mixed(moments.astype(np.uint64) ^ np.uint64(seed & 0xFFFFFFFFFFFFFFFF))
    value = _mixed(value + labels.astype(np.uint64))
    return ((value >> np.uint64(11)).astype(np.float64) + 0.5) / float(1 << 53)


def _mixed(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix bits as splitmix64 does, with integers that wrap around."""
    value = (value + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def cluster_queries(
    embeddings: NDArray[np.float32], size: int, *, seed: int = 0, threads: int = 1
) -> NDArray[np.int64]:
    """Return the cluster of each query: similar queries together, clusters of about equal size, at most `size`."""
    n_queries, dimension = embeddings.shape
    if n_queries <= size:
        return np.zeros(n_queries, dtype=np.int64)
    if dimension > _PROJECTED:
        random = np.random.default_rng(seed)
        embeddings = embeddings @ random.standard_normal((dimension, _PROJECTED)).astype(np.float32)
        dimension = _PROJECTED
    norms = np.linalg.norm(embeddings, axis=1, keepdims=True)
    unit = np.ascontiguousarray(embeddings / np.maximum(norms, 1e-12), dtype=np.float32)
    V = CsrParts(
        np.arange(0, unit.size + 1, dimension, dtype=np.int64),
        np.tile(np.arange(dimension, dtype=np.int32), n_queries),
        unit.ravel(),
        dimension,
    )
    return cluster_rows(V, size, iterations=5, tolerance=1e-2, seed=seed, threads=threads)


def cluster_rows(
    V: CsrParts, size: int, *, iterations: int = 20, tolerance: float = 1e-4, seed: int, threads: int
) -> NDArray[np.int64]:
    """Return the cluster of each row, at most `size` rows in each, by balanced spherical 2-means."""
    uniform = np.ones(V.n_rows)
    order, begin, end, left = split_labels(
        V,
        uniform,
        uniform,
        max_leaf_size=size,
        iterations=iterations,
        tolerance=tolerance,
        seed=seed,
        threads=threads,
    )
    leaves = np.flatnonzero(left < 0)
    leaves = leaves[np.argsort(begin[leaves])]
    clusters = np.empty(V.n_rows, dtype=np.int64)
    clusters[order] = np.repeat(np.arange(leaves.size), end[leaves] - begin[leaves])
    return clusters


class QueryBatches:
    """Batches of an epoch for the training loop, as moments.

    With a memory, its queries are clustered every few epochs, and batches hold whole clusters as far as sizes allow;
    clusters, the rows of each and the batches are shuffled. Without one, rows are shuffled.
    """

    def __init__(
        self,
        Y: sparse.csr_array,
        batch_size: int,
        memory: QueryMemory | None,
        *,
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        self.n_rows, self.rows = int(Y.shape[0]), np.flatnonzero(np.diff(Y.indptr)).astype(np.int64)
        self.batch_size, self.memory, self.seed, self.threads = batch_size, memory, seed, threads

    def __call__(self, epoch: int, random: np.random.Generator) -> list[Rows]:
        """Return the moments of each step of an epoch."""
        clusters = np.arange(self.n_rows, dtype=np.int64)
        if self.memory is not None:
            if epoch % REFRESH == 0:
                self._cluster(self.memory, self.seed + epoch)
            clusters = self.memory.clusters.cpu().numpy()
        mixed = random.permutation(self.rows)
        place = random.permutation(int(clusters.max(initial=0)) + 1)
        order = mixed[np.argsort(place[clusters[mixed]], kind="stable")]
        batches = [order[at : at + self.batch_size] for at in range(0, order.size, self.batch_size)]
        return [batches[number] + epoch * self.n_rows for number in random.permutation(len(batches))]

    def _cluster(self, memory: QueryMemory, seed: int) -> None:
        embeddings = memory.queries.cpu().numpy()[self.rows]
        found = cluster_queries(embeddings, CLUSTER_SIZE, seed=seed, threads=self.threads)
        memory.clusters[torch.from_numpy(self.rows)] = torch.from_numpy(found).to(memory.clusters.device)
