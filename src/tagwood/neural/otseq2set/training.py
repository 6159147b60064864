"""Training of set networks: batches of rows, and the loss of a batch.

In: word ids and label ids of all rows. Out: a function from row numbers to a mean loss for the training loop. Networks
are student-forced with a loss on sets, or teacher-forced with cross-entropy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from tagwood.neural.otseq2set.loss import SetLossOptions, set_loss
from tagwood.neural.otseq2set.network import (
    LOW,
    Columns,
    KnownLogits,
    Memory,
    OutputWeights,
    SetNetwork,
    Words,
)
from tagwood.neural.training import Batches, Rows, Step

_NEAR = 32  # number of batches whose rows are sorted by length together


@dataclass(frozen=True, eq=False)
class SetRows:
    """Texts, label sets and candidates of many rows, as tensors of some of them; ∅ or the end has the id `n_labels`.

    The word ids of row i are ``words[borders[i]:borders[i + 1]]``, at least one; its labels, in generated order,
    are ``labels[ends[i]:ends[i + 1]]``, None for prediction. Its candidate labels are a row of `candidates`, with
    ascending columns, or all `allowed` labels; None for all.
    """

    borders: NDArray[np.int64]
    words: NDArray[np.int32]
    n_labels: int
    ends: NDArray[np.int64] | None = None
    labels: NDArray[np.int64] | None = None
    candidates: sparse.csr_array | None = None
    allowed: NDArray[np.bool_] | None = None
    device: str = "cpu"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of words of each row."""
        return np.diff(self.borders)

    def batch(self, rows: Rows) -> Words:
        """Return the words of some rows."""
        padded, lengths = _padded(self.borders, self.words, rows, 0)
        return Words(torch.from_numpy(padded).to(self.device), torch.from_numpy(lengths).to(self.device))

    def targets(self, rows: Rows) -> torch.Tensor:
        """Return the labels of some rows, (n_rows, most), padded with -1."""
        assert self.ends is not None
        assert self.labels is not None
        return torch.from_numpy(_padded(self.ends, self.labels, rows, -1)[0]).to(self.device)

    def columns(self, rows: Rows) -> Columns | None:
        """Return the candidates of some rows, padded to the same number; the last column is ∅ or the end."""
        if self.candidates is not None:
            found = self.candidates
            labels, sizes = _padded(found.indptr.astype(np.int64), found.indices, rows, self.n_labels)
        elif self.allowed is not None:
            own = np.flatnonzero(self.allowed)
            labels, sizes = np.tile(own, (rows.size, 1)), np.full(rows.size, own.size)
        else:
            return None
        labels = np.pad(labels, ((0, 0), (0, 1)), constant_values=self.n_labels)
        allowed = np.arange(labels.shape[1]) < sizes[:, None]
        allowed[:, -1] = True
        return Columns(torch.from_numpy(labels).to(self.device), torch.from_numpy(allowed).to(self.device))

    def by_length(self, batch_size: int) -> list[Rows]:
        """Return batches of all rows, shortest first."""
        order = np.argsort(self.lengths, kind="stable").astype(np.int64)
        return [order[at : at + batch_size] for at in range(0, order.size, batch_size)]


def similar_lengths(lengths: NDArray[np.int64], batch_size: int, teacher_epochs: int = 0) -> Batches:
    """Return batches of rows of similar length in a new random order each epoch, so that there is little padding.

    In the first `teacher_epochs` row i is given as ``~i``, which marks its step as teacher-forced. Plans are stored in
    checkpoints, so a resumed run keeps the mark.
    """

    def plan(epoch: int, random: np.random.Generator) -> list[Rows]:
        order = random.permutation(lengths.size).astype(np.int64)
        batches: list[Rows] = []
        for at in range(0, order.size, _NEAR * batch_size):
            near = order[at : at + _NEAR * batch_size]
            near = near[np.argsort(lengths[near], kind="stable")]
            batches += [near[i : i + batch_size] for i in range(0, near.size, batch_size)]
        mixed = [batches[place] for place in random.permutation(len(batches))]
        return [~batch for batch in mixed] if epoch < teacher_epochs else mixed

    return plan


def set_step(data: SetRows, options: SetLossOptions | None, n_steps: int) -> Step:
    """Return the function that computes the loss of some rows.

    Without options of the set loss all rows are teacher-forced, with them those given as ``~row``.
    """

    def step(module: nn.Module, rows: Rows) -> torch.Tensor:
        assert isinstance(module, SetNetwork)
        teacher_forced = bool(rows[0] < 0)
        rows = ~rows if teacher_forced else rows
        memory, columns, targets = module(data.batch(rows)), data.columns(rows), data.targets(rows)
        if options is None or teacher_forced:
            return teacher_loss(module, memory, targets, options, n_steps, columns)
        logits = student_logits(module, memory, n_steps, columns)
        vectors, empty = None, module.end
        if columns is not None:
            targets, empty = torch.where(targets >= 0, columns.places(targets), -1), logits.shape[2] - 1
        if options.transport:
            table = module.labels.weight[:-1].detach()
            if options.free_empty:
                table = torch.cat([table[:-1], torch.zeros_like(table[-1:])])
            vectors = table if columns is None else table[columns.labels]
        return set_loss(logits, targets, vectors, empty=empty, options=options)

    return step


def student_logits(network: SetNetwork, memory: Memory, n_steps: int, columns: Columns | None = None) -> torch.Tensor:
    """Return the (n_rows, n_steps, n_columns) logits of a decoder fed with its own most probable labels."""
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
    network: SetNetwork,
    memory: Memory,
    targets: torch.Tensor,
    options: SetLossOptions | None,
    n_steps: int,
    columns: Columns | None = None,
) -> torch.Tensor:
    """Return the cross-entropy of given label sequences, summed over the steps of a row and averaged over rows.

    Without set loss options a sequence stops after its end symbol; with them, all steps after the labels should
    generate ∅, with its weight.
    """
    n_rows, most = targets.shape
    n_steps = most + 1 if options is None else n_steps
    wanted = torch.full((n_rows, n_steps), network.end, dtype=torch.int64, device=targets.device)
    width = min(most, n_steps)
    wanted[:, :width] = torch.where(targets[:, :width] >= 0, targets[:, :width], network.end)
    sizes = (targets >= 0).sum(dim=1)
    places = torch.arange(n_steps, device=targets.device)
    if options is None:
        weights = (places <= sizes[:, None]).to(memory.start.dtype)
    else:
        weights = torch.where(places < sizes[:, None], 1.0, options.empty_weight) / options.divisor
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
    """Return the logits of the real steps of a decoder fed with the wanted labels."""
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
        used[:, -1] = False  # ∅ or the end may be repeated
    if network.mix is not None:
        return torch.stack(logits, dim=1)[real]
    hidden = torch.stack(steps, dim=1)
    return last.logits(hidden[real]) if columns is None else last.logits(hidden)[real]


def _padded(
    borders: NDArray[np.int64], values: NDArray[np.integer], rows: Rows, filler: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the values of some rows, (n_rows, longest), and the number of values of each."""
    lengths = borders[rows + 1] - borders[rows]
    longest = int(lengths.max(initial=1))
    inside = np.arange(longest) < lengths[:, None]
    padded = np.full((rows.size, longest), filler, dtype=np.int64)
    places = np.arange(lengths.sum()) + np.repeat(borders[rows] - (np.cumsum(lengths) - lengths), lengths)
    padded[inside] = values[places]
    return padded, lengths
