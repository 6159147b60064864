"""What a step does to the weights: AdamW with parameter groups, and the learning rate over the steps.

In: a module and settings. Out: an optimizer, and the factor of the learning rate at each step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import nn

from tagwood.errors import InputError

DECAYS = ("linear", "cosine", "constant")


def make_optimizer(
    module: nn.Module,
    learning_rate: float,
    weight_decay: float,
    *,
    no_decay: Iterable[str] = (),
    rates: Mapping[str, float] | None = None,
) -> torch.optim.AdamW:
    """Return AdamW over the weights that are trained.

    Parameters
    ----------
    module
        What is trained; weights with ``requires_grad=False`` stay as they are.
    learning_rate, weight_decay
        For all weights that no rule below names. Vectors (biases, norms) are never decayed.
    no_decay
        Beginnings of the names of further weights without decay, such as a bank of free vectors.
    rates
        Beginning of a name -> factor of the learning rate; the longest beginning counts.

    Examples
    --------
    >>> groups = make_optimizer(nn.Linear(3, 2), 0.1, 0.01).param_groups
    >>> [(group["names"], group["weight_decay"]) for group in groups]
    [(['weight'], 0.01), (['bias'], 0.0)]
    """
    plain, factors = tuple(no_decay), dict(rates or {})
    names = [name for name, weight in module.named_parameters() if weight.requires_grad]
    for beginning in (*plain, *factors):
        if not any(name.startswith(beginning) for name in names):
            raise InputError(
                "a rule for weights must name the beginning of one",
                given=repr(beginning),
                hint=f"Weights: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}.",
            )
    groups: dict[tuple[float, float], list[str]] = {}
    weights = dict(module.named_parameters())
    for name in names:
        decay = 0.0 if weights[name].ndim < 2 or name.startswith(plain) else weight_decay
        fitting = [beginning for beginning in factors if name.startswith(beginning)]
        rate = learning_rate * (factors[max(fitting, key=len)] if fitting else 1.0)
        groups.setdefault((rate, decay), []).append(name)
    return torch.optim.AdamW(
        [
            {"params": [weights[n] for n in members], "names": members, "lr": rate, "weight_decay": decay}
            for (rate, decay), members in groups.items()
        ],
        lr=learning_rate,
    )


def rate_factor(step: int, n_steps: int, warm_up: float, decay: str) -> float:
    """Return the factor of the learning rate at a step, counted from 0.

    It rises linearly over the first ``warm_up * n_steps`` steps and then falls to zero after the last, or stays.

    Examples
    --------
    >>> [round(rate_factor(step, 10, 0.2, "linear"), 3) for step in (0, 1, 2, 6, 9, 12)]
    [0.5, 1.0, 1.0, 0.5, 0.125, 0.0]
    """
    first = round(warm_up * n_steps)
    if step < first:
        return (step + 1) / first
    if decay == "constant":
        return 1.0
    share = min(1.0, (step - first) / max(1, n_steps - first))
    return 1.0 - share if decay == "linear" else 0.5 * (1.0 + math.cos(math.pi * share))
