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

import torch
from torch import nn
from torch.nn.functional import normalize

from tagwood._check import check_choice, check_float, check_int
from tagwood.errors import InputError
from tagwood.neural.centroids import CENTROIDS, QueryMemory
from tagwood.neural.text_encoder_head import FrozenRows
from tagwood.neural.token_rows import TokenRows

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
