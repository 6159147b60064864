"""The label prototype network: what a label's text, its queries and its free vector say together.

In: up to three vectors a label. Out: one prototype of norm 1. `PrototypeModule` puts encoder, network, bank of free
vectors and centroids together; the training loop sees it as one module.

Decisions
---------
* The layer is the usual one (post-norm, one head). Tokens of norm 1 are multiplied by the root of the dimension, and
  the two layers that write into the residual begin at zero: an untrained prototype is the mean of its sources.
* A source that a label lacks is masked: it takes no part in the attention and in the mean. A new label has its text
  alone. Some labels of each step (`hide`) are shown so in training.
* Free vectors begin as the mean text embedding of their labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn
from torch.nn.functional import normalize

from tagwood._check import check_choice, check_float, check_int
from tagwood.errors import InputError
from tagwood.neural.encoders.head import FrozenRows
from tagwood.neural.encoders.tokens import TokenRows

# SECTION neural.centroids
# Centroids of labels while the encoder learns, and the memory of query embeddings behind them.
#
# In: embeddings of the queries of each step. Out: the centroid of a label, with or without one of its own queries.
#
# Decisions
# ---------
# * ``"momentum"`` follows the paper's Eq. 4. m queries of a label in one batch move it once, by 1 - momentum**m towards
#   their mean: the paper's rule would depend on their order.
# * ``"leave-one-out"``: the mean of the last embeddings of all queries of a label. A query is compared with the
# centroids
#   of its own labels without itself, as at test time, when it is not among them (systems that forget this learn to
#   find a query inside its own label). It needs the last embedding of every query, n_queries * dimension numbers, which
#   NGAME batches need too.
# * Centroids begin as the means of all embeddings of the untrained encoder.
# * All state is in buffers, so that a checkpoint holds it.


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


CLUSTERS = ("queries", "texts")


@dataclass(frozen=True)
class Prototype:
    """What a label's prototype is made of.

    Parameters
    ----------
    text
        Use the label's text.
    centroids
        ``"momentum"``; ``"leave-one-out"``; ``"none"``; ``"auto"``: chosen by trials on held-out rows, which take three
        more trainings on at most 10,000 rows, and may choose label texts alone.
    momentum
        Of centroids: the share that one query leaves in place.
    free_vectors
        Size of the bank of free vectors, each shared by labels that are alike; None takes one for two labels, at most
        65,536; 0 uses none.
    clusters
        Labels are alike by their ``"queries"`` (the mean of their TF-IDF features) or by their ``"texts"``.
    feed_forward
        Width of the transformer layer; None takes four thirds of the dimension, as the paper does (1024 for 768).
    dropout
        Of the transformer layer.
    hide
        Share of labels of a step that are shown by their text alone, so that new labels can be ranked.
    """

    text: bool = True
    centroids: str = "auto"
    momentum: float = 0.95
    free_vectors: int | None = None
    clusters: str = "queries"
    feed_forward: int | None = None
    dropout: float = 0.1
    hide: float = 0.1

    def check(self) -> None:
        """Raise `InputError` for a value that does not fit."""
        check_choice(self.centroids, "centroids", ("auto", *CENTROIDS))
        check_float(self.momentum, "momentum", low=0.0, high=1.0)
        if self.free_vectors is not None:
            check_int(self.free_vectors, "free_vectors", low=0)
        check_choice(self.clusters, "clusters", CLUSTERS)
        if self.feed_forward is not None:
            check_int(self.feed_forward, "feed_forward", low=1)
        check_float(self.dropout, "dropout", low=0.0, high=0.99)
        check_float(self.hide, "hide", low=0.0, high=0.99)
        if not self.text and self.centroids in ("none", "auto") and self.free_vectors == 0:
            raise InputError(
                "a prototype needs text, centroids or free vectors", given="none of them for sure"
            )

    def width(self, dimension: int) -> int:
        """Return the width of the layer for vectors of a dimension.

        Examples
        --------
        >>> Prototype().width(768), Prototype(feed_forward=64).width(768)
        (1024, 64)
        """
        return -(-4 * dimension // 3) if self.feed_forward is None else self.feed_forward

    @property
    def is_text_alone(self) -> bool:
        """Whether labels are their texts: a plain dual encoder."""
        return self.text and self.centroids == "none" and self.free_vectors == 0


class PrototypeNetwork(nn.Module):
    """One transformer layer over the sources of a label, and the mean of what comes out.

    Examples
    --------
    >>> network = PrototypeNetwork(4, feed_forward=8, dropout=0.0)
    >>> tokens = normalize(torch.tensor([[[1.0, 2, 3, 5], [5, 1, 1, 2]]]), dim=-1)
    >>> alone = network(tokens[:, :1], torch.tensor([[True]]))
    >>> masked = network(tokens, torch.tensor([[True, False]]))
    >>> torch.allclose(alone, masked), round(alone.norm().item(), 4)
    (True, 1.0)
    """

    def __init__(self, dimension: int, feed_forward: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.project = nn.Linear(dimension, 3 * dimension)
        self.mix = nn.Linear(dimension, dimension)
        self.norm_mixed = nn.LayerNorm(dimension)
        self.widen = nn.Linear(dimension, feed_forward)
        self.narrow = nn.Linear(feed_forward, dimension)
        self.norm_out = nn.LayerNorm(dimension)
        self.dropout = nn.Dropout(dropout)
        for layer in (self.mix, self.narrow):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, tokens: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        """Return (n_labels, dimension) prototypes of norm 1.

        Parameters
        ----------
        tokens
            (n_labels, n_sources, dimension) vectors of norm 1.
        present
            (n_labels, n_sources) which of them a label has; at least one.
        """
        x = tokens * math.sqrt(tokens.shape[-1])
        query, key, value = self.project(x).chunk(3, dim=-1)
        affinity = query @ key.transpose(1, 2) / math.sqrt(x.shape[-1])
        affinity = affinity.masked_fill(~present[:, None, :], -math.inf)
        mixed = self.mix(self.dropout(torch.softmax(affinity, dim=-1)) @ value)
        x = self.norm_mixed(x + self.dropout(mixed))
        wide = self.dropout(torch.relu(self.widen(x)))
        x = self.norm_out(x + self.dropout(self.narrow(wide)))
        return normalize((x * present[:, :, None]).sum(dim=1), dim=-1)


class PrototypeModule(nn.Module):
    """Encoder, prototype network, bank of free vectors and the memory of queries, as one module to train.

    Parameters
    ----------
    encoder
        Module from `TokenRows` to (n, dimension) vectors.
    dimension
        Of its vectors.
    memory
        Centroids of labels; None where training needs neither centroids nor clusters.
    settings
        Sources of a prototype; ``centroids`` must be chosen already.
    bank
        (n_vectors, dimension) first free vectors, or None for none.
    vector_of
        (n_labels,) which free vector each label has.
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
    ) -> None:
        super().__init__()
        self.encoder, self.settings, self.memory, self.dimension = encoder, settings, memory, dimension
        self.bank = None if bank is None else nn.Parameter(bank.clone())
        self.register_buffer("vector_of", torch.empty(0).long() if vector_of is None else vector_of)
        alone = settings.text and settings.centroids == "none" and bank is None
        self.network = None
        if not alone:
            self.network = PrototypeNetwork(dimension, settings.width(dimension), settings.dropout)

    def forward(self, tokens: TokenRows | FrozenRows) -> torch.Tensor:
        """Return (n, dimension) embeddings of texts, of norm 1."""
        return normalize(self.encoder(tokens), dim=-1)

    def prototypes(
        self,
        texts: torch.Tensor,
        labels: torch.Tensor | None,
        centroids: tuple[torch.Tensor, torch.Tensor] | None = None,
        hidden: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return (n_labels, dimension) prototypes; the text embeddings themselves where there is no network.

        Parameters
        ----------
        texts
            (n_labels, dimension) text embeddings.
        labels
            (n_labels,) label ids; None for new labels, which have their text alone.
        centroids
            Centroids and which of them are known; default those of the memory.
        hidden
            (n_labels,) labels to be shown by their text alone.
        """
        if self.network is None:
            return texts
        shown = torch.ones(len(texts), dtype=torch.bool, device=texts.device)
        tokens, present = [], []
        if self.settings.text:
            tokens.append(texts)
            present.append(shown)
        if labels is not None:
            shown = shown if hidden is None else ~hidden
            if self.settings.centroids != "none":
                assert self.memory is not None
                means, known = self.memory.of(labels) if centroids is None else centroids
                tokens.append(normalize(means, dim=-1))
                present.append(known & shown)
            if self.bank is not None:
                tokens.append(normalize(self.bank[self.vector_of[labels]], dim=-1))
                present.append(shown)
        have = torch.stack(present, dim=1)
        if not self.settings.text:  # a label without queries and free vector must not be empty
            have[:, 0] |= ~have.any(dim=1)
        found: torch.Tensor = self.network(torch.stack(tokens, dim=1), have)
        return found

    def hidden(self, n_labels: int, device: torch.device) -> torch.Tensor | None:
        """Draw which labels of a step are shown by their text alone; None for none."""
        if self.network is None or not self.training or not self.settings.text or self.settings.hide == 0:
            return None
        return torch.rand(n_labels, device=device) < self.settings.hide
