"""Networks that embed token rows. In: `TokenRows`. Out: one vector per row, not normalised, zeros for an empty row.

`EncoderModule` is what all kinds offer; `BagModule` is the fastest. See `transformer_module` and `pretrained_module`.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from tagwood.neural.token_rows import TokenRows

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
