"""`Run`: the loop itself, and what a checkpoint of it holds."""

from __future__ import annotations

import json
import math
import os
import pickle
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tagwood.errors import InputError, StorageError, TagwoodError
from tagwood.neural.training.processes import (
    average_gradients,
    from_first,
    gather_objects,
    same_start,
    share_of,
    world,
)
from tagwood.neural.training.settings import (
    Batches,
    History,
    Moment,
    Rows,
    Step,
    Training,
    make_optimizer,
    rate_factor,
)

# SECTION neural.training.checkpoints
# Checkpoints of a training run: one file, written whole or not at all, read without running code from it.
#
# In: what a run needs to go on bit for bit. Out: the same. Files hold tensors and plain values only
# (``torch.load(weights_only=True)``).


FILE = "checkpoint.pt"
_FORMAT = 1


def write_checkpoint(folder: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint over the last one; a crash leaves the last one in place."""
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"{FILE}.new"
    torch.save({"format": _FORMAT, **content}, new)
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    new.replace(folder / FILE)


def read_checkpoint(folder: Path, description: str) -> dict[str, Any] | None:
    """Return the checkpoint of a folder, or None if there is none.

    `description` says which run it must belong to: settings, shapes of the weights, number of processes.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError, OSError) as error:
        raise StorageError(
            f"not a readable checkpoint ({type(error).__name__})",
            path=path,
            hint="Delete it to begin the training anew.",
        ) from error
    if content.get("format") != _FORMAT:
        raise StorageError("a checkpoint of another version of tagwood", path=path, hint="Delete it.")
    if content.get("description") != description:
        raise InputError(
            f"{path} must belong to this training run",
            given="one with other settings, data or weights",
            hint="Use the settings it was begun with, or delete it to begin anew.",
        )
    return content


def remove_checkpoint(folder: Path) -> None:
    """Delete the checkpoint of a run that is complete."""
    (folder / FILE).unlink(missing_ok=True)


