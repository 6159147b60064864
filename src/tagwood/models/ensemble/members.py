"""The members of an `Ensemble`: models of any kind, what each of them reads, and how they are fitted and asked.

In: models, pairs (encoder, model) or fitted Taggers; texts or features. Out: fitted members and their rankings.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood._lazy import sparse
from tagwood._sparse import CsrParts
from tagwood.errors import InputError
from tagwood.features.base import Encoder, takes_texts
from tagwood.models.label_filter import LabelFilter
from tagwood.ranking import Ranking

_SMALL = 5000  # up to so many rows, every row is held out once
_FOLDS = 5
_FEWEST = 100  # held-out rows that are worth learning from
_MOST = 6000  # held-out rows that are needed


class Member(NamedTuple):
    """A model with a name of its own, and its own encoder; None where it reads texts or the common features."""

    name: str
    encoder: Any
    model: Any

    @property
    def takes_texts(self) -> bool:
        """Whether the member reads texts, itself or by its own encoder."""
        return self.encoder is not None or takes_texts(self.model)

    @property
    def takes_parts(self) -> bool:
        """Whether the model can rank features as kernel arrays."""
        return bool(getattr(self.model, "takes_parts", False))

    @property
    def is_fitted(self) -> bool:
        """Whether the model is fitted."""
        return hasattr(self.model, "n_labels_")

    def fresh(self) -> Member:
        """Return a member with an unfitted copy of the model, which does not repeat trials that it has made."""
        settle = getattr(self.model, "settled", None)
        if settle is not None and self.is_fitted:
            return self._replace(model=settle())
        return self._replace(model=type(self.model)(**self.model.get_params(deep=False)))

    def fit(self, rows: Any, Y: sparse.csr_array, options: dict[str, Any]) -> Member:
        """Fit the model on encoded rows; it gets those options that its `fit` knows and that are not None."""
        known = inspect.signature(self.model.fit).parameters
        given = {name: value for name, value in options.items() if name in known and value is not None}
        self.model.fit(rows, Y, **given)
        return self

    def rank(self, rows: Any, k: int, allowed: LabelFilter | None = None) -> Ranking:
        """Return the model's best `k` labels of encoded rows among the allowed ones."""
        if allowed is None:
            return self._rank(rows, k)
        own = allowed.resized(int(self.model.n_labels_))
        if takes_exclude(type(self.model).rank):
            return self._rank(rows, k, exclude=own.complement)
        whole = self._rank(rows, min(own.n_labels, k + len(own.complement)))
        use = own.mask[whole.labels]
        kept = np.concatenate([[0], np.cumsum(use)])[whole.indptr]
        return Ranking.from_trusted(kept, whole.labels[use], whole.scores[use], whole.n_labels).top(k)

    def _rank(self, rows: Any, k: int, **limits: Any) -> Ranking:
        ranking: Ranking = self.model.rank(rows, k, **limits)
        return ranking


@cache
def takes_exclude(rank: Callable[..., Ranking]) -> bool:
    """Whether a method `rank` takes labels to exclude."""
    return "exclude" in inspect.signature(rank).parameters


def as_members(values: Any) -> list[Member]:
    """Return what users give as members: models, pairs (encoder, model), fitted Taggers, or named members."""
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise InputError("members must be a list of models", given=repr(values)[:60])
    pairs = [value if isinstance(value, Member) else Member("", *_pair(value)) for value in values]
    kinds = [member.name or type(member.model).__name__ for member in pairs]
    often, seen = Counter(kinds), Counter[str]()
    members = []
    for kind, (_, encoder, model) in zip(kinds, pairs, strict=True):
        seen[kind] += 1
        name = kind if often[kind] == 1 else f"{kind} {seen[kind]}"
        members.append(Member(name, None if takes_texts(model) else encoder, model))
    return members


def _pair(value: Any) -> tuple[Any, Any]:
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
    return encoder, model


