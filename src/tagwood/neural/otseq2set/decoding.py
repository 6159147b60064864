"""Decoding of label sets: greedy or beam search, and what follows from it: rankings, sets, sizes and explanations.

In: texts encoded by a `SetNetwork`. Out: `Generated` labels with their probabilities, and arrays made from them. For
set losses ∅ is a blank: all steps are computed, and a blank gives no label. For the other kinds the end symbol closes
a row, and only open rows are computed. No label is generated twice.

Decisions
---------
* The score of a beam is the sum of the log-probabilities of its steps, including ∅ and the end, without any length
  normalization. A beam search may lose the greedy sequence and end with a worse one, so the greedy sequence is computed
  as well and the better of the two is returned. A row is closed as soon as its best sequence is finished: scores only
  fall.
* The number of labels that a decoder generates depends on the weight of ∅ and on how confident an overfitted network
  is. The expected number of labels is more robust, so `learn_size_cuts` learns thresholds on it. A size is the number
  of thresholds below the expected number, and its absolute error is the number of thresholds on the wrong side. Each
  threshold can therefore be found separately and exactly, and no fixed size has a smaller error on the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tagwood.features.words import WordSequences
from tagwood.neural.otseq2set.network import Columns, Memory, OutputWeights, SetNetwork
from tagwood.ranking import Ranking

_LEAST = 1e-30  # minimum of a step's total probability
_EDGES = re.compile(r"^\W+|\W+$")


class Generated(NamedTuple):
    """What was generated for some rows.

    `expected` is the sum over the steps of the probability of a new label instead of ∅; where the end closes a row,
    times the probability of reaching the step. `trace` holds the attention (n_rows, n_steps, n_words) to words and the
    log-probabilities (n_rows, n_steps, n_columns) of all steps, if requested.
    """

    labels: torch.Tensor  # (n_rows, n_steps) label ids; -1 for steps without a label
    log_probs: torch.Tensor  # (n_rows, n_steps) of the output of each step, including ∅ and the end; 0 after the end
    expected: torch.Tensor  # (n_rows,) expected number of labels
    best: torch.Tensor  # (n_rows, n_columns) highest probability over the steps; the last column is ∅ or the end
    trace: tuple[torch.Tensor, torch.Tensor] | None


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
    """Generate the most probable label of each step with a network in evaluation mode.

    Parameters
    ----------
    memory, columns
        The encoded texts, and the candidates of each row, None for all labels.
    n_steps, blank
        Maximum number of steps, and whether ∅ is a blank instead of the end.
    empty_weight
        Weight w of ∅ in training, which multiplies the odds of ∅ by w. It is undone in `expected`.
    trace
        Whether to return attention and log-probabilities of all steps.
    """
    n_rows, device = memory.start.shape[0], memory.start.device
    last = network.output(columns)
    n_columns = last.bias.shape[-1]
    labels = torch.full((n_rows, n_steps), -1, dtype=torch.int64, device=device)
    log_probs = memory.start.new_zeros(n_rows, n_steps)
    best = memory.start.new_zeros(n_rows, n_columns)
    expected, reached = memory.start.new_zeros(n_rows), memory.start.new_ones(n_rows)
    attention = memory.start.new_zeros(n_rows, n_steps, memory.n_words) if trace else None
    all_log_probs = memory.start.new_full((n_rows, n_steps, n_columns), -torch.inf) if trace else None
    rows = torch.arange(n_rows, device=device)  # still open
    used = torch.zeros(n_rows, n_columns, dtype=torch.bool, device=device)
    state, embedded = memory.start, network.start(n_rows)
    for step in range(n_steps):
        found = network.step(memory, state, embedded)
        known, free = _step_log_probs(network, last.logits(network.output.hidden(found.features)), used)
        best[rows] = torch.maximum(best[rows], known.exp())
        new = empty_weight * free[:, :-1].exp().sum(dim=1)
        any_label = reached[rows] * new / (new + free[:, -1].exp()).clamp_min(_LEAST)
        expected[rows] += any_label
        if not blank:
            reached[rows] = any_label
        value, column = free.max(dim=1)
        is_label, name = column < n_columns - 1, last.names(column)
        labels[rows, step] = torch.where(is_label, name, -1)
        log_probs[rows, step] = value
        if attention is not None and all_log_probs is not None:
            attention[rows, step], all_log_probs[rows, step] = found.attention, known
        used[torch.arange(rows.numel(), device=device), column] |= is_label
        embedded = network.mixed(network.labels(name), known.exp(), last.columns)
        state = found.state
        if not blank and not bool(is_label.all()):
            open_ = torch.nonzero(is_label).flatten()
            rows, used, state, embedded = rows[open_], used[open_], state[open_], embedded[open_]
            memory, last = memory.rows(open_), last.rows(open_)
            if rows.numel() == 0:
                break
    traced = None if attention is None or all_log_probs is None else (attention, all_log_probs)
    return Generated(labels, log_probs, expected, best, traced)


def _step_log_probs(network: SetNetwork, logits: torch.Tensor, used: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log-probabilities of a step, and the same with -inf for labels that were generated before.

    SGM excludes these labels from its softmax, as in training; the other kinds are trained without that.
    """
    if network.mix is not None:
        logits = logits.masked_fill(used, -torch.inf)
    known = torch.log_softmax(logits, dim=-1)
    return known, known.masked_fill(used, -torch.inf)


