"""The network behind `MimlNetwork`: Deep-MIML, and with label embeddings the co-attention version of EAGLE.

In: padded groups of rows. Out: one logit per group and label.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from tagwood.neural.group_batches import GroupBatch


class MimlModule(nn.Module):
    """Rows -> hidden -> logits of `concepts` aspects of each label -> the best aspect -> the best row.

    Parameters
    ----------
    n_features, hidden, concepts, n_labels
        Sizes; ``hidden=0`` leaves the hidden layer out.
    spread
        Factor of the rows, which have norm 1: the root of a row's usual number of features makes each about 1.
    embeddings
        (n_labels, n_features) label embeddings for the attention, or None for none (Deep-MIML).
    sharpness
        τ: 0 looks at all rows of a group alike.
    """

    embeddings: torch.Tensor
    spread: torch.Tensor

    def __init__(
        self,
        n_features: int,
        hidden: int,
        concepts: int,
        n_labels: int,
        *,
        spread: float = 1.0,
        embeddings: torch.Tensor | None = None,
        sharpness: float = 1.0,
    ) -> None:
        super().__init__()
        self.concepts, self.n_labels, self.sharpness = concepts, n_labels, sharpness
        self.hidden = nn.Linear(n_features, hidden) if hidden else None
        self.aspects = nn.Linear(hidden or n_features, concepts * n_labels)
        self.bias = nn.Parameter(torch.zeros(n_labels))
        self.register_buffer("spread", torch.tensor([float(spread)]))
        self.register_buffer("embeddings", torch.empty(0) if embeddings is None else embeddings)
        first = self.hidden or self.aspects
        nn.init.normal_(first.weight, std=1.0 / max(1e-6, float(spread)))
        nn.init.zeros_(first.bias)

    def forward(self, batch: GroupBatch) -> torch.Tensor:
        """Return the (n_groups, n_labels) logits; groups without rows have the bias alone."""
        logits = self.row_logits(batch.rows)
        if self.embeddings.numel():
            logits = logits * self.attention(batch)
        logits = logits.masked_fill(~batch.real[:, :, None], -math.inf).amax(dim=1)
        return logits.masked_fill(~batch.real.any(dim=1)[:, None], 0.0) + self.bias

    def row_logits(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the (n_groups, largest, n_labels) logits of each row: the multi-instance logits."""
        rows = rows * self.spread
        if self.hidden is not None:
            rows = torch.relu(self.hidden(rows))
        aspects: torch.Tensor = self.aspects(rows)
        return aspects.view(*aspects.shape[:-1], self.concepts, self.n_labels).amax(dim=-2)

    def attention(self, batch: GroupBatch) -> torch.Tensor:
        """Return the mask g * softmax(τ X Lᵀ) over the g real rows of each group, 0 for padding."""
        affinity = self.sharpness * (batch.rows @ self.embeddings.T)
        affinity = affinity.masked_fill(~batch.real[:, :, None], -math.inf)
        affinity = affinity.masked_fill(~batch.real.any(dim=1)[:, None, None], 0.0)  # groups without rows
        sizes = batch.real.sum(dim=1)[:, None, None]
        return torch.softmax(affinity, dim=1) * sizes
