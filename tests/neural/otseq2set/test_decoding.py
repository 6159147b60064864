"""Decoding of label sets: greedy and beam search against brute force, and learned set sizes."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from set_networks import N_LABELS, make_columns, make_network, make_words

from tagwood.neural.otseq2set.decoding import decode_beam, decode_greedy
from tagwood.neural.otseq2set.network import Words
from tagwood.probabilities.sets import learn_size_cuts, sizes_by_cuts

KINDS = pytest.mark.parametrize("blank, sgm", [(True, False), (False, False), (False, True)])
N_STEPS = 5
MOST = 3
ROWS = st.lists(st.tuples(st.integers(0, 6).map(lambda tenth: tenth / 2), st.integers(0, 5)), min_size=1, max_size=7)


def own_names(columns):
    """The labels one row may have, and ∅ or the end."""
    return list(range(N_LABELS + 1)) if columns is None else columns.labels[columns.allowed].tolist()


def own_mean(network, label, known, names):
    """What the decoder is fed with after a label: in SGM mixed with the mean of all."""
    embedded = network.labels(torch.tensor([label]))
    if network.mix is None:
        return embedded
    mean = known.exp() @ network.labels.weight[names]
    gate = torch.sigmoid(network.mix(torch.cat([embedded, mean], dim=1)))
    return (1 - gate) * embedded + gate * mean


def sequence_log_prob(network, memory, sequence, columns):
    """Logarithm of the probability of a sequence, -inf if it has a label twice; ∅ or the end is N_LABELS."""
    names = own_names(columns)
    state, embedded, before, total = memory.start, network.start(1), [], 0.0
    for label in sequence:
        step = network.step(memory, state, embedded)
        logits = (step.features @ network.output.weight.T + network.output.bias)[:, names]
        if network.mix is not None:
            logits[:, [names.index(one) for one in before]] = -torch.inf
        known = torch.log_softmax(logits, dim=1)
        total += float("-inf") if label in before else float(known[0, names.index(label)])
        embedded = own_mean(network, label, known, names)
        state = step.state
        before += [label] if label != N_LABELS else []
    return total


def naive_greedy(network, words, row, columns, *, blank):
    """One row, one step after the other, all labels tried at each step."""
    memory = network(Words(words.ids[[row], : words.lengths[row]], words.lengths[[row]]))
    own = None if columns is None else columns.rows(torch.tensor([row]))
    names = own_names(own)
    sequence = []
    for _ in range(N_STEPS):
        values = [sequence_log_prob(network, memory, [*sequence, name], own) for name in names]
        sequence.append(names[max(range(len(names)), key=values.__getitem__)])
        if not blank and sequence[-1] == N_LABELS:
            break
    return sequence, sequence_log_prob(network, memory, sequence, own)


@torch.no_grad()
@KINDS
@pytest.mark.parametrize("restricted", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_greedy_decoding_is_the_naive_loop(blank, sgm, restricted, seed):
    network = make_network(seed, global_embedding=sgm, dtype=torch.float64)
    words, columns = make_words(seed=seed), make_columns(4, seed) if restricted else None
    made = decode_greedy(network, network(words), N_STEPS, blank=blank, columns=columns)
    for row in range(4):
        sequence, log_prob = naive_greedy(network, words, row, columns, blank=blank)
        labels = [label if label < N_LABELS else -1 for label in sequence]
        assert made.labels[row].tolist() == labels + [-1] * (N_STEPS - len(labels))
        assert float(made.log_probs[row].sum()) == pytest.approx(log_prob)


@torch.no_grad()
@KINDS
@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("seed", range(5))
def test_a_beam_is_never_worth_less_than_the_greedy_sequence(blank, sgm, width, seed):
    network = make_network(seed, scale=2.0, global_embedding=sgm)
    memory, columns = network(make_words((3, 1, 5, 2, 4), seed)), make_columns(5, seed) if seed % 2 else None
    greedy = decode_greedy(network, memory, N_STEPS, blank=blank, columns=columns)
    found = decode_beam(network, memory, N_STEPS, blank=blank, beam_width=width, columns=columns)
    assert bool((found.log_probs.sum(dim=1) >= greedy.log_probs.sum(dim=1)).all())
    if width == 1:
        assert torch.equal(found.labels, greedy.labels)
    for row in found.labels.tolist():
        generated = [label for label in row if label >= 0]
        assert len(set(generated)) == len(generated)


@torch.no_grad()
@KINDS
def test_a_beam_that_holds_all_sequences_finds_the_best(blank, sgm):
    n_steps = 3
    network = make_network(1, scale=1.0, global_embedding=sgm, dtype=torch.float64)
    columns = make_columns(2, 1)
    memory = network(make_words((4, 2), 1))
    found = decode_beam(network, memory, n_steps, blank=blank, beam_width=60, columns=columns)
    for row in range(2):
        own, at = columns.rows(torch.tensor([row])), memory.rows(torch.tensor([row]))
        sequences = set(product(own_names(own), repeat=n_steps))
        if not blank:
            sequences = {one[: (*one, N_LABELS).index(N_LABELS) + 1] for one in sequences}
        best = max(sequence_log_prob(network, at, one, own) for one in sequences)
        assert float(found.log_probs[row].sum()) == pytest.approx(best)


@torch.no_grad()
@pytest.mark.parametrize("width", [1, 3])
def test_beams_find_the_same_alone_and_together(width):
    network = make_network(2, scale=2.0, dtype=torch.float64)
    words = make_words((3, 1, 5, 2), 4)
    together = decode_beam(network, network(words), N_STEPS, blank=False, beam_width=width)
    for row in range(4):
        alone = Words(words.ids[[row], : words.lengths[row]], words.lengths[[row]])
        found = decode_beam(network, network(alone), N_STEPS, blank=False, beam_width=width)
        assert found.labels[0].tolist() == together.labels[row].tolist()


@torch.no_grad()
def test_blanks_are_skipped_and_ends_close_a_row():
    network = make_network(1)
    network.output.weight.zero_()
    network.output.bias.copy_(torch.tensor([0.0, 3.0, 2.0, 0.0, 0.0, 0.0, 2.5]))
    memory = network(make_words((2,)))
    blank = decode_greedy(network, memory, N_STEPS, blank=True)
    assert blank.labels.tolist() == [[1, -1, -1, -1, -1]]
    assert torch.count_nonzero(blank.log_probs) == N_STEPS
    ended = decode_greedy(network, memory, N_STEPS, blank=False)
    assert ended.labels.tolist() == [[1, -1, -1, -1, -1]]
    assert torch.count_nonzero(ended.log_probs) == 2


@torch.no_grad()
def test_only_open_rows_are_computed(monkeypatch):
    network = make_network(3, scale=6.0, light_conv=False)
    seen = []
    step = network.step
    monkeypatch.setattr(
        network, "step", lambda memory, *rest: (seen.append(memory.start.shape[0]), step(memory, *rest))[1]
    )
    made = decode_greedy(network, network(make_words((3, 1, 5, 2, 4, 4), 5)), N_STEPS, blank=False)
    steps = [int((row != 0).sum()) for row in made.log_probs]
    assert seen == [sum(taken > step for taken in steps) for step in range(max(steps))]
    assert min(steps) < max(steps)


@torch.no_grad()
def test_the_best_probability_of_labels_is_over_all_steps():
    network = make_network(0, dtype=torch.float64)
    made = decode_greedy(network, network(make_words()), N_STEPS, blank=True)
    said = made.labels >= 0
    for row in range(4):
        own = made.best[row, made.labels[row][said[row]]]
        assert bool((own >= made.log_probs[row][said[row]].exp() - 1e-12).all())
    assert bool((made.best > 0).all())


@torch.no_grad()
@KINDS
@pytest.mark.parametrize("weight", [1.0, 0.2])
def test_the_expected_number_of_labels_sums_the_probabilities_of_new_ones(blank, sgm, weight):
    network = make_network(3, scale=2.0, global_embedding=sgm, dtype=torch.float64)
    memory = network(make_words())
    made = decode_greedy(network, memory, N_STEPS, blank=blank, empty_weight=weight, trace=True)
    for row in range(4):
        total, reached, before = 0.0, 1.0, set()
        for step in range(N_STEPS):
            known = made.trace[1][row, step].exp()
            new = sum(float(known[label]) for label in range(N_LABELS) if label not in before)
            said = 1.0 / (1.0 + float(known[N_LABELS]) / weight / new)
            total, reached = total + reached * said, 1.0 if blank else reached * said
            before.add(int(made.labels[row, step]))
            if not blank and -1 in before:
                break
        assert float(made.expected[row]) == pytest.approx(total)


def error(expected, sizes, cuts):
    return int(np.abs(sizes_by_cuts(expected, np.array(cuts, dtype=float)) - np.array(sizes)).sum())


@given(ROWS)
def test_no_other_cuts_have_a_smaller_error(rows):
    expected, sizes = zip(*rows, strict=True)
    cuts = learn_size_cuts(expected, sizes, MOST)
    assert cuts.shape == (MOST,)
    assert bool(np.all(np.diff(cuts) >= 0))
    values = np.unique(expected)
    places = [-1.0, *((values[:-1] + values[1:]) / 2), MOST + 1.0]
    best = min(error(expected, sizes, some) for some in combinations_with_replacement(places, MOST))
    assert error(expected, sizes, cuts) == best


@given(ROWS)
def test_no_fixed_size_has_a_smaller_error(rows):
    expected, sizes = zip(*rows, strict=True)
    found = error(expected, sizes, learn_size_cuts(expected, sizes, MOST))
    assert all(found <= sum(abs(size - fixed) for size in sizes) for fixed in range(MOST + 1))
