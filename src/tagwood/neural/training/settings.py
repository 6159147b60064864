"""Settings, progress and history of a training run, and the types of the functions a model supplies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tagwood._check import check_choice, check_float, check_int
from tagwood.errors import InputError

Rows = NDArray[np.int64]
# (epoch, random generator of the epoch) -> the rows of each step.
Batches = Callable[[int, np.random.Generator], list[Rows]]
# (module, rows) -> mean loss of the rows.
Step = Callable[[nn.Module, Rows], torch.Tensor]

DECAYS = ("linear", "cosine", "constant")


@dataclass(frozen=True)
class Training:
    """How a neural model is trained.

    Parameters
    ----------
    epochs
        Maximum number of passes over the rows.
    batch_size
        Rows per optimizer step, over all processes together.
    learning_rate, weight_decay
        Of AdamW. Biases and norms are never decayed.
    warm_up
        Fraction of the steps over which the learning rate rises.
    decay
        How the learning rate falls afterwards: ``"linear"`` or ``"cosine"`` to zero, or ``"constant"``.
    clip
        Maximum norm of the gradient; 0 disables clipping.
    patience
        Stop after this many epochs without a better held-out measure; 0 never stops early.
    checkpoint_minutes
        Time between checkpoints if `fit` is given a folder; 0 writes one after every step.
    device
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
    """

    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warm_up: float = 0.1
    decay: str = "linear"
    clip: float = 1.0
    patience: int = 0
    checkpoint_minutes: float = 10.0
    device: str = "cpu"

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        check_int(self.epochs, "epochs", low=1)
        check_int(self.batch_size, "batch_size", low=1)
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
                "device must be available to torch",
                given=f"{self.device!r} ({str(error).splitlines()[0][:80]})",
                hint="Use device='cpu'.",
            ) from error


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of a run after a step."""

    step: int
    n_steps: int
    epoch: int
    loss: float  # mean over the epoch so far
    rows_per_second: float
    seconds_left: float

    @property
    def share(self) -> float:
        """Return the completed fraction of the run."""
        return self.step / max(1, self.n_steps)

    def __str__(self) -> str:
        minutes, seconds = divmod(round(self.seconds_left), 60)
        return (
            f"epoch {self.epoch + 1}, loss {self.loss:.4g}, {self.rows_per_second:,.0f} rows/s, "
            f"{minutes}:{seconds:02d} left"
        )


def progress_lines(
    progress: Callable[[str, float], None] | None,
) -> Callable[[TrainingProgress], None] | None:
    """Return a callback for `train` that reports progress as a line of text and a fraction; None stays None."""
    if progress is None:
        return None
    return lambda now: progress(f"network: {now}", now.share)


@dataclass
class History:
    """Mean loss and held-out measure of each epoch, and the epoch whose weights were kept."""

    losses: list[float] = field(default_factory=list)
    measures: list[float] = field(default_factory=list)
    best_epoch: int | None = None  # None: there was no measure and the last weights were kept
    steps: int = 0
    seconds: float = 0.0
