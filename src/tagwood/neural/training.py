"""`train`: the training loop of all neural models. In: a module, batches of row numbers, a loss. Out: trained weights.

A model supplies a function from row numbers to a loss. The loop adds AdamW with warm-up and decay, gradient clipping,
checkpoints, early stopping, progress reports, and data-parallel steps in a `torch.distributed` process group.

Decisions
---------
* `batch_size` counts the rows of one optimizer step over all processes, so the number of processes changes the speed
  but not the result.
* The batches of an epoch are planned at its start and stored in checkpoints, because a plan may depend on the weights
  at that moment.
* A checkpoint is one file, replaced atomically, with everything needed to resume bit for bit. It holds tensors and
  plain values only and is read with ``torch.load(weights_only=True)``.
* Random numbers come from a fork of torch's generator; the caller's generator is left unchanged.
"""

from __future__ import annotations

import json
import math
import pickle
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tagwood._check import check_choice, check_float, check_int
from tagwood.errors import InputError, StorageError, TagwoodError
from tagwood.models.base import Progress
from tagwood.neural.processes import (
    average_gradients,
    broadcast_weights,
    from_first,
    gather_objects,
    share_of,
    world,
)
from tagwood.neural.torch_state import PRECISIONS, check_device, mixed_precision
from tagwood.storage.publish import replace_path

Rows = NDArray[np.int64]
# (epoch, random generator of the epoch) -> the rows of each step.
Batches = Callable[[int, np.random.Generator], list[Rows]]
# (module, rows) -> mean loss of the rows.
Step = Callable[[nn.Module, Rows], torch.Tensor]

DECAYS = ("linear", "cosine", "constant")
_FILE = "checkpoint.pt"
_FORMAT = 1


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
    precision
        Precision of the network's matrix products: ``"float32"``; ``"bfloat16"``; ``"auto"``: bfloat16 on GPUs that
        support it. Weights, scores and losses are float32 in any case.
    """

    fewest_epochs: ClassVar[int] = 1
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
    precision: str = "auto"

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        check_int(self.epochs, "epochs", low=self.fewest_epochs)
        check_int(self.batch_size, "batch_size", low=1)
        check_float(self.learning_rate, "learning_rate", above=0.0)
        check_float(self.weight_decay, "weight_decay", low=0.0)
        check_float(self.warm_up, "warm_up", low=0.0, high=1.0)
        check_choice(self.decay, "decay", DECAYS)
        check_float(self.clip, "clip", low=0.0)
        check_int(self.patience, "patience", low=0)
        check_float(self.checkpoint_minutes, "checkpoint_minutes", low=0.0)
        check_device(self.device)
        check_choice(self.precision, "precision", PRECISIONS)


@dataclass
class History:
    """Mean loss and held-out measure of each epoch, and the epoch whose weights were kept."""

    losses: list[float] = field(default_factory=list)
    measures: list[float] = field(default_factory=list)
    best_epoch: int | None = None  # None: there was no measure and the last weights were kept
    steps: int = 0
    seconds: float = 0.0


def train(
    module: nn.Module,
    batches: Batches,
    step: Step,
    settings: Training,
    *,
    seed: int = 0,
    evaluate: Callable[[nn.Module], float] | None = None,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    no_decay: tuple[str, ...] = (),
    shared_loss: bool = False,
) -> History:
    """Train a module in place, and leave it in evaluation mode on the CPU.

    Parameters
    ----------
    module
        The module to train. Buffers (such as momentum averages) are stored in checkpoints too.
    batches
        Plans the rows of each step of an epoch, such as `shuffled`.
    step
        Returns the mean loss of some rows.
    settings, seed
        The same seed gives the same weights on the CPU with the same number of torch threads.
    evaluate
        Held-out measure, higher is better, called after each epoch in the first process. The best weights are kept.
    folder
        Folder for checkpoints; an interrupted run resumes from it. The checkpoint is removed at the end.
    progress
        Called after every step with a line of text and the completed fraction.
    no_decay
        See `make_optimizer`.
    shared_loss
        True if `step` returns the loss of the rows of all processes (see `gather_rows`) instead of its own rows.
    """
    settings.check()
    cuda = [torch.device(settings.device)] if settings.device.startswith("cuda") else []
    with torch.random.fork_rng(devices=cuda):
        torch.manual_seed(seed + 1_000_003 * world()[0])
        module.to(settings.device)
        optimizer = make_optimizer(module, settings.learning_rate, settings.weight_decay, no_decay)
        run = _Run(module, optimizer, batches, step, settings, seed, shared_loss)
        if folder is not None:
            run.resume(Path(folder))
        return run.finish(evaluate, progress)


def shuffled(n_rows: int, batch_size: int) -> Batches:
    """Return batches of all rows in a new random order each epoch."""

    def plan(epoch: int, random: np.random.Generator) -> list[Rows]:
        order = random.permutation(n_rows).astype(np.int64)
        return [order[at : at + batch_size] for at in range(0, n_rows, batch_size)]

    return plan


def make_optimizer(
    module: nn.Module, learning_rate: float, weight_decay: float, no_decay: tuple[str, ...] = ()
) -> torch.optim.AdamW:
    """Return AdamW over the weights that require a gradient.

    Vectors (biases, norms) are not decayed, nor weights whose names start with one of `no_decay`.
    """
    groups: dict[float, dict[str, nn.Parameter]] = {}
    for name, weight in module.named_parameters():
        if weight.requires_grad:
            decay = 0.0 if weight.ndim < 2 or name.startswith(no_decay) else weight_decay
            groups.setdefault(decay, {})[name] = weight
    return torch.optim.AdamW(
        [
            {"params": list(weights.values()), "names": list(weights), "weight_decay": decay}
            for decay, weights in groups.items()
        ],
        lr=learning_rate,
    )


def rate_factor(step: int, n_steps: int, warm_up: float, decay: str) -> float:
    """Return the factor of the learning rate at a step, counted from 0.

    It rises linearly over the first ``warm_up * n_steps`` steps; then it falls to zero after the last step, or stays 1.

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


