"""The label prototype network, and the centroids of labels while the encoder learns.

In: up to three vectors per label (text, centroid, free vector). Out: one prototype of norm 1. `PrototypeModule` holds
encoder, network, free vectors and `QueryMemory`; the training loop sees it as one module.

Decisions
---------
* The layer is the usual one (post-norm, one head) and four thirds of the dimension wide, as in the paper (1024 for
  768). Its pooled output is added to a fixed mean of text and centroid through a last layer that starts at zero:
  training starts exactly from untrained prototypes, which are a strong baseline. The share of the centroid in that mean
  is chosen on held-out rows (`choose_share`). Models stored without the last layer are the pooled output alone.
* A missing source is masked: it takes no part in the attention or the mean. A new label has its text only; a share of
  the labels of each training step (`HIDE`) is treated the same way.
* Free vectors start as the mean text embedding of their labels.
* Centroids start as the means of the embeddings of the untrained encoder. ``"momentum"`` follows the paper's Eq. 4,
  except that m queries of a label in one batch move the centroid once, by 1 - momentum**m towards their mean: the
  paper's rule would depend on their order.
* ``"leave-one-out"`` is the mean of the last embeddings of all queries of a label. A query is compared with the
  centroids of its own labels without itself, as at test time; otherwise a model learns to find a query inside its own
  label. It needs the last embedding of every query (n_queries * dimension numbers), as NGAME batches do.
* The same prototype, made without one row of the label, is positive for that row and negative for the others. So which
  sources a label has, and how many rows its centroid, says nothing about whether the label is true (tested). With the
  centroids of all rows for negatives, a label of a single row lacked its centroid only where it was true.
* All state is in buffers, so that checkpoints contain it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn
from torch.nn.functional import normalize

from tagwood.neural.encoders.modules import EncoderInputs
from tagwood.neural.prime.settings import Prototype

HIDE = 0.1  # share of the labels of a step that are represented by their text alone, as new labels will be
MOMENTUM = 0.95  # share of a centroid that is kept when one of its queries is embedded again
_ENTRIES = 1 << 16  # entries of Y whose embeddings are added up together, to limit memory


class PrototypeNetwork(nn.Module):
    """One transformer layer over the sources of a label, whose pooled output changes the mean of text and centroid.

    `share` is that of the centroid in the mean, from 0 to 1; None for networks of earlier versions, which have no mean.
    """

    share: torch.Tensor

    def __init__(self, dimension: int, share: float | None = 0.5) -> None:
        super().__init__()
        width = -(-4 * dimension // 3)
        self.project = nn.Linear(dimension, 3 * dimension)
        self.mix = nn.Linear(dimension, dimension)
        self.norm_mixed = nn.LayerNorm(dimension)
        self.widen = nn.Linear(dimension, width)
        self.narrow = nn.Linear(width, dimension)
        self.norm_out = nn.LayerNorm(dimension)
        self.dropout = nn.Dropout(0.1)
        self.change = None if share is None else nn.Linear(dimension, dimension)
        if share is not None:
            self.register_buffer("share", torch.tensor([share]))
        for layer in (self.mix, self.narrow, self.change):
            if layer is not None:
                nn.init.zeros_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, tokens: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        """Return (n_labels, dimension) prototypes of norm 1.

        `tokens` (n_labels, n_sources, dimension) have norm 1; `present` (n_labels, n_sources) marks the ones that a
        label has, at least one. The first source is the text, the second the centroid or, without one, a free vector.
        """
        x = tokens * math.sqrt(tokens.shape[-1])
        query, key, value = self.project(x).chunk(3, dim=-1)
        affinity = query @ key.transpose(1, 2) / math.sqrt(x.shape[-1])
        affinity = affinity.masked_fill(~present[:, None, :], -math.inf)
        mixed = self.mix(self.dropout(torch.softmax(affinity, dim=-1)) @ value)
        x = self.norm_mixed(x + self.dropout(mixed))
        wide = self.dropout(torch.relu(self.widen(x)))
        x = self.norm_out(x + self.dropout(self.narrow(wide)))
        pooled = normalize((x * present[:, :, None]).sum(dim=1), dim=-1)
        if self.change is None:
            return pooled
        base = tokens[:, 0]
        if tokens.shape[1] > 1:
            share = self.share * present[:, 1, None]
            base = (1 - share) * base + share * tokens[:, 1]
        return normalize(normalize(base, dim=-1) + self.change(pooled), dim=-1)


class QueryMemory(nn.Module):
    """The last embedding and the cluster of each training query, and the centroids of the labels.

    Y is a canonical CSR array; `centroids` is ``"momentum"``, ``"leave-one-out"`` or ``"none"``.
    """

    queries: torch.Tensor
    clusters: torch.Tensor
    centroids: torch.Tensor
    counts: torch.Tensor

    def __init__(self, Y: sparse.csr_array, dimension: int, centroids: str) -> None:
        super().__init__()
        n_queries, n_labels = Y.shape
        self.kind = centroids
        self.indptr, self.labels = Y.indptr.astype(np.int64), Y.indices.astype(np.int64)
        counts = np.bincount(self.labels, minlength=n_labels)
        self.register_buffer("counts", torch.from_numpy(counts), persistent=False)
        self.register_buffer("queries", torch.zeros(n_queries, dimension))
        self.register_buffer("clusters", torch.zeros(n_queries, dtype=torch.int64))
        self.register_buffer("centroids", torch.zeros(0 if centroids == "none" else n_labels, dimension))

    def start(self, embeddings: torch.Tensor) -> None:
        """Store the embeddings of all queries, and compute the first centroids from them."""
        self.queries.copy_(embeddings)
        if self.kind == "none":
            return
        rows = torch.from_numpy(np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr)))
        labels = torch.from_numpy(self.labels).to(self.queries.device)
        self.centroids.zero_()
        for at in range(0, labels.numel(), _ENTRIES):
            part = slice(at, at + _ENTRIES)
            self.centroids.index_add_(0, labels[part], self.queries[rows[part].to(self.queries.device)])
        if self.kind == "momentum":
            self.centroids /= self.counts.clamp(min=1)[:, None]

    def settle(self, Y: sparse.csr_array, embeddings: NDArray[np.float32]) -> None:
        """Replace queries and centroids by the exact ones of some rows, as at test time."""
        device = self.queries.device
        self.indptr, self.labels = Y.indptr.astype(np.int64), Y.indices.astype(np.int64)
        self.counts = torch.from_numpy(np.bincount(self.labels, minlength=Y.shape[1])).to(device)
        self.queries = torch.zeros(embeddings.shape, device=device)
        self.start(torch.from_numpy(embeddings))

    @torch.no_grad()
    def update(self, rows: NDArray[np.int64], embeddings: torch.Tensor) -> None:
        """Store the new embeddings of distinct queries, and move the centroids of their labels."""
        where = torch.from_numpy(rows).to(self.queries.device)
        new = embeddings.detach().float()
        change = new - self.queries[where]
        self.queries[where] = new
        if self.kind == "none":
            return
        places, labels = entries_of(self.indptr, self.labels, rows)
        query = torch.from_numpy(places).to(where.device)
        label = torch.from_numpy(labels).to(where.device)
        if self.kind == "leave-one-out":
            self.centroids.index_add_(0, label, change[query])
            return
        moved, slot, count = torch.unique(label, return_inverse=True, return_counts=True)
        total = torch.zeros(moved.numel(), new.shape[1], device=new.device).index_add_(0, slot, new[query])
        kept = (MOMENTUM ** count.float())[:, None]
        self.centroids[moved] = kept * self.centroids[moved] + (1 - kept) * total / count[:, None]

    def of(self, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the centroids of labels, not normalised, and which labels have queries."""
        return self.centroids[labels], self.counts[labels] > 0

    def without(self, rows: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the centroids of labels, each without one of its queries, and which labels have other queries."""
        known = self.counts[labels] > 1
        rest = self.centroids[labels] - self.queries[rows]
        return torch.where(known[:, None], rest, torch.zeros_like(rest)), known


class PrototypeModule(nn.Module):
    """Encoder, prototype network, free vectors and query memory as one module to train.

    Parameters
    ----------
    encoder, dimension
        Module from `TokenRows` to vectors, and their length.
    settings
        Sources of a prototype; ``centroids`` must not be ``"auto"``.
    memory
        Centroids of labels; None if training needs neither centroids nor clusters.
    bank, vector_of
        (n_vectors, dimension) initial free vectors or None, and the (n_labels,) number of each label's vector.
    share
        Of the centroid in untrained prototypes.
    """

    vector_of: torch.Tensor

    def __init__(
        self,
        encoder: nn.Module,
        dimension: int,
        settings: Prototype,
        *,
        memory: QueryMemory | None = None,
        bank: torch.Tensor | None = None,
        vector_of: torch.Tensor | None = None,
        share: float = 0.5,
    ) -> None:
        super().__init__()
        self.encoder, self.settings, self.memory = encoder, settings, memory
        self.bank = None if bank is None else nn.Parameter(bank.clone())
        self.register_buffer("vector_of", torch.empty(0).long() if vector_of is None else vector_of)
        text_alone = settings.centroids == "none" and bank is None
        centred = share if settings.centroids != "none" else 0.0
        self.network = None if text_alone else PrototypeNetwork(dimension, centred)

    def forward(self, tokens: EncoderInputs) -> torch.Tensor:
        """Return (n, dimension) embeddings of texts, of norm 1."""
        return normalize(self.encoder(tokens).float(), dim=-1)

    def prototypes(
        self,
        texts: torch.Tensor,
        labels: torch.Tensor,
        centroids: tuple[torch.Tensor, torch.Tensor] | None = None,
        hidden: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return (n_labels, dimension) prototypes; the text embeddings themselves if there is no network.

        `centroids` are the centroids of the labels and a mask of the known ones, by default those of the memory.
        `hidden` labels are represented by their text alone, as new labels are.
        """
        if self.network is None:
            return texts
        shown = torch.ones(len(texts), dtype=torch.bool, device=texts.device)
        tokens, present = [texts], [shown]
        shown = shown if hidden is None else ~hidden
        if self.settings.centroids != "none":
            assert self.memory is not None
            means, known = self.memory.of(labels) if centroids is None else centroids
            tokens.append(normalize(means, dim=-1))
            present.append(known & shown)
        if self.bank is not None:
            tokens.append(normalize(self.bank[self.vector_of[labels]], dim=-1))
            present.append(shown)
        found: torch.Tensor = self.network(torch.stack(tokens, dim=1), torch.stack(present, dim=1))
        return found

    def draw_hidden(self, n_labels: int, device: torch.device) -> torch.Tensor | None:
        """Draw the labels of a step that are represented by their text alone; None for none."""
        if self.network is None or not self.training:
            return None
        return torch.rand(n_labels, device=device) < HIDE


def entries_of(indptr: NDArray[np.int64], indices: NDArray[Any], rows: NDArray[np.int64]) -> tuple[Any, Any]:
    """Return the entries of some rows of a CSR matrix: their positions in `rows`, and their columns.

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
