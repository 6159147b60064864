"""PackedGRU equals torch's GRU on packed sequences, states and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tagwood.neural.otseq2set.network import PackedGRU, Packing

LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=6)


def make(n_inputs=4, hidden=3, layers=2):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return PackedGRU(n_inputs, hidden, layers).double()


def torch_twin(module, n_inputs=4):
    twin = torch.nn.GRU(
        n_inputs, module.hidden, module.layers, bidirectional=True, batch_first=True, dtype=torch.float64
    )
    names = {"weight_ih": "inputs", "weight_hh": "states", "bias_ih": "input_bias", "bias_hh": "state_bias"}
    with torch.no_grad():
        for name, weight in twin.named_parameters():
            kind, layer = name.split("_l")
            side = int(layer.endswith("reverse"))
            own = getattr(module, f"{names[kind]}_{layer[0]}")[side]
            weight.copy_(own.T if weight.ndim == 2 else own[0])
    return twin


@settings(deadline=None, max_examples=15)
@given(LENGTHS, st.integers(1, 3))
def test_it_computes_what_the_gru_of_torch_computes(lengths, layers):
    module = make(layers=layers)
    sizes = torch.tensor(lengths)
    words = torch.randn(len(lengths), max(lengths), 4, dtype=torch.float64, requires_grad=True)
    states, last = module(words, Packing.of(sizes))
    packed = torch.nn.utils.rnn.pack_padded_sequence(words, sizes, batch_first=True, enforce_sorted=False)
    wanted, ends = torch_twin(module)(packed)
    wanted, _ = torch.nn.utils.rnn.pad_packed_sequence(wanted, batch_first=True)
    torch.testing.assert_close(states, wanted)
    torch.testing.assert_close(last, torch.cat([ends[-2], ends[-1]], dim=1))
    weights = torch.randn_like(states), torch.randn_like(last)
    grads = [
        torch.autograd.grad((a * weights[0]).sum() + (b * weights[1]).sum(), words)[0]
        for a, b in ((states, last), (wanted, torch.cat([ends[-2], ends[-1]], dim=1)))
    ]
    torch.testing.assert_close(grads[0], grads[1])


@pytest.mark.parametrize("lengths", [[1], [3, 1, 2], [2, 2]])
def test_gradients_agree_with_finite_differences(lengths):
    module = make(2, 2, 2)
    names = [name for name, _ in module.named_parameters()]
    words = torch.randn(len(lengths), max(lengths), 2, dtype=torch.float64, requires_grad=True)

    def both(words, *weights):
        return torch.func.functional_call(
            module, dict(zip(names, weights, strict=True)), (words, Packing.of(torch.tensor(lengths)))
        )

    given_weights = [weight.detach().clone().requires_grad_() for weight in module.parameters()]
    assert torch.autograd.gradcheck(both, (words, *given_weights), eps=1e-6, atol=1e-6)


def test_padding_is_not_read_and_gets_no_gradient():
    module, sizes = make(), torch.tensor([2, 4])
    words = torch.randn(2, 4, 4, dtype=torch.float64)
    noisy = words.clone()
    noisy[0, 2:] = torch.nan
    noisy.requires_grad_()
    states, last = module(noisy, Packing.of(sizes))
    torch.testing.assert_close(states, module(words, Packing.of(sizes))[0])
    assert torch.count_nonzero(states[0, 2:]) == 0
    (states.sum() + last.sum()).backward()
    assert torch.count_nonzero(noisy.grad[0, 2:]) == 0
