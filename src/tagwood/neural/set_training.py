"""Losses of set networks: student-forced with a loss on sets, or teacher-forced with cross-entropy.

In: a network and rows. Out: the mean loss of some rows, for the training loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from tagwood.neural.set_loss import SetLossOptions, set_loss
from tagwood.neural.set_network import Memory, SetNetwork
from tagwood.neural.set_output import LOW, Columns, KnownLogits, restrict
from tagwood.neural.set_rows import SetRows
from tagwood.neural.training import Rows, Step


@dataclass(frozen=True)
class SetTask:
    """How a network learns: `options` of the loss on sets, None for teacher forcing; `n_steps` of the decoder."""

    options: SetLossOptions | None
    n_steps: int


def set_step(data: SetRows, task: SetTask) -> Step:
    """Return the loss of some rows; rows given as ``~row`` are teacher-forced (see `near_lengths`)."""

    def step(module: nn.Module, rows: Rows) -> torch.Tensor:
        assert isinstance(module, SetNetwork)
        forced = task.options is None or bool(rows[0] < 0)
        rows = ~rows if rows[0] < 0 else rows
        memory, columns, targets = module(data.batch(rows)), data.columns(rows), data.targets(rows)
        if forced:
            return teacher_loss(module, memory, targets, task, columns)
        logits = student_logits(module, memory, task.n_steps, columns)
        assert task.options is not None
        return set_loss(
            logits,
            targets,
            module.labels.weight[:-1].detach() if task.options.ot_weight else None,
            empty=module.end,
            options=task.options,
            candidates=None if columns is None else columns.labels,
        )

    return step


def student_logits(
    network: SetNetwork, memory: Memory, n_steps: int, columns: Columns | None = None
) -> torch.Tensor:
    """Return the (n_rows, n_steps, n_columns) logits of a decoder that is fed with its own most probable labels."""
    weight, bias = network.output.weights(columns)
    fixed_weight, fixed_bias = weight.detach(), bias.detach()
    n_rows = memory.start.shape[0]
    logits = memory.start.new_empty(n_rows, n_steps, bias.numel())
    state, embedded = memory.start, network.start(n_rows)
    hidden = []
    for step in range(n_steps):
        found = network.step(memory, state, embedded)
        hidden.append(network.output.hidden(found.features))
        with torch.no_grad():
            here = restrict(nn.functional.linear(hidden[-1], fixed_weight, fixed_bias), columns)
            logits[:, step] = here
            column = here.argmax(dim=1)
        state = found.state
        embedded = network.labels(column if columns is None else columns.labels[column])
    flat = torch.stack(hidden, dim=1).view(n_rows * n_steps, -1)
    known: torch.Tensor = KnownLogits.apply(flat, weight, bias, logits.view(n_rows * n_steps, -1))  # type: ignore[no-untyped-call]
    return known.view(n_rows, n_steps, -1)


def teacher_loss(
    network: SetNetwork, memory: Memory, targets: torch.Tensor, task: SetTask, columns: Columns | None = None
) -> torch.Tensor:
    """Return the cross-entropy of given sequences of labels, summed over a row's steps, averaged over rows.

    Without options of a set loss a sequence has an end and nothing after it; with them, all steps after the labels are
    to say ∅, with its weight.
    """
    n_rows, most = targets.shape
    n_steps = most + 1 if task.options is None else task.n_steps
    wanted = torch.full((n_rows, n_steps), network.end, dtype=torch.int64, device=targets.device)
    width = min(most, n_steps)
    wanted[:, :width] = torch.where(targets[:, :width] >= 0, targets[:, :width], network.end)
    sizes = (targets >= 0).sum(dim=1)
    places = torch.arange(n_steps, device=targets.device)
    if task.options is None:
        weights = (places <= sizes[:, None]).to(memory.start.dtype)
    else:
        weights = torch.where(places < sizes[:, None], 1.0, task.options.empty_weight) / task.options.divisor
    logits = _teacher_logits(network, memory, wanted, weights > 0, columns)
    names = wanted[weights > 0]
    if columns is not None:  # the columns' labels rise, and ∅ is the last
        names = torch.searchsorted(columns.labels, names)
    losses = nn.functional.cross_entropy(logits, names, reduction="none")
    return (losses * weights[weights > 0]).sum() / n_rows


def _teacher_logits(
    network: SetNetwork,
    memory: Memory,
    wanted: torch.Tensor,
    real: torch.Tensor,
    columns: Columns | None,
) -> torch.Tensor:
    """Return the logits of the real steps of a decoder that is fed with the wanted labels."""
    n_rows, n_steps = wanted.shape
    state, embedded = memory.start, network.start(n_rows)
    inputs = network.labels(wanted)
    features, logits = [], []
    used = torch.zeros(0)
    for step in range(n_steps):
        found = network.step(memory, state, embedded)
        state, embedded = found.state, inputs[:, step]
        if network.mix is None:
            features.append(found.features)
            continue
        here = network.output(found.features, columns)
        used = _mark(used, here, wanted, step, columns)
        here = here.masked_fill(used, LOW)
        logits.append(here)
        embedded = network.mixed(
            embedded, torch.softmax(here, dim=1), None if columns is None else columns.labels
        )
    if network.mix is not None:
        return torch.stack(logits, dim=1)[real]
    hidden = network.output.hidden(torch.stack(features, dim=1)[real])
    found_logits = nn.functional.linear(hidden, *network.output.weights(columns))
    if columns is None:
        return found_logits
    row = torch.arange(n_rows, device=real.device)[:, None].expand(-1, n_steps)[real]
    return found_logits.masked_fill(~columns.allowed[row], LOW)


def _mark(
    used: torch.Tensor, logits: torch.Tensor, wanted: torch.Tensor, step: int, columns: Columns | None
) -> torch.Tensor:
    """Return which labels stand before a step in the sequences; ∅ or the end never does."""
    if step == 0:
        return torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
    last = wanted[:, step - 1]
    if columns is not None:
        last = torch.searchsorted(columns.labels, last.contiguous())
    used = used.clone()
    used[torch.arange(last.numel(), device=last.device), last] = True
    used[:, -1] = False
    return used
