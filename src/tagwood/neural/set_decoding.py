"""Greedy decoding of label sets: one label after the other, none twice. In: texts read by a network. Out: labels.

For set losses ∅ is a blank: all steps are run, and a blank gives no label. For the others the end closes a row, and
only the rows still open are computed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from tagwood.neural.set_network import Memory, SetNetwork
from tagwood.neural.set_output import Columns

_LEAST = 1e-30  # of the probability of all that a step may say


class Generated(NamedTuple):
    """What was generated for some rows.

    Parameters
    ----------
    labels
        (n_rows, n_steps) label numbers; -1 where a step gave none.
    log_probs
        (n_rows, n_steps) logarithm of the probability of what each step gave, ∅ and the end too; 0 after the end.
    expected
        (n_rows,) expected number of labels: the sum over the steps of the probability that one says a label and not ∅,
        labels said before left out; where the end closes a row, times that of getting there.
    best
        (n_rows, n_columns) largest probability of each column over the steps of a row; the last one is ∅ or the end.
    trace
        Attention (n_rows, n_steps, n_words) to words and log-probabilities (n_rows, n_steps, n_columns) of all steps,
        where they were asked for.
    """

    labels: torch.Tensor
    log_probs: torch.Tensor
    expected: torch.Tensor
    best: torch.Tensor
    trace: tuple[torch.Tensor, torch.Tensor] | None


def step_log_probs(
    network: SetNetwork, logits: torch.Tensor, used: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log-probabilities of a step, and the same with -inf for labels that were generated before.

    SGM leaves these out of its softmax, as it does in training; the others learned without that.
    """
    if network.mix is not None:
        logits = logits.masked_fill(used, -torch.inf)
    known = torch.log_softmax(logits, dim=-1)
    return known, known.masked_fill(used, -torch.inf)


def decode_greedy(
    network: SetNetwork,
    memory: Memory,
    n_steps: int,
    *,
    blank: bool,
    columns: Columns | None = None,
    empty_weight: float = 1.0,
    trace: bool = False,
) -> Generated:
    """Generate the most probable label of each step.

    Parameters
    ----------
    network
        In evaluation mode.
    memory
        Of the texts.
    n_steps
        Most steps.
    blank
        Whether ∅ is a blank; otherwise it is the end.
    columns
        Candidates of each row, None for all labels.
    empty_weight
        Weight of ∅ in training, which is undone in `expected`: a weight w makes the odds of ∅ w times what they are.
    trace
        Whether to keep attention and log-probabilities of all steps.
    """
    n_rows, device = memory.start.shape[0], memory.start.device
    last = network.output(columns)
    n_columns = last.bias.shape[-1]
    labels = torch.full((n_rows, n_steps), -1, dtype=torch.int64, device=device)
    log_probs = memory.start.new_zeros(n_rows, n_steps)
    best = memory.start.new_zeros(n_rows, n_columns)
    expected, reached = memory.start.new_zeros(n_rows), memory.start.new_ones(n_rows)
    looks = memory.start.new_zeros(n_rows, n_steps, memory.n_words) if trace else None
    every = memory.start.new_full((n_rows, n_steps, n_columns), -torch.inf) if trace else None
    rows = torch.arange(n_rows, device=device)  # still open
    used = torch.zeros(n_rows, n_columns, dtype=torch.bool, device=device)
    state, embedded = memory.start, network.start(n_rows)
    for step in range(n_steps):
        found = network.step(memory, state, embedded)
        known, free = step_log_probs(network, last.logits(network.output.hidden(found.features)), used)
        best[rows] = torch.maximum(best[rows], known.exp())
        new = empty_weight * free[:, :-1].exp().sum(dim=1)
        said = reached[rows] * new / (new + free[:, -1].exp()).clamp_min(_LEAST)
        expected[rows] += said
        if not blank:
            reached[rows] = said
        value, column = free.max(dim=1)
        is_label, name = column < n_columns - 1, last.names(column)
        labels[rows, step] = torch.where(is_label, name, -1)
        log_probs[rows, step] = value
        if looks is not None and every is not None:
            looks[rows, step], every[rows, step] = found.attention, known
        used[torch.arange(rows.numel(), device=device), column] |= is_label
        embedded = network.mixed(network.labels(name), known.exp(), last.columns)
        state = found.state
        if not blank and not bool(is_label.all()):
            open_ = torch.nonzero(is_label).flatten()
            rows, used, state, embedded = rows[open_], used[open_], state[open_], embedded[open_]
            memory, last = memory.rows(open_), last.rows(open_)
            if rows.numel() == 0:
                break
    seen = None if looks is None or every is None else (looks, every)
    return Generated(labels, log_probs, expected, best, seen)