class Inputs(NamedTuple):
    """What each member reads of the same rows, and how long each row is."""

    of: list[Any]
    lengths: NDArray[np.int64]

    @classmethod
    def encode(cls, members: Sequence[Member], encoder: Encoder | None, rows: Any, *, parts: bool = False) -> Inputs:
        """Encode texts once for all members; features, where `encoder` is None and no member reads texts, stay.

        With `parts`, common features are kernel arrays if all members can rank those: for one text, a matrix takes as
        long to make as a search.
        """
        if encoder is None and not any(member.takes_texts for member in members):
            return cls([rows] * len(members), _lengths(rows))
        common: Any = None
        if encoder is not None:
            fast = parts and all(member.takes_texts or member.takes_parts for member in members)
            to_parts = getattr(encoder, "transform_parts", None) if fast else None
            common = encoder.transform(rows) if to_parts is None else to_parts(rows)
        of = [
            rows if takes_texts(member.model) else common if member.encoder is None else member.encoder.transform(rows)
            for member in members
        ]
        return cls(of, _lengths(rows if common is None else common))

    def members(self, places: Sequence[int]) -> Inputs:
        """Return what some of the members read."""
        return self._replace(of=[self.of[place] for place in places])

    def some(self, index: NDArray[np.int64]) -> Inputs:
        """Return some of the rows."""
        parts: dict[int, Any] = {}
        for rows in self.of:
            if id(rows) not in parts:
                parts[id(rows)] = [rows[row] for row in index] if isinstance(rows, list) else rows[index]
        return Inputs([parts[id(rows)] for rows in self.of], self.lengths[index])


def _lengths(rows: Any) -> NDArray[np.int64]:
    if isinstance(rows, list) and rows and isinstance(rows[0], str):
        return np.array([len(text) // 6 for text in rows], dtype=np.int64)  # about the number of words
    if isinstance(rows, CsrParts):
        return np.diff(rows.indptr)
    if sparse.issparse(rows):
        sizes: NDArray[np.int64] = np.diff(sparse.csr_array(rows).indptr).astype(np.int64)
        return sizes
    return np.zeros(len(rows), dtype=np.int64)


class Split(NamedTuple):
    """Rows to train on and rows to hold out."""

    train: NDArray[np.int64]
    held: NDArray[np.int64]


def plan_splits(Y: sparse.csr_array, holdout: float, seed: int, groups: NDArray[np.int64] | None = None) -> list[Split]:
    """Return how rows are held out: every row once where there are few, a share of them where there are many.

    Rows without labels are never held out. There is no split where too few rows would be held out. Rows of a group
    (numbers) are held out together.
    """
    labelled = np.flatnonzero(np.diff(Y.indptr))
    order = np.random.default_rng(seed).permutation(labelled)
    n_held, n_rounds = holdout_plan(order.size, holdout)
    if n_held < _FEWEST:
        return []
    if groups is None:
        parts = np.array_split(order[:n_held], n_rounds)
    else:
        _, first, codes = np.unique(groups[order], return_index=True, return_inverse=True)
        order = order[np.argsort(first[codes], kind="stable")]  # groups one after the other
        borders = np.append(np.flatnonzero(np.diff(groups[order], prepend=-1)), order.size)
        ends = borders[np.searchsorted(borders, np.arange(1, n_rounds + 1) * n_held // n_rounds)]
        parts = [part for part in np.split(order[: ends[-1]], ends[:-1]) if part.size]
    everything = np.arange(Y.shape[0])
    return [Split(np.setdiff1d(everything, part), np.sort(part)) for part in parts]


def holdout_plan(n_rows: int, holdout: float) -> tuple[int, int]:
    """Return how many rows are held out, and in how many rounds.

    Examples
    --------
    >>> holdout_plan(1000, 0.2), holdout_plan(10_000, 0.2), holdout_plan(90_000, 0.2), holdout_plan(1000, 0)
    ((1000, 5), (2000, 1), (6000, 1), (0, 1))
    """
    if holdout > 0 and n_rows <= _SMALL:
        return n_rows, _FOLDS
    return min(round(holdout * n_rows), _MOST), 1