class _Run:
    """The state of a run: everything that changes from step to step and goes into a checkpoint."""

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.AdamW,
        batches: Batches,
        step: Step,
        settings: Training,
        seed: int,
        shared_loss: bool,
    ) -> None:
        self.module, self.batches, self.step, self.settings = module, batches, step, settings
        self.seed, self.optimizer, self.shared_loss = seed, optimizer, shared_loss
        self.rank, self.size = world()
        self.weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        self.folder: Path | None = None
        self.saved = time.perf_counter()
        self.history = History()
        self.epoch, self.done, self.n_steps, self.rows_seen, self.loss_sum = 0, 0, 0, 0, 0.0
        self.plan: list[Rows] = []
        self.best: dict[str, torch.Tensor] | None = None
        broadcast_weights(module)

    def finish(self, evaluate: Callable[[nn.Module], float] | None, progress: Progress | None) -> History:
        """Run from the current position to the end."""
        began, before, seen = time.perf_counter(), self.history.seconds, 0
        self.saved = began
        while self.epoch < self.settings.epochs and not self._out_of_patience():
            self._begin_epoch()
            while self.done < len(self.plan):
                rows = self.plan[self.done]
                save_now = self._one_step(rows)
                seen += rows.size
                self.history.seconds = before + time.perf_counter() - began
                if save_now:
                    self._save()
                if progress is not None:
                    speed = seen / max(time.perf_counter() - began, 1e-9)
                    progress(self._report(speed), self.history.steps / self.n_steps)
            self._end_epoch(evaluate)
        if self.best is not None:
            self.module.load_state_dict(self.best)
        self.module.cpu().eval()
        if self.folder is not None and self.rank == 0:
            (self.folder / _FILE).unlink(missing_ok=True)
        return self.history

    def _report(self, speed: float) -> str:
        left = (self.n_steps - self.history.steps) * self.settings.batch_size / speed
        minutes, seconds = divmod(round(left), 60)
        loss = self.loss_sum / self.rows_seen
        return f"network: epoch {self.epoch + 1}, loss {loss:.4g}, {speed:,.0f} rows/s, {minutes}:{seconds:02d} left"

    def _begin_epoch(self) -> None:
        if self.done == 0:
            plan = self.batches(self.epoch, np.random.default_rng([self.seed, self.epoch]))
            self.plan = from_first(plan)
            self.loss_sum, self.rows_seen = 0.0, 0
        if self.n_steps == 0:
            self.n_steps = self.settings.epochs * len(self.plan)
        self.module.train()

    def _one_step(self, rows: Rows) -> bool:
        """Update the weights; return whether a checkpoint is due, as decided by the first process."""
        factor = rate_factor(self.history.steps, self.n_steps, self.settings.warm_up, self.settings.decay)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * factor
        self.optimizer.zero_grad(set_to_none=True)
        waited = time.perf_counter() - self.saved
        due = self.rank == 0 and self.folder is not None and waited >= 60 * self.settings.checkpoint_minutes
        loss, save_now = average_gradients(self.weights, [self._gradients(rows), float(due)])
        if not math.isfinite(loss):
            raise TagwoodError(
                f"the loss must stay finite; it is {loss} at step {self.history.steps + 1:,}",
                hint="Try a lower learning_rate, a longer warm_up, or clip=1.",
            )
        if self.settings.clip:
            nn.utils.clip_grad_norm_(self.weights, self.settings.clip)
        self.optimizer.step()
        self.done += 1
        self.history.steps += 1
        self.loss_sum += loss * rows.size
        self.rows_seen += int(rows.size)
        return save_now > 0

    def _gradients(self, rows: Rows) -> float:
        """Compute the gradients of this process's rows, weighted by their share of the batch; return their loss."""
        own = share_of(rows, self.rank, self.size)
        if own.size == 0 and not self.shared_loss:
            return 0.0
        with mixed_precision(self.settings.device, self.settings.precision):
            loss = self.step(self.module, own)
        if not self.shared_loss:
            loss = loss * (own.size * self.size / rows.size)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def _end_epoch(self, evaluate: Callable[[nn.Module], float] | None) -> None:
        self.history.losses.append(self.loss_sum / max(1, self.rows_seen))
        if evaluate is not None:
            self.module.eval()
            with torch.no_grad():
                measure = from_first(float(evaluate(self.module)) if self.rank == 0 else 0.0)
            self.history.measures.append(measure)
            if self.best is None or measure > max(self.history.measures[:-1]):
                weights = self.module.state_dict()
                self.best = {name: value.detach().cpu().clone() for name, value in weights.items()}
                self.history.best_epoch = self.epoch
        self.epoch, self.done = self.epoch + 1, 0

    def _out_of_patience(self) -> bool:
        best, patience = self.history.best_epoch, self.settings.patience
        return patience > 0 and best is not None and self.epoch - 1 - best >= patience

    def _description(self) -> str:
        """Return what a checkpoint must match to belong to this run; the device and the interval may change."""
        free = ("device", "checkpoint_minutes")
        settings = {name: value for name, value in asdict(self.settings).items() if name not in free}
        shapes = {name: list(value.shape) for name, value in self.module.state_dict().items()}
        processes = [] if self.size == 1 else [self.size]
        return json.dumps([settings, shapes, *processes, self.seed], sort_keys=True)

    def _save(self) -> None:
        """Write a checkpoint in the first process; every process contributes the state of its random generators."""
        random = [torch.get_rng_state()]
        if self.settings.device.startswith("cuda"):
            random.append(torch.cuda.get_rng_state(torch.device(self.settings.device)))
        states = gather_objects(random)
        self.saved = time.perf_counter()
        if self.rank != 0 or self.folder is None:
            return
        content = {
            "format": _FORMAT,
            "description": self._description(),
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": states[0] if self.size == 1 else states,
            "position": [self.epoch, self.done, self.n_steps, self.rows_seen],
            "loss_sum": self.loss_sum,
            "plan": [torch.from_numpy(rows) for rows in self.plan],
            "history": asdict(self.history),
            "best": self.best,
        }
        with replace_path(self.folder / _FILE, overwrite=True) as place:  # a crash leaves the previous checkpoint
            torch.save(content, place)

    def resume(self, folder: Path) -> None:
        """Load the checkpoint of the folder, if there is one; later checkpoints are written there."""
        self.folder = folder
        if not (folder / _FILE).exists():
            return
        found = _read_checkpoint(folder / _FILE, self._description())
        self.module.load_state_dict(found["module"])
        self.optimizer.load_state_dict(found["optimizer"])
        random = found["random"] if self.size == 1 else found["random"][self.rank]
        torch.set_rng_state(random[0])
        if len(random) > 1 and self.settings.device.startswith("cuda"):
            torch.cuda.set_rng_state(random[1], torch.device(self.settings.device))
        self.epoch, self.done, self.n_steps, self.rows_seen = found["position"]
        self.loss_sum = found["loss_sum"]
        self.plan = [rows.numpy() for rows in found["plan"]]
        self.history = History(**found["history"])
        self.best = found["best"]


def _read_checkpoint(path: Path, description: str) -> dict[str, Any]:
    """Return the content of a checkpoint; it must match the description."""
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError, OSError) as error:
        raise StorageError(
            f"not a readable checkpoint ({type(error).__name__})",
            path=path,
            hint="Delete it to restart the training.",
        ) from error
    if content.get("format") != _FORMAT:
        raise StorageError("a checkpoint of another version of tagwood", path=path, hint="Delete it.")
    if content.get("description") != description:
        raise InputError(
            f"{path} must belong to this training run",
            given="a checkpoint of other settings, data or weights",
            hint="Use the settings it was started with, or delete it to restart the training.",
        )
    return content
