"""`SetNetwork`: a bi-GRU encoder, attention over words and over spans of words, and a GRU decoder of labels.

In: word ids. Out: step by step, features from which `SetOutput` computes logits. All kinds of `SetGenerator` share it;
they differ in what the decoder is fed with, in the loss, and in when decoding stops.

Decisions
---------
* The decoder starts from a layer on the encoder's last states and the embedding of a start symbol.
* Both contexts use the same attention parameters (Eq. 4 to 7), so words and spans are scored together; each of the two
  has its own softmax.
* The id after the last label is ∅ for set losses and the end symbol for the others.
* Light convolutions have kernels of 3, 7, 15 and 30 words as in the paper: depth-wise, softmax-normalised. The paper
  gives neither their number nor an activation; as in the authors' program every channel has its own kernel, and a ReLU
  follows each layer. Without it all layers would be one weighted mean.
* The embedding of ∅ starts at zero and is trained, as in the authors' program: at the start, ∅ then adds nothing to
  the mean embedding of a step, and the transport does not push steps away from it.
* `PackedGRU` computes both directions together, and no padding. Its gradient is hand-written: torch's GRU over packed
  sequences allocates a gradient of the whole batch for every word of the longest text, which takes ten times as long on
  the CPU for texts of 200 words.
* At the ends of a text the weights of missing words are left out of the mean, so padding has no effect.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import nn

from tagwood.neural.otseq2set.settings import NetworkSettings

KERNELS = (3, 7, 15, 30)
STRIDE = 3
LOW = -1e4  # logit of a label that is not a candidate: its probability and gradient are 0 in float32


class Words(NamedTuple):
    """A batch of texts: `ids` (n_rows, longest) word ids, 0 for padding, and `lengths` (n_rows,), at least 1."""

    ids: torch.Tensor
    lengths: torch.Tensor


class Memory(NamedTuple):
    """The encoded texts that the decoder attends to: words first, then spans.

    `keys` (n_rows, n, attention) and `values` (n_rows, n, hidden), `mask` (n_rows, n) 0 or, at padding, -inf;
    `n_words` of the n are words; `start` (n_rows, hidden) is the decoder's initial state.
    """

    keys: torch.Tensor
    values: torch.Tensor
    mask: torch.Tensor
    start: torch.Tensor
    n_words: int

    def rows(self, index: torch.Tensor) -> Memory:
        """Return the memory of some rows."""
        return Memory(self.keys[index], self.values[index], self.mask[index], self.start[index], self.n_words)


class DecoderStep(NamedTuple):
    """One step of the decoder: `features` for its logits, its new `state`, its `attention` to words."""

    features: torch.Tensor
    state: torch.Tensor
    attention: torch.Tensor


class Columns(NamedTuple):
    """The labels that the logits of each row stand for, if the output is restricted to candidates.

    `labels` (n_rows, n_columns) are label ids in ascending order, then ∅ or the end, repeated as padding; only the last
    counts. `allowed` (n_rows, n_columns) is False for padding.
    """

    labels: torch.Tensor
    allowed: torch.Tensor

    def rows(self, index: torch.Tensor) -> Columns:
        """Return the columns of some rows."""
        return Columns(self.labels[index], self.allowed[index])

    def places(self, labels: torch.Tensor) -> torch.Tensor:
        """Return the columns of (n_rows, n) labels, which must be candidates of their row, ∅ or the end."""
        last = self.labels.shape[1] - 1
        found = torch.searchsorted(self.labels[:, :-1].contiguous(), labels.contiguous())
        return torch.where(labels == self.labels[:, -1:], last, found)


class SetNetwork(nn.Module):
    """Encoder, attention and decoder.

    Parameters
    ----------
    n_words, n_labels, dimension
        Number of word ids, with padding (0) and the unknown word (1); of labels, without ∅; size of their embeddings.
    settings
        `hidden` is the size of the decoder state and of both encoder directions together.
    bottleneck
        See `DecodingSettings`; 0 for none.
    global_embedding
        Mix the embedding of the last label with the mean of all labels by probability (SGM).
    """

    def __init__(
        self,
        n_words: int,
        n_labels: int,
        dimension: int,
        settings: NetworkSettings,
        *,
        bottleneck: int = 0,
        global_embedding: bool = False,
    ) -> None:
        super().__init__()
        hidden, contexts = settings.hidden, 2 if settings.light_conv else 1
        self.end = n_labels  # id of ∅ or the end
        self.words = nn.Embedding(n_words, dimension, padding_idx=0)
        self.labels = nn.Embedding(n_labels + 2, dimension)
        self.encoder = PackedGRU(dimension, hidden // 2, settings.layers, settings.dropout)
        self.conv = LightConv(hidden) if settings.light_conv else None
        self.first = nn.Linear(hidden, hidden)
        self.query = nn.Linear(hidden, hidden // 2)
        self.key = nn.Linear(hidden, hidden // 2, bias=False)
        self.score = nn.Parameter(torch.empty(hidden // 2).uniform_(-1, 1) * (2 / hidden) ** 0.5)
        self.decoder = nn.GRUCell(dimension + contexts * hidden, hidden)
        self.output = SetOutput(dimension + (1 + contexts) * hidden, n_labels + 1, bottleneck)
        self.mix = nn.Linear(2 * dimension, dimension) if global_embedding else None
        self.drop = nn.Dropout(settings.dropout)

    def forward(self, batch: Words) -> Memory:
        """Encode texts."""
        vectors = self.drop(self.words(batch.ids))
        states, last = self.encoder(vectors, Packing.of(batch.lengths, batch.ids.shape[1]))
        states = self.drop(states)
        n_words = states.shape[1]
        lengths = [(n_words, batch.lengths)]
        if self.conv is not None:
            spans = self.conv(states, batch.lengths)
            lengths.append((spans.shape[1], self.conv.lengths(batch.lengths)))
            states = torch.cat([states, spans], dim=1)
        real = torch.cat([torch.arange(n, device=states.device) < some[:, None] for n, some in lengths], dim=1)
        mask = torch.zeros(real.shape, device=states.device, dtype=states.dtype)
        start = torch.tanh(self.first(last))
        return Memory(self.key(states), states, mask.masked_fill_(~real, -math.inf), start, n_words)

    def start(self, n_rows: int) -> torch.Tensor:
        """Return the (n_rows, dimension) input of the first step."""
        return self.labels.weight[-1].expand(n_rows, -1)

    def step(self, memory: Memory, state: torch.Tensor, embedded: torch.Tensor) -> DecoderStep:
        """Continue from a state with the embedding of the last label (Eq. 4 to 8)."""
        scores = AttentionScores.apply(memory.keys, self.query(state), self.score)  # type: ignore[no-untyped-call]
        scores = scores + memory.mask
        attention = torch.softmax(scores[:, : memory.n_words], dim=1)
        parts = [torch.bmm(attention[:, None], memory.values[:, : memory.n_words])[:, 0]]
        if self.conv is not None:
            wide = torch.softmax(scores[:, memory.n_words :], dim=1)
            parts.append(torch.bmm(wide[:, None], memory.values[:, memory.n_words :])[:, 0])
        state = self.decoder(torch.cat([embedded, *parts], dim=1), state)
        features = self.drop(torch.cat([state, *parts, embedded], dim=1))
        return DecoderStep(features, state, attention)

    def mixed(
        self, embedded: torch.Tensor, probabilities: torch.Tensor, columns: Columns | None = None
    ) -> torch.Tensor:
        """Return SGM's global embedding: a gated mix of the last label's embedding and the mean by probability.

        (n_rows, dimension) embeddings and (n_rows, n_columns) probabilities, or both with a second axis of sequences.
        """
        if self.mix is None:
            return embedded
        if columns is None:
            mean = probabilities @ self.labels.weight[:-1]
        else:
            wide = probabilities[:, None] if probabilities.ndim == 2 else probabilities
            mean = torch.bmm(wide, self.labels(columns.labels)).view_as(embedded)
        return torch.lerp(embedded, mean, torch.sigmoid(self.mix(torch.cat([embedded, mean], dim=-1))))


class Packing(NamedTuple):
    """Order of the words of a batch: the first words of all texts, then all second words, longest text first.

    `sizes` are the numbers of texts that have a word at each time; `forward` and `backward` (n_words,) the positions of
    the packed words in the (n_rows * longest) padded batch, read in both directions; `order` (n_rows,) the rows.
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
    """Layers of a bidirectional GRU with dropout between them; each direction has a state of size `hidden`."""

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
        """Return the states of (n_rows, longest, n_inputs) words, whose padding is ignored, and the last states.

        The states (n_rows, longest, 2 * hidden) are 0 at padding. The last states (n_rows, 2 * hidden) are the forward
        state after the last word and the backward state after the first.
        """
        n_rows, longest, _ = words.shape
        flat = words.reshape(n_rows * longest, -1)
        states, last = flat, flat
        for layer in range(self.layers):
            pair = torch.stack([states.index_select(0, packing.forward), states.index_select(0, packing.backward)])
            weights = [getattr(self, f"{name}_{layer}") for name in ("inputs", "states", "input_bias", "state_bias")]
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


