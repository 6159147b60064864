"""Concatenate features, sparse or dense, with weights; `ConcatEncoder` does so for encoders.

In: features of the same rows, or texts. Out: one CSR array, for example TF-IDF beside sentence embeddings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from tagwood._check import Params, check_float
from tagwood._lazy import sparse
from tagwood._sparse import check_features, normalize_rows
from tagwood.errors import InputError
from tagwood.features.base import Encoder, check_texts
from tagwood.storage import State, restore, storable


def concat_features(blocks: Sequence[Any], weights: Sequence[float] | None = None) -> sparse.csr_array:
    """Return (n_rows, sum of columns) features: the blocks side by side, rows of norm 1.

    Each row of a block is scaled to norm 1 and multiplied by the block's weight (default all equal), so that weights
    do not depend on the scales of the blocks; then the whole row is scaled to norm 1.

    Examples
    --------
    >>> concat_features([[[2.0, 0.0]], [[5.0]]], weights=[3, 4]).toarray()
    array([[0.6, 0. , 0.8]], dtype=float32)
    """
    if not isinstance(blocks, Sequence) or not blocks:
        raise InputError("blocks must be a list of at least one feature matrix", given=repr(type(blocks).__name__))
    scaled: list[sparse.csr_array] = []
    for place, (block, weight) in enumerate(zip(blocks, _check_weights(weights, len(blocks)), strict=True)):
        part = normalize_rows(check_features(block, name=f"block {place}"))
        if scaled and part.shape[0] != scaled[0].shape[0]:
            raise InputError(
                f"block {place} must have the {scaled[0].shape[0]:,} rows of block 0",
                given=f"{part.shape[0]:,}",
            )
        part.data *= np.float32(weight)
        scaled.append(part)
    return normalize_rows(sparse.csr_array(sparse.hstack(scaled, format="csr")))


@storable("ConcatEncoder")
class ConcatEncoder(Params):
    """Encode texts with several encoders, sparse or dense, and concatenate their features (see `concat_features`).

    Examples
    --------
    >>> from tagwood.features.tfidf import TfidfEncoder
    >>> words, chars = TfidfEncoder(min_df=1), TfidfEncoder(analyzer="char", min_df=1)
    >>> encoder = ConcatEncoder([words, chars], weights=[2, 1]).fit(["fir", "oak"])
    >>> encoder.transform(["fir"]).shape == (1, words.n_features + chars.n_features)
    True
    """

    def __init__(self, encoders: Sequence[Encoder], weights: Sequence[float] | None = None) -> None:
        self.encoders = encoders
        self.weights = weights

    def fit(self, texts: Iterable[str], y: object = None) -> Self:
        """Fit every encoder on `texts`; `y` is ignored."""
        self.check_params()
        texts = list(check_texts(texts))
        for encoder in self.encoders:
            encoder.fit(texts)
        return self

    def transform(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return (n_texts, n_features) features, rows of norm 1."""
        texts = list(check_texts(texts))
        return concat_features([encoder.transform(texts) for encoder in self.encoders], self.weights)

    @property
    def n_features(self) -> int:
        """Number of columns of the features."""
        return sum(encoder.n_features for encoder in self.encoders)

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        if not isinstance(self.encoders, Sequence) or not self.encoders:
            raise InputError("encoders must be a list of at least one encoder", given=repr(self.encoders))
        _check_weights(self.weights, len(self.encoders))
        for encoder in self.encoders:
            check = getattr(encoder, "check_params", None)
            if check is not None:
                check()

    def state(self) -> State:
        """Return the weights and the states of the encoders."""
        weights = None if self.weights is None else [float(weight) for weight in self.weights]
        parts = {f"encoder_{place}": encoder.state() for place, encoder in enumerate(self.encoders)}
        return State("ConcatEncoder", params={"weights": weights}, parts=parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the encoder and its parts."""
        encoders = [restore(state.part(f"encoder_{place}")) for place in range(len(state.parts))]
        return cls(encoders, _check_weights(state.param("weights", list, type(None)), len(encoders)))


def _check_weights(weights: Sequence[float] | None, n: int) -> list[float]:
    if weights is None:
        return [1.0] * n
    if len(weights) != n:
        raise InputError(f"weights must have one number for each of the {n} blocks", given=f"{len(weights)}")
    return [check_float(weight, f"weights[{place}]", above=0.0) for place, weight in enumerate(weights)]
