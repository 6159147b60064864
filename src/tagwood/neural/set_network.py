"""`SetNetwork`: a bi-GRU encoder, attention over words and over stretches of words, and a GRU decoder of labels.

In: word numbers. Out: step after step, features of which `SetOutput` makes logits. All generators of label sets share
it; they differ in what the decoder is fed with, in the loss and in when it stops.

Decisions
---------
* The decoder starts from a layer on the encoder's last states, and with the embedding of a start sign.
* Both contexts use the same attention parameters (Eq. 4 to 7), so words and stretches are scored together and each
  of the two has its own softmax.
* The label after the last one is ∅ for set losses and the end for the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from tagwood.neural.light_conv import LightConv
from tagwood.neural.packed_gru import PackedGRU, Packing
from tagwood.neural.set_output import Columns, SetOutput


@dataclass(frozen=True)
class SetSizes:
    """Sizes of a network.

    `n_words` counts padding (0) and the unknown word (1); `n_labels` does not count ∅. `hidden` is the size of the
    decoder's state and of both directions of the encoder together; `bottleneck` 0 is none; `global_embedding` mixes
    the embedding of the last label with the mean of all by probability (SGM).
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
    """A batch of texts: `ids` (n_rows, longest) word numbers, 0 in padding, and `lengths` (n_rows,), at least 1."""

    ids: torch.Tensor
    lengths: torch.Tensor


class Memory(NamedTuple):
    """What the decoder looks at: words first, then stretches.

    `keys` (n_rows, n, attention) and `values` (n_rows, n, hidden), `bar` (n_rows, n) 0 or, in padding, -inf;
    `n_words` of the n are words; `start` (n_rows, hidden) is the decoder's first state.
    """

    keys: torch.Tensor
    values: torch.Tensor
    bar: torch.Tensor
    start: torch.Tensor
    n_words: int

    def rows(self, index: torch.Tensor) -> Memory:
        """Return the memory of some rows."""
        return Memory(self.keys[index], self.values[index], self.bar[index], self.start[index], self.n_words)


class Step(NamedTuple):
    """What a step of the decoder gives: `features` of its logits, its `state`, its `attention` to words."""

    features: torch.Tensor
    state: torch.Tensor
    attention: torch.Tensor


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
        """Number of ∅ or of the end."""
        return self.sizes.n_labels

    def forward(self, batch: Words) -> Memory:
        """Read texts."""
        vectors = self.drop(self.words(batch.ids))
        states, last = self.encoder(vectors, Packing.of(batch.lengths, batch.ids.shape[1]))
        states = self.drop(states)
        n_words = states.shape[1]
        lengths = [(n_words, batch.lengths)]
        if self.conv is not None:
            stretches = self.conv(states, batch.lengths)
            lengths.append((stretches.shape[1], self.conv.lengths(batch.lengths)))
            states = torch.cat([states, stretches], dim=1)
        real = torch.cat(
            [torch.arange(n, device=states.device) < some[:, None] for n, some in lengths], dim=1
        )
        bar = torch.zeros(real.shape, device=states.device, dtype=states.dtype)
        start = torch.tanh(self.first(last))
        return Memory(self.key(states), states, bar.masked_fill_(~real, -math.inf), start, n_words)

    def start(self, n_rows: int) -> torch.Tensor:
        """Return the (n_rows, dimension) input of the first step."""
        return self.labels.weight[-1].expand(n_rows, -1)

    def step(self, memory: Memory, state: torch.Tensor, embedded: torch.Tensor) -> Step:
        """Go on from a state with the embedding of the last label (Eq. 4 to 8)."""
        scores = AttentionScores.apply(memory.keys, self.query(state), self.score)  # type: ignore[no-untyped-call]
        scores = scores + memory.bar
        attention = torch.softmax(scores[:, : memory.n_words], dim=1)
        parts = [torch.bmm(attention[:, None], memory.values[:, : memory.n_words])[:, 0]]
        if self.conv is not None:
            wide = torch.softmax(scores[:, memory.n_words :], dim=1)
            parts.append(torch.bmm(wide[:, None], memory.values[:, memory.n_words :])[:, 0])
        state = self.decoder(torch.cat([embedded, *parts], dim=1), state)
        features = self.drop(torch.cat([state, *parts, embedded], dim=1))
        return Step(features, state, attention)

    def mixed(
        self, embedded: torch.Tensor, probabilities: torch.Tensor, columns: Columns | None = None
    ) -> torch.Tensor:
        """Return SGM's global embedding: the last label's and the mean of all by probability, mixed by a gate.

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


class AttentionScores(torch.autograd.Function):
    """Scores vᵀ tanh(W s + U h) (Eq. 6), keeping one array of words x attention size instead of three."""

    @staticmethod
    def forward(ctx: Any, keys: torch.Tensor, query: torch.Tensor, score: torch.Tensor) -> torch.Tensor:
        """Take keys (n_rows, n, size), queries (n_rows, size) and the vector v; return (n_rows, n)."""
        bent = torch.add(keys, query[:, None]).tanh_()
        ctx.save_for_backward(bent, score)
        return bent @ score

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the gradients of keys, queries and v."""
        (grad,) = grads
        bent, score = ctx.saved_tensors
        for_score = grad.reshape(-1) @ bent.view(-1, bent.shape[2])
        inner = torch.addcmul(bent.new_ones(()), bent, bent, value=-1.0)
        inner.mul_(grad[:, :, None]).mul_(score)
        return inner, inner.sum(dim=1), for_score
