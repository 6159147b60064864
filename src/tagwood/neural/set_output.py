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
    """The labels that the columns of some logits stand for.

    Parameters
    ----------
    labels
        (n_columns,) label numbers, the last one is ∅ or the end.
    allowed
        (n_rows, n_columns) which of them each row may have.
    """

    labels: torch.Tensor
    allowed: torch.Tensor

    def rows(self, index: torch.Tensor) -> Columns:
        """Return the columns of some rows."""
        return Columns(self.labels, self.allowed[index])


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

    def weights(self, columns: Columns | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return weight and bias of the last layer, of all labels or of some."""
        if columns is None:
            return self.weight, self.bias
        return self.weight.index_select(0, columns.labels), self.bias.index_select(0, columns.labels)

    def forward(self, features: torch.Tensor, columns: Columns | None = None) -> torch.Tensor:
        """Return (n_rows, n_columns) logits of one step."""
        weight, bias = self.weights(columns)
        return restrict(nn.functional.linear(self.hidden(features), weight, bias), columns)


def restrict(logits: torch.Tensor, columns: Columns | None) -> torch.Tensor:
    """Return logits of one step with labels that are no candidates of a row left out."""
    return logits if columns is None else logits.masked_fill(~columns.allowed, LOW)


class KnownLogits(torch.autograd.Function):
    """Logits that were computed already, with their gradient.

    With student forcing each step needs the logits of the one before. Computing them without a graph, and giving the
    gradient of all steps at once, makes the gradient of the weights one product instead of one per step.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, logits: torch.Tensor
    ) -> torch.Tensor:
        """Take hidden (n, width), weight (n_outputs, width), bias, and their logits (n, n_outputs)."""
        ctx.save_for_backward(hidden, weight)
        return logits

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        """Return the gradients of a linear layer."""
        (grad,) = grads
        hidden, weight = ctx.saved_tensors
        return grad @ weight, grad.T @ hidden, grad.sum(dim=0), None
