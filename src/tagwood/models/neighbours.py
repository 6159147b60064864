"""Models without training: `Neighbours` votes by similar rows, `Centroids` compares with the mean of a label's rows.

In: features X and label sets y. Out: a `Ranking`. Both search one structure, `RowIndex`: an inverted index that finds
the rows with the largest inner product exactly, without looking at most of them.

Decisions
---------
* Rows keep their `max_features` largest values, scaled to norm 1 again. On library records this found better neighbours
  than whole rows, in a fifth of the space; the same cut makes long queries fast.
* Weights are stored in one byte, relative to the largest weight of their feature: inner products are exact for the
  stored weights and within half a percent of the given ones.
* The smallest values of a query, two per cent of its squares, do not count: frequent words have long lists. Precision
  on held-out rows of five sets is the same.
* Rows added later form indexes of their own beside the first. Small ones are joined as they come, so that their number
  grows with the logarithm of the added rows. They are stored as they are: joining computes the codes anew, and a stored
  model must give the answers of the one in memory.
* A row may also say which labels are wrong for it: such a vote is taken from the votes for the label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood import _kernels
from tagwood._check import check_float, check_int, check_threads, is_pointer
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, check_labels, csr_parts, feature_parts
from tagwood.errors import InputError
from tagwood.features.base import label_centroids
from tagwood.models.base import FittedModel, check_training_data
from tagwood.models.label_filter import LabelFilter, allowed_labels
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

_NO_FLAGS = np.empty(0, dtype=np.uint8)
_MOST_REJECTED = 50  # labels that neighbours vote against, for which votes are counted
_NEGLECTED = 0.02  # share of a query's squares that do not count
_QUERY_FEATURES = 100  # features of a row that are compared with centroids: more cost time and change little


class Places(NamedTuple):
    """What a search returns: as many places for each query, the first `found` of them used, best first."""

    ids: NDArray[np.int32]
    scores: NDArray[np.float32]
    found: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class RowIndex:
    """An inverted index of sparse rows with values that are not negative.

    Parameters
    ----------
    feature_ptr
        (n_features + 1,) where the entries of each feature begin.
    rows, codes
        Rows of each entry, rising inside a feature, and their weights in units of `scale`.
    scale
        (n_features,) value of one unit of a feature's codes.
    n_rows
        Number of rows, with those that have no entry.
    """

    feature_ptr: NDArray[np.int64]
    rows: NDArray[np.int32]
    codes: NDArray[np.uint8]
    scale: NDArray[np.float32]
    n_rows: int

    @classmethod
    def build(cls, rows: CsrParts) -> RowIndex:
        """Build the index of given rows."""
        if rows.data.size and rows.data.min() < 0:
            raise InputError(
                "X must not hold negative features",
                given=f"{rows.data.min():.3g}",
                hint="Use TF-IDF features; a TextEncoder's vectors need another model.",
            )
        arrays = _kernels.build_index(rows.indptr, rows.indices, rows.data, rows.n_cols)
        return cls(*arrays, rows.n_rows)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.scale.size)

    def nearest(
        self,
        queries: CsrParts,
        k: int,
        dead: NDArray[np.uint8] = _NO_FLAGS,
        threads: int = 1,
        *,
        neglected: float = 0.0,
    ) -> Places:
        """Return the `k` rows with the largest inner product with each query; ties go to the smaller row.

        The last features of a query that hold at most the share `neglected` of its squares do not count.

        Examples
        --------
        >>> rows = csr_parts(sparse.csr_array(np.eye(3, dtype=np.float32)))
        >>> RowIndex.build(rows).nearest(rows, k=1).ids.tolist()
        [0, 1, 2]
        """
        arrays = (self.feature_ptr, self.rows, self.codes, self.scale)
        return Places(
            *_kernels.nearest_rows(
                *arrays, self.n_rows, dead, queries.indptr, queries.indices, queries.data, k, neglected, threads
            )
        )

    def only(self, kept: NDArray[np.bool_]) -> RowIndex:
        """Return the index of some of the rows, given a flag for each; their codes and order stay."""
        if kept.all():
            return self
        here = kept[self.rows]
        ptr = np.concatenate([[0], np.cumsum(here, dtype=np.int64)])[self.feature_ptr]
        number = np.cumsum(kept, dtype=np.int32) - 1
        return RowIndex(ptr, number[self.rows[here]], self.codes[here], self.scale, int(kept.sum()))

    @cached_property
    def by_row(self) -> sparse.csr_array:
        """The stored rows; an inverted index cannot be read by row."""
        return self.to_rows().to_scipy()

    def to_rows(self) -> CsrParts:
        """Return the stored rows."""
        feature = np.repeat(np.arange(self.n_features, dtype=np.int32), np.diff(self.feature_ptr))
        data = self.codes * self.scale[feature]
        shape = (self.n_rows, self.n_features)
        return csr_parts(sparse.csr_array(sparse.coo_array((data, (self.rows, feature)), shape=shape)))

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = {
            "feature_ptr": self.feature_ptr,
            "rows": self.rows,
            "codes": self.codes,
            "scale": self.scale,
        }
        return State("RowIndex", params={"n_rows": self.n_rows}, arrays=arrays)

    @classmethod
    def from_state(cls, state: State) -> RowIndex:
        """Rebuild from the stored form; arrays that would make a search read outside them are refused."""
        scale = state.array("scale", np.float32, (None,))
        ptr = state.array("feature_ptr", np.int64, (scale.size + 1,))
        rows = state.array("rows", np.int32, (None,))
        codes = state.array("codes", np.uint8, (rows.size,))
        n_rows = check_int(state.param("n_rows", int), "n_rows", low=0, high=np.iinfo(np.int32).max)
        inside = not rows.size or (rows.min() >= 0 and rows.max() < n_rows)
        # The rows have norm 1, so that no value is above 1.
        if not is_pointer(ptr, scale.size, rows.size) or not inside or not bool(np.all((scale >= 0) & (scale <= 1))):
            raise InputError("the arrays of a stored index must fit together", given="others")
        return cls(ptr, rows, codes, scale, n_rows)


def largest_features(rows: CsrParts, most: int, threads: int) -> CsrParts:
    """Return rows with their `most` largest values only, scaled to norm 1."""
    indptr, indices, data = _kernels.top_k_rows(rows.indptr, rows.indices, rows.data, most, threads)
    return CsrParts(indptr, indices, _kernels.normalize_rows(indptr, data, threads), rows.n_cols)


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
        n = _to_join(segments)
        self.segments_ = segments if n == 1 else [*segments[:-n], _joined(segments[-n:])]
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
        blocked = _NO_FLAGS if allowed is None else allowed.blocked

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
        return nearest_in(self.segments_, queries, k, self.dead_ if self.dead_.any() else _NO_FLAGS, threads)

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
        return State("Neighbours", params=params, arrays=arrays, parts=_stored_segments(self.segments_, alive))

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild from the stored form."""
        model = cls(**state.param("init", dict))
        model._check_params()
        model.segments_ = _restored_segments(state)
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


