"""Baselines of `set_loss`: the published algorithm row by row, and the minimum that any loss must compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch.nn.functional import normalize

BETA, ITERATIONS, EMPTY_WEIGHT, OT_WEIGHT = 0.5, 50, 0.2, 8.0


def loop_plans(costs: torch.Tensor, sizes: Sequence[int]) -> list[torch.Tensor]:
    """Return the plan of each row by IPOT in torch, one row after the other."""
    return [one_plan(costs[row, :, :size]) for row, size in enumerate(sizes)]


def one_plan(costs: torch.Tensor) -> torch.Tensor:
    n_steps, n_labels = costs.shape
    kernel = torch.exp(-costs / BETA)
    plan, by_label = torch.ones_like(kernel), costs.new_full((n_labels,), 1.0 / n_labels)
    for _ in range(ITERATIONS):
        q = kernel * plan
        by_step = 1.0 / (n_steps * (q @ by_label))
        by_label = 1.0 / (n_labels * (q.T @ by_step))
        plan = by_step[:, None] * q * by_label
    return plan


def numpy_plans(costs: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the plan of each row by IPOT in NumPy, as in the authors' code."""
    plans = []
    for row, size in enumerate(sizes):
        kernel = np.exp(-costs[row, :, :size] / BETA)
        n_steps, n_labels = kernel.shape
        plan, by_label = np.ones_like(kernel), np.full(n_labels, 1.0 / n_labels, dtype=np.float32)
        for _ in range(ITERATIONS):
            q = kernel * plan
            by_step = 1.0 / (n_steps * (q @ by_label))
            by_label = 1.0 / (n_labels * (q.T @ by_step))
            plan = by_step[:, None] * q * by_label
        plans.append(plan)
    return plans


def loop_loss(
    logits: torch.Tensor, labels: Sequence[Sequence[int]], embeddings: torch.Tensor, empty: int
) -> torch.Tensor:
    """Return the loss row by row, with autograd: softmax and P·E of the batch at once, the rest in a loop.

    Rows are taken apart by `unbind`: with ``p[row]`` each row would cost a gradient as large as the batch.
    """
    whole = torch.softmax(logits, dim=2)
    parts = normalize(whole @ embeddings, dim=2).unbind()
    total = logits.new_zeros(())
    for p, q, own in zip(whole.unbind(), parts, labels, strict=True):
        wanted = torch.full((logits.shape[1],), empty)
        step, place = linear_sum_assignment(p.detach()[:, own].numpy(), maximize=True)
        wanted[step] = torch.tensor(own)[place]
        weights = torch.full((logits.shape[1],), EMPTY_WEIGHT)
        weights[step] = 1.0
        total = total - (weights * torch.log(p.gather(1, wanted[:, None])[:, 0])).sum()
        costs = 1.0 - q @ normalize(embeddings[own], dim=1).T
        with torch.no_grad():
            plan = one_plan(costs)
        total = total + OT_WEIGHT * (plan * costs).sum()
    return total / len(labels)


def floor(logits: torch.Tensor, embeddings: torch.Tensor, gradient: torch.Tensor) -> None:
    """Compute softmax and P·E, forward and backward: the minimum for a loss on all outputs."""
    (torch.softmax(logits, dim=2) @ embeddings).backward(gradient)
