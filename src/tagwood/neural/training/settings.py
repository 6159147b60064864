"""What a training run is told, and what it tells: settings, the moment it is at, its history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tagwood._check import check_choice, check_float, check_int
from tagwood.errors import InputError
from tagwood.neural.training.optimizer import DECAYS

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
