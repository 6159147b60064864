"""Greedy decoding of label sets: one label after the other, none twice. In: texts read by a network. Out: labels.

For set losses ∅ is a blank: all steps are run, and a blank gives no label. For the others the end closes a row, and
only the rows still open are computed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood.features.words import WordSequences
from tagwood.neural.otseq2set.network import Columns, Memory, OutputWeights, SetNetwork
from tagwood.ranking import Ranking

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


# SECTION neural.set_beam
# Beam search for label sequences: several sequences of each row side by side. In: a read text. Out: the best found.
#
# Decisions
# ---------
# * A sequence's worth is the sum of the logarithms of its steps' probabilities, ∅ and the end among them; none is
#   scaled by its length.
# * A beam may lose the greedy sequence on its way and end with a worse one. So the greedy sequence is made too, and the
#   better of the two counts: a wider search is never worth less than the greedy one.
# * A row is closed once its best finished sequence is worth at least as much as every open one: worth only falls.


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


# SECTION neural.set_ranking
# From what a decoder generated to rankings and sets. In: labels, step probabilities. Out: a `Ranking`, a matrix.


def best_labels(
    made: Generated, columns: Columns | None, k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the (n_rows, k) best labels and their scores, -1 and 0 where there are fewer.

    A generated label has the probability of its step, any other one its best probability in a step.
    """
    scores = made.best[:, :-1].clone()  # without ∅ or the end
    said = made.labels >= 0
    place = made.labels if columns is None else columns.places(made.labels.clamp_min(0))
    row = torch.arange(said.shape[0], device=said.device)[:, None].expand_as(said)
    scores[row[said], place[said]] = made.log_probs.exp()[said]
    if columns is not None:
        scores.masked_fill_(~columns.allowed[:, :-1], -1.0)
    value, column = torch.sort(scores, dim=1, descending=True, stable=True)
    value, column = value[:, :k], column[:, :k]
    names = column if columns is None else columns.labels.gather(1, column)
    return torch.where(value >= 0, names, -1).cpu().numpy(), value.clamp_min(0.0).cpu().numpy()


def join_places(
    found: Sequence[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]], n_labels: int
) -> Ranking:
    """Return the ranking of rows that were found in parts, each with the places of its rows."""
    if not found:
        return Ranking(np.zeros(1, dtype=np.int64), np.empty(0, np.int32), np.empty(0, np.float32), n_labels)
    width = max(labels.shape[1] for _, labels, _ in found)
    n_rows = sum(places.size for places, _, _ in found)
    labels = np.full((n_rows, width), -1, dtype=np.int32)
    scores = np.zeros((n_rows, width), dtype=np.float32)
    for places, some, values in found:
        labels[places, : some.shape[1]], scores[places, : some.shape[1]] = some, values
    real = labels >= 0
    indptr = np.concatenate([[0], np.cumsum(real.sum(axis=1))])
    return Ranking(indptr, labels[real], scores[real], n_labels)


def generated_cells(places: NDArray[np.int64], made: Generated) -> NDArray[np.int64]:
    """Return the (2, n) rows and labels of what was generated for the rows at `places`."""
    labels = made.labels.cpu().numpy()
    row, step = np.nonzero(labels >= 0)
    return np.stack([places[row], labels[row, step]])