class _Beam(NamedTuple):
    """Sequences of the open rows: every field is (n_rows, beam_width, ...), best first."""

    score: torch.Tensor
    labels: torch.Tensor
    log_probs: torch.Tensor
    used: torch.Tensor
    over: torch.Tensor
    state: torch.Tensor
    embedded: torch.Tensor

    def rows(self, index: torch.Tensor) -> _Beam:
        return _Beam(*(value[index] for value in self))

    def pick(self, parents: torch.Tensor) -> _Beam:
        """Return the parent of each new sequence."""
        row = torch.arange(parents.shape[0], device=parents.device)[:, None]
        return _Beam(*(value[row, parents] for value in self))


def decode_beam(
    network: SetNetwork,
    memory: Memory,
    n_steps: int,
    *,
    blank: bool,
    beam_width: int,
    columns: Columns | None = None,
    empty_weight: float = 1.0,
) -> Generated:
    """Generate the most probable sequence found by beam search; arguments as in `decode_greedy`.

    `expected` and `best` are those of the greedy sequence.
    """
    greedy = decode_greedy(network, memory, n_steps, blank=blank, columns=columns, empty_weight=empty_weight)
    n_rows = memory.start.shape[0]
    last = network.output(columns)
    labels, log_probs = greedy.labels.clone(), greedy.log_probs.clone()
    rows = torch.arange(n_rows, device=memory.start.device)
    beam = _first_beam(network, memory, n_steps, beam_width, last.bias.shape[-1])
    for step in range(n_steps):
        beam = _advance(network, memory, beam, last, step, blank=blank)
        done = beam.over[:, 0] if step + 1 < n_steps else torch.ones_like(beam.over[:, 0])
        if bool(done.any()):
            ended = beam.rows(done)
            better = ended.log_probs[:, 0].sum(dim=1) > log_probs[rows[done]].sum(dim=1)
            labels[rows[done][better]] = ended.labels[better, 0]
            log_probs[rows[done][better]] = ended.log_probs[better, 0]
            open_ = torch.nonzero(~done).flatten()
            rows, memory, beam, last = rows[open_], memory.rows(open_), beam.rows(open_), last.rows(open_)
            if rows.numel() == 0:
                break
    return greedy._replace(labels=labels, log_probs=log_probs)


def _first_beam(network: SetNetwork, memory: Memory, n_steps: int, width: int, n_columns: int) -> _Beam:
    n_rows, device = memory.start.shape[0], memory.start.device
    score = memory.start.new_full((n_rows, width), -torch.inf)
    score[:, 0] = 0.0  # one empty sequence
    return _Beam(
        score,
        torch.full((n_rows, width, n_steps), -1, dtype=torch.int64, device=device),
        memory.start.new_zeros(n_rows, width, n_steps),
        torch.zeros(n_rows, width, n_columns, dtype=torch.bool, device=device),
        torch.zeros(n_rows, width, dtype=torch.bool, device=device),
        memory.start[:, None].expand(-1, width, -1),
        network.start(n_rows)[:, None].expand(-1, width, -1),
    )


