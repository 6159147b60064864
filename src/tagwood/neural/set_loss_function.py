"""The autograd function behind `set_loss`: matching, transport and the gradient of both, on checked inputs.

In: logits (rows, steps, outputs), embeddings of the outputs (of all rows, or of each row its own) or None, targets
padded with -1. Out: the loss, and its two parts as numbers. `set_loss` has the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import once_differentiable

from tagwood.neural.set_loss_matching import match_labels
from tagwood.neural.set_loss_transport import transport_plan

if TYPE_CHECKING:
    from tagwood.neural.set_loss import SetLossOptions

SHORTEST = 1e-8  # vectors shorter than this count as this long in a cosine
LEAST_SURE = 1e-30  # probabilities below are not exact enough for a logarithm


class SetLossFunction(torch.autograd.Function):
    """L_b / divisor + λ L_ot, and its gradient for logits and embeddings."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: torch.Tensor,
        vectors: torch.Tensor | None,
        targets: torch.Tensor,
        empty: int,
        options: SetLossOptions,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss and its two parts; keep what the gradient needs."""
        n_rows = max(1, logits.shape[0])
        p = torch.softmax(logits, dim=2)
        wanted, weights = _assign(p, targets, empty, options)
        weights = weights / (n_rows * options.divisor)
        matching = -(weights * _log_probabilities(p, logits, wanted)).sum()
        if vectors is None:
            transport, flow = matching.new_zeros(()), None
            ctx.save_for_backward(p, wanted, weights)
        else:
            real_steps = wanted != empty if options.steps == "matched" else None
            transport, flow = _transport(p, vectors, targets, real_steps, options)
            transport = transport / n_rows
            scale = options.ot_weight / n_rows
            ctx.save_for_backward(
                p, wanted, weights, vectors, flow.to_q * scale, flow.q, flow.to_labels * scale, targets
            )
        parts = torch.stack([matching, transport])
        ctx.mark_non_differentiable(parts)
        return matching + options.ot_weight * transport, parts

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients for logits and embeddings."""
        p, wanted, weights, *rest = ctx.saved_tensors
        weights = weights * gradient
        for_vectors = None
        if rest:
            vectors, to_q, q, to_labels, targets = rest
            to_q = to_q * gradient
            for_logits = _spread(to_q, weights - (to_q * q).sum(dim=2), vectors).mul_(p)
            if ctx.needs_input_grad[1]:
                own = _for_own_vectors if vectors.ndim == 3 else _for_vectors
                for_vectors = own(p, to_q, to_labels * gradient, targets)
        else:
            for_logits = p * weights[:, :, None]
        for_logits.scatter_add_(2, wanted[:, :, None], -weights[:, :, None])
        return for_logits, for_vectors, None, None, None


@dataclass(frozen=True)
class Flow:
    """What the gradient of the transport needs: q, dL_ot/dq and dL_ot/dE[label] of each row's labels."""

    q: torch.Tensor
    to_q: torch.Tensor
    to_labels: torch.Tensor


def _assign(
    p: torch.Tensor, targets: torch.Tensor, empty: int, options: SetLossOptions
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output that each step is to say, and the step's weight."""
    real = targets >= 0
    order = torch.argsort(real.to(torch.int8), dim=1, descending=True, stable=True)  # padding goes last
    labels = targets.gather(1, order)
    columns = labels.clamp_min(0)[:, None, :].expand(-1, p.shape[1], -1)
    places = match_labels(p.gather(2, columns), real.sum(dim=1), options.scheme)
    said = labels.gather(1, places.clamp_min(0))
    wanted = torch.where(places >= 0, said, empty)
    weights = p.new_full(wanted.shape, options.empty_weight).masked_fill_(places >= 0, 1.0)
    return wanted, weights


def _log_probabilities(p: torch.Tensor, logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return ln p of the wanted outputs; steps where p is nearly 0 are computed anew from the logits."""
    chosen = p.gather(2, wanted[:, :, None])[:, :, 0]
    found = chosen.clamp_min(LEAST_SURE).log()
    unsure = chosen < LEAST_SURE
    if unsure.any():
        few = logits[unsure]
        exact = few.gather(1, wanted[unsure][:, None])[:, 0] - torch.logsumexp(few, dim=1)
        found[unsure] = exact
    return found


def _transport(
    p: torch.Tensor,
    vectors: torch.Tensor,
    targets: torch.Tensor,
    real_steps: torch.Tensor | None,
    options: SetLossOptions,
) -> tuple[torch.Tensor, Flow]:
    """Return the cost of the plans of all rows (Eq. 14 to 16), and its gradient."""
    q = p @ vectors
    labels = _label_vectors(vectors, targets)
    q_length, label_length = (x.norm(dim=2, keepdim=True) for x in (q, labels))
    q_unit, label_unit = q / q_length.clamp_min(SHORTEST), labels / label_length.clamp_min(SHORTEST)
    cosines = torch.bmm(q_unit, label_unit.transpose(1, 2))
    real = targets >= 0
    plan = transport_plan(1.0 - cosines, real, real_steps, beta=options.beta, iterations=options.iterations)
    agreed = plan * cosines
    total = plan.sum() - agreed.sum()
    along_q = agreed.sum(dim=2, keepdim=True) * q_unit * (q_length > SHORTEST)
    to_q = (along_q - torch.bmm(plan, label_unit)) / q_length.clamp_min(SHORTEST)
    along_labels = agreed.sum(dim=1)[:, :, None] * label_unit * (label_length > SHORTEST)
    to_labels = (along_labels - torch.bmm(plan.transpose(1, 2), q_unit)) / label_length.clamp_min(SHORTEST)
    return total, Flow(q, to_q, to_labels)


def _label_vectors(vectors: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the embeddings of each row's labels; those of padding are any."""
    columns = targets.clamp_min(0)
    if vectors.ndim == 2:
        return vectors[columns]
    return vectors.gather(1, columns[:, :, None].expand(-1, -1, vectors.shape[2]))


def _spread(to_q: torch.Tensor, weights: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Return E u + weights: one matrix product, the weights being a column of their own."""
    left = torch.cat([to_q, weights[:, :, None]], dim=2)
    right = torch.cat([vectors, vectors.new_ones(*vectors.shape[:-1], 1)], dim=-1)
    return left @ right.transpose(-1, -2)


def _for_vectors(
    p: torch.Tensor, to_q: torch.Tensor, to_labels: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """Return the gradient for the embeddings: through every q, and as the labels that q is compared with."""
    found = p.flatten(0, 1).T @ to_q.flatten(0, 1)
    real = targets >= 0
    return found.index_add_(0, targets[real], to_labels[real])


def _for_own_vectors(
    p: torch.Tensor, to_q: torch.Tensor, to_labels: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """Return the same where each row has embeddings of its own."""
    found = torch.bmm(p.transpose(1, 2), to_q)
    columns = targets.clamp_min(0)[:, :, None].expand(-1, -1, to_q.shape[2])
    return found.scatter_add_(1, columns, to_labels * (targets >= 0)[:, :, None])
