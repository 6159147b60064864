"""`Encoder`: what turns texts into features. In: texts. Out: a row of features per text, sparse or dense."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood.storage import State

Features: TypeAlias = "sparse.csr_array | NDArray[np.float32]"


@runtime_checkable
class Encoder(Protocol):
    """The protocol of every encoder.

    `fit` learns from texts, forgets earlier fits and returns self. `transform` changes nothing; row i of the
    result belongs to text i, an empty text gives a row of zeros. `n_features` is the number of columns once
    fitted.
    """

    @property
    def n_features(self) -> int:
        """Number of columns of the features."""
        ...

    def fit(self, texts: Iterable[str]) -> Self:
        """Learn from `texts`."""
        ...

    def transform(self, texts: Iterable[str]) -> Features:
        """Return (n_texts, n_features) float32 features: a CSR array, or a dense array."""
        ...

    def state(self) -> State:
        """Return everything needed to rebuild this encoder."""
        ...

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the encoder that `state` was taken from."""
        ...