class LightConv(nn.Module):
    """Lightweight convolutions, each followed by a ReLU: features of spans of words, one for every third word."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.kernels = nn.ParameterList(nn.Parameter(0.1 * torch.randn(channels, width)) for width in KERNELS)

    def lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Return the number of spans of texts with this many words."""
        return torch.div(lengths + STRIDE - 1, STRIDE, rounding_mode="floor")

    def forward(self, states: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return (n_rows, fewer, channels) features of (n_rows, longest, channels) states, 0 beyond a text's spans."""
        places = torch.arange(states.shape[1], device=states.device)
        found = states * (places < lengths[:, None])[:, :, None]
        for number, kernel in enumerate(self.kernels, 1):
            stride = STRIDE if number == len(self.kernels) else 1
            found = self._layer(found, torch.softmax(kernel, dim=1), lengths, stride)
        return found

    @staticmethod
    def _layer(states: torch.Tensor, weights: torch.Tensor, lengths: torch.Tensor, stride: int) -> torch.Tensor:
        """Return ReLU of the weighted means around every `stride`-th word; weights of missing words are left out."""
        channels, width = weights.shape
        before = (width - 1) // 2  # words of the kernel before the span's own word
        padded = nn.functional.pad(states, (0, 0, before, width - 1 - before)).transpose(1, 2)
        # Two dimensions: torch has a fast kernel for depth-wise convolutions of images only.
        sums = nn.functional.conv2d(padded[:, :, None], weights[:, None, None], stride=(1, stride), groups=channels)
        sums = sums[:, :, 0].transpose(1, 2)
        at = stride * torch.arange(sums.shape[1], device=states.device)
        total = nn.functional.pad(weights.cumsum(dim=1), (1, 0)).T  # (width + 1, channels)
        last, first = (lengths[:, None] - at + before).clamp(0, width), (before - at).clamp(min=0)
        mass = (total[last] - total[first]).clamp_min(1e-9)
        return torch.relu(sums / mass) * (at < lengths[:, None])[:, :, None]


class SetOutput(nn.Module):
    """The output layer (Eq. 9, and Eq. 10 with a bottleneck): one logit per label, and the last for ∅ or the end."""

    def __init__(self, n_features: int, n_outputs: int, bottleneck: int = 0) -> None:
        super().__init__()
        self.narrow = nn.Linear(n_features, bottleneck) if bottleneck else None
        width = bottleneck or n_features
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(n_outputs, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(n_outputs))

    def hidden(self, features: torch.Tensor) -> torch.Tensor:
        """Return the input of the last layer."""
        return features if self.narrow is None else torch.tanh(self.narrow(features))

    def forward(self, columns: Columns | None = None) -> OutputWeights:
        """Return the last layer for all labels, or for the columns of each row."""
        if columns is None:
            return OutputWeights(self.weight, self.bias, None)
        return OutputWeights(nn.functional.embedding(columns.labels, self.weight), self.bias[columns.labels], columns)


class OutputWeights(NamedTuple):
    """The last layer for some rows: (n_outputs, width) for all labels, or (n_rows, n_columns, width) with `columns`."""

    weight: torch.Tensor
    bias: torch.Tensor
    columns: Columns | None

    def rows(self, index: torch.Tensor) -> OutputWeights:
        """Return the weights of some rows."""
        if self.columns is None:
            return self
        return OutputWeights(self.weight[index], self.bias[index], self.columns.rows(index))

    def detached(self) -> OutputWeights:
        """Return the weights detached from the graph."""
        return OutputWeights(self.weight.detach(), self.bias.detach(), self.columns)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return (n_rows, n_steps, n_columns) logits of (n_rows, n_steps, width), or both without the step axis."""
        if self.columns is None:
            return nn.functional.linear(hidden, self.weight, self.bias)
        steps = hidden[:, None] if hidden.ndim == 2 else hidden
        found = torch.baddbmm(self.bias[:, None], steps, self.weight.transpose(1, 2))
        found = found.masked_fill(~self.columns.allowed[:, None], LOW)
        return found[:, 0] if hidden.ndim == 2 else found

    def names(self, column: torch.Tensor) -> torch.Tensor:
        """Return the labels of (n_rows,) or (n_rows, n) columns."""
        if self.columns is None:
            return column
        wide = column[:, None] if column.ndim == 1 else column
        return self.columns.labels.gather(1, wide).view_as(column)


class KnownLogits(torch.autograd.Function):
    """Attach the gradient of a linear layer to logits that were computed without a graph.

    With student forcing each step needs the logits of the previous one. Computing them without a graph and the gradient
    of all steps at once takes one product for the gradient of the weights instead of one per step.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, logits: torch.Tensor
    ) -> torch.Tensor:
        """Take hidden (..., n, width), weight (..., n_outputs, width), bias, and their logits (..., n, n_outputs)."""
        ctx.save_for_backward(hidden, weight)
        return logits

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        """Return the gradients of a linear layer."""
        (grad,) = grads
        hidden, weight = ctx.saved_tensors
        return grad @ weight, grad.transpose(-1, -2) @ hidden, grad.sum(dim=-2), None


class AttentionScores(torch.autograd.Function):
    """Scores vᵀ tanh(W s + U h) (Eq. 6), storing one array of words x attention size instead of three."""

    @staticmethod
    def forward(ctx: Any, keys: torch.Tensor, query: torch.Tensor, score: torch.Tensor) -> torch.Tensor:
        """Take keys (n_rows, n, size), queries (n_rows, size) and the vector v; return (n_rows, n)."""
        activation = torch.add(keys, query[:, None]).tanh_()
        ctx.save_for_backward(activation, score)
        return activation @ score

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the gradients of keys, queries and v."""
        (grad,) = grads
        activation, score = ctx.saved_tensors
        for_score = grad.reshape(-1) @ activation.view(-1, activation.shape[2])
        inner = torch.addcmul(activation.new_ones(()), activation, activation, value=-1.0)
        inner.mul_(grad[:, :, None]).mul_(score)
        return inner, inner.sum(dim=1), for_score
