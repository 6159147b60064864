"""Optimal transport between the steps of a decoder and the labels of a row, a whole batch at once.

In: costs (rows, steps, labels) and masks of what is real. Out: one transport plan per row, by IPOT (Xie et al. 2020):
the proximal point method with one scaling of rows and columns per iteration.

Decisions
---------
* Costs are first lowered by the least cost of each step and then of each label. Scalings absorb that, so the plan is
  the same, but each real step and label keeps an entry of 1 in exp(-cost / beta): nothing vanishes in float32.
* The last iterate has exact sums over steps and nearly exact ones over labels. What is missing is filled in by the
  rounding of Altschuler et al. (2017), so the plan has both marginals up to rounding errors.
* The batch is the last axis while it iterates: sums over steps and over labels then add whole vectors of rows.
* The iterate is kept multiplied by the scalings of the labels, which saves a pass: with R = K ∘ plan ∘ s, one iteration
  is R ∘ d with d = steps' mass / row sums, then R ∘ r with r = labels' mass / column sums, s ∘ r the new s.
* Padding has mass 0 and cost 0; a plan does not depend on it or on the other rows of the batch.
"""

from __future__ import annotations

import torch

SMALLEST = 1e-30  # far below any mass that counts, far above what float32 cannot hold
LOWEST_BETA = 0.05  # scalings reach exp(2 / beta), and their squares must be floats


def transport_plan(
    costs: torch.Tensor,
    real_labels: torch.Tensor,
    real_steps: torch.Tensor | None = None,
    *,
    beta: float = 0.5,
    iterations: int = 50,
) -> torch.Tensor:
    """Return the plans that carry equal masses of the steps to equal masses of the labels at the least cost.

    Parameters
    ----------
    costs
        (rows, steps, labels), from 0 to 2. No gradient is recorded.
    real_labels
        (rows, labels), True for a label and False for padding; one or more labels in each row.
    real_steps
        (rows, steps), or None where all are real.
    beta
        Step of the proximal point method, at least 0.05: smaller ones come nearer to the optimum per iteration.
    iterations
        How many; 50 with ``beta=0.5`` cost about 0.5 % more than the optimum.

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
        by_row = costs.permute(1, 2, 0).contiguous()
        step_mass = _masses(real_steps, by_row[:, 0])[:, None]
        label_mass = _masses(real_labels, by_row[0])[None]
        plan = _iterate(_kernel(by_row, step_mass, label_mass, beta), step_mass, label_mass, iterations)
        return _round(plan, step_mass, label_mass).permute(2, 0, 1).contiguous()


def _masses(real: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    """Return equal masses of what is real, (steps or labels, rows), summing to 1 in each row."""
    masses = torch.ones_like(like) if real is None else real.T.to(like.dtype)
    return masses / masses.sum(dim=0).clamp_min(1.0)


def _kernel(
    costs: torch.Tensor, step_mass: torch.Tensor, label_mass: torch.Tensor, beta: float
) -> torch.Tensor:
    """Return exp(-lowered costs / beta), 0 at padding."""
    lowered = costs.masked_fill((step_mass <= 0) | (label_mass <= 0), torch.inf)
    lowered -= lowered.amin(dim=1, keepdim=True).masked_fill(step_mass <= 0, 0.0)
    lowered -= lowered.amin(dim=0, keepdim=True).masked_fill(label_mass <= 0, 0.0)
    return lowered.div_(-beta).exp_()


def _iterate(
    kernel: torch.Tensor, step_mass: torch.Tensor, label_mass: torch.Tensor, iterations: int
) -> torch.Tensor:
    """Return the plan after the iterations; its sums over the steps are exact."""
    scaling = label_mass
    plan = kernel * scaling
    for left in reversed(range(iterations)):
        plan *= step_mass / plan.sum(dim=1, keepdim=True).clamp_min_(SMALLEST)
        change = label_mass / plan.sum(dim=0, keepdim=True).clamp_min_(SMALLEST)
        if left:
            scaling = scaling * change
            plan *= change * scaling
            plan *= kernel
        else:
            plan *= change
    return plan


def _round(plan: torch.Tensor, step_mass: torch.Tensor, label_mass: torch.Tensor) -> torch.Tensor:
    """Return the plan with exact marginals: cut what is too much, then spread what is missing."""
    plan *= (step_mass / plan.sum(dim=1, keepdim=True).clamp_min_(SMALLEST)).clamp_max_(1.0)
    plan *= (label_mass / plan.sum(dim=0, keepdim=True).clamp_min_(SMALLEST)).clamp_max_(1.0)
    steps_miss = (step_mass - plan.sum(dim=1, keepdim=True)).clamp_min_(0.0)
    labels_miss = (label_mass - plan.sum(dim=0, keepdim=True)).clamp_min_(0.0)
    share = labels_miss / labels_miss.sum(dim=1, keepdim=True).clamp_min_(SMALLEST)
    return plan.addcmul_(steps_miss, share)
