"""Networks that embed token rows. In: `TokenRows`. Out: one vector per row, not normalised, zeros for an empty row.

`EncoderModule` cuts rows into stretches of like length, so that padding is rare; the kinds below it embed a rectangle.
`BagModule` and `SmallModule` start from random weights; see `pretrained_module` for weights of others.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from tagwood.neural.token_rows import TokenRows

MAX_TOKENS = 4096  # cells of a rectangle: more does not run faster and takes more memory
DROPOUT = 0.1
_HEAD = 32  # numbers per attention head


class EncoderModule(nn.Module):
    """Base: rows of tokens to vectors of `dimension` numbers."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def forward(self, tokens: TokenRows) -> torch.Tensor:
        """Return (n_rows, dimension) vectors, differentiable."""
        device = next(self.parameters()).device
        places, found = [], []
        for rows in tokens.chunks(MAX_TOKENS):
            ids, real = tokens.padded(rows)
            mask = None if real is None else torch.from_numpy(real).to(device)
            found.append(self.embed(torch.from_numpy(ids).to(device), mask))
            places.append(torch.from_numpy(rows))
        if not found:
            return torch.zeros(len(tokens), self.dimension, device=device)
        vectors = torch.cat(found).float()
        zeros = vectors.new_zeros(len(tokens), self.dimension)
        return zeros.index_copy(0, torch.cat(places).to(device), vectors)

    def embed(self, ids: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        """Return (n, dimension) vectors of (n, length) tokens; `real` is False for padding, None without padding."""
        raise NotImplementedError


def mean_pool(states: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
    """Return the mean of (n, length, d) states over what is real.

    Examples
    --------
    >>> mean_pool(torch.tensor([[[1.0], [3.0]]]), torch.tensor([[True, False]])).tolist()
    [[1.0]]
    """
    if real is None:
        return states.mean(dim=1)
    weights = real.to(states.dtype).unsqueeze(-1)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


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

    def embed(self, ids: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        """Return the vectors of a rectangle; `forward` does not need it."""
        keep = torch.ones_like(ids, dtype=torch.bool) if real is None else real
        rows = TokenRows.of([row[mask].tolist() for row, mask in zip(ids, keep, strict=True)])
        return self.forward(rows)


class SmallModule(EncoderModule):
    """A transformer of a few layers (norm first), mean-pooled, for weights that are trained from scratch."""

    def __init__(self, n_tokens: int, dimension: int, layers: int, max_length: int) -> None:
        super().__init__(dimension)
        self.vectors = nn.Embedding(n_tokens, dimension)
        self.places = nn.Embedding(max_length, dimension)
        for table in (self.vectors, self.places):
            nn.init.normal_(table.weight, std=1.0 / math.sqrt(dimension))
        self.first = nn.Dropout(DROPOUT)
        self.layers = nn.ModuleList(Layer(dimension) for _ in range(layers))
        self.last = nn.LayerNorm(dimension)

    def embed(self, ids: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        """Return the mean of the last layer's states."""
        states = self.first(self.vectors(ids) + self.places.weight[: ids.shape[1]])
        for layer in self.layers:
            states = layer(states, real)
        return mean_pool(self.last(states), real)


class Layer(nn.Module):
    """One layer of a transformer: attention, then a network of four times the width, each added to what came."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.heads = max(1, dimension // _HEAD)
        self.norm_1, self.norm_2 = nn.LayerNorm(dimension), nn.LayerNorm(dimension)
        self.qkv = nn.Linear(dimension, 3 * dimension)
        self.mix = nn.Linear(dimension, dimension)
        self.wide = nn.Sequential(
            nn.Linear(dimension, 4 * dimension), nn.GELU(), nn.Linear(4 * dimension, dimension)
        )
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, states: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        """Return (n, length, d) states of the next layer."""
        n, length, d = states.shape
        parts = self.qkv(self.norm_1(states)).view(n, length, 3, self.heads, d // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mask = None if real is None else real[:, None, None, :]
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        states = states + self.drop(self.mix(mixed.transpose(1, 2).reshape(n, length, d)))
        wider: torch.Tensor = self.drop(self.wide(self.norm_2(states)))
        return states + wider
