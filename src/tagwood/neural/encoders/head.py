"""A network that stays as it is, with a small head that is trained. In: `TokenRows`, or its states. Out: vectors.

Weights of others are good as they are, and slow to train without a GPU. So each text passes through the network once
(`StateMemory`), and the steps of a training see nothing but the head.

Decisions
---------
* The head is added to the state and begins at zero: an untrained head changes nothing.
* `FrozenRows` take the place of `TokenRows`: models that train an encoder need not know which of the two they have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tagwood.neural.encoders.modules import DROPOUT, EncoderModule
from tagwood.neural.encoders.tokens import TokenRows

Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class FrozenRows:
    """States of texts behind the part of a network that is not trained: (n, dimension), zeros for an empty text."""

    states: Vectors

    def __len__(self) -> int:
        return int(self.states.shape[0])

    def take(self, rows: NDArray[np.integer] | Sequence[int]) -> Self:
        """Return some rows, in the order given; a row may be asked for twice."""
        return type(self)(self.states[np.asarray(rows, dtype=np.int64)])


class HeadModule(EncoderModule):
    """A frozen network and a hidden layer beside its output, which alone is trained.

    Examples
    --------
    >>> from tagwood.neural.encoders.modules import BagModule
    >>> body = BagModule(300, 32)
    >>> module, tokens = HeadModule(body).eval(), TokenRows.of([[5, 6], []])
    >>> torch.equal(module(tokens), body.eval()(tokens))  # before it is trained
    True
    >>> sum(weight.numel() for weight in module.parameters() if weight.requires_grad)
    4256
    """

    def __init__(self, body: EncoderModule) -> None:
        d = body.dimension
        super().__init__(d, body.positions)
        self.frozen = body.requires_grad_(False)
        self.hidden = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Dropout(DROPOUT))
        self.out = nn.Linear(2 * d, d)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, tokens: TokenRows | FrozenRows) -> torch.Tensor:
        """Return (n_rows, dimension) vectors, differentiable by the head's weights."""
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
        """Switch the head to training; the rest never drops anything out."""
        super().train(mode)
        self.frozen.eval()
        return self


class StateMemory:
    """States of texts that a frozen network has seen, so that several trainings on the same texts embed them once.

    Examples
    --------
    >>> memory, tokens = StateMemory(), TokenRows.of([[5, 6], [7], [5, 6]])
    >>> memory.states(tokens, lambda rows: np.ones((len(rows), 2), np.float32)).shape, len(memory)
    ((3, 2), 2)
    """

    def __init__(self) -> None:
        self._states: dict[bytes, Vectors] = {}

    def __len__(self) -> int:
        return len(self._states)

    def states(self, tokens: TokenRows, embed: Callable[[TokenRows], Vectors]) -> Vectors:
        """Return the state of each row; `embed` is asked for those that are new."""
        keys = [
            tokens.ids[begin:end].tobytes()
            for begin, end in zip(tokens.indptr[:-1], tokens.indptr[1:], strict=True)
        ]
        new = {key: row for row, key in enumerate(keys) if key not in self._states}
        if new or not keys:
            found = embed(tokens.take(np.fromiter(new.values(), dtype=np.int64, count=len(new))))
            if not keys:
                return found
            self._states.update(zip(new, found, strict=True))
        return np.stack([self._states[key] for key in keys])
