"""`train`: the training loop, its optimizer, and its checkpoints.

In: a module, batches, a loss and `Training` settings. Out: the trained module and its `History`. A checkpoint is one
file, replaced atomically, with everything needed to resume bit for bit. It holds tensors and plain values only and is
read with ``torch.load(weights_only=True)``.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tagwood.errors import InputError, StorageError, TagwoodError
from tagwood.neural.training.processes import (
    average_gradients,
    broadcast_weights,
    from_first,
    gather_objects,
    share_of,
    world,
)
from tagwood.neural.training.settings import Batches, History, Rows, Step, Training, TrainingProgress

FILE = "checkpoint.pt"
_FORMAT = 1


def train(
    module: nn.Module,
    batches: Batches,
    step: Step,
    settings: Training,
    *,
    seed: int = 0,
    evaluate: Callable[[nn.Module], float] | None = None,
    folder: str | Path | None = None,
    progress: Callable[[TrainingProgress], None] | None = None,
    no_decay: Iterable[str] = (),
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
        Called after every step.
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
        optimizer = make_optimizer(module, settings.learning_rate, settings.weight_decay, no_decay=no_decay)
        run = _Run(module, optimizer, batches, step, settings, seed=seed, shared_loss=shared_loss)
        run.restore(None if folder is None else Path(folder))
        return run.finish(evaluate, progress)


def shuffled(n_rows: int, batch_size: int) -> Batches:
    """Return batches of all rows in a new random order each epoch.

    Examples
    --------
    >>> [batch.size for batch in shuffled(5, 2)(0, np.random.default_rng(0))]
    [2, 2, 1]
    """

    def plan(epoch: int, random: np.random.Generator) -> list[Rows]:
        order = random.permutation(n_rows).astype(np.int64)
        return [order[at : at + batch_size] for at in range(0, n_rows, batch_size)]

    return plan


def make_optimizer(
    module: nn.Module, learning_rate: float, weight_decay: float, *, no_decay: Iterable[str] = ()
) -> torch.optim.AdamW:
    """Return AdamW over the weights that require a gradient.

    Parameters
    ----------
    module
        The module to train.
    learning_rate, weight_decay
        Vectors (biases, norms) are never decayed.
    no_decay
        Prefixes of the names of further weights without decay, such as a bank of free vectors.

    Examples
    --------
    >>> groups = make_optimizer(nn.Linear(3, 2), 0.1, 0.01).param_groups
    >>> [(group["names"], group["weight_decay"]) for group in groups]
    [(['weight'], 0.01), (['bias'], 0.0)]
    """
    prefixes = tuple(no_decay)
    weights = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    for prefix in prefixes:
        if not any(name.startswith(prefix) for name in weights):
            known = list(weights)
            raise InputError(
                "no_decay must hold prefixes of weight names",
                given=repr(prefix),
                hint=f"Weights: {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}.",
            )
    groups: dict[float, list[str]] = {}
    for name, weight in weights.items():
        decay = 0.0 if weight.ndim < 2 or name.startswith(prefixes) else weight_decay
        groups.setdefault(decay, []).append(name)
    return torch.optim.AdamW(
        [
            {"params": [weights[name] for name in names], "names": names, "weight_decay": decay}
            for decay, names in groups.items()
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
        *,
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
        self.epoch, self.done, self.loss_sum, self.rows_seen = 0, 0, 0.0, 0
        self.plan: list[Rows] = []
        self.n_steps = 0
        self.best: dict[str, torch.Tensor] | None = None
        broadcast_weights(module)

    def finish(
        self,
        evaluate: Callable[[nn.Module], float] | None,
        progress: Callable[[TrainingProgress], None] | None,
    ) -> History:
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
                    progress(self._progress(seen / max(time.perf_counter() - began, 1e-9)))
            self._end_epoch(evaluate)
        if self.best is not None:
            self.module.load_state_dict(self.best)
        self.module.cpu().eval()
        if self.folder is not None and self.rank == 0:
            (self.folder / FILE).unlink(missing_ok=True)
        return self.history

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
        loss, save_now = average_gradients(
            self.weights, [self._gradients(rows), float(self._checkpoint_due())]
        )
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
        loss = self.step(self.module, own)
        if not self.shared_loss:
            loss = loss * (own.size * self.size / rows.size)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def _checkpoint_due(self) -> bool:
        waited = time.perf_counter() - self.saved
        return self.rank == 0 and self.folder is not None and waited >= 60 * self.settings.checkpoint_minutes

    def _progress(self, speed: float) -> TrainingProgress:
        left = (self.n_steps - self.history.steps) * self.settings.batch_size / max(speed, 1e-9)
        loss = self.loss_sum / max(1, self.rows_seen)
        return TrainingProgress(self.history.steps, self.n_steps, self.epoch, loss, speed, max(0.0, left))

    def _end_epoch(self, evaluate: Callable[[nn.Module], float] | None) -> None:
        self.history.losses.append(self.loss_sum / max(1, self.rows_seen))
        if evaluate is not None:
            self.module.eval()
            with torch.no_grad():
                measure = from_first(float(evaluate(self.module)) if self.rank == 0 else 0.0)
            self.history.measures.append(measure)
            if self.best is None or measure > max(self.history.measures[:-1]):
                self.best = {
                    name: value.detach().cpu().clone() for name, value in self.module.state_dict().items()
                }
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
        return json.dumps([settings, shapes, self.size, self.seed], sort_keys=True)

    def _save(self) -> None:
        """Write a checkpoint in the first process; every process contributes the state of its random generator."""
        states = gather_objects(_random_state(self.settings.device))
        self.saved = time.perf_counter()
        if self.rank != 0 or self.folder is None:
            return
        content = {
            "description": self._description(),
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": states,
            "position": [self.epoch, self.done, self.n_steps, self.rows_seen],
            "loss_sum": self.loss_sum,
            "plan": [torch.from_numpy(rows) for rows in self.plan],
            "history": asdict(self.history),
            "best": self.best,
        }
        _write_checkpoint(self.folder, content)

    def restore(self, folder: Path | None) -> None:
        """Load the checkpoint of the folder, if there is one; later checkpoints are written there."""
        self.folder = folder
        found = None if folder is None else _read_checkpoint(folder, self._description())
        if found is None:
            return
        self.module.load_state_dict(found["module"])
        self.optimizer.load_state_dict(found["optimizer"])
        _set_random_state(found["random"][self.rank], self.settings.device)
        self.epoch, self.done, self.n_steps, self.rows_seen = found["position"]
        self.loss_sum = found["loss_sum"]
        self.plan = [rows.numpy() for rows in found["plan"]]
        self.history = History(**found["history"])
        self.best = found["best"]


def _write_checkpoint(folder: Path, content: dict[str, Any]) -> None:
    """Replace the checkpoint of a folder; a crash leaves the previous one in place."""
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"{FILE}.new"
    torch.save({"format": _FORMAT, **content}, new)
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    new.replace(folder / FILE)


def _read_checkpoint(folder: Path, description: str) -> dict[str, Any] | None:
    """Return the checkpoint of a folder if there is one; it must match the description."""
    path = folder / FILE
    if not path.exists():
        return None
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


def _random_state(device: str) -> list[torch.Tensor]:
    """Return the state of torch's random generators on the CPU and on the device."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(torch.device(device))] if device.startswith("cuda") else states


def _set_random_state(states: list[torch.Tensor], device: str) -> None:
    """Restore random generators; a run that moves to another device draws new numbers there."""
    torch.set_rng_state(states[0])
    if len(states) > 1 and device.startswith("cuda"):
        torch.cuda.set_rng_state(states[1], torch.device(device))
