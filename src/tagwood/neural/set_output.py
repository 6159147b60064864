"""The output layer of set networks: full, with a bottleneck, or over some labels only.

In: (..., n_features) features of decoder steps. Out: logits, one column per label and one for ∅ or the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

LOW = (
    -1e4
)  # logit of a label that is no candidate: its probability is 0 in float32, and no gradient comes from it


class Columns(NamedTuple):
    """The labels that the columns of each row's logits stand for.

    Parameters
    ----------
    labels
        (n_rows, n_columns) label numbers: rising, then ∅ or the end as often as it takes to fill up; the last counts.
    allowed
        (n_rows, n_columns) False for columns that are there to fill up.
    """

    labels: torch.Tensor
    allowed: torch.Tensor

    def rows(self, index: torch.Tensor) -> Columns:
        """Return the columns of some rows."""
        return Columns(self.labels[index], self.allowed[index])

    def places(self, labels: torch.Tensor) -> torch.Tensor:
        """Return the columns of (n_rows, n) labels that each row has among its own, ∅ or the end too."""
        last = self.labels.shape[1] - 1
        found = torch.searchsorted(self.labels[:, :-1].contiguous(), labels.contiguous())
        return torch.where(labels == self.labels[:, -1:], last, found)


class OutputWeights(NamedTuple):
    """The last layer for some rows: all labels, (n_outputs, width), or own columns, (n_rows, n_columns, width)."""

    weight: torch.Tensor
    bias: torch.Tensor
    columns: Columns | None

    def rows(self, index: torch.Tensor) -> OutputWeights:
        """Return the weights of some rows."""
        if self.columns is None:
            return self
        return OutputWeights(self.weight[index], self.bias[index], self.columns.rows(index))

    def detached(self) -> OutputWeights:
        """Return the weights without their history."""
        return OutputWeights(self.weight.detach(), self.bias.detach(), self.columns)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return (n_rows, n_steps, n_columns) logits of (n_rows, n_steps, width), or both without steps."""
        if self.columns is None:
            return nn.functional.linear(hidden, self.weight, self.bias)
        steps = hidden[:, None] if hidden.ndim == 2 else hidden
        found = torch.baddbmm(self.bias[:, None], steps, self.weight.transpose(1, 2))
        found = found.masked_fill(~self.columns.allowed[:, None], LOW)
        return found[:, 0] if hidden.ndim == 2 else found

    def names(self, column: torch.Tensor) -> torch.Tensor:
        """Return the labels of (n_rows,) or (n_rows, n) columns."""
        if self.columns is None:
            return column
        wide = column[:, None] if column.ndim == 1 else column
        return self.columns.labels.gather(1, wide).view_as(column)


class SetOutput(nn.Module):
    """Features to logits (Eq. 9, and Eq. 10 with a bottleneck).

    Parameters
    ----------
    n_features, n_outputs
        Sizes; the last output is ∅ or the end.
    bottleneck
        Size of the layer between, 0 for none.
    """

    def __init__(self, n_features: int, n_outputs: int, bottleneck: int = 0) -> None:
        super().__init__()
        self.narrow = nn.Linear(n_features, bottleneck) if bottleneck else None
        width = bottleneck or n_features
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(n_outputs, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(n_outputs))

    def hidden(self, features: torch.Tensor) -> torch.Tensor:
        """Return what the last layer takes."""
        return features if self.narrow is None else torch.tanh(self.narrow(features))

    def forward(self, columns: Columns | None = None) -> OutputWeights:
        """Return the last layer, for all labels or for the columns of each row."""
        if columns is None:
            return OutputWeights(self.weight, self.bias, None)
        return OutputWeights(
            nn.functional.embedding(columns.labels, self.weight), self.bias[columns.labels], columns
        )


class KnownLogits(torch.autograd.Function):
    """Logits that were computed already, with their gradient.

    With student forcing each step needs the logits of the one before. Computing them without a graph, and giving the
    gradient of all steps at once, makes the gradient of the weights one product instead of one per step.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, logits: torch.Tensor
    ) -> torch.Tensor:
        """Take hidden (..., n, width), weight (..., n_outputs, width), bias, and their logits (..., n, n_outputs)."""
        ctx.save_for_backward(hidden, weight)
        return logits

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        """Return the gradients of a linear layer."""
        (grad,) = grads
        hidden, weight = ctx.saved_tensors
        return grad @ weight, grad.transpose(-1, -2) @ hidden, grad.sum(dim=-2), None