def _advance(network: SetNetwork, memory: Memory, beam: _Beam, last: OutputWeights, step: int, *, blank: bool) -> _Beam:
    """Return the best sequences that are one step longer; finished ones do not change."""
    n_rows, width, n_columns = beam.used.shape
    row = torch.arange(n_rows, device=beam.score.device)[:, None]
    flat = row.expand(-1, width).flatten()
    found = network.step(memory.rows(flat), beam.state.flatten(0, 1), beam.embedded.flatten(0, 1))
    logits = last.logits(network.output.hidden(found.features).view(n_rows, width, -1))
    known, free = _step_log_probs(network, logits, beam.used)
    # A finished sequence has one continuation: the end again, at no cost.
    stay = torch.full_like(free[0, 0], -torch.inf)
    stay[-1] = 0.0
    free = torch.where(beam.over[:, :, None], stay, free)
    score, place = (beam.score[:, :, None] + free).flatten(1).topk(width, dim=1)
    parents, column = torch.div(place, n_columns, rounding_mode="floor"), place % n_columns
    is_label, name = column < n_columns - 1, last.names(column)
    new = beam._replace(state=found.state.view(n_rows, width, -1)).pick(parents)
    new.labels[:, :, step] = torch.where(is_label, name, -1)
    new.log_probs[:, :, step] = free[row, parents, column]
    new.used.scatter_(2, column[:, :, None], new.used.gather(2, column[:, :, None]) | is_label[:, :, None])
    over = new.over if blank else new.over | ~is_label
    mixed = network.mixed(network.labels(name), known.exp()[row, parents], last.columns)
    return new._replace(score=score, over=over, embedded=mixed)


def best_labels(made: Generated, columns: Columns | None, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the (n_rows, k) best labels and their scores, -1 and 0 if there are fewer.

    A generated label has the probability of its step, any other label its highest probability of any step.
    """
    scores = made.best[:, :-1].clone()  # without ∅ or the end
    real = made.labels >= 0
    place = made.labels if columns is None else columns.places(made.labels.clamp_min(0))
    row = torch.arange(real.shape[0], device=real.device)[:, None].expand_as(real)
    scores[row[real], place[real]] = made.log_probs.exp()[real]
    if columns is not None:
        scores.masked_fill_(~columns.allowed[:, :-1], -1.0)
    value, column = torch.sort(scores, dim=1, descending=True, stable=True)
    value, column = value[:, :k], column[:, :k]
    names = column if columns is None else columns.labels.gather(1, column)
    return torch.where(value >= 0, names, -1).cpu().numpy(), value.clamp_min(0.0).cpu().numpy()


def join_batches(
    found: Sequence[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]], n_labels: int
) -> Ranking:
    """Return the ranking of all rows from batches of (row numbers, labels, scores)."""
    width = max((labels.shape[1] for _, labels, _ in found), default=0)
    n_rows = sum(places.size for places, _, _ in found)
    labels = np.full((n_rows, width), -1, dtype=np.int32)
    scores = np.zeros((n_rows, width), dtype=np.float32)
    for places, some, values in found:
        labels[places, : some.shape[1]], scores[places, : some.shape[1]] = some, values
    real = labels >= 0
    indptr = np.concatenate([[0], np.cumsum(real.sum(axis=1))])
    return Ranking(indptr, labels[real], scores[real], n_labels)


def text_pieces(text: str, words: WordSequences, longest: int) -> tuple[list[str], NDArray[np.int64]]:
    """Return the whitespace-separated pieces of a text without punctuation around them, and the piece of each word.

    Examples
    --------
    >>> pieces, owner = text_pieces("Fir (pine-tree), a", WordSequences.learn(["fir"]), 100)
    >>> pieces, owner.tolist()
    (['Fir', 'pine-tree', 'a'], [0, 1, 1])
    """
    raw = text.split()
    owner = np.repeat(np.arange(len(raw)), words.counts(raw))[:longest]
    return [_EDGES.sub("", piece) or piece for piece in raw], owner


def label_attention(made: Generated, columns: Columns | None, label: int) -> NDArray[np.float32]:
    """Return the attention to the words of the first row in a label's step, times the label's probability there.

    The step is the one that generated the label, or in which it was most probable. All weights are 0 for a label that
    is not a candidate.
    """
    assert made.trace is not None
    attention, all_log_probs = made.trace[0][0], made.trace[1][0]
    place = label
    if columns is not None:
        found = torch.nonzero(columns.labels[0] == label).flatten()
        if found.numel() == 0:
            return np.zeros(attention.shape[1], dtype=np.float32)
        place = int(found[0])
    log_probs = all_log_probs[:, place]
    steps = torch.nonzero(made.labels[0] == label).flatten()
    step = int(steps[0]) if steps.numel() else int(log_probs.argmax())
    weights: NDArray[np.float32] = (attention[step] * log_probs[step].exp()).cpu().numpy()
    return weights


def sum_words(pieces: list[str], owner: NDArray[np.int64], weights: NDArray[np.float32]) -> list[tuple[str, float]]:
    """Return each word once, in the order of the text, with the sum of its weights."""
    found: dict[str, float] = {}
    # A text without words has no owners, but a weight of padding.
    for piece, weight in zip(owner.tolist(), weights.tolist(), strict=False):
        found[pieces[piece]] = found.get(pieces[piece], 0.0) + weight
    return list(found.items())
