"""`Neighbours`: vote by similar training rows, without training.

In: features X and label sets y. Out: a `Ranking`. Similar rows are found by a `RowIndex`.

Decisions
---------
* Rows keep their `max_features` largest values, scaled to norm 1 again. On library records this found better neighbours
  than whole rows, in a fifth of the space; the same cut makes long queries fast.
* Rows may be added at any time; they form indexes of their own beside the first.
* A row may also say which labels are wrong for it: such a vote is taken from the votes for the label.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood import _kernels
from tagwood._check import check_float, check_int, check_threads, is_pointer
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, check_labels, csr_parts, feature_parts
from tagwood.errors import InputError
from tagwood.models.base import FittedModel, check_training_data
from tagwood.models.label_filter import LabelFilter, allowed_labels
from tagwood.models.row_index import (
    NO_FLAGS,
    Places,
    RowIndex,
    join_segments,
    largest_features,
    nearest_in,
    restored_segments,
    stored_segments,
    to_join,
)
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

_MOST_REJECTED = 50  # labels that neighbours vote against, for which votes are counted


class RowLabels(NamedTuple):
    """Label ids of rows: those of row i are ``labels[ptr[i]:ptr[i + 1]]``."""

    ptr: NDArray[np.int64]
    labels: NDArray[np.int32]

    @classmethod
    def of(cls, Y: sparse.csr_array) -> RowLabels:
        """Return the labels of a 0/1 matrix."""
        parts = csr_parts(Y)
        return cls(parts.indptr, parts.indices)

    @classmethod
    def none(cls, n_rows: int) -> RowLabels:
        """Return rows without labels."""
        return cls(np.zeros(n_rows + 1, dtype=np.int64), np.empty(0, dtype=np.int32))

    def join(self, other: RowLabels) -> RowLabels:
        """Return the rows of both."""
        return RowLabels(
            np.concatenate([self.ptr, other.ptr[1:] + self.ptr[-1]]), np.concatenate([self.labels, other.labels])
        )

    def some(self, rows: NDArray[np.int64], n_labels: int) -> RowLabels:
        """Return some of the rows."""
        ones = np.ones(self.labels.size, dtype=np.float32)
        whole = sparse.csr_array((ones, self.labels, self.ptr), shape=(self.ptr.size - 1, n_labels))
        return RowLabels.of(whole[rows])


class Voters(NamedTuple):
    """The rows, of `n_nearest` nearest ones, that have a label, and their similarity."""

    rows: NDArray[np.int32]
    similarity: NDArray[np.float32]
    n_nearest: int


@storable("Neighbours")
class Neighbours(FittedModel):
    """Rank the labels of the most similar training rows.

    1. The `n_neighbours` rows with the largest inner product are found. 2. Each votes for its labels with its
    similarity to the `power`. 3. A label's score is its share of all votes.

    Nothing is trained, so rows can be added and removed at any time. Strong where similar texts have the same labels
    and labels have few rows.

    Parameters
    ----------
    n_neighbours
        Rows that vote. Texts with many labels in common need more.
    power
        Exponent of the similarity: larger values listen to the nearest rows only.
    max_features
        Features kept of each row and query, largest values first.
    threads
        Default all cores. The result does not depend on it.

    Attributes
    ----------
    n_labels_, n_features_ : int

    Examples
    --------
    >>> X = np.eye(3, dtype=np.float32)
    >>> model = Neighbours(n_neighbours=1, threads=1).fit(X, [[0], [1], [2]])
    >>> model.rank(X[1:2], k=1).labels.tolist()
    [1]
    >>> model.add_rows(X[1:2] + X[2:], [[0, 2]]).rank(X[1:2] + X[2:], k=2).labels.tolist()
    [0, 2]
    """

    takes_parts = True

    def __init__(
        self,
        *,
        n_neighbours: int = 50,
        power: float = 2.0,
        max_features: int = 100,
        threads: int | None = None,
    ) -> None:
        self.n_neighbours = n_neighbours
        self.power = power
        self.max_features = max_features
        self.threads = threads

    def fit(self, X: Any, y: Any, *, rejected: Any = None) -> Self:
        """Index the rows of X with their labels.

        Parameters
        ----------
        X
            (n_rows, n_features) features that are not negative; rows of norm 1 work best.
        y
            (n_rows, n_labels) label sets.
        rejected
            (n_rows, n_labels) labels that are known to be wrong, which are voted against; default none.
        """
        self._check_params()
        features, Y = check_training_data(X, y)
        self.n_features_, self.n_labels_ = features.n_cols, int(Y.shape[1])
        self.segments_ = [self._indexed(features)]
        self.row_labels_ = RowLabels.of(Y)
        self.rejected_ = RowLabels.none(features.n_rows)
        if rejected is not None:
            self.rejected_ = RowLabels.of(check_labels(rejected, n_rows=features.n_rows, name="rejected"))
        self.dead_ = np.zeros(features.n_rows, dtype=np.uint8)
        return self

    def add_rows(self, X: Any, y: Any, rejected: Any = None) -> Self:
        """Add rows with their labels; they vote from now on. New labels must have been made known first.

        Parameters
        ----------
        X
            (n_rows, n_features) features.
        y
            (n_rows, at most n_labels) label sets.
        rejected
            Labels that are known to be wrong for each row, in the same form; default none. They are voted against.
        """
        self._check_fitted()
        features = feature_parts(X, self.n_features_)
        Y, wrong = (None if one is None else check_labels(one) for one in (y, rejected))
        for what, matrix in (("y", Y), ("rejected", wrong)):
            if matrix is not None and matrix.shape != (features.n_rows, min(self.n_labels_, matrix.shape[1])):
                raise InputError(
                    f"{what} must have one row for each of the {features.n_rows:,} rows of X and at most "
                    f"{self.n_labels_:,} labels",
                    given=f"shape {matrix.shape}",
                )
        segments = [*self.segments_, self._indexed(features)]
        n = to_join(segments)
        self.segments_ = segments if n == 1 else [*segments[:-n], join_segments(segments[-n:])]
        self.row_labels_ = self.row_labels_.join(RowLabels.of(Y))
        self.rejected_ = self.rejected_.join(RowLabels.none(features.n_rows) if wrong is None else RowLabels.of(wrong))
        self.dead_ = np.append(self.dead_, np.zeros(features.n_rows, dtype=np.uint8))
        return self

    @property
    def n_rows_(self) -> int:
        """Number of rows that came, removed ones included."""
        return int(self.dead_.size)

    def remove_rows(self, rows: ArrayLike) -> Self:
        """Remove rows by their number in the order in which they came; numbers of other rows stay."""
        self._check_fitted()
        ids = np.atleast_1d(np.asarray(rows))
        if ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= self.dead_.size):
            raise InputError(f"rows must be whole numbers from 0 to {self.dead_.size - 1}", given=repr(rows)[:60])
        dead = self.dead_.copy()
        dead[ids.astype(np.int64)] = 1
        self.dead_ = dead
        return self

    def stored_rows(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Return the rows in use as the index has them, with their `max_features` largest values, and their labels."""
        self._check_fitted()
        alive = np.flatnonzero(self.dead_ == 0)
        X = sparse.csr_array(sparse.vstack([segment.to_rows().to_scipy() for segment in self.segments_]))
        label_ptr, labels = self.row_labels_
        ones = np.ones(labels.size, dtype=np.float32)
        Y = sparse.csr_array((ones, labels, label_ptr), shape=(self.dead_.size, self.n_labels_))
        return sparse.csr_array(X[alive]), sparse.csr_array(Y[alive])

    def grow(self, n_labels: int) -> Self:
        """Make room for labels that rows added later may have."""
        self.n_labels_ = check_int(n_labels, "n_labels", low=self.n_labels_)
        return self

    def rank(
        self,
        X: Any,
        k: int = 5,
        *,
        restrict: ArrayLike | LabelFilter | None = None,
        exclude: ArrayLike | LabelFilter | None = None,
    ) -> Ranking:
        """Return the best `k` labels of each row; rows get fewer where their neighbours have fewer.

        Parameters
        ----------
        X
            (n_rows, n_features) features.
        k
            Labels per row.
        restrict, exclude
            Label ids that may, or may not, be returned.
        """
        self._check_fitted()
        k = min(check_int(k, "k", low=1), self.n_labels_)
        threads = check_threads(self.threads)
        near = self.nearest(X)
        weights, total = self._votes(near)
        allowed = allowed_labels(restrict, exclude, self.n_labels_)
        blocked = NO_FLAGS if allowed is None else allowed.blocked

        def votes(whose: RowLabels, k: int) -> Ranking:
            found = _kernels.vote_labels(near.ids, weights, near.found, *whose, blocked, k, threads)
            share = found[1] / np.repeat(total, k)
            return Ranking.from_padded(found[0], share.astype(np.float32), found[2], self.n_labels_)

        if not self.rejected_.labels.size:
            return votes(self.row_labels_, k)
        against = votes(self.rejected_, _MOST_REJECTED)
        if not against.labels.size:
            return votes(self.row_labels_, k)
        votes_for = votes(self.row_labels_, k + _MOST_REJECTED)
        rest = sparse.csr_array(votes_for.to_csr() - against.to_csr())
        rest.data = np.maximum(rest.data, 0)
        rest.eliminate_zeros()
        return Ranking.from_csr(rest, k)

    def predict(self, X: Any) -> sparse.csr_array:
        """Return the label sets: labels with at least half of the votes."""
        return self.rank(X, k=50).above(0.5).to_sets()

    def nearest(self, X: Any, k: int | None = None) -> Places:
        """Return the most similar rows of each row of X with their similarity, for example to show them as reasons."""
        self._check_fitted()
        threads = check_threads(self.threads)
        k = self.n_neighbours if k is None else min(check_int(k, "k", low=1), self.dead_.size)
        queries = largest_features(feature_parts(X, self.n_features_), self.max_features, threads)
        return nearest_in(self.segments_, queries, k, self.dead_ if self.dead_.any() else NO_FLAGS, threads)

    def voters(self, X: Any, label: int) -> Voters:
        """Return which of the nearest rows of one row of X have a label, nearest first."""
        near = self.nearest(X)
        ids, similarity = near.ids[: near.found[0]], near.scores[: near.found[0]]
        label_ptr, labels = self.row_labels_
        has = [label in labels[label_ptr[row] : label_ptr[row + 1]] for row in ids.tolist()]
        return Voters(ids[has], similarity[has], ids.size)

    def state(self) -> State:
        """Return the stored form, without removed rows."""
        self._check_fitted()
        alive, kept, rejected = self.dead_ == 0, self.row_labels_, self.rejected_
        if not alive.all():
            kept, rejected = (one.some(np.flatnonzero(alive), self.n_labels_) for one in (kept, rejected))
        params = {"init": self.get_params(deep=False), "n_labels": self.n_labels_}
        arrays: dict[str, NDArray[Any]] = {"label_ptr": kept.ptr, "labels": kept.labels}
        if rejected.labels.size:
            arrays |= {"rejected_ptr": rejected.ptr, "rejected": rejected.labels}
        return State("Neighbours", params=params, arrays=arrays, parts=stored_segments(self.segments_, alive))

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild from the stored form."""
        model = cls(**state.param("init", dict))
        model._check_params()
        model.segments_ = restored_segments(state)
        n_rows = sum(one.n_rows for one in model.segments_)
        model.n_features_ = model.segments_[0].n_features
        model.n_labels_ = check_int(state.param("n_labels", int), "n_labels", low=1)

        def stored(ptr: str, labels: str) -> RowLabels:
            found = RowLabels(state.array(ptr, np.int64, (n_rows + 1,)), state.array(labels, np.int32, (None,)))
            known = not found.labels.size or (found.labels.min() >= 0 and found.labels.max() < model.n_labels_)
            if not known or not is_pointer(found.ptr, n_rows, found.labels.size):
                raise InputError("the labels of stored rows must fit together", given="others")
            return found

        model.row_labels_ = stored("label_ptr", "labels")
        has_rejected = "rejected" in state.arrays
        model.rejected_ = stored("rejected_ptr", "rejected") if has_rejected else RowLabels.none(n_rows)
        model.dead_ = np.zeros(n_rows, dtype=np.uint8)
        return model

    def _check_params(self) -> None:
        check_int(self.n_neighbours, "n_neighbours", low=1, high=10_000)
        check_float(self.power, "power", low=0, high=100)
        check_int(self.max_features, "max_features", low=1)
        check_threads(self.threads)

    def _indexed(self, features: CsrParts) -> RowIndex:
        return RowIndex.build(largest_features(features, self.max_features, check_threads(self.threads)))

    def _votes(self, near: Places) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the weight of each place, 0 where it is not used, and the sum of each query's weights."""
        places = near.ids.size // max(1, near.found.size)
        used = (np.arange(places) < near.found[:, None]).ravel()
        weights = np.where(used, np.maximum(near.scores, 1e-6) ** np.float32(self.power), np.float32(0))
        voting = weights
        if self.rejected_.labels.size:  # rows that only reject labels say nothing about the others
            voting = weights * (np.diff(self.row_labels_.ptr)[np.where(used, near.ids, 0)] > 0)
        total = voting.reshape(near.found.size, places).sum(axis=1)
        return weights, np.maximum(total, np.finfo(np.float32).tiny)