def random_state(device: str) -> list[torch.Tensor]:
    """Return the state of torch's random numbers on the CPU and on the device."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(torch.device(device))] if device.startswith("cuda") else states


def set_random_state(states: list[torch.Tensor], device: str) -> None:
    """Go on with random numbers where `random_state` was asked; a run that changes its device draws new ones there."""
    torch.set_rng_state(states[0])
    if len(states) > 1 and device.startswith("cuda"):
        torch.cuda.set_rng_state(states[1], torch.device(device))


class Run:
    """One run: the loop, and what a checkpoint must hold."""

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
        self.rates = [group["lr"] for group in optimizer.param_groups]
        self.running: nn.Module = torch.compile(module) if settings.compile else module  # type: ignore[assignment]
        self.folder: Path | None = None
        self.saved = time.perf_counter()
        self.due = 0.0
        self.history = History()
        self.epoch, self.done, self.loss_sum, self.rows_seen = 0, 0, 0.0, 0
        self.plan: list[Rows] = []
        self.n_steps = 0
        self.best: dict[str, torch.Tensor] | None = None
        same_start(module)

    def go(
        self, evaluate: Callable[[nn.Module], float] | None, progress: Callable[[Moment], None] | None
    ) -> History:
        """Run to the end, from wherever the run is."""
        began, before, seen = time.perf_counter(), self.history.seconds, 0
        self.saved = began
        while self.epoch < self.settings.epochs and not self._is_over():
            self._begin_epoch()
            while self.done < len(self.plan):
                seen += self._one_step(self.plan[self.done])
                self.history.seconds = before + time.perf_counter() - began
                if self.due > 0:  # what the first process said, so that all agree
                    self.save()
                if progress is not None:
                    progress(self._moment(seen / max(time.perf_counter() - began, 1e-9)))
            self._end_epoch(evaluate)
        return self._finish()

    def _begin_epoch(self) -> None:
        if self.done == 0:
            plan = self.batches(self.epoch, np.random.default_rng([self.seed, self.epoch]))
            self.plan = from_first(plan)
            self.loss_sum, self.rows_seen = 0.0, 0
        if self.n_steps == 0:
            self.n_steps = self.settings.epochs * len(self.plan)
        self.module.train()

    def _one_step(self, rows: Rows) -> int:
        factor = rate_factor(self.history.steps, self.n_steps, self.settings.warm_up, self.settings.decay)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._gradients(rows)
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
        self.rows_seen += rows.size
        return int(rows.size)

    def _gradients(self, rows: Rows) -> float:
        """Leave the gradients of the whole batch in the weights and return its loss."""
        mine = share_of(rows, self.rank, self.size)
        if self.shared_loss:  # processes compare their rows: all must take part in each micro-batch
            parts = np.array_split(mine, min(self.settings.accumulate, rows.size // self.size))
            shares = [1.0 / len(parts)] * len(parts)
        else:
            parts = [part for part in np.array_split(mine, self.settings.accumulate) if part.size]
            shares = [part.size * self.size / rows.size for part in parts]
        total = 0.0
        for part, share in zip(parts, shares, strict=True):
            loss = self.step(self.running, part) * share
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        due = float(self._checkpoint_due()) if self.rank == 0 else 0.0
        mean, self.due = average_gradients(self.weights, [total, due])
        return mean

    def _checkpoint_due(self) -> bool:
        return (
            self.folder is not None
            and time.perf_counter() - self.saved >= 60 * self.settings.checkpoint_minutes
        )

    def _moment(self, speed: float) -> Moment:
        left = (self.n_steps - self.history.steps) * self.settings.batch_size / max(speed, 1e-9)
        loss = self.loss_sum / max(1, self.rows_seen)
        return Moment(self.history.steps, self.n_steps, self.epoch, loss, speed, max(0.0, left))

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

    def _is_over(self) -> bool:
        best, patience = self.history.best_epoch, self.settings.patience
        return patience > 0 and best is not None and self.epoch - 1 - best >= patience

    def _finish(self) -> History:
        if self.best is not None:
            self.module.load_state_dict(self.best)
        self.module.cpu().eval()
        if self.folder is not None and self.rank == 0:
            remove_checkpoint(self.folder)
        return self.history

    def description(self) -> str:
        """Return what a checkpoint of this run must agree with; device, compiler and clock may change."""
        free = ("device", "compile", "checkpoint_minutes")
        settings = {name: value for name, value in asdict(self.settings).items() if name not in free}
        shapes = {name: list(value.shape) for name, value in self.module.state_dict().items()}
        return json.dumps([settings, shapes, self.size, self.seed], sort_keys=True)

    def save(self) -> None:
        """Write a checkpoint; every process takes part, because each has its own random numbers."""
        states = gather_objects(random_state(self.settings.device))
        self.saved = time.perf_counter()
        if self.rank != 0 or self.folder is None:
            return
        content = {
            "description": self.description(),
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": states,
            "position": [self.epoch, self.done, self.n_steps, self.rows_seen],
            "loss_sum": self.loss_sum,
            "plan": [torch.from_numpy(rows) for rows in self.plan],
            "history": asdict(self.history),
            "best": self.best,
        }
        write_checkpoint(self.folder, content)

    def restore(self, folder: Path | None) -> None:
        """Go on from the checkpoint of the folder, if there is one; later checkpoints go there."""
        self.folder = folder
        found = None if folder is None else read_checkpoint(folder, self.description())
        if found is None:
            return
        self.module.load_state_dict(found["module"])
        self.optimizer.load_state_dict(found["optimizer"])
        set_random_state(found["random"][self.rank], self.settings.device)
        self.epoch, self.done, self.n_steps, self.rows_seen = found["position"]
        self.loss_sum = found["loss_sum"]
        self.plan = [rows.numpy() for rows in found["plan"]]
        self.history = History(**found["history"])
        self.best = found["best"]


# SECTION neural.training.loop
# `train`, the entrance of the training loop, and the usual batches.


def shuffled(n_rows: int, batch_size: int) -> Batches:
    """Return batches of all rows in a new order each epoch.

    Examples
    --------
    >>> [batch.size for batch in shuffled(5, 2)(0, np.random.default_rng(0))]
    [2, 2, 1]
    """

    def plan(epoch: int, random: np.random.Generator) -> list[Rows]:
        order = random.permutation(n_rows).astype(np.int64)
        return [order[at : at + batch_size] for at in range(0, n_rows, batch_size)]

    return plan


def train(
    module: nn.Module,
    batches: Batches,
    step: Step,
    settings: Training,
    *,
    seed: int = 0,
    evaluate: Callable[[nn.Module], float] | None = None,
    folder: str | Path | None = None,
    progress: Callable[[Moment], None] | None = None,
    no_decay: Iterable[str] = (),
    rates: Mapping[str, float] | None = None,
    shared_loss: bool = False,
) -> History:
    """Train a module in place, and leave it in evaluation mode on the CPU.

    Parameters
    ----------
    module
        What is trained. Buffers (momentum averages) are stored in checkpoints too.
    batches
        Makes the row numbers of each step of an epoch; `shuffled` for most.
    step
        Returns the mean loss of some rows.
    settings, seed
        Same seed, same weights on the CPU with the same number of torch threads.
    evaluate
        Held-out measure, higher is better, asked after each epoch by the first process. The best weights are kept.
    folder
        Where checkpoints are written and looked for; a run that was stopped goes on there. It is removed at the end.
    progress
        Called after every step.
    no_decay, rates
        As in `make_optimizer`.
    shared_loss
        True if `step` returns the loss of all processes' rows (see `gather_rows`), not of its own rows only.
    """
    settings.check()
    cuda = [torch.device(settings.device)] if settings.device.startswith("cuda") else []
    with torch.random.fork_rng(devices=cuda):
        torch.manual_seed(seed + 1_000_003 * world()[0])
        module.to(settings.device)
        optimizer = make_optimizer(
            module, settings.learning_rate, settings.weight_decay, no_decay=no_decay, rates=rates
        )
        run = Run(module, optimizer, batches, step, settings, seed=seed, shared_loss=shared_loss)
        run.restore(None if folder is None else Path(folder))
        return run.go(evaluate, progress)
