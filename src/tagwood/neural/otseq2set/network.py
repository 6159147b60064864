"""`SetNetwork`: a bi-GRU encoder, attention over words and over spans of words, and a GRU decoder of labels.

In: word ids. Out: step by step, features from which `SetOutput` computes logits. All kinds of `SetGenerator` share it;
they differ in what the decoder is fed with, in the loss, and in when decoding stops.

Decisions
---------
* The decoder starts from a layer on the encoder's last states and the embedding of a start symbol.
* Both contexts use the same attention parameters (Eq. 4 to 7), so words and spans are scored together; each of the two
  has its own softmax.
* The id after the last label is ∅ for set losses and the end symbol for the others.
* Light convolutions have kernels of 3, 7, 15 and 30 words as in the paper: depth-wise, softmax-normalised, one kernel
  per group of channels. There is nothing between the layers (the paper's parameter count leaves room for nothing else),
  so together they are one convolution with a kernel of 52 words whose weights are positive and sum to 1. It is computed
  as one matrix product; tests compare it with the layers in sequence.
* At the ends of a text the weights of missing words are left out of the mean, so padding has no effect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from tagwood.neural.otseq2set.packed_gru import PackedGRU, Packing

KERNELS = (3, 7, 15, 30)
STRIDE = 3
LOW = -1e4  # logit of a label that is not a candidate: its probability and gradient are 0 in float32


@dataclass(frozen=True)
class SetSizes:
    """Sizes of a network.

    `n_words` includes padding (0) and the unknown word (1); `n_labels` does not include ∅. `hidden` is the size of the
    decoder state and of both encoder directions together; `bottleneck` 0 means none; `global_embedding` mixes the
    embedding of the last label with the mean of all labels by probability (SGM).
    """

    n_words: int
    n_labels: int
    dimension: int = 100
    hidden: int = 256
    layers: int = 2
    bottleneck: int = 0
    light_conv: bool = True
    global_embedding: bool = False
    dropout: float = 0.2


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

    Parameters
    ----------
    labels
        (n_rows, n_columns) label ids in ascending order, then ∅ or the end, repeated as padding; only the last counts.
    allowed
        (n_rows, n_columns) False for padding.
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
    """Encoder, attention and decoder."""

    def __init__(self, sizes: SetSizes) -> None:
        super().__init__()
        self.sizes = sizes
        hidden, width = sizes.hidden, sizes.dimension
        contexts = 2 if sizes.light_conv else 1
        self.words = nn.Embedding(sizes.n_words, width, padding_idx=0)
        self.labels = nn.Embedding(sizes.n_labels + 2, width)
        self.encoder = PackedGRU(width, hidden // 2, sizes.layers, sizes.dropout)
        self.conv = LightConv() if sizes.light_conv else None
        self.first = nn.Linear(hidden, hidden)
        self.query = nn.Linear(hidden, hidden // 2)
        self.key = nn.Linear(hidden, hidden // 2, bias=False)
        self.score = nn.Parameter(torch.empty(hidden // 2).uniform_(-1, 1) * (2 / hidden) ** 0.5)
        self.decoder = nn.GRUCell(width + contexts * hidden, hidden)
        n_features = width + (1 + contexts) * hidden
        self.output = SetOutput(n_features, sizes.n_labels + 1, sizes.bottleneck)
        self.mix = nn.Linear(2 * width, width) if sizes.global_embedding else None
        self.drop = nn.Dropout(sizes.dropout)

    @property
    def end(self) -> int:
        """Id of ∅ or the end."""
        return self.sizes.n_labels

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
        real = torch.cat(
            [torch.arange(n, device=states.device) < some[:, None] for n, some in lengths], dim=1
        )
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


class LightConv(nn.Module):
    """Lightweight convolutions: weighted means over spans of words, one for every `stride` words.

    Parameters
    ----------
    groups
        Groups of channels, each with its own kernels; must divide the number of channels.
    kernels
        Kernel width of each layer.
    stride
        Of the last layer.

    Examples
    --------
    >>> conv = LightConv(groups=1)
    >>> means = conv(torch.tensor([[[1.0], [1.0], [1.0], [0.0]]]), torch.tensor([3])).detach()
    >>> means[0, :, 0].round(decimals=3).tolist(), conv.lengths(torch.tensor([1, 3, 4])).tolist()
    ([1.0, 0.0], [1, 1, 2])
    """

    def __init__(self, groups: int = 8, kernels: tuple[int, ...] = KERNELS, stride: int = STRIDE) -> None:
        super().__init__()
        self.groups, self.stride = groups, stride
        self.kernels = nn.ParameterList(nn.Parameter(0.1 * torch.randn(groups, width)) for width in kernels)

    def lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Return the number of spans of texts with this many words."""
        return torch.div(lengths + self.stride - 1, self.stride, rounding_mode="floor")

    def kernel(self) -> torch.Tensor:
        """Return the (groups, width) kernel of all layers together."""
        joined = torch.softmax(self.kernels[0], dim=1)
        for one in list(self.kernels)[1:]:
            weights = torch.softmax(one, dim=1).flip(1)[:, None]  # conv1d does not flip
            wide = nn.functional.pad(joined, (weights.shape[2] - 1, weights.shape[2] - 1))
            joined = nn.functional.conv1d(wide[None], weights, groups=self.groups)[0]
        return joined

    def offset(self) -> int:
        """Return the number of words by which the kernel starts before the span's own word."""
        return sum((one.shape[1] - 1) // 2 for one in self.kernels)

    def forward(self, states: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return (n_rows, fewer, channels) span states, 0 beyond `lengths(lengths)`.

        Parameters
        ----------
        states
            (n_rows, longest, channels).
        lengths
            (n_rows,) number of words of each text.
        """
        n_rows, longest, channels = states.shape
        places = torch.arange(longest, device=states.device)
        fewer = int(self.lengths(torch.tensor(longest)))
        real = (places < lengths[:, None]).to(states.dtype)
        weights = self._matrix(longest, fewer)  # (groups, fewer, longest)
        width = channels // self.groups
        # One product per group of channels: (fewer, longest) times (longest, n_rows * width).
        inside = (states * real[:, :, None]).view(n_rows, longest, self.groups, width).permute(2, 1, 0, 3)
        sums = torch.bmm(weights, inside.reshape(self.groups, longest, n_rows * width))
        mass = torch.matmul(weights, real.T).clamp_min(1e-9)  # (groups, fewer, n_rows)
        means = sums.view(self.groups, fewer, n_rows, width) / mass[..., None]
        kept = torch.arange(fewer, device=states.device) < self.lengths(lengths)[:, None]
        return means.permute(2, 1, 0, 3).reshape(n_rows, fewer, channels) * kept[:, :, None]

    def _matrix(self, longest: int, fewer: int) -> torch.Tensor:
        """Return the (groups, fewer, longest) weights of words in spans."""
        kernel = self.kernel()
        at = torch.arange(longest, device=kernel.device)
        at = at - self.stride * torch.arange(fewer, device=kernel.device)[:, None] + self.offset()
        inside = (at >= 0) & (at < kernel.shape[1])
        return kernel[:, at.clamp(0, kernel.shape[1] - 1)] * inside


class SetOutput(nn.Module):
    """The output layer (Eq. 9, and Eq. 10 with a bottleneck): one logit per label and one for ∅ or the end.

    Parameters
    ----------
    n_features, n_outputs
        Sizes; the last output is ∅ or the end.
    bottleneck
        Size of the layer in between, 0 for none.
    """

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
        return OutputWeights(
            nn.functional.embedding(columns.labels, self.weight), self.bias[columns.labels], columns
        )


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