def nearest_in(
    segments: Sequence[RowIndex], queries: CsrParts, k: int, dead: NDArray[np.uint8], threads: int
) -> Places:
    """Return the nearest rows of several indexes, numbered through; `dead` has a flag for each row, or is empty.

    Queries hold their largest values first; their smallest, `_NEGLECTED`, do not count.
    """
    found = []
    first = 0
    for segment in segments:
        last = first + segment.n_rows
        here = dead[first:last] if dead.size else _NO_FLAGS
        near = segment.nearest(queries, k, here, threads, neglected=_NEGLECTED)
        found.append(near._replace(ids=near.ids + np.int32(first)))
        first = last
    if len(found) == 1:
        return found[0]
    ids, scores, n_found = _kernels.merge_lists(
        np.concatenate([near.ids for near in found]),
        np.concatenate([near.scores for near in found]),
        np.concatenate([near.found for near in found]),
        len(found),
        k,
        threads,
    )
    # Every list holds other rows, so the mean over lists is the score divided by their number.
    return Places(ids, scores * np.float32(len(found)), n_found)


def _to_join(segments: Sequence[RowIndex]) -> int:
    """Return how many of the last indexes to join, so that each is larger than the next; the first one stays."""
    n, n_rows = 1, segments[-1].n_rows
    while n + 1 < len(segments) and segments[-n - 1].n_rows <= n_rows:
        n, n_rows = n + 1, n_rows + segments[-n - 1].n_rows
    return n


def _joined(segments: Sequence[RowIndex], kept: NDArray[np.bool_] | None = None) -> RowIndex:
    """Return one index of the rows of several; rows that are not `kept` are left out."""
    sizes = [np.diff(one.feature_ptr) for one in segments]
    firsts = np.cumsum([0, *(one.n_rows for one in segments)], dtype=np.int32)
    ids = np.arange(segments[0].n_features, dtype=np.int32)
    row = np.concatenate([one.rows + first for one, first in zip(segments, firsts[:-1], strict=True)])
    feature = np.concatenate([np.repeat(ids, size) for size in sizes])
    data = np.concatenate([one.codes * np.repeat(one.scale, n) for one, n in zip(segments, sizes, strict=True)])
    n_rows = int(firsts[-1])
    if kept is not None:
        here, number = kept[row], np.cumsum(kept, dtype=np.int32) - 1
        row, feature, data, n_rows = number[row[here]], feature[here], data[here], int(kept.sum())
    return RowIndex.build(csr_parts(sparse.csr_array((data, (row, feature)), shape=(n_rows, ids.size))))


