"""`Centroids`: compare rows with the mean of each label's training rows, without training.

In: features X and label sets y. Out: a `Ranking` by cosine.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import check_int, check_threads
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, check_labels, csr_parts, feature_parts
from tagwood.errors import InputError
from tagwood.features.base import label_centroids
from tagwood.models.base import FittedModel, check_training_data
from tagwood.models.label_filter import LabelFilter, allowed_labels
from tagwood.models.row_index import (
    NO_FLAGS,
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

QUERY_FEATURES = 100  # features of a row that are compared with centroids: more cost time and change little


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
        blocked = self.dead_ if self.dead_.any() else NO_FLAGS
        if allowed is not None:
            blocked = allowed.blocked[self.row_label_] | self.dead_
        threads = check_threads(self.threads)
        most = min(self.max_features, QUERY_FEATURES)
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
        n = to_join(self.segments_)
        if n == 1:
            return
        last = self.segments_[-n:]
        first = self.dead_.size - sum(one.n_rows for one in last)
        kept = self.dead_[first:] == 0
        self.segments_ = [*self.segments_[:-n], join_segments(last, kept)]
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
        return State("Centroids", params=params, arrays=arrays, parts=stored_segments(self.segments_, alive))

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild from the stored form."""
        model = cls(**state.param("init", dict))
        model._check_params()
        model.segments_ = restored_segments(state)
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
