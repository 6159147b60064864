"""An inverted index of sparse rows that finds those with the largest inner product, without looking at most of them.

In: rows, and queries. Out: `Places`, the nearest rows of each query, exact for the stored weights. `Neighbours` and
`Centroids` have several: one of the first training, and smaller ones of what was added later.

Decisions
---------
* Weights are stored in one byte, relative to the largest weight of their feature: inner products are exact for the
  stored weights and within half a percent of the given ones.
* The smallest values of a query, two per cent of its squares, do not count: frequent words have long lists. Precision
  on held-out rows of five sets is the same.
* Indexes of rows added later are joined as they come, so that their number grows with the logarithm of the added rows.
  They are stored as they are: joining computes the codes anew, and a stored model must give the answers of the one in
  memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._check import check_int, is_pointer
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, csr_parts
from tagwood.errors import InputError
from tagwood.storage import State

NO_FLAGS = np.empty(0, dtype=np.uint8)
_NEGLECTED = 0.02  # share of a query's squares that do not count


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
        dead: NDArray[np.uint8] = NO_FLAGS,
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
        here = dead[first:last] if dead.size else NO_FLAGS
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


def to_join(segments: Sequence[RowIndex]) -> int:
    """Return how many of the last indexes to join, so that each is larger than the next; the first one stays."""
    n, n_rows = 1, segments[-1].n_rows
    while n + 1 < len(segments) and segments[-n - 1].n_rows <= n_rows:
        n, n_rows = n + 1, n_rows + segments[-n - 1].n_rows
    return n


def join_segments(segments: Sequence[RowIndex], kept: NDArray[np.bool_] | None = None) -> RowIndex:
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


def stored_segments(segments: Sequence[RowIndex], alive: NDArray[np.bool_]) -> dict[str, State]:
    """Return the stored form of several indexes, without rows that are not `alive`: one flag for all their rows."""
    ends = np.cumsum([one.n_rows for one in segments])[:-1]
    kept = [one.only(flags) for one, flags in zip(segments, np.split(alive, ends), strict=True)]
    return {"index" if not place else f"index_{place}": one.state() for place, one in enumerate(kept)}


def restored_segments(state: State) -> list[RowIndex]:
    """Return the indexes of a stored model; there is at least one."""
    names = ["index", *(f"index_{place}" for place in range(1, len(state.parts)))]
    segments = [RowIndex.from_state(state.part(name)) for name in names]
    n_rows = sum(one.n_rows for one in segments)
    if n_rows > np.iinfo(np.int32).max or len({one.n_features for one in segments}) > 1:
        raise InputError("the indexes of a stored model must have the same features", given="others")
    return segments
