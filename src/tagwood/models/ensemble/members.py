"""The members of an `Ensemble`, and the candidates of all of them.

In: models of any kind and their rankings. Out: one score per member and candidate, as arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood.errors import InputError
from tagwood.features.base import takes_texts
from tagwood.features.tfidf import TfidfEncoder
from tagwood.ranking import Ranking

Floats = NDArray[np.float64]
_FEWEST = 100  # held-out rows to learn from


class Member(NamedTuple):
    """A model, and the encoder that makes its features from texts, or None."""

    encoder: Any
    model: Any

    @property
    def takes_texts(self) -> bool:
        """Whether the member reads texts, itself or by its encoder."""
        return self.encoder is not None or takes_texts(self.model)

    @property
    def is_fitted(self) -> bool:
        """Whether the model is fitted."""
        return hasattr(self.model, "n_labels_")

    def fresh(self, texts: bool) -> Member:
        """Return an unfitted copy; in an ensemble that reads texts, with an encoder where one is needed."""
        model = type(self.model)(**self.model.get_params(deep=False))
        if not texts or takes_texts(model):
            return Member(None, model)
        encoder = (
            TfidfEncoder()
            if self.encoder is None
            else type(self.encoder)(**self.encoder.get_params(deep=False))
        )
        return Member(encoder, model)

    def fit(self, rows: Any, Y: Any, options: dict[str, Any]) -> None:
        """Fit encoder and model; the model gets those options that its `fit` knows and that are not None."""
        if self.encoder is not None:
            self.encoder.fit(rows)
        known = inspect.signature(self.model.fit).parameters
        given = {name: value for name, value in options.items() if name in known and value is not None}
        self.model.fit(self.encode(rows), Y, **given)

    def encode(self, rows: Any) -> Any:
        """Return what the model reads."""
        return rows if self.encoder is None else self.encoder.transform(rows)

    def settled(self) -> Any:
        """Return a member to train again, with what the model chose by trials of its own (``settled``)."""
        settle = getattr(self.model, "settled", None)
        model = type(self.model)(**self.model.get_params(deep=False)) if settle is None else settle()
        return model if self.encoder is None else (self.encoder, model)

    def check(self) -> None:
        """Raise `InputError` for a parameter of the model with an invalid value."""
        check = getattr(self.model, "check_params", None)
        if check is not None:
            check()


def as_member(value: Any) -> Member:
    """Return one of `members` as a `Member`: a model, a pair (encoder, model), or a Tagger."""
    if isinstance(value, tuple) and len(value) == 2:
        encoder, model = value
    elif hasattr(value, "encoder_") and hasattr(value, "model_"):  # a fitted Tagger
        encoder, model = value.encoder_, value.model_
    else:
        encoder, model = None, value
    if not all(hasattr(model, name) for name in ("fit", "rank", "predict", "get_params")):
        raise InputError(
            "a member must be a model, a pair (encoder, model) or a fitted Tagger",
            given=type(model).__name__,
        )
    return Member(None if takes_texts(model) else encoder, model)


class Candidates(NamedTuple):
    """The labels of each row that some member returned.

    cells
        Rising ``row * n_labels + label``.
    row
        The row of each cell.
    starts
        Where each row that has cells begins in `cells`.
    n_rows, n_labels
        Shape.
    """

    cells: NDArray[np.int64]
    row: NDArray[np.int64]
    starts: NDArray[np.int64]
    n_rows: int
    n_labels: int

    @classmethod
    def of(cls, rankings: Sequence[Ranking]) -> Self:
        """Collect the labels of rankings of the same rows."""
        first = rankings[0]
        cells = np.unique(np.concatenate([_cells(ranking) for ranking in rankings]))
        row = cells // max(1, first.n_labels)
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        return cls(cells, row, starts, first.n_rows, first.n_labels)

    def scores(self, ranking: Ranking, model: Any, X: Any) -> Floats:
        """Return a member's score of each cell: from its ranking, by `score_labels`, or its lowest of the row."""
        scores = np.full(self.cells.size, np.nan)
        scores[np.searchsorted(self.cells, _cells(ranking))] = ranking.scores
        missing = np.flatnonzero(np.isnan(scores))
        if missing.size and hasattr(model, "score_labels"):
            pairs = np.stack([self.row[missing], self.cells[missing] % self.n_labels], axis=1)
            scores[missing] = model.score_labels(X, pairs)
        elif missing.size:
            lowest = np.zeros(self.n_rows)
            filled = np.flatnonzero(np.diff(ranking.indptr))
            lowest[filled] = ranking.scores[ranking.indptr[filled + 1] - 1]
            scores[missing] = lowest[self.row[missing]]
        return scores

    def right(self, Y: sparse.csr_array) -> Floats:
        """Return whether each cell is a true label, 1 or 0."""
        rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
        found: Floats = np.isin(self.cells, rows * np.int64(self.n_labels) + Y.indices).astype(np.float64)
        return found

    def scaled(self, scores: Floats) -> Floats:
        """Return the scores of each row, scaled to go from 0 to 1."""
        if scores.size == 0:
            return scores
        sizes = np.diff(np.append(self.starts, scores.size))
        low = np.repeat(np.minimum.reduceat(scores, self.starts), sizes)
        high = np.repeat(np.maximum.reduceat(scores, self.starts), sizes)
        scaled: Floats = (scores - low) / np.where(high > low, high - low, 1.0)
        return scaled

    def ranking(self, scores: Floats, k: int) -> Ranking:
        """Return the best `k` cells of each row."""
        indptr = np.searchsorted(self.row, np.arange(self.n_rows + 1))
        shape = (self.n_rows, self.n_labels)
        return Ranking.from_csr(
            sparse.csr_array((scores, self.cells % max(1, self.n_labels), indptr), shape=shape), k
        )


def _cells(ranking: Ranking) -> NDArray[np.int64]:
    rows = np.repeat(np.arange(ranking.n_rows), np.diff(ranking.indptr))
    cells: NDArray[np.int64] = rows * np.int64(max(1, ranking.n_labels)) + ranking.labels
    return cells


def fit_members(members: list[Member], rows: Any, Y: Any, options: dict[str, Any]) -> list[Member]:
    """Fit members on the same rows and return them."""
    for member in members:
        member.fit(rows, Y, options)
    return members


def split_rows(n_rows: int, holdout: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows to train on, and those to calibrate on: a share `holdout`, or none if they are too few."""
    count = round(holdout * n_rows)
    order = np.random.default_rng(0).permutation(n_rows)
    cut = count if count >= _FEWEST else 0
    return np.sort(order[cut:]), np.sort(order[:cut])


def some_rows(X: Any, index: NDArray[np.int64]) -> Any:
    """Return some rows of texts or features."""
    return [X[row] for row in index] if isinstance(X, list) else X[index]


def vote(members: Sequence[Member], shares: Floats, rows: Any) -> sparse.csr_array:
    """Return the label sets that members with half of the shares predict."""
    votes = sum(
        share * member.model.predict(member.encode(rows)).astype(np.float64)
        for share, member in zip(shares, members, strict=True)
    )
    kept = sparse.csr_array(votes)
    kept.data = (kept.data >= 0.5 - 1e-9).astype(np.float32)
    kept.eliminate_zeros()
    return kept


def check_weights(weights: Any, n_members: int) -> None:
    """Raise `InputError` for invalid weights."""
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (n_members,) or not np.all(np.isfinite(given)) or np.any(given <= 0):
        raise InputError(
            f"weights must hold one positive number for each of the {n_members} members", given=str(weights)
        )
