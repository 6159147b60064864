"""`PackedGRU`: a bidirectional GRU over texts of different lengths. In: word vectors. Out: their states.

Both directions are computed together, and padding is never computed. The gradient is hand-written: torch's GRU over
packed sequences allocates a gradient of the whole batch for every word of the longest text, which takes ten times as
long on the CPU for texts of 200 words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn


class Packing(NamedTuple):
    """Order of the words of a batch: the first words of all texts, then all second words, longest text first.

    Parameters
    ----------
    sizes
        Number of texts that have a word at each time, in descending order.
    forward, backward
        (n_words,) position of each packed word in the (n_rows * longest) padded batch, read forwards and backwards.
    order
        (n_rows,) the rows, longest text first.
    """

    sizes: list[int]
    forward: torch.Tensor
    backward: torch.Tensor
    order: torch.Tensor

    @classmethod
    def of(cls, lengths: torch.Tensor, width: int | None = None) -> Packing:
        """Return the packing of texts of these lengths (each at least 1), padded to `width` (default: the longest).

        Examples
        --------
        >>> packing = Packing.of(torch.tensor([1, 3]))
        >>> packing.sizes, packing.forward.tolist(), packing.backward.tolist()
        ([2, 1, 1], [3, 0, 4, 5], [5, 0, 4, 3])
        """
        order = torch.argsort(lengths, descending=True, stable=True)
        longest = int(lengths.max())
        sorted_lengths = lengths[order]
        times = torch.arange(longest, device=lengths.device)
        real = times[:, None] < sorted_lengths  # (longest, n_rows): in this order, places are packed
        begin = (order * (longest if width is None else width)).expand(longest, -1)
        forward = (begin + times[:, None])[real]
        backward = (begin + sorted_lengths - 1 - times[:, None])[real]
        return cls(real.sum(dim=1).tolist(), forward, backward, order)


class PackedGRU(nn.Module):
    """Layers of a bidirectional GRU.

    Parameters
    ----------
    n_inputs
        Size of a word vector.
    hidden
        Size of the state of one direction; the output has twice the size.
    layers
        Number of layers.
    dropout
        Between layers.
    """

    def __init__(self, n_inputs: int, hidden: int, layers: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        self.hidden, self.layers = hidden, layers
        self.drop = nn.Dropout(dropout)
        bound = hidden**-0.5
        for layer in range(layers):
            width = n_inputs if layer == 0 else 2 * hidden
            for name, shape in (
                ("inputs", (2, width, 3 * hidden)),
                ("states", (2, hidden, 3 * hidden)),
                ("input_bias", (2, 1, 3 * hidden)),
                ("state_bias", (2, 1, 3 * hidden)),
            ):
                weight = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
                self.register_parameter(f"{name}_{layer}", weight)

    def forward(self, words: torch.Tensor, packing: Packing) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states and last states.

        Parameters
        ----------
        words
            (n_rows, longest, n_inputs) vectors; padding is ignored.
        packing
            The packing of these rows.

        Returns
        -------
        (n_rows, longest, 2 * hidden) states, 0 at padding, and (n_rows, 2 * hidden): the forward state after the last
        word and the backward state after the first.
        """
        n_rows, longest, _ = words.shape
        flat = words.reshape(n_rows * longest, -1)
        states, last = flat, flat
        for layer in range(self.layers):
            pair = torch.stack(
                [states.index_select(0, packing.forward), states.index_select(0, packing.backward)]
            )
            weights = [
                getattr(self, f"{name}_{layer}") for name in ("inputs", "states", "input_bias", "state_bias")
            ]
            gates = torch.baddbmm(weights[2], pair, weights[0])
            found, last = _Layer.apply(gates, weights[1], weights[3], packing.sizes)  # type: ignore[no-untyped-call]
            shape = (n_rows * longest, self.hidden)
            states = torch.cat(
                [
                    found.new_zeros(shape).index_copy(0, places, found[side])
                    for side, places in enumerate((packing.forward, packing.backward))
                ],
                dim=1,
            )
            if layer + 1 < self.layers:
                states = self.drop(states)
        ends = torch.cat([last[0], last[1]], dim=1)
        return states.view(n_rows, longest, -1), torch.empty_like(ends).index_copy(0, packing.order, ends)


class _Layer(torch.autograd.Function):
    """One layer: (2, n_words, 3 * hidden) inputs to the gates (reset, update, new) -> (2, n_words, hidden) states."""

    @staticmethod
    def forward(
        ctx: Any, gates: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, sizes: list[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = weight.shape[1]
        kept = torch.empty_like(gates)  # reset, update, new
        pulls = gates.new_empty(2, gates.shape[1], hidden)  # contribution of the state to the new gate
        before, states = torch.zeros_like(pulls), torch.empty_like(pulls)
        state = gates.new_zeros(2, sizes[0], hidden)
        last = torch.empty_like(state)
        at = 0
        for time, size in enumerate(sizes):
            here = slice(at, at + size)
            if time:
                state = state[:, :size]
                before[:, here] = state
            from_state = torch.baddbmm(bias, state, weight)
            given, gate = gates[:, here], kept[:, here]
            both = torch.add(given[..., : 2 * hidden], from_state[..., : 2 * hidden]).sigmoid_()
            pull = from_state[..., 2 * hidden :]
            new = torch.addcmul(given[..., 2 * hidden :], both[..., :hidden], pull).tanh_()
            state = torch.lerp(new, state, both[..., hidden:])
            gate[..., : 2 * hidden], gate[..., 2 * hidden :] = both, new
            pulls[:, here], states[:, here] = pull, state
            following = sizes[time + 1] if time + 1 < len(sizes) else 0
            last[:, following:size] = state[:, following:]
            at += size
        ctx.save_for_backward(kept, pulls, before, weight)
        ctx.sizes = sizes
        return states, last

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        states_grad, last_grad = grads
        kept, pulls, before, weight = ctx.saved_tensors
        hidden, sizes = weight.shape[1], ctx.sizes
        reset, update, new = kept.split(hidden, dim=2)
        # All factors that do not depend on the gradient of the state, for all words at once.
        to_new = (1 - update) * (1 - new * new)
        to_update = (before - new) * update * (1 - update)
        to_reset = pulls * reset * (1 - reset)
        for_gates, for_state = torch.empty_like(kept), torch.empty_like(kept)
        flow = last_grad.clone()
        turned = weight.transpose(1, 2)
        at = kept.shape[1]
        for size in reversed(sizes):
            here = slice(at - size, at)
            # Rows whose text ends here start from the gradient of their last state, which is already in `flow`.
            grad = flow[:, :size].add_(states_grad[:, here])
            inner = grad * to_new[:, here]
            step, back = for_gates[:, here], for_state[:, here]
            torch.mul(inner, to_reset[:, here], out=step[..., :hidden])
            torch.mul(grad, to_update[:, here], out=step[..., hidden : 2 * hidden])
            step[..., 2 * hidden :] = inner
            back[..., : 2 * hidden] = step[..., : 2 * hidden]
            torch.mul(inner, reset[:, here], out=back[..., 2 * hidden :])
            grad.mul_(update[:, here])
            grad.baddbmm_(back, turned)
            at -= size
        weight_grad = torch.bmm(before.transpose(1, 2), for_state)
        return for_gates, weight_grad, for_state.sum(dim=1, keepdim=True), None
