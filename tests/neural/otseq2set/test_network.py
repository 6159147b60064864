"""The network of set generators: padding, contexts, candidates, light convolutions, hand-written gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from set_networks import N_LABELS, make_columns, make_network, make_words

from tagwood.neural.otseq2set.loss import SetLossOptions
from tagwood.neural.otseq2set.network import (
    LOW,
    STRIDE,
    AttentionScores,
    Columns,
    KnownLogits,
    LightConv,
    Words,
)
from tagwood.neural.otseq2set.training import SetRows, set_step, student_logits, teacher_loss


def naive_logits(network, step, own):
    """A plain linear layer of all labels; of candidates, its columns."""
    hidden = network.output.hidden(step.features)
    logits = hidden @ network.output.weight.T + network.output.bias
    return logits if own is None else torch.where(own.allowed, logits[:, own.labels[0]], LOW)


def naive_student(network, words, n_steps, columns=None):
    """Row by row and step by step, with plain layers."""
    found = []
    for row in range(words.ids.shape[0]):
        length = int(words.lengths[row])
        memory = network(Words(words.ids[[row], :length], words.lengths[[row]]))
        own = None if columns is None else columns.rows(torch.tensor([row]))
        state, embedded, steps = memory.start, network.start(1), []
        for _ in range(n_steps):
            step = network.step(memory, state, embedded)
            logits = naive_logits(network, step, own)
            steps.append(logits[0])
            label = logits.argmax(dim=1)
            label = label if own is None else own.labels[0, label]
            state, embedded = step.state, network.labels(label)
        found.append(torch.stack(steps))
    return torch.stack(found)


@pytest.mark.parametrize("light_conv", [True, False])
@pytest.mark.parametrize("bottleneck", [0, 4])
@pytest.mark.parametrize("restricted", [True, False])
def test_batched_student_forcing_is_the_loop_over_rows(light_conv, bottleneck, restricted):
    network = make_network(light_conv=light_conv, bottleneck=bottleneck, dtype=torch.float64)
    words, columns = make_words(), make_columns(4) if restricted else None
    found = student_logits(network, network(words), 4, columns)
    wanted = naive_student(network, words, 4, columns)
    torch.testing.assert_close(found, wanted)
    weights = torch.randn_like(wanted)
    parameters = [weight for name, weight in network.named_parameters() if "mix" not in name]
    grads = [
        torch.autograd.grad((logits * (logits > LOW) * weights).sum(), parameters, allow_unused=True)
        for logits in (found, wanted)
    ]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("light_conv", [True, False])
def test_what_stands_in_padding_does_not_matter(light_conv):
    network, words = make_network(light_conv=light_conv), make_words()
    wide = Words(torch.nn.functional.pad(words.ids, (0, 4), value=7), words.lengths)
    with torch.no_grad():
        torch.testing.assert_close(
            student_logits(network, network(wide), 3), student_logits(network, network(words), 3)
        )


def test_both_contexts_use_the_same_attention():
    with_conv, without = make_network(), make_network(light_conv=False)
    attention = {"query.weight", "query.bias", "key.weight", "score"}
    shapes = [{name: value.shape for name, value in one.named_parameters()} for one in (with_conv, without)]
    assert attention <= shapes[0].keys()
    assert all(shapes[0][name] == shapes[1][name] for name in attention)
    more = sum(p.numel() for p in with_conv.conv.parameters())
    assert more == 16 * (3 + 7 + 15 + 30)  # few parameters: one kernel per channel and layer


def test_attention_looks_at_words_only_and_sums_to_one():
    network, words = make_network(), make_words()
    memory = network(words)
    step = network.step(memory, memory.start, network.start(4))
    assert step.attention.shape == (4, 5)
    torch.testing.assert_close(step.attention.sum(dim=1), torch.ones(4))
    assert torch.count_nonzero(step.attention[1, 1:]) == 0


def test_gradients_worked_out_by_hand_agree_with_finite_differences():
    def random(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(AttentionScores.apply, (random(2, 3, 4), random(2, 4), random(4)))
    hidden, weight, bias = random(3, 2), random(4, 2), random(4)

    def known(hidden, weight, bias):
        return KnownLogits.apply(hidden, weight, bias, (hidden @ weight.T + bias).detach())

    upstream = torch.randn(3, 4, dtype=torch.float64)
    found = torch.autograd.grad((known(hidden, weight, bias) * upstream).sum(), (hidden, weight, bias))
    wanted = torch.autograd.grad(((hidden @ weight.T + bias) * upstream).sum(), (hidden, weight, bias))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", ["plain", "sgm"])
@pytest.mark.parametrize("restricted", [True, False])
def test_teacher_forcing_is_the_sum_of_the_steps_of_each_row(kind, restricted):
    network = make_network(global_embedding=kind == "sgm", dtype=torch.float64)
    words = make_words()
    targets = torch.tensor([[0, 2, 5], [3, -1, -1], [5, 0, -1], [2, 3, -1]])
    all_five = torch.tensor([[0, 2, 3, 5, N_LABELS]]).expand(4, -1)
    columns = Columns(all_five, torch.ones(4, 5, dtype=torch.bool)) if restricted else None
    loss = teacher_loss(network, network(words), targets, None, 4, columns)
    wanted = 0.0
    for row in range(4):
        memory = network(Words(words.ids[[row], : words.lengths[row]], words.lengths[[row]]))
        state, embedded, before = memory.start, network.start(1), []
        for label in [*targets[row][targets[row] >= 0].tolist(), N_LABELS]:
            step = network.step(memory, state, embedded)
            logits = naive_logits(network, step, None)
            names = list(range(N_LABELS + 1)) if columns is None else all_five[0].tolist()
            logits = logits[:, names].clone()
            if kind == "sgm":
                logits[:, [names.index(one) for one in before]] = -torch.inf
            known = torch.log_softmax(logits, dim=1)
            wanted -= known[0, names.index(label)] / 4
            embedded = network.labels(torch.tensor([label]))
            embedded = network.mixed(embedded, known.exp(), None if columns is None else columns.rows([row]))
            state = step.state
            before.append(label)
    torch.testing.assert_close(loss, wanted)


@torch.no_grad()
def test_the_order_of_labels_matters_for_teacher_forcing_only():
    network, words = make_network(dtype=torch.float64), make_words((3, 2))
    one = teacher_loss(network, network(words), torch.tensor([[0, 1], [2, 3]]), None, 4)
    other = teacher_loss(network, network(words), torch.tensor([[1, 0], [3, 2]]), None, 4)
    assert abs(float(one) - float(other)) > 1e-3


@torch.no_grad()
def test_a_teacher_forced_beginning_of_set_losses_says_nothing_after_the_labels():
    network, words = make_network(dtype=torch.float64), make_words((3, 2))
    targets = torch.tensor([[0, 1], [2, -1]])
    losses = [
        float(
            teacher_loss(
                network,
                network(words),
                targets,
                SetLossOptions(empty_weight=weight, divisor=divisor),
                4,
            )
        )
        for weight, divisor in ((0.0, 1.0), (0.2, 1.0), (0.4, 1.0), (0.4, 2.0))
    ]
    assert losses[0] < losses[1] < losses[2]
    assert losses[2] - losses[1] == pytest.approx(losses[1] - losses[0])
    assert losses[3] == pytest.approx(losses[2] / 2)


def empty_pull(free_empty, transport, candidates):
    """The gradient of the loss for the output bias of ∅."""
    network = make_network(2, dtype=torch.float64)
    borders, ids = np.array([0, 3, 5, 6]), np.array([2, 3, 4, 5, 2, 3], dtype=np.int32)
    ends, labels = np.array([0, 2, 3, 5]), np.array([0, 4, 1, 2, 3])
    own = sparse.csr_array(np.ones((3, N_LABELS))) if candidates else None
    data = SetRows(borders, ids, N_LABELS, ends, labels, own)
    options = SetLossOptions(transport=transport, free_empty=free_empty)
    set_step(data, options, 4)(network, np.arange(3)).backward()
    return float(network.output.bias.grad[-1])


@pytest.mark.parametrize("candidates", [False, True])
def test_free_empty_steps_are_not_moved_by_the_transport(candidates):
    plain, free, label = (empty_pull(*how, candidates) for how in ((False, 0.0), (True, 50.0), (False, 50.0)))
    assert free == pytest.approx(plain, abs=1e-9)
    assert abs(label - plain) > 1e-3


def make_conv(channels=4):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return LightConv(channels).double()


def layers_word_by_word(conv, states):
    """The convolutions as loops: weighted means of the words that exist, one kernel per channel, ReLU after each."""
    last = len(conv.kernels) - 1
    for number, kernel in enumerate(conv.kernels):
        weights, longest = torch.softmax(kernel, dim=1), states.shape[0]
        new = []
        for place in range(0, longest, STRIDE if number == last else 1):
            begin = place - (kernel.shape[1] - 1) // 2
            inside = [at for at in range(begin, begin + kernel.shape[1]) if 0 <= at < longest]
            parts = weights[:, [at - begin for at in inside]].T
            new.append(torch.relu((parts * states[inside]).sum(dim=0) / parts.sum(dim=0)))
        states = torch.stack(new)
    return states


@pytest.mark.parametrize("longest", [1, 8, 70])
def test_convolutions_are_the_loop_over_words_and_channels(longest):
    conv = make_conv()
    states = torch.randn(longest, 4, dtype=torch.float64)
    with torch.no_grad():
        found = conv(states[None], torch.tensor([longest]))[0]
        torch.testing.assert_close(found, layers_word_by_word(conv, states))


def test_convolutions_are_not_linear_and_channels_have_their_own_kernels():
    conv = make_conv()
    states = torch.randn(1, 20, 4, dtype=torch.float64)
    with torch.no_grad():
        found, turned = (conv(sign * states, torch.tensor([20])) for sign in (1.0, -1.0))
        same = conv(states[:, :, :1].expand(-1, -1, 4).abs(), torch.tensor([20]))[0]
    assert found.min() >= 0
    assert (turned - -found).abs().max() > 0.1
    assert all((same[:, 0] - same[:, other]).abs().max() > 1e-4 for other in (1, 2, 3))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(0, 9))
def test_padding_changes_nothing(lengths, more):
    conv, longest = make_conv(6), max(lengths)
    sizes = torch.tensor(lengths)
    states = torch.randn(len(lengths), longest + more, 6, dtype=torch.float64)
    with torch.no_grad():
        found = conv(states, sizes)
        for row, size in enumerate(lengths):
            alone = conv(states[[row], :size], torch.tensor([size]))[0]
            torch.testing.assert_close(found[row, : alone.shape[0]], alone)
            assert torch.count_nonzero(found[row, alone.shape[0] :]) == 0


def test_equal_words_stay_as_they_are_also_at_the_ends():
    conv = make_conv()
    with torch.no_grad():
        found = conv(torch.full((1, 10, 4), 2.0, dtype=torch.float64), torch.tensor([10]))
    torch.testing.assert_close(found, torch.full((1, 4, 4), 2.0, dtype=torch.float64))


def test_gradients_agree_with_finite_differences():
    conv = make_conv()
    names = [name for name, _ in conv.named_parameters()]
    states = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)

    def means(states, *weights):
        given_weights = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(conv, given_weights, (states, torch.tensor([5, 3])))

    weights = [weight.detach().clone().requires_grad_() for weight in conv.parameters()]
    assert torch.autograd.gradcheck(means, (states, *weights))
