"""The network of `MimlNetwork`: Deep-MIML, and with label embeddings the co-attention version of EAGLE.

In: groups of rows of different sizes, as padded batches (`GroupRows`). Out: one logit per group and label.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from tagwood._sparse import normalize_rows


class GroupBatch(NamedTuple):
    """A batch of groups: `rows` (n_groups, largest, n_features), and `real` (n_groups, largest), False for padding."""

    rows: torch.Tensor
    real: torch.Tensor


class GroupRows:
    """The rows of groups, scaled to norm 1 and sparse until `batch` makes tensors of them.

    Parameters
    ----------
    X
        (n_rows, n_features) CSR array; empty rows are allowed.
    groups
        (n_rows, n_groups) 0/1 CSR array, or None if every row is its own group.

    Examples
    --------
    >>> X = sparse.csr_array(np.eye(3, dtype=np.float32))
    >>> batch = GroupRows(X, sparse.csr_array([[1, 0], [0, 1], [0, 1]])).batch(np.array([0, 1]))
    >>> batch.real.tolist(), batch.rows[1].tolist()
    ([[True, False], [True, True]], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    """

    def __init__(self, X: sparse.csr_array, groups: sparse.csr_array | None) -> None:
        self.X = normalize_rows(X)
        if groups is None:
            self.starts = np.arange(X.shape[0] + 1)
            self.members = np.arange(X.shape[0])
        else:
            by_group = sparse.csr_array(groups.T)
            by_group.sort_indices()
            self.starts, self.members = by_group.indptr, by_group.indices

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.starts.size) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of each group."""
        return np.diff(self.starts).astype(np.int64)

    def batch(self, groups: NDArray[np.integer], device: str = "cpu") -> GroupBatch:
        """Return the rows of some groups as tensors; groups without rows are all padding."""
        sizes = self.sizes[groups]
        largest = max(1, int(sizes.max(initial=0)))
        real = np.arange(largest) < sizes[:, None]
        rows = self.members[np.concatenate([np.arange(self.starts[g], self.starts[g + 1]) for g in groups])]
        padded = np.zeros((len(groups), largest, self.X.shape[1]), dtype=np.float32)
        padded[real] = self.X[rows].toarray()
        return GroupBatch(torch.from_numpy(padded).to(device), torch.from_numpy(real).to(device))

    def by_size(self, n_cells: int) -> list[NDArray[np.int64]]:
        """Return batches of groups of similar sizes, each of at most `n_cells` rows including padding."""
        order = np.argsort(self.sizes, kind="stable").astype(np.int64)
        found, begin = [], 0
        for end in range(1, order.size + 1):
            full = end < order.size and (end + 1 - begin) * int(self.sizes[order[end]]) > n_cells
            if full or end == order.size:
                found.append(order[begin:end])
                begin = end
        return found


class MimlModule(nn.Module):
    """Rows -> hidden layer -> logits of the concepts of each label -> maximum over concepts -> maximum over rows.

    Parameters
    ----------
    n_features, hidden, concepts, n_labels
        Sizes; ``hidden=0`` omits the hidden layer.
    spread
        Factor for the rows, which have norm 1: with the square root of the average number of features of a row, each
        feature is about 1.
    embeddings
        (n_labels, n_features) label embeddings for the attention, or None (Deep-MIML).
    sharpness
        τ: 0 gives all rows of a group the same attention.
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
        """Return the (n_groups, n_labels) logits; groups without rows have only the bias."""
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