def sized_cells(
    places: NDArray[np.int64],
    labels: NDArray[np.int64],
    scores: NDArray[np.float32],
    sizes: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the (2, n) rows and labels of the first so many of what `best_labels` found for the rows at `places`."""
    row, rank = np.nonzero((labels >= 0) & (scores > 0) & (np.arange(labels.shape[1]) < sizes[:, None]))
    return np.stack([places[row], labels[row, rank]])


def join_cells(cells: Sequence[NDArray[np.int64]], n_rows: int, n_labels: int) -> sparse.csr_array:
    """Return the label sets of all rows as an (n_rows, n_labels) array of ones."""
    row, label = np.concatenate([np.empty((2, 0), dtype=np.int64), *cells], axis=1)
    sets = sparse.csr_array((np.ones(row.size, dtype=np.float32), (row, label)), shape=(n_rows, n_labels))
    sets.sort_indices()
    return sets


# SECTION neural.set_sizes
# How many labels a text has, learned from held-out rows. In: expected numbers of labels, true ones. Out: sizes.
#
# Decisions
# ---------
# * A decoder's own sizes depend on the weight of ∅ and on how sure an overfitted network is. What keeps its order
# is the
#   expected number of labels: the sum over the steps of the probability that a label is said, the weight of ∅ undone.
# * The size is the number of cuts that the expected number exceeds. The absolute error of a size is the number of cuts
#   on the wrong side, so each cut is found alone, exactly: the least one with the fewest errors of "at least j labels".
#   Fixed sizes are among what cuts can say, so on the rows they are learned from no fixed size has a smaller error.


def learn_size_cuts(expected: ArrayLike, sizes: ArrayLike, most: int) -> NDArray[np.float64]:
    """Return `most` rising cuts for which the mean absolute error of the sizes is least.

    Parameters
    ----------
    expected
        (n_rows,) expected numbers of labels, from 0 to `most`.
    sizes
        (n_rows,) true numbers.
    most
        The largest size that is given.

    Examples
    --------
    >>> learn_size_cuts([0.5, 0.9, 1.1, 1.8], [1, 1, 2, 2], most=3).tolist()
    [-1.0, 1.0, 4.0]
    """
    values = np.asarray(expected, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    values, true = values[order], np.asarray(sizes, dtype=np.int64)[order]
    # A cut before place i of the sorted rows; it cannot lie between equal values.
    middles = np.concatenate([[-1.0], (values[:-1] + values[1:]) / 2, [most + 1.0]])
    possible = np.concatenate([[True], values[:-1] < values[1:], [True]])
    cuts = np.empty(most)
    for size in range(1, most + 1):
        enough = true >= size
        below = np.concatenate([[0], np.cumsum(enough)])  # have so many labels, and lie below the cut
        above = np.concatenate([np.cumsum(~enough[::-1])[::-1], [0]])  # have fewer, and lie above it
        cuts[size - 1] = middles[int(np.argmin(np.where(possible, below + above, true.size + 1)))]
    return cuts


def sizes_by_cuts(expected: ArrayLike, cuts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many of the rising cuts each expected number of labels exceeds.

    Examples
    --------
    >>> sizes_by_cuts([0.2, 1.0, 1.3], np.array([-1.0, 1.0, 4.0])).tolist()
    [1, 1, 2]
    """
    return np.searchsorted(cuts, np.asarray(expected, dtype=np.float64), side="left").astype(np.int64)


# SECTION neural.set_explanation
# Where a step of the decoder looked. In: a text, what was generated for it, a label. Out: words and weights.


_EDGES = re.compile(r"^\W+|\W+$")


def text_pieces(text: str, words: WordSequences, longest: int) -> tuple[list[str], NDArray[np.int64]]:
    """Return the pieces between a text's spaces, without punctuation around them, and the piece of each word read.

    Examples
    --------
    >>> pieces, owner = text_pieces("Fir (pine-tree), a", WordSequences.learn(["fir"]), 100)
    >>> pieces, owner.tolist()
    (['Fir', 'pine-tree', 'a'], [0, 1, 1])
    """
    raw = text.split()
    counts = words.counts(raw)
    owner = np.repeat(np.arange(len(raw)), counts)[:longest]
    return [_EDGES.sub("", piece) or piece for piece in raw], owner


def label_attention(made: Generated, columns: Columns | None, label: int) -> NDArray[np.float32]:
    """Return the attention to the words of the first row in a label's step, times its probability there.

    That is the step that generated the label, or the one in which it was most probable; all 0 for a label that is no
    candidate.
    """
    assert made.trace is not None
    looks, every = made.trace[0][0], made.trace[1][0]
    names = torch.arange(every.shape[1], device=every.device) if columns is None else columns.labels[0]
    place = torch.nonzero(names == label).flatten()
    if place.numel() == 0:
        return np.zeros(looks.shape[1], dtype=np.float32)
    log_probs = every[:, int(place[0])]
    said = torch.nonzero(made.labels[0] == label).flatten()
    step = int(said[0]) if said.numel() else int(log_probs.argmax())
    weights: NDArray[np.float32] = (looks[step] * log_probs[step].exp()).cpu().numpy()
    return weights


def sum_words(
    pieces: list[str], owner: NDArray[np.int64], weights: NDArray[np.float32]
) -> list[tuple[str, float]]:
    """Return each word once, in order of the text, with the sum of its weights.

    Examples
    --------
    >>> sum_words(["fir", "and", "fir"], np.array([0, 2]), np.array([0.25, 0.5], dtype=np.float32))
    [('fir', 0.75)]
    """
    found: dict[str, float] = {}
    for piece, weight in zip(
        owner.tolist(), weights.tolist(), strict=False
    ):  # a text without words has no owner
        found[pieces[piece]] = found.get(pieces[piece], 0.0) + weight
    return list(found.items())
