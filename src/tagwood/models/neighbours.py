"""Models without training: `Neighbours` votes by similar rows, `Centroids` compares with the mean of a label's rows.

In: features X and label sets y. Out: a `Ranking`. Both search one structure, `RowIndex`: an inverted index that finds
the rows with the largest inner product exactly, without looking at most of them.

Decisions
---------
* Rows keep their `max_features` largest values, scaled to norm 1 again. On library records this found better neighbours
  than whole rows, in a fifth of the space; the same cut makes long queries fast.
* Weights are stored in one byte, relative to the largest weight of their feature: inner products are exact for the
  stored weights and within half a percent of the given ones.
* Rows added later form an index of their own beside the first; `state` joins them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._check import check_float, check_int, check_threads, is_pointer
from tagwood._sparse import CsrParts, check_labels, csr_parts, feature_parts
from tagwood.errors import InputError
from tagwood.features.base import label_centroids
from tagwood.models.base import FittedModel, check_training_data
from tagwood.models.label_filter import LabelFilter, allowed_labels
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

_NO_FLAGS = np.empty(0, dtype=np.uint8)
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

    def nearest(self, queries: CsrParts, k: int, dead: NDArray[np.uint8] = _NO_FLAGS, threads: int = 1) -> Places:
        """Return the `k` rows with the largest inner product with each query; ties go to the smaller row.

        Examples
        --------
        >>> rows = csr_parts(sparse.csr_array(np.eye(3, dtype=np.float32)))
        >>> RowIndex.build(rows).nearest(rows, k=1).ids.tolist()
        [0, 1, 2]
        """
        arrays = (self.feature_ptr, self.rows, self.codes, self.scale)
        return Places(
            *_kernels.nearest_rows(
                *arrays, self.n_rows, dead, queries.indptr, queries.indices, queries.data, k, threads
            )
        )

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


class IndexedRows(NamedTuple):
    """Rows that were indexed together, and their labels."""

    row_index: RowIndex
    label_ptr: NDArray[np.int64]
    labels: NDArray[np.int32]


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

    def fit(self, X: Any, y: Any) -> Self:
        """Index the rows of X with their labels.

        Parameters
        ----------
        X
            (n_rows, n_features) features that are not negative; rows of norm 1 work best.
        y
            (n_rows, n_labels) label sets.
        """
        self._check_params()
        features, Y = check_training_data(X, y)
        self.n_features_, self.n_labels_ = features.n_cols, int(Y.shape[1])
        self.segments_ = [self._segment(features, Y)]
        self.dead_ = np.zeros(features.n_rows, dtype=np.uint8)
        return self

    def add_rows(self, X: Any, y: Any) -> Self:
        """Add rows with their labels; they vote from now on. New labels must have been made known first."""
        self._check_fitted()
        features, Y = feature_parts(X, self.n_features_), check_labels(y)
        if Y.shape != (features.n_rows, min(self.n_labels_, Y.shape[1])):
            raise InputError(
                f"y must have one row for each of the {features.n_rows:,} rows of X and at most "
                f"{self.n_labels_:,} labels",
                given=f"shape {Y.shape}",
            )
        self.segments_ = [*self.segments_, self._segment(features, Y)]
        self.dead_ = np.append(self.dead_, np.zeros(features.n_rows, dtype=np.uint8))
        return self

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
        check_int(k, "k", low=1)
        threads = check_threads(self.threads)
        near = self.nearest(X)
        weights, total = self._votes(near)
        allowed = allowed_labels(restrict, exclude, self.n_labels_)
        blocked = _NO_FLAGS if allowed is None else allowed.blocked
        label_ptr, labels = self._all_labels()
        found = _kernels.vote_labels(near.ids, weights, near.found, label_ptr, labels, blocked, k, threads)
        share = found[1] / np.repeat(total, k)
        return Ranking.from_padded(found[0], share.astype(np.float32), found[2], self.n_labels_)

    def predict(self, X: Any) -> sparse.csr_array:
        """Return the label sets: labels with at least half of the votes."""
        return self.rank(X, k=50).above(0.5).to_sets()

    def nearest(self, X: Any, k: int | None = None) -> Places:
        """Return the most similar rows of each row of X with their similarity, for example to show them as reasons."""
        self._check_fitted()
        threads = check_threads(self.threads)
        k = self.n_neighbours if k is None else check_int(k, "k", low=1)
        queries = largest_features(feature_parts(X, self.n_features_), self.max_features, threads)
        found = []
        first = 0
        flags = self.dead_ if self.dead_.any() else None
        for segment in self.segments_:
            last = first + segment.row_index.n_rows
            dead = _NO_FLAGS if flags is None else flags[first:last]
            near = segment.row_index.nearest(queries, k, dead, threads)
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

    def voters(self, X: Any, label: int) -> Voters:
        """Return which of the nearest rows of one row of X have a label, nearest first."""
        near = self.nearest(X)
        ids, similarity = near.ids[: near.found[0]], near.scores[: near.found[0]]
        label_ptr, labels = self._all_labels()
        has = [label in labels[label_ptr[row] : label_ptr[row + 1]] for row in ids.tolist()]
        return Voters(ids[has], similarity[has], ids.size)

    def state(self) -> State:
        """Return the stored form: one index, without removed rows."""
        self._check_fitted()
        index, (label_ptr, labels) = self.segments_[0].row_index, self._all_labels()
        if len(self.segments_) > 1 or self.dead_.any():
            parts = [segment.row_index.to_rows().to_scipy() for segment in self.segments_]
            alive = np.flatnonzero(self.dead_ == 0)
            index = RowIndex.build(csr_parts(sparse.csr_array(sparse.vstack(parts))[alive]))
            ones = np.ones(labels.size, dtype=np.float32)
            Y = csr_parts(sparse.csr_array((ones, labels, label_ptr), shape=(self.dead_.size, self.n_labels_))[alive])
            label_ptr, labels = Y.indptr, Y.indices
        params = {"init": self.get_params(deep=False), "n_labels": self.n_labels_}
        return State(
            "Neighbours",
            params=params,
            arrays={"label_ptr": label_ptr, "labels": labels},
            parts={"index": index.state()},
        )

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild from the stored form."""
        model = cls(**state.param("init", dict))
        model._check_params()
        index = RowIndex.from_state(state.part("index"))
        model.n_features_ = index.n_features
        model.n_labels_ = check_int(state.param("n_labels", int), "n_labels", low=1)
        label_ptr = state.array("label_ptr", np.int64, (index.n_rows + 1,))
        labels = state.array("labels", np.int32, (None,))
        rising = is_pointer(label_ptr, index.n_rows, labels.size)
        if not rising or (labels.size and (labels.min() < 0 or labels.max() >= model.n_labels_)):
            raise InputError("the labels of stored rows must fit together", given="others")
        model.segments_ = [IndexedRows(index, label_ptr, labels)]
        model.dead_ = np.zeros(index.n_rows, dtype=np.uint8)
        return model

    def _check_params(self) -> None:
        check_int(self.n_neighbours, "n_neighbours", low=1, high=10_000)
        check_float(self.power, "power", low=0, high=100)
        check_int(self.max_features, "max_features", low=1)
        check_threads(self.threads)

    def _segment(self, features: CsrParts, Y: sparse.csr_array) -> IndexedRows:
        rows = largest_features(features, self.max_features, check_threads(self.threads))
        labels = csr_parts(Y)
        return IndexedRows(RowIndex.build(rows), labels.indptr, labels.indices)

    def _votes(self, near: Places) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the weight of each place, 0 where it is not used, and the sum of each query's weights."""
        places = near.ids.size // max(1, near.found.size)
        used = (np.arange(places) < near.found[:, None]).ravel()
        weights = np.where(used, np.maximum(near.scores, 1e-6) ** np.float32(self.power), np.float32(0))
        total = weights.reshape(near.found.size, places).sum(axis=1)
        return weights, np.maximum(total, np.finfo(np.float32).tiny)

    def _all_labels(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        if len(self.segments_) == 1:
            return self.segments_[0].label_ptr, self.segments_[0].labels
        ends = np.cumsum([0, *(segment.labels.size for segment in self.segments_)])
        ptr = [segment.label_ptr[:-1] + end for segment, end in zip(self.segments_, ends, strict=False)]
        labels = np.concatenate([segment.labels for segment in self.segments_])
        return np.concatenate([*ptr, ends[-1:]]).astype(np.int64), labels


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
        self.index_ = RowIndex.build(csr_parts(V))
        self.n_features_, self.n_labels_ = features.n_cols, int(Y.shape[1])
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
        check_int(k, "k", low=1)
        allowed = allowed_labels(restrict, exclude, self.n_labels_)
        blocked = _NO_FLAGS if allowed is None else allowed.blocked[: self.index_.n_rows]
        threads = check_threads(self.threads)
        most = min(self.max_features, _QUERY_FEATURES)
        queries = largest_features(feature_parts(X, self.n_features_), most, threads)
        return Ranking.from_padded(*self.index_.nearest(queries, k, blocked, threads), self.n_labels_)

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
        return State("Centroids", params=params, parts={"index": self.index_.state()})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild from the stored form."""
        model = cls(**state.param("init", dict))
        model._check_params()
        model.index_ = RowIndex.from_state(state.part("index"))
        model.n_features_ = model.index_.n_features
        model.n_labels_ = check_int(state.param("n_labels", int), "n_labels", low=max(1, model.index_.n_rows))
        return model

    def _check_params(self) -> None:
        check_int(self.max_features, "max_features", low=1)
        check_threads(self.threads)
