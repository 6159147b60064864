"""The loss of OTSeq2Set on label sets: matching plus transport, L_b + λ L_ot (Eq. 17), for a whole batch at once.

In: logits (rows, steps, outputs) and the label sets of the rows. Out: the loss, with a hand-written gradient: one
softmax, two matrix products and two element-wise passes over rows x steps x outputs.

Decisions
---------
* L_b is the sum over the steps (Eq. 13), L_ot one number per row, both averaged over rows. The authors' published code
  divides L_b by the weights of all steps, and λ = 8 belongs to that scale: `mean_row_weight` gives this divisor as a
  constant of the training set, so that a batch can still be split.
* Eq. 14 moves the mass of all steps to the labels, including steps that should generate ∅ (``"all"``); ``"matched"``
  moves only the steps that are matched with a label.
* The paper's rule for the scheme (§3.6) is printed as two sentences that describe the same rows and name different
  winners. Its Table 5 and the shapes of its datasets (AmazonCat-13K: a long tail of large sets, ``"first-n"`` won;
  Amazon-670K: most sets close to the largest size, ``"all"`` won) agree with `choose_scheme`.
* Transport plans are computed with IPOT (Xie et al. 2020): the proximal point method with one scaling of rows and
  columns per iteration. Its last iterate has exact sums over the steps and nearly exact sums over the labels; the
  rounding of Altschuler et al. (2017) corrects the rest.
* With p = softmax(z), q = Eᵀp, u = dL_ot/dq: dL/dz = p ∘ (w + λ (E u - u·q)) - w at the matched label, w the weight of
  the step. Where the cosine is not clamped, u·q = 0; Σ_v p_v (E u)_v is u·q, so it needs no pass over the outputs.
* The plan is a constant of the gradient (exact at the optimum by the envelope theorem).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from torch.autograd.function import once_differentiable

from tagwood.errors import InputError
from tagwood.neural.torch_state import full_precision

SCHEMES = ("all", "first-n")
STEPS = ("all", "matched")
_SMALLEST = 1e-30  # far below any relevant mass, far above the float32 minimum
_SHORTEST = 1e-8  # minimum length of a vector in a cosine
_LEAST_SURE = 1e-30  # probabilities below are too inexact for a logarithm


@dataclass(frozen=True)
class SetLossOptions:
    """Scheme and weights of `set_loss`; see `LossSettings`.

    L_b is divided by `divisor`: 1 is Eq. 13, `mean_row_weight` the scale of the authors' code. With `free_empty` the
    embedding of ∅ is zero in the transport, so that ∅ takes no part in it: cosines do not depend on how much of a
    step's probability the labels have.
    """

    scheme: str = "all"
    empty_weight: float = 0.2
    transport: float = 8.0
    divisor: float = 1.0
    transport_steps: str = "all"
    free_empty: bool = False


def set_loss(
    logits: torch.Tensor,
    targets: torch.Tensor,
    embeddings: torch.Tensor | None,
    *,
    empty: int,
    options: SetLossOptions,
) -> torch.Tensor:
    """Return the mean loss of the rows of a batch; it does not depend on the order of a row's labels.

    Parameters
    ----------
    logits
        (rows, steps, outputs), finite.
    targets
        (rows, most) labels of each row, padded with -1: at least one, no duplicates, at most as many as steps, no ∅.
    embeddings
        (outputs, dimensions) label embeddings E, or (rows, outputs, dimensions) where the outputs are different labels
        in each row; not used without transport. They get no gradient, as in the authors' code: embeddings that learn
        from the transport may collapse.
    empty
        The output of ∅.
    options
        Scheme and weights.

    Examples
    --------
    Two steps, three outputs, ∅ is output 2; the row has label 1. The better step for it is the second.

    >>> logits = torch.tensor([[[0.0, 0.0, 0.0], [0.0, 2.0, 0.0]]])
    >>> options = SetLossOptions(transport=0.0)
    >>> loss = set_loss(logits, torch.tensor([[1]]), None, empty=2, options=options)
    >>> round(float(loss), 4)  # 0.2 ln 3 + ln((2 + e²) / e²)
    0.4593
    """
    vectors = embeddings.detach() if embeddings is not None and options.transport else None
    with full_precision(logits.device):
        exact = logits.float() if logits.dtype == torch.bfloat16 else logits
        loss: torch.Tensor = _SetLoss.apply(exact, vectors, targets, empty, options)  # type: ignore[no-untyped-call]
    return loss


def mean_row_weight(sizes: ArrayLike, n_steps: int, empty_weight: float = 0.2) -> float:
    """Return the average total weight of a row's steps, n̄ + empty_weight x (steps - n̄): a `divisor` of L_b.

    Examples
    --------
    >>> mean_row_weight([4, 6], n_steps=25)
    9.0
    """
    mean = float(np.mean(np.asarray(sizes, dtype=np.float64)))
    return mean + empty_weight * (n_steps - mean)


def choose_scheme(sizes: ArrayLike) -> str:
    """Return the matching scheme for label sets of these sizes, by the rule of the paper's §3.6.

    It is ``"first-n"`` if more than half of the rows have at most the mean number of labels, else ``"all"``.

    Examples
    --------
    >>> choose_scheme([1, 1, 2, 2, 20]), choose_scheme([7, 7, 7, 2, 1])
    ('first-n', 'all')
    """
    counts = np.asarray(sizes, dtype=np.float64)
    return "first-n" if np.mean(counts <= counts.mean()) > 0.5 else "all"


def match_labels(probabilities: torch.Tensor, sizes: torch.Tensor, scheme: str = "all") -> torch.Tensor:
    """Return for each step the position of the label it is matched with, or -1 for none.

    The matching maximizes the sum of probabilities (Eq. 11 and 12): over all steps with ``"all"``, over the first n
    steps of a row with n labels with ``"first-n"``.

    `probabilities` (rows, steps, labels) are those of a row's own labels at each step; columns beyond its size, from 1
    to the number of steps, are padding.

    Examples
    --------
    >>> p = torch.tensor([[[0.1, 0.2], [0.2, 0.1], [0.3, 0.9]]])
    >>> match_labels(p, torch.tensor([2])), match_labels(p, torch.tensor([2]), "first-n")
    (tensor([[-1,  0,  1]]), tensor([[ 1,  0, -1]]))
    """
    values: NDArray[np.float32] = probabilities.detach().cpu().numpy()
    if not np.isfinite(values).all():
        raise InputError("logits must be finite", given="NaN or infinity", hint="Try a lower learning_rate or clip=1.")
    found = np.full(values.shape[:2], -1, dtype=np.int64)
    # One solver call per row: a batch takes less than a millisecond, and threads do not make it faster.
    for row, size in enumerate(sizes.tolist()):
        steps = values.shape[1] if scheme == "all" else size
        chosen, labels = linear_sum_assignment(values[row, :steps, :size], maximize=True)
        found[row, chosen] = labels
    return torch.from_numpy(found).to(probabilities.device)


def transport_plan(
    costs: torch.Tensor,
    real_labels: torch.Tensor,
    real_steps: torch.Tensor | None = None,
    *,
    beta: float = 0.5,
    iterations: int = 50,
) -> torch.Tensor:
    """Return the plans that move equal masses of the steps to equal masses of the labels at the lowest cost.

    The plan of a row does not depend on padding or on the other rows of the batch.

    Parameters
    ----------
    costs
        (rows, steps, labels), from 0 to 2. No gradient is recorded.
    real_labels
        (rows, labels), True for a label and False for padding; at least one label in each row.
    real_steps
        (rows, steps), or None if all are real.
    beta, iterations
        Step size of the proximal point method, at least 0.05: smaller values converge in fewer iterations. With the
        defaults, plans cost about 0.5 % more than the optimum.

    Returns
    -------
    (rows, steps, labels) plans: every real step sums to 1 / (its row's steps), every real label to 1 / (its row's
    labels), padding is 0.

    Examples
    --------
    >>> costs = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    >>> transport_plan(costs, torch.tensor([[True, True]])).round(decimals=3)
    tensor([[[0.5000, 0.0000],
             [0.0000, 0.5000]]])
    """
    with torch.no_grad():
        # The batch is the last axis, so that sums over steps and labels add vectors of rows.
        by_row = costs.permute(1, 2, 0).contiguous()
        step_mass = _masses(real_steps, by_row[:, 0])[:, None]
        label_mass = _masses(real_labels, by_row[0])[None]
        plan = _iterate(_kernel(by_row, step_mass, label_mass, beta), step_mass, label_mass, iterations)
        return _round(plan, step_mass, label_mass).permute(2, 0, 1).contiguous()


def _masses(real: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    """Return equal masses of the real entries, (steps or labels, rows), summing to 1 in each row."""
    masses = torch.ones_like(like) if real is None else real.T.to(like.dtype)
    return masses / masses.sum(dim=0).clamp_min(1.0)


def _kernel(costs: torch.Tensor, step_mass: torch.Tensor, label_mass: torch.Tensor, beta: float) -> torch.Tensor:
    """Return exp(-lowered costs / beta), 0 at padding.

    Subtracting the lowest cost of each step and then of each label does not change the plan, because scalings absorb
    it. Each real step and label then has an entry of 1, so nothing underflows in float32.
    """
    lowered = costs.masked_fill((step_mass <= 0) | (label_mass <= 0), torch.inf)
    lowered -= lowered.amin(dim=1, keepdim=True).masked_fill(step_mass <= 0, 0.0)
    lowered -= lowered.amin(dim=0, keepdim=True).masked_fill(label_mass <= 0, 0.0)
    return lowered.div_(-beta).exp_()


def _iterate(kernel: torch.Tensor, step_mass: torch.Tensor, label_mass: torch.Tensor, iterations: int) -> torch.Tensor:
    """Return the plan after the iterations; its sums over the steps are exact.

    The iterate is kept multiplied by the scalings of the labels, which saves a pass: with R = K ∘ plan ∘ s, an
    iteration is R ∘ d with d = step mass / row sums, then R ∘ r with r = label mass / column sums; s ∘ r is the new s.
    """
    scaling = label_mass
    plan = kernel * scaling
    for left in reversed(range(iterations)):
        plan *= step_mass / plan.sum(dim=1, keepdim=True).clamp_min_(_SMALLEST)
        change = label_mass / plan.sum(dim=0, keepdim=True).clamp_min_(_SMALLEST)
        if left:
            scaling = scaling * change
            plan *= change * scaling
            plan *= kernel
        else:
            plan *= change
    return plan


def _round(plan: torch.Tensor, step_mass: torch.Tensor, label_mass: torch.Tensor) -> torch.Tensor:
    """Return the plan with exact marginals: scale down what exceeds them, then distribute what is missing."""
    plan *= (step_mass / plan.sum(dim=1, keepdim=True).clamp_min_(_SMALLEST)).clamp_max_(1.0)
    plan *= (label_mass / plan.sum(dim=0, keepdim=True).clamp_min_(_SMALLEST)).clamp_max_(1.0)
    steps_miss = (step_mass - plan.sum(dim=1, keepdim=True)).clamp_min_(0.0)
    labels_miss = (label_mass - plan.sum(dim=0, keepdim=True)).clamp_min_(0.0)
    share = labels_miss / labels_miss.sum(dim=1, keepdim=True).clamp_min_(_SMALLEST)
    return plan.addcmul_(steps_miss, share)


class _SetLoss(torch.autograd.Function):
    """L_b / divisor + λ L_ot, and its gradient for the logits."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: torch.Tensor,
        vectors: torch.Tensor | None,
        targets: torch.Tensor,
        empty: int,
        options: SetLossOptions,
    ) -> torch.Tensor:
        n_rows = max(1, logits.shape[0])
        p = torch.softmax(logits, dim=2)
        wanted, weights = _assign(p, targets, empty, options)
        weights = weights / (n_rows * options.divisor)
        matching = -(weights * _log_probabilities(p, logits, wanted)).sum()
        if vectors is None:
            ctx.save_for_backward(p, wanted, weights)
            return matching
        real_steps = wanted != empty if options.transport_steps == "matched" else None
        transport, q, to_q = _transport(p, vectors, targets, real_steps)
        ctx.save_for_backward(p, wanted, weights, vectors, to_q * (options.transport / n_rows), q)
        return matching + options.transport * (transport / n_rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        p, wanted, weights, *rest = ctx.saved_tensors
        weights = weights * gradient
        if rest:
            vectors, to_q, q = rest
            to_q = to_q * gradient
            # E u + weights as one matrix product, with the weights as an extra column.
            left = torch.cat([to_q, (weights - (to_q * q).sum(dim=2))[:, :, None]], dim=2)
            right = torch.cat([vectors, vectors.new_ones(*vectors.shape[:-1], 1)], dim=-1)
            found = (left @ right.transpose(-1, -2)).mul_(p)
        else:
            found = p * weights[:, :, None]
        return found.scatter_add_(2, wanted[:, :, None], -weights[:, :, None]), None, None, None, None


def _assign(
    p: torch.Tensor, targets: torch.Tensor, empty: int, options: SetLossOptions
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output that each step should generate, and the step's weight."""
    real = targets >= 0
    order = torch.argsort(real.to(torch.int8), dim=1, descending=True, stable=True)  # padding goes last
    labels = targets.gather(1, order)
    columns = labels.clamp_min(0)[:, None, :].expand(-1, p.shape[1], -1)
    places = match_labels(p.gather(2, columns), real.sum(dim=1), options.scheme)
    wanted = torch.where(places >= 0, labels.gather(1, places.clamp_min(0)), empty)
    weights = p.new_full(wanted.shape, options.empty_weight).masked_fill_(places >= 0, 1.0)
    return wanted, weights


def _log_probabilities(p: torch.Tensor, logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return ln p of the wanted outputs; where p is almost 0, it is computed from the logits."""
    chosen = p.gather(2, wanted[:, :, None])[:, :, 0]
    found = chosen.clamp_min(_LEAST_SURE).log()
    unsure = chosen < _LEAST_SURE
    if unsure.any():
        few = logits[unsure]
        found[unsure] = few.gather(1, wanted[unsure][:, None])[:, 0] - torch.logsumexp(few, dim=1)
    return found


def _transport(
    p: torch.Tensor,
    vectors: torch.Tensor,
    targets: torch.Tensor,
    real_steps: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the cost of the plans of all rows (Eq. 14 to 16), q and dL_ot/dq."""
    q = p @ vectors
    columns = targets.clamp_min(0)
    if vectors.ndim == 2:
        labels = vectors[columns]
    else:
        labels = vectors.gather(1, columns[:, :, None].expand(-1, -1, vectors.shape[2]))
    q_length = q.norm(dim=2, keepdim=True)
    q_unit = q / q_length.clamp_min(_SHORTEST)
    label_unit = labels / labels.norm(dim=2, keepdim=True).clamp_min(_SHORTEST)
    cosines = torch.bmm(q_unit, label_unit.transpose(1, 2))
    real = targets >= 0
    plan = transport_plan(1.0 - cosines, real, real_steps)
    agreed = plan * cosines
    along_q = agreed.sum(dim=2, keepdim=True) * q_unit * (q_length > _SHORTEST)
    to_q = (along_q - torch.bmm(plan, label_unit)) / q_length.clamp_min(_SHORTEST)
    return plan.sum() - agreed.sum(), q, to_q