def _stored_segments(segments: Sequence[RowIndex], alive: NDArray[np.bool_]) -> dict[str, State]:
    """Return the stored form of several indexes, without rows that are not `alive`: one flag for all their rows."""
    ends = np.cumsum([one.n_rows for one in segments])[:-1]
    kept = [one.only(flags) for one, flags in zip(segments, np.split(alive, ends), strict=True)]
    return {"index" if not place else f"index_{place}": one.state() for place, one in enumerate(kept)}


def _restored_segments(state: State) -> list[RowIndex]:
    """Return the indexes of a stored model; there is at least one."""
    names = ["index", *(f"index_{place}" for place in range(1, len(state.parts)))]
    segments = [RowIndex.from_state(state.part(name)) for name in names]
    n_rows = sum(one.n_rows for one in segments)
    if n_rows > np.iinfo(np.int32).max or len({one.n_features for one in segments}) > 1:
        raise InputError("the indexes of a stored model must have the same features", given="others")
    return segments


@storable("Centroids")
class Centroids(FittedModel):
    """Rank labels by the cosine of a row and the mean of the label's training rows.

    The cheapest model there is: one pass over the rows. Strong on rare labels, weak where labels have many rows of
    many kinds.

    Parameters
    ----------
    max_features
        Features kept of each label, largest values first.
    threads
        Default all cores. The result does not depend on it.

    Examples
    --------
    >>> X = np.eye(3, dtype=np.float32)
    >>> Centroids(threads=1).fit(X, [[0], [1], [1]]).rank(X[2:], k=1).labels.tolist()
    [1]
    """

    takes_parts = True
    segments_: list[RowIndex]
    row_label_: NDArray[np.int32]
    dead_: NDArray[np.uint8]
    counts_: NDArray[np.int64]

    def __init__(self, *, max_features: int = 300, threads: int | None = None) -> None:
        self.max_features = max_features
        self.threads = threads

    def fit(self, X: Any, y: Any) -> Self:
        """Compute the centroid of every label.

        Parameters
        ----------
        X
            (n_rows, n_features) features that are not negative; rows of norm 1 work best.
        y
            (n_rows, n_labels) label sets.
        """
        self._check_params()
        features, Y = check_training_data(X, y)
        threads = check_threads(self.threads)
        V = label_centroids(features.to_scipy(), Y, max_features=self.max_features, threads=threads)
        self.counts_ = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int64)
        self.segments_ = [RowIndex.build(csr_parts(V))]
        self.n_features_, self.n_labels_ = features.n_cols, int(Y.shape[1])
        self.row_label_ = np.arange(self.n_labels_, dtype=np.int32)
        self.dead_ = np.zeros(self.n_labels_, dtype=np.uint8)
        return self

    def rank(
        self,
        X: Any,
        k: int = 5,
        *,
        restrict: ArrayLike | LabelFilter | None = None,
        exclude: ArrayLike | LabelFilter | None = None,
    ) -> Ranking:
        """Return the best `k` labels of each row: labels that share no feature with a row are not returned.

        Parameters
        ----------
        X
            (n_rows, n_features) features; rows of norm 1 give cosines.
        k
            Labels per row.
        restrict, exclude
            Label ids that may, or may not, be returned.
        """
        self._check_fitted()
        k = min(check_int(k, "k", low=1), self.n_labels_)
        allowed = allowed_labels(restrict, exclude, self.n_labels_)
        blocked = self.dead_ if self.dead_.any() else _NO_FLAGS
        if allowed is not None:
            blocked = allowed.blocked[self.row_label_] | self.dead_
        threads = check_threads(self.threads)
        most = min(self.max_features, _QUERY_FEATURES)
        queries = largest_features(feature_parts(X, self.n_features_), most, threads)
        found = nearest_in(self.segments_, queries, k, blocked, threads)
        return Ranking.from_padded(self.row_label_[found.ids], found.scores, found.found, self.n_labels_)

    def add_rows(self, X: Any, y: Any, rejected: Any = None) -> Self:
        """Move the centroids of some labels towards new rows; `rejected` labels are not moved.

        How far a centroid was from its rows is not stored; it is estimated by the cosine with the new ones.

        Parameters
        ----------
        X
            (n_rows, n_features) features.
        y
            (n_rows, at most n_labels) label sets.
        """
        self._check_fitted()
        features, Y = feature_parts(X, self.n_features_), check_labels(y)
        used = np.unique(Y.indices)
        if not used.size:
            return self
        sums = sparse.csr_array(Y[:, used].T @ features.to_scipy())
        added = np.bincount(Y.indices, minlength=int(used[-1]) + 1)[used]
        before = self._centroids_of(used)
        n = np.zeros(used.size)
        known = used < self.counts_.size
        n[known] = self.counts_[used[known]]
        n = np.where(np.diff(before.indptr) > 0, np.maximum(n, 1), 0)
        cosine = np.asarray(sums.multiply(before).sum(axis=1)).ravel() / added
        length = n * np.maximum(cosine, 1 / np.sqrt(np.maximum(n, 1)))
        whole = csr_parts(sparse.csr_array(sparse.diags_array(length) @ before + sums).astype(np.float32))
        moved = largest_features(whole, self.max_features, check_threads(self.threads))
        self._replace(used.astype(np.int32), moved, added)
        return self

    def _centroids_of(self, labels: NDArray[Any]) -> sparse.csr_array:
        """Return the centroids of some labels; those of labels without rows are empty."""
        place, alive = np.full(self.n_labels_, -1), np.flatnonzero(self.dead_ == 0)
        place[self.row_label_[alive]] = alive
        wanted = place[labels]
        first, parts, order = 0, [], [np.flatnonzero(wanted < 0)]
        for segment in self.segments_:
            here = np.flatnonzero((wanted >= first) & (wanted < first + segment.n_rows))
            parts.append(segment.by_row[wanted[here] - first])
            order.append(here)
            first += segment.n_rows
        empty = sparse.csr_array((order[0].size, self.n_features_), dtype=np.float32)
        found = sparse.csr_array(sparse.vstack([empty, *parts], format="csr"))
        return found[np.argsort(np.concatenate(order))]

    def _replace(self, labels: NDArray[np.int32], rows: CsrParts, added: NDArray[np.int64]) -> None:
        """Put new centroids in place of old ones."""
        dead = self.dead_.copy()
        dead[np.isin(self.row_label_, labels)] = 1
        self.segments_ = [*self.segments_, RowIndex.build(rows)]
        self.row_label_ = np.append(self.row_label_, labels).astype(np.int32)
        self.dead_ = np.append(dead, np.zeros(labels.size, dtype=np.uint8)).astype(np.uint8)
        self._compact()
        counts = np.zeros(max(self.counts_.size, self.n_labels_), dtype=np.int64)
        counts[: self.counts_.size] = self.counts_
        counts[labels] += added
        self.counts_ = counts

    def _compact(self) -> None:
        """Join the last indexes where they are many, without centroids that others have replaced."""
        n = _to_join(self.segments_)
        if n == 1:
            return
        last = self.segments_[-n:]
        first = self.dead_.size - sum(one.n_rows for one in last)
        kept = self.dead_[first:] == 0
        self.segments_ = [*self.segments_[:-n], _joined(last, kept)]
        self.row_label_ = np.append(self.row_label_[:first], self.row_label_[first:][kept])
        self.dead_ = np.append(self.dead_[:first], np.zeros(int(kept.sum()), dtype=np.uint8))

    def predict(self, X: Any) -> sparse.csr_array:
        """Return the label sets: labels with a cosine of at least 0.5."""
        return self.rank(X, k=50).above(0.5).to_sets()

    def grow(self, n_labels: int) -> Self:
        """Make room for labels without rows; they are never returned."""
        self.n_labels_ = check_int(n_labels, "n_labels", low=self.n_labels_)
        return self

    def state(self) -> State:
        """Return the stored form."""
        self._check_fitted()
        params = {"init": self.get_params(deep=False), "n_labels": self.n_labels_}
        alive, arrays = self.dead_ == 0, {"counts": self.counts_}
        if len(self.segments_) > 1 or not alive.all():
            arrays["row_label"] = self.row_label_[alive]
        return State("Centroids", params=params, arrays=arrays, parts=_stored_segments(self.segments_, alive))

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild from the stored form."""
        model = cls(**state.param("init", dict))
        model._check_params()
        model.segments_ = _restored_segments(state)
        model.n_features_ = model.segments_[0].n_features
        n_rows = sum(one.n_rows for one in model.segments_)
        model.n_labels_ = check_int(state.param("n_labels", int), "n_labels", low=max(1, n_rows))
        model.row_label_, model.dead_ = np.arange(n_rows, dtype=np.int32), np.zeros(n_rows, dtype=np.uint8)
        if "row_label" in state.arrays:
            model.row_label_ = state.array("row_label", np.int32, (n_rows,))
            labels = np.unique(model.row_label_)
            if labels.size != n_rows or (n_rows and (labels[0] < 0 or labels[-1] >= model.n_labels_)):
                raise InputError("the labels of stored centroids must be different labels of the model", given="others")
        has_counts = "counts" in state.arrays  # models of earlier versions have none: as if each label had one row
        model.counts_ = np.ones(n_rows, dtype=np.int64)
        if has_counts:
            model.counts_ = state.array("counts", np.int64, (None,))
        return model

    def _check_params(self) -> None:
        check_int(self.max_features, "max_features", low=1)
        check_threads(self.threads)
