"""LightConv: one product equals the layers one after the other, padding, weights."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tagwood.neural.otseq2set.network import LightConv


def make(**options):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return LightConv(groups=2, **options).double()


def layers_one_by_one(conv, states):
    """The convolutions as Wu et al. define them, on a long line of zeros around the text."""
    room = 60
    line = torch.nn.functional.pad(states, (0, 0, room, room))  # (longest, channels)
    width = states.shape[1] // conv.groups
    for kernel in conv.kernels:
        weights = torch.softmax(kernel, dim=1)
        new = torch.zeros_like(line)
        for place in range(35, line.shape[0] - 35):
            for offset in range(kernel.shape[1]):
                at = place + offset - (kernel.shape[1] - 1) // 2
                new[place] += weights[:, offset].repeat_interleave(width) * line[at]
        line = new
    return line[room : room + states.shape[0] : conv.stride]


def test_one_product_is_the_layers_one_after_the_other():
    conv = make()
    states = torch.randn(8, 4, dtype=torch.float64)
    sums, mass = layers_one_by_one(conv, states), layers_one_by_one(conv, torch.ones_like(states))
    with torch.no_grad():
        found = conv(states[None], torch.tensor([8]))[0]
    torch.testing.assert_close(found, sums / mass)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(0, 9))
def test_padding_changes_nothing(lengths, more):
    conv, longest = make(), max(lengths)
    sizes = torch.tensor(lengths)
    states = torch.randn(len(lengths), longest + more, 6, dtype=torch.float64)
    with torch.no_grad():
        found = conv(states, sizes)
        for row, size in enumerate(lengths):
            alone = conv(states[[row], :size], torch.tensor([size]))[0]
            torch.testing.assert_close(found[row, : alone.shape[0]], alone)
            assert torch.count_nonzero(found[row, alone.shape[0] :]) == 0


def test_states_are_means_whose_weights_sum_to_one():
    conv = make()
    torch.testing.assert_close(conv.kernel().sum(dim=1), torch.ones(2, dtype=torch.float64))
    assert conv.kernel().shape == (2, 52)
    with torch.no_grad():
        found = conv(torch.full((1, 10, 4), 2.0, dtype=torch.float64), torch.tensor([10]))
    torch.testing.assert_close(found, torch.full((1, 4, 4), 2.0, dtype=torch.float64))


def test_gradients_agree_with_finite_differences():
    conv = make(kernels=(3, 4), stride=2)
    names = [name for name, _ in conv.named_parameters()]
    states = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)

    def means(states, *weights):
        given_weights = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(conv, given_weights, (states, torch.tensor([5, 3])))

    weights = [weight.detach().clone().requires_grad_() for weight in conv.parameters()]
    assert torch.autograd.gradcheck(means, (states, *weights))
