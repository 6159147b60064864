"""Beam search for label sequences: several sequences of each row side by side. In: a read text. Out: the best found.

Decisions
---------
* A sequence's worth is the sum of the logarithms of its steps' probabilities, ∅ and the end among them; none is
  scaled by its length.
* A beam may lose the greedy sequence on its way and end with a worse one. So the greedy sequence is made too, and the
  better of the two counts: a wider search is never worth less than the greedy one.
* A row is closed once its best finished sequence is worth at least as much as every open one: worth only falls.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from tagwood.neural.set_decoding import Generated, decode_greedy, step_log_probs
from tagwood.neural.set_network import Memory, SetNetwork
from tagwood.neural.set_output import Columns, OutputWeights


class _Beam(NamedTuple):
    """Sequences of the open rows: everything is (n_rows, width, ...), best first."""

    worth: torch.Tensor
    labels: torch.Tensor
    log_probs: torch.Tensor
    used: torch.Tensor
    over: torch.Tensor
    state: torch.Tensor
    embedded: torch.Tensor

    def rows(self, index: torch.Tensor) -> _Beam:
        return _Beam(*(value[index] for value in self))

    def pick(self, parents: torch.Tensor) -> _Beam:
        """Return the chosen parent of each new sequence."""
        row = torch.arange(parents.shape[0], device=parents.device)[:, None]
        return _Beam(*(value[row, parents] for value in self))


def decode_beam(
    network: SetNetwork,
    memory: Memory,
    n_steps: int,
    *,
    blank: bool,
    width: int,
    columns: Columns | None = None,
    empty_weight: float = 1.0,
    trace: bool = False,
) -> Generated:
    """Generate the most probable sequence that a beam of some width finds; arguments as in `decode_greedy`.

    `expected`, `best` and `trace` are those of the greedy sequence.
    """
    greedy = decode_greedy(
        network, memory, n_steps, blank=blank, columns=columns, empty_weight=empty_weight, trace=trace
    )
    n_rows = memory.start.shape[0]
    last = network.output(columns)
    labels, log_probs = greedy.labels.clone(), greedy.log_probs.clone()
    rows = torch.arange(n_rows, device=memory.start.device)
    beam = _first(network, memory, n_steps, width, last.bias.shape[-1])
    for step in range(n_steps):
        beam = _advance(network, memory, beam, last, step, blank=blank)
        done = beam.over[:, 0] if step + 1 < n_steps else torch.ones_like(beam.over[:, 0])
        if bool(done.any()):
            _keep_better(labels, log_probs, rows[done], beam.rows(done))
            open_ = torch.nonzero(~done).flatten()
            rows, memory, beam, last = rows[open_], memory.rows(open_), beam.rows(open_), last.rows(open_)
            if rows.numel() == 0:
                break
    return greedy._replace(labels=labels, log_probs=log_probs)


def _first(network: SetNetwork, memory: Memory, n_steps: int, width: int, n_columns: int) -> _Beam:
    n_rows, device = memory.start.shape[0], memory.start.device
    worth = memory.start.new_full((n_rows, width), -torch.inf)
    worth[:, 0] = 0.0  # one empty sequence
    return _Beam(
        worth,
        torch.full((n_rows, width, n_steps), -1, dtype=torch.int64, device=device),
        memory.start.new_zeros(n_rows, width, n_steps),
        torch.zeros(n_rows, width, n_columns, dtype=torch.bool, device=device),
        torch.zeros(n_rows, width, dtype=torch.bool, device=device),
        memory.start[:, None].expand(-1, width, -1),
        network.start(n_rows)[:, None].expand(-1, width, -1),
    )


def _advance(
    network: SetNetwork, memory: Memory, beam: _Beam, last: OutputWeights, step: int, *, blank: bool
) -> _Beam:
    """Return the best sequences that are one step longer; finished ones stay as they are."""
    n_rows, width, n_columns = beam.used.shape
    row = torch.arange(n_rows, device=beam.worth.device)[:, None]
    flat = row.expand(-1, width).flatten()
    found = network.step(memory.rows(flat), beam.state.flatten(0, 1), beam.embedded.flatten(0, 1))
    logits = last.logits(network.output.hidden(found.features).view(n_rows, width, -1))
    known, free = step_log_probs(network, logits, beam.used)
    # A finished sequence has one way on: the end again, at no cost.
    stay = torch.full_like(free[0, 0], -torch.inf)
    stay[-1] = 0.0
    free = torch.where(beam.over[:, :, None], stay, free)
    worth, place = (beam.worth[:, :, None] + free).flatten(1).topk(width, dim=1)
    parents, column = torch.div(place, n_columns, rounding_mode="floor"), place % n_columns
    is_label, name = column < n_columns - 1, last.names(column)
    new = beam._replace(state=found.state.view(n_rows, width, -1)).pick(parents)
    new.labels[:, :, step] = torch.where(is_label, name, -1)
    new.log_probs[:, :, step] = free[row, parents, column]
    new.used.scatter_(2, column[:, :, None], new.used.gather(2, column[:, :, None]) | is_label[:, :, None])
    over = new.over if blank else new.over | ~is_label
    mixed = network.mixed(network.labels(name), known.exp()[row, parents], last.columns)
    return new._replace(worth=worth, over=over, embedded=mixed)


def _keep_better(labels: torch.Tensor, log_probs: torch.Tensor, rows: torch.Tensor, beam: _Beam) -> None:
    """Put the best sequences of a beam into the results where they are worth more than what is there."""
    better = beam.log_probs[:, 0].sum(dim=1) > log_probs[rows].sum(dim=1)
    labels[rows[better]] = beam.labels[better, 0]
    log_probs[rows[better]] = beam.log_probs[better, 0]
