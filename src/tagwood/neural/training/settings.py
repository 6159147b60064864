"""What a training run is told, and what it tells: settings, the moment it is at, its history."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tagwood._check import check_choice, check_float, check_int
from tagwood.errors import InputError

# SECTION neural.training.optimizer
# What a step does to the weights: AdamW with parameter groups, and the learning rate over the steps.
#
# In: a module and settings. Out: an optimizer, and the factor of the learning rate at each step.


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


Rows = NDArray[np.int64]
# (epoch, random numbers of the epoch) -> the rows of each step.
Batches = Callable[[int, np.random.Generator], list[Rows]]
# (module, rows) -> mean loss of the rows.
Step = Callable[[nn.Module, Rows], torch.Tensor]


@dataclass(frozen=True)
class Training:
    """How a neural model is trained; `fit` adds the data.

    Parameters
    ----------
    epochs
        How often each row is seen, at most.
    batch_size
        Rows per step of the optimizer, in all processes together.
    learning_rate, weight_decay
        Of AdamW; biases and norms are never decayed.
    warm_up
        Share of the steps over which the learning rate rises.
    decay
        How it falls afterwards: ``"linear"`` or ``"cosine"`` to zero, or ``"constant"``.
    clip
        Largest norm of all gradients together; 0 clips nothing.
    accumulate
        Micro-batches per step: more take less memory.
    patience
        Epochs without a better held-out measure before training stops; 0 goes on to the end.
    checkpoint_minutes
        Time between checkpoints, where a folder for them is given; 0 writes one after every step.
    device
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
    compile
        Let torch.compile translate the module: slow to start, faster on long runs.
    """

    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warm_up: float = 0.1
    decay: str = "linear"
    clip: float = 1.0
    accumulate: int = 1
    patience: int = 0
    checkpoint_minutes: float = 10.0
    device: str = "cpu"
    compile: bool = False

    def check(self) -> None:
        """Raise `InputError` for a value that does not fit."""
        for name in ("epochs", "batch_size", "accumulate"):
            check_int(getattr(self, name), name, low=1)
        check_float(self.learning_rate, "learning_rate", above=0.0)
        check_float(self.weight_decay, "weight_decay", low=0.0)
        check_float(self.warm_up, "warm_up", low=0.0, high=1.0)
        check_choice(self.decay, "decay", DECAYS)
        check_float(self.clip, "clip", low=0.0)
        check_int(self.patience, "patience", low=0)
        check_float(self.checkpoint_minutes, "checkpoint_minutes", low=0.0)
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise InputError(
                "device must be one that torch can use here",
                given=f"{self.device!r} ({str(error).splitlines()[0][:80]})",
                hint="Use device='cpu'.",
            ) from error


@dataclass(frozen=True)
class Moment:
    """Where a run is, for those who watch it."""

    step: int
    n_steps: int
    epoch: int
    loss: float  # mean over the epoch so far
    rows_per_second: float
    seconds_left: float

    @property
    def share(self) -> float:
        """Return how much is done, from 0 to 1."""
        return self.step / max(1, self.n_steps)

    def __str__(self) -> str:
        minutes, seconds = divmod(round(self.seconds_left), 60)
        return (
            f"epoch {self.epoch + 1}, loss {self.loss:.4g}, {self.rows_per_second:,.0f} rows/s, "
            f"{minutes}:{seconds:02d} left"
        )


def in_words(progress: Callable[[str, float], None] | None) -> Callable[[Moment], None] | None:
    """Turn moments of a training into lines and shares for those who watch any model; None stays None."""
    if progress is None:
        return None
    return lambda moment: progress(f"network: {moment}", moment.share)


@dataclass
class History:
    """What happened: mean loss and held-out measure of each epoch, and which epoch's weights were kept."""

    losses: list[float] = field(default_factory=list)
    measures: list[float] = field(default_factory=list)
    best_epoch: int | None = None  # None: no measure was given, the last weights were kept
    steps: int = 0
    seconds: float = 0.0
