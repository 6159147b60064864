"""Networks that turn the tokens of texts into one vector per text, not normalised, zeros for an empty text.

In: `TokenRows`, or what frozen parts of a network made of them (`FrozenRows`, `TokenStates`). `BagModule` is the
fastest; `TransformerModule` is a transformer without padding, for random weights and those of BERT models; `HeadModule`
trains a small head behind any of them, `TopModule` the last layers of a transformer.

Decisions
---------
* Transformer rows are concatenated in order of length: everything that works on single tokens (nine tenths of the time)
  sees no padding, and attention runs over groups of rows of equal length.
* Pretrained weights are good as they are, and slow to train without a GPU. So a frozen network sees each text once
  (`StateMemory`), and training steps involve only the head. The head is added to the state and starts at zero: an
  untrained head changes nothing.
* The last two layers of MiniLM take a third of the time of all six, and learn from states that are computed once.
  States of tokens are stored as float16: 64 tokens of 384 numbers are 49 kB per text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tagwood._check import check_float, check_int
from tagwood.errors import InputError
from tagwood.neural.encoders.tokens import TokenRows

MAX_TOKENS = 4096  # tokens computed together; more is not faster and takes more memory
DROPOUT = 0.1
TOP_LAYERS = 2  # layers that `TopModule` trains


class EncoderModule(nn.Module):
    """Base of all networks: rows of at most `positions` tokens (None: no limit) to vectors of length `dimension`."""

    def __init__(self, dimension: int, positions: int | None = None) -> None:
        super().__init__()
        self.dimension, self.positions = dimension, positions

    def forward(self, tokens: TokenRows) -> torch.Tensor:
        """Return (n_rows, dimension) vectors, differentiable."""
        raise NotImplementedError

    def scatter(self, n_rows: int, parts: Iterable[tuple[NDArray[np.int64], torch.Tensor]]) -> torch.Tensor:
        """Return (n_rows, dimension) vectors from rows and their vectors in several parts; zeros elsewhere."""
        zeros = torch.zeros(n_rows, self.dimension, device=next(self.parameters()).device)
        listed = list(parts)
        if not listed:
            return zeros
        rows = torch.from_numpy(np.concatenate([rows for rows, _ in listed])).to(zeros.device)
        return zeros.index_copy(0, rows, torch.cat([vectors for _, vectors in listed]).float())


class BagModule(EncoderModule):
    """A weighted bag of token vectors with a residual hidden layer: the fastest encoder, blind to word order.

    Untrained it is a random projection of TF-IDF: rare tokens weigh more, and the hidden layer adds nothing.

    `rarity` (n_tokens,) are initial weights of the tokens, such as their inverse document frequency; default 1.
    """

    def __init__(self, n_tokens: int, dimension: int, rarity: torch.Tensor | None = None) -> None:
        super().__init__(dimension)
        self.vectors = nn.Embedding(n_tokens, dimension)
        nn.init.normal_(self.vectors.weight, std=1.0 / math.sqrt(dimension))
        self.log_weights = nn.Parameter(torch.zeros(n_tokens) if rarity is None else rarity.float().log())
        self.hidden, self.out = _residual_layer(dimension)

    def forward(self, tokens: TokenRows) -> torch.Tensor:
        """Return (n_rows, dimension) vectors, differentiable; nothing is padded."""
        device = self.vectors.weight.device
        ids = torch.from_numpy(tokens.ids).long().to(device)
        lengths = torch.from_numpy(tokens.lengths).to(device)
        weights = self.log_weights[ids].exp()
        total = nn.functional.embedding_bag(
            ids,
            self.vectors.weight,
            torch.from_numpy(tokens.indptr[:-1]).to(device),
            mode="sum",
            per_sample_weights=weights,
        )
        bag = total * lengths.clamp(min=1).unsqueeze(1).rsqrt()
        vectors: torch.Tensor = (bag + self.out(self.hidden(bag))) * (lengths > 0).unsqueeze(1)
        return vectors


def _residual_layer(d: int) -> tuple[nn.Sequential, nn.Linear]:
    """Return a hidden layer and its output layer, which starts at zero."""
    hidden = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Dropout(DROPOUT))
    out = nn.Linear(2 * d, d)
    nn.init.zeros_(out.weight)
    nn.init.zeros_(out.bias)
    return hidden, out


@dataclass(frozen=True, eq=False)
class FrozenRows:
    """Outputs of a frozen network for texts: (n, dimension), zeros for an empty text.

    They take the place of `TokenRows` in training: models need not know which of the two they have.
    """

    states: NDArray[np.float32]

    def __len__(self) -> int:
        return int(self.states.shape[0])

    def take(self, rows: NDArray[np.integer] | Sequence[int]) -> Self:
        """Return some rows in the given order; a row may be taken more than once."""
        return type(self)(self.states[np.asarray(rows, dtype=np.int64)])


class HeadModule(EncoderModule):
    """A frozen network with a residual hidden layer behind it, which is all that is trained."""

    def __init__(self, body: EncoderModule) -> None:
        d = body.dimension
        super().__init__(d, body.positions)
        self.frozen = body.requires_grad_(False)
        self.hidden, self.out = _residual_layer(d)

    def forward(self, tokens: TokenRows | FrozenRows) -> torch.Tensor:
        """Return (n_rows, dimension) vectors, differentiable with respect to the head."""
        device = self.out.weight.device
        if isinstance(tokens, FrozenRows):
            states = torch.from_numpy(tokens.states).to(device)
        else:
            with torch.no_grad():
                states = self.frozen(tokens)
        real = (states != 0).any(dim=1, keepdim=True)
        vectors: torch.Tensor = (states + self.out(self.hidden(states))) * real
        return vectors

    def train(self, mode: bool = True) -> Self:
        """Switch the mode of the head; the frozen network stays in evaluation mode."""
        super().train(mode)
        self.frozen.eval()
        return self


class StateMemory:
    """Outputs of a frozen network by text, so that several trainings on the same texts compute them once."""

    def __init__(self) -> None:
        self._states: dict[bytes, NDArray[np.float32]] = {}

    def __len__(self) -> int:
        return len(self._states)

    def states(self, tokens: TokenRows, embed: Callable[[TokenRows], NDArray[np.float32]]) -> NDArray[np.float32]:
        """Return the output for each row; `embed` computes those that are new."""
        keys = [
            tokens.ids[begin:end].tobytes() for begin, end in zip(tokens.indptr[:-1], tokens.indptr[1:], strict=True)
        ]
        new = {key: row for row, key in enumerate(keys) if key not in self._states}
        if new or not keys:
            found = embed(tokens.take(np.fromiter(new.values(), dtype=np.int64, count=len(new))))
            if not keys:
                return found
            self._states.update(zip(new, found, strict=True))
        return np.stack([self._states[key] for key in keys])


class EqualRows(NamedTuple):
    """Consecutive rows of equal length: `n` rows of `length` tokens, from token `begin` on."""

    begin: int
    n: int
    length: int


@dataclass(frozen=True)
class TransformerShape:
    """Sizes of a transformer. `norm_first` (pre-norm) is for training from scratch; BERT is post-norm."""

    n_tokens: int
    dimension: int
    layers: int
    positions: int
    heads: int
    width: int
    norm_first: bool = True
    eps: float = 1e-5

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Return a checked shape from values of a file."""
        known = {one.name for one in fields(cls)}
        if values.keys() != known or not isinstance(values["norm_first"], bool):
            raise InputError("a stored transformer must have its sizes", given=f"{sorted(values)}")
        for name in known - {"norm_first", "eps"}:
            check_int(values[name], name, low=1, high=1 << 24)
        check_float(values["eps"], "eps", above=0.0)
        if values["dimension"] % values["heads"]:
            raise InputError("heads must divide the dimension", given=f"{values['heads']}")
        return cls(**values)


