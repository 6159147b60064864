"""Losses of set networks: student-forced with a loss on sets, or teacher-forced with cross-entropy.

In: a network and rows. Out: the mean loss of some rows, for the training loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from tagwood.neural.set_loss import SetLossOptions, set_loss
from tagwood.neural.set_network import Memory, SetNetwork
from tagwood.neural.set_output import LOW, Columns, KnownLogits, OutputWeights
from tagwood.neural.set_rows import SetRows
from tagwood.neural.training import Rows, Step


@dataclass(frozen=True)
class SetTask:
    """How a network learns: `options` of the loss on sets, None for teacher forcing; `n_steps` of the decoder.

    With `free_empty` ∅ has no part in the transport: its embedding there is zero, and cosines do not see what share of
    a step's probability the labels have.
    """

    options: SetLossOptions | None
    n_steps: int
    free_empty: bool = False


def set_step(data: SetRows, task: SetTask) -> Step:
    """Return the loss of some rows; rows given as ``~row`` are teacher-forced (see `near_lengths`)."""

    def step(module: nn.Module, rows: Rows) -> torch.Tensor:
        assert isinstance(module, SetNetwork)
        forced = task.options is None or bool(rows[0] < 0)
        rows = ~rows if rows[0] < 0 else rows
        memory, columns, targets = module(data.batch(rows)), data.columns(rows), data.targets(rows)
        if forced:
            return teacher_loss(module, memory, targets, task, columns)
        assert task.options is not None
        logits = student_logits(module, memory, task.n_steps, columns)
        vectors, empty = None, module.end
        if columns is not None:
            targets, empty = torch.where(targets >= 0, columns.places(targets), -1), logits.shape[2] - 1
        if task.options.ot_weight:
            table = module.labels.weight[:-1].detach()
            if task.free_empty:
                table = torch.cat([table[:-1], torch.zeros_like(table[-1:])])
            vectors = table if columns is None else table[columns.labels]
        return set_loss(logits, targets, vectors, empty=empty, options=task.options)

    return step


def student_logits(
    network: SetNetwork, memory: Memory, n_steps: int, columns: Columns | None = None
) -> torch.Tensor:
    """Return the (n_rows, n_steps, n_columns) logits of a decoder that is fed with its own most probable labels."""
    last = network.output(columns)
    fixed = last.detached()
    n_rows = memory.start.shape[0]
    logits = memory.start.new_empty(n_rows, n_steps, last.bias.shape[-1])
    state, embedded = memory.start, network.start(n_rows)
    steps = []
    for step in range(n_steps):
        found = network.step(memory, state, embedded)
        steps.append(network.output.hidden(found.features))
        with torch.no_grad():
            logits[:, step] = fixed.logits(steps[-1])
            label = fixed.names(logits[:, step].argmax(dim=1))
        state, embedded = found.state, network.labels(label)
    hidden = torch.stack(steps, dim=1)
    if columns is None:  # one product for all rows
        hidden, logits = hidden.view(n_rows * n_steps, -1), logits.view(n_rows * n_steps, -1)
    known: torch.Tensor = KnownLogits.apply(hidden, last.weight, last.bias, logits)  # type: ignore[no-untyped-call]
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
    places = wanted if columns is None else columns.places(wanted)
    losses = nn.functional.cross_entropy(logits, places[weights > 0], reduction="none")
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
    last: OutputWeights = network.output(columns)
    state, embedded = memory.start, network.start(n_rows)
    inputs = network.labels(wanted)
    places = wanted if columns is None else columns.places(wanted)
    used = torch.zeros(n_rows, last.bias.shape[-1], dtype=torch.bool, device=wanted.device)
    steps, logits = [], []
    for step in range(n_steps):
        found = network.step(memory, state, embedded)
        state, embedded = found.state, inputs[:, step]
        steps.append(network.output.hidden(found.features))
        if network.mix is None:
            continue
        logits.append(last.logits(steps[-1]).masked_fill(used, LOW))
        embedded = network.mixed(embedded, torch.softmax(logits[-1], dim=1), columns)
        used = used.scatter(1, places[:, [step]], True)
        used[:, -1] = False  # ∅ or the end may come again
    if network.mix is not None:
        return torch.stack(logits, dim=1)[real]
    hidden = torch.stack(steps, dim=1)
    return last.logits(hidden[real]) if columns is None else last.logits(hidden)[real]
