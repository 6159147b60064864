"""Centroids of labels while the encoder learns, and the memory of query embeddings behind them.

In: embeddings of the queries of each step. Out: the centroid of a label, with or without one of its own queries.

Decisions
---------
* ``"momentum"`` follows the paper's Eq. 4. m queries of a label in one batch move it once, by 1 - momentum**m towards
  their mean: the paper's rule would depend on their order.
* ``"leave-one-out"``: the mean of the last embeddings of all queries of a label. A query is compared with the centroids
  of its own labels without itself, as at test time, when it is not among them (systems that forget this learn to
  find a query inside its own label). It needs the last embedding of every query, n_queries * dimension numbers, which
  NGAME batches need too.
* Centroids begin as the means of all embeddings of the untrained encoder.
* All state is in buffers, so that a checkpoint holds it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

CENTROIDS = ("momentum", "leave-one-out", "none")


class QueryMemory(nn.Module):
    """The last embedding of each training query, the cluster of each, and the centroids of labels.

    Parameters
    ----------
    Y
        (n_queries, n_labels) label sets, canonical CSR.
    dimension
        Of embeddings.
    centroids
        ``"momentum"``, ``"leave-one-out"`` or ``"none"``.
    momentum
        Share of a centroid that one query leaves in place.

    Examples
    --------
    >>> Y = sparse.csr_array([[1.0, 0], [1, 1], [1, 0]])
    >>> memory = QueryMemory(Y, 2, "leave-one-out")
    >>> memory.start(torch.tensor([[1.0, 0], [0, 1], [1, 0]]))
    >>> memory.without(torch.tensor([1, 1]), torch.tensor([0, 1]))  # label 1 has no other query
    (tensor([[2., 0.],
            [0., 0.]]), tensor([ True, False]))
    """

    queries: torch.Tensor
    clusters: torch.Tensor
    centroids: torch.Tensor

    def __init__(
        self, Y: sparse.csr_array, dimension: int, centroids: str = "momentum", *, momentum: float = 0.95
    ) -> None:
        super().__init__()
        n_queries, n_labels = Y.shape
        self.how, self.momentum = centroids, momentum
        self.indptr, self.labels = Y.indptr.astype(np.int64), Y.indices.astype(np.int64)
        counts = np.bincount(self.labels, minlength=n_labels)
        self.register_buffer("counts", torch.from_numpy(counts), persistent=False)
        self.counts: torch.Tensor
        self.register_buffer("queries", torch.zeros(n_queries, dimension))
        self.register_buffer("clusters", torch.zeros(n_queries, dtype=torch.int64))
        self.register_buffer("centroids", torch.zeros(0 if centroids == "none" else n_labels, dimension))

    def start(self, embeddings: torch.Tensor) -> None:
        """Take the embeddings of all queries, and begin with the means of the labels."""
        self.queries.copy_(embeddings)
        if self.how == "none":
            return
        rows = torch.from_numpy(np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr)))
        labels = torch.from_numpy(self.labels).to(self.queries.device)
        self.centroids.zero_()
        for at in range(0, labels.numel(), 1 << 16):  # the embeddings of all entries of Y would be too many
            part = slice(at, at + (1 << 16))
            self.centroids.index_add_(0, labels[part], self.queries[rows[part].to(self.queries.device)])
        if self.how == "momentum":
            self.centroids /= self.counts.clamp(min=1)[:, None]

    @torch.no_grad()
    def update(self, rows: NDArray[np.int64], embeddings: torch.Tensor) -> None:
        """Take the newest embeddings of some queries, each at most once."""
        where = torch.from_numpy(rows).to(self.queries.device)
        new = embeddings.detach().float()
        change = new - self.queries[where]
        self.queries[where] = new
        if self.how == "none":
            return
        places, labels = entries_of(self.indptr, self.labels, rows)
        query = torch.from_numpy(places).to(where.device)
        label = torch.from_numpy(labels).to(where.device)
        if self.how == "leave-one-out":
            self.centroids.index_add_(0, label, change[query])
            return
        moved, slot, count = torch.unique(label, return_inverse=True, return_counts=True)
        total = torch.zeros(moved.numel(), new.shape[1], device=new.device).index_add_(0, slot, new[query])
        kept = (self.momentum ** count.float())[:, None]
        self.centroids[moved] = kept * self.centroids[moved] + (1 - kept) * total / count[:, None]

    def of(self, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return centroids of labels, not normalised, and which labels have queries."""
        return self.centroids[labels], self.counts[labels] > 0

    def without(self, rows: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return centroids of labels, each without one of its queries, and which labels have others."""
        known = self.counts[labels] > 1
        rest = self.centroids[labels] - self.queries[rows]
        return torch.where(known[:, None], rest, torch.zeros_like(rest)), known


def entries_of(indptr: NDArray[np.int64], indices: NDArray[Any], rows: NDArray[np.int64]) -> tuple[Any, Any]:
    """Return the entries of some rows of a CSR matrix: their places in `rows`, and their columns.

    Examples
    --------
    >>> places, columns = entries_of(np.array([0, 2, 2, 3]), np.array([4, 5, 6]), np.array([2, 0]))
    >>> places.tolist(), columns.tolist()
    ([0, 1, 1], [6, 4, 5])
    """
    sizes = indptr[rows + 1] - indptr[rows]
    ends = np.cumsum(sizes)
    places = np.repeat(np.arange(rows.size), sizes)
    total = int(ends[-1]) if ends.size else 0
    return places, indices[np.arange(total) + np.repeat(indptr[rows] - (ends - sizes), sizes)]