class TransformerModule(EncoderModule):
    """A mean-pooled transformer."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__(shape.dimension, shape.positions)
        self.shape = shape
        self.vectors = nn.Embedding(shape.n_tokens, shape.dimension)
        self.places = nn.Embedding(shape.positions, shape.dimension)
        for table in (self.vectors, self.places):
            nn.init.normal_(table.weight, std=1.0 / math.sqrt(shape.dimension))
        self.drop = nn.Dropout(DROPOUT)
        self.layers = nn.ModuleList(TransformerLayer(shape) for _ in range(shape.layers))
        # Applied to the first states, or to the last ones with norm_first.
        self.norm = nn.LayerNorm(shape.dimension, eps=shape.eps)

    def forward(self, tokens: TokenRows) -> torch.Tensor:
        """Return (n_rows, dimension) vectors, differentiable."""
        blocks = length_blocks(tokens.lengths, MAX_TOKENS)
        return self.scatter(len(tokens), ((rows, self._embed(tokens.take(rows))) for rows in blocks))

    def _embed(self, tokens: TokenRows) -> torch.Tensor:
        return self.pool(self.states(tokens, 0), equal_rows(tokens.lengths), 0)

    def states(self, tokens: TokenRows, n_layers: int) -> torch.Tensor:
        """Return the (n_tokens, d) states after some layers of rows of ascending lengths."""
        device = self.vectors.weight.device
        lengths = tokens.lengths
        groups = equal_rows(lengths)
        at = np.arange(tokens.ids.size) - np.repeat(tokens.indptr[:-1], lengths)
        ids, spots = (torch.from_numpy(part.astype(np.int64)).to(device) for part in (tokens.ids, at))
        states: torch.Tensor = self.vectors(ids) + self.places(spots)
        states = self.drop(states if self.shape.norm_first else self.norm(states))
        for layer in self.layers[:n_layers]:
            states = layer(states, groups)
        return states

    def pool(self, states: torch.Tensor, groups: Sequence[EqualRows], from_layer: int) -> torch.Tensor:
        """Return one vector per row from the states before a layer."""
        for layer in self.layers[from_layer:]:
            states = layer(states, groups)
        states = self.norm(states) if self.shape.norm_first else states
        return torch.cat([_cut(states, one).mean(dim=1) for one in groups])


@dataclass(frozen=True, eq=False)
class TokenStates:
    """States of the tokens of texts after the frozen layers of a `TopModule`.

    Row i has the states with the numbers ``places.ids[places.indptr[i]:places.indptr[i + 1]]``; `states` (n_tokens, d)
    are shared by all parts that are taken.
    """

    places: TokenRows
    states: NDArray[np.float16]

    def __len__(self) -> int:
        return len(self.places)

    def take(self, rows: NDArray[np.integer] | Sequence[int]) -> Self:
        """Return some rows in the given order; a row may be taken more than once."""
        return type(self)(self.places.take(rows), self.states)


class TopModule(EncoderModule):
    """A transformer of which only the last layers are trained; the others see each text once."""

    def __init__(self, network: TransformerModule) -> None:
        super().__init__(network.dimension, network.positions)
        self.network = network.requires_grad_(False)
        self.n_frozen = max(0, len(network.layers) - TOP_LAYERS)
        network.layers[self.n_frozen :].requires_grad_(True)
        if network.shape.norm_first:
            network.norm.requires_grad_(True)

    def forward(self, tokens: TokenRows | TokenStates) -> torch.Tensor:
        """Return (n_rows, dimension) vectors, differentiable with respect to the last layers."""
        lengths = (tokens.places if isinstance(tokens, TokenStates) else tokens).lengths
        blocks = length_blocks(lengths, MAX_TOKENS)
        return self.scatter(len(tokens), ((rows, self._embed(tokens.take(rows))) for rows in blocks))

    def freeze(self, tokens: TokenRows) -> TokenStates:
        """Return the states of texts after the frozen layers."""
        places = TokenRows(np.arange(tokens.ids.size, dtype=np.int32), tokens.indptr)
        states = np.empty((tokens.ids.size, self.dimension), dtype=np.float16)
        for rows in length_blocks(tokens.lengths, MAX_TOKENS):
            states[places.take(rows).ids] = self._lower(tokens.take(rows)).to(torch.float16).cpu().numpy()
        return TokenStates(places, states)

    def _lower(self, tokens: TokenRows) -> torch.Tensor:
        with torch.no_grad():
            return self.network.states(tokens, self.n_frozen)

    def _embed(self, tokens: TokenRows | TokenStates) -> torch.Tensor:
        if isinstance(tokens, TokenRows):
            return self.network.pool(self._lower(tokens), equal_rows(tokens.lengths), self.n_frozen)
        states = torch.from_numpy(tokens.states[tokens.places.ids]).to(self.network.vectors.weight.device)
        return self.network.pool(states.float(), equal_rows(tokens.places.lengths), self.n_frozen)

    def train(self, mode: bool = True) -> Self:
        """Switch the mode of the last layers; the frozen ones stay in evaluation mode."""
        super().train(mode)
        self.network.drop.eval()
        self.network.layers[: self.n_frozen].eval()
        return self


EncoderInputs = TokenRows | FrozenRows | TokenStates


class TransformerLayer(nn.Module):
    """Attention and a feed-forward network, each with a residual connection."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        d = shape.dimension
        self.heads, self.norm_first = shape.heads, shape.norm_first
        self.norm_1, self.norm_2 = nn.LayerNorm(d, eps=shape.eps), nn.LayerNorm(d, eps=shape.eps)
        self.qkv = nn.Linear(d, 3 * d)
        self.mix = nn.Linear(d, d)
        self.wide = nn.Sequential(nn.Linear(d, shape.width), nn.GELU(), nn.Linear(shape.width, d))
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, states: torch.Tensor, groups: Sequence[EqualRows]) -> torch.Tensor:
        """Return the (n_tokens, d) states of the next layer."""
        if self.norm_first:
            states = states + self.drop(self._attend(self.norm_1(states), groups))
            wider: torch.Tensor = self.drop(self.wide(self.norm_2(states)))
            return states + wider
        states = self.norm_1(states + self.drop(self._attend(states, groups)))
        found: torch.Tensor = self.norm_2(states + self.drop(self.wide(states)))
        return found

    def _attend(self, states: torch.Tensor, groups: Sequence[EqualRows]) -> torch.Tensor:
        d = states.shape[1]
        qkv = self.qkv(states)
        found = []
        for one in groups:
            parts = _cut(qkv, one).view(one.n, one.length, 3, self.heads, d // self.heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
            found.append(mixed.transpose(1, 2).reshape(-1, d))
        mixed_all: torch.Tensor = self.mix(torch.cat(found))
        return mixed_all


def length_blocks(lengths: NDArray[np.int64], most: int) -> list[NDArray[np.int64]]:
    """Return the numbers of the rows with tokens, sorted by length, in blocks of at most `most` tokens (or one row).

    Examples
    --------
    >>> [block.tolist() for block in length_blocks(np.array([5, 0, 2, 3]), 5)]
    [[2, 3], [0]]
    """
    order = np.argsort(lengths, kind="stable")
    order = order[np.searchsorted(lengths[order], 1) :]
    found, begin, tokens = [], 0, 0
    for place, length in enumerate(lengths[order].tolist()):
        if place > begin and tokens + length > most:
            found.append(order[begin:place])
            begin, tokens = place, 0
        tokens += length
    return [*found, order[begin:]] if begin < order.size else found


def equal_rows(lengths: NDArray[np.int64]) -> list[EqualRows]:
    """Group rows of ascending lengths into rows of equal length."""
    sizes, counts = np.unique(lengths, return_counts=True)
    begins = np.concatenate([[0], np.cumsum(sizes * counts)])
    return [EqualRows(*map(int, one)) for one in zip(begins[:-1], counts, sizes, strict=True)]


def _cut(states: torch.Tensor, one: EqualRows) -> torch.Tensor:
    """Return the (n, length, d) states of rows of equal length."""
    return states[one.begin : one.begin + one.n * one.length].view(one.n, one.length, -1)
