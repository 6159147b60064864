"""`train`, the entrance of the training loop, and the usual batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

from tagwood.neural.training.optimizer import make_optimizer
from tagwood.neural.training.processes import world
from tagwood.neural.training.run import Run
from tagwood.neural.training.settings import Batches, History, Moment, Rows, Step, Training


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
