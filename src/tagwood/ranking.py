"""`Ranking`: the ranked labels of each row, which models return and metrics take.

In: labels and scores. Out: the same in falling order of score, as arrays or a CSR matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood import _kernels
from tagwood._check import check_choice, check_int
from tagwood._lazy import sparse
from tagwood._sparse import top_k_rows
from tagwood.errors import InputError


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranked labels per row, best first.

    Parameters
    ----------
    indptr
        (n_rows + 1,) int64: row i has the entries ``indptr[i]:indptr[i + 1]``.
    labels
        Label ids, int32, each at most once in a row.
    scores
        float32, falling in each row. Only calibrated scores are probabilities.
    n_labels
        Size of the label space.

    Examples
    --------
    >>> r = Ranking.from_lists([[(3, 0.9), (1, 0.5)], []], n_labels=4)
    >>> r.n_rows, list(r[0])
    (2, [(3, 0.9), (1, 0.5)])
    """

    indptr: NDArray[np.int64]
    labels: NDArray[np.int32]
    scores: NDArray[np.float32]
    n_labels: int

    def __post_init__(self) -> None:
        for name, dtype in (("indptr", np.int64), ("labels", np.int32), ("scores", np.float32)):
            object.__setattr__(self, name, _as_vector(getattr(self, name), name, dtype))
        _check_ranking(self)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.indptr.size - 1

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, row: int) -> list[tuple[int, float]]:
        if not -self.n_rows <= row < self.n_rows:
            raise IndexError(f"row {row} of a ranking of {self.n_rows} rows")
        begin, end = self.indptr[row % self.n_rows], self.indptr[row % self.n_rows + 1]
        pairs = zip(self.labels[begin:end], self.scores[begin:end], strict=True)
        return [(int(label), round(float(score), 6)) for label, score in pairs]

    def __iter__(self) -> Iterator[list[tuple[int, float]]]:
        return (self[row] for row in range(self.n_rows))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Ranking)
            and self.n_labels == other.n_labels
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.labels, other.labels)
            and np.array_equal(self.scores, other.scores)
        )

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[tuple[int, float]]], n_labels: int) -> Ranking:
        """Build a ranking from (label, score) pairs, already in falling order of score."""
        flat = [pair for row in rows for pair in row]
        return cls(
            np.cumsum([0, *(len(row) for row in rows)]),
            np.array([label for label, _ in flat]),
            np.array([score for _, score in flat]),
            n_labels,
        )

    @classmethod
    def from_csr(cls, scores: sparse.csr_array, k: int | None = None, threads: int = 1) -> Ranking:
        """Rank the stored entries of an (n_rows, n_labels) score matrix; ties go to the smaller label."""
        if not sparse.issparse(scores):
            raise InputError(
                "scores must be a sparse matrix",
                given=type(scores).__name__,
                hint="Wrap it: scipy.sparse.csr_array(scores); entries that are 0 are then not returned.",
            )
        scores = sparse.csr_array(scores)
        if np.isnan(scores.data).any():  # NaN cannot be ordered
            raise InputError("scores of a ranking must be numbers", given="NaN")
        k = scores.shape[1] if k is None else check_int(k, "k", low=1)
        return cls(*top_k_rows(scores, k, threads))

    @classmethod
    def from_padded(
        cls, labels: NDArray[np.int32], scores: NDArray[np.float32], found: NDArray[np.int32], n_labels: int
    ) -> Ranking:
        """Wrap the result of a search kernel: k places for each row, of which the first `found` are used."""
        n_rows = found.size
        if n_rows == 1:  # single requests of a service: the general case takes as long as a search
            n = int(found[0])
            return cls.from_trusted(np.array((0, n), dtype=np.int64), labels[:n], scores[:n], n_labels)
        places = labels.size // n_rows if n_rows else 0
        indptr = np.zeros(n_rows + 1, dtype=np.int64)
        np.cumsum(found, out=indptr[1:])
        if indptr[-1] != labels.size:
            used = (np.arange(places) < found[:, None]).ravel()
            labels, scores = labels[used], scores[used]
        return cls.from_trusted(indptr, labels, scores, n_labels)

    @classmethod
    def from_trusted(
        cls, indptr: NDArray[np.int64], labels: NDArray[np.int32], scores: NDArray[np.float32], n_labels: int
    ) -> Ranking:
        """Wrap arrays without checks, which take longer than a search for one row."""
        ranking = object.__new__(cls)
        ranking.__dict__.update(indptr=indptr, labels=labels, scores=scores, n_labels=n_labels)
        return ranking

    def top(self, k: int) -> Ranking:
        """Keep the best `k` labels of each row."""
        k = check_int(k, "k", low=1)
        place = np.arange(self.labels.size) - np.repeat(self.indptr[:-1], np.diff(self.indptr))
        return self.keep(place < k)

    def above(self, threshold: float | ArrayLike) -> Ranking:
        """Keep the labels with a score of at least `threshold` (one number, or one per row)."""
        limit = np.asarray(threshold, dtype=np.float64)
        if limit.ndim == 1 and limit.size == self.n_rows:
            limit = np.repeat(limit, np.diff(self.indptr))
        elif limit.ndim:
            raise InputError(
                f"threshold must be one number or one for each of the {self.n_rows} rows",
                given=f"an array of shape {limit.shape}",
            )
        return self.keep(self.scores >= limit)

    def without(self, pairs: Any) -> Ranking:
        """Leave out pairs of row and label: the stored entries of an (n_rows, n_labels) sparse matrix.

        To keep `k` labels per row, rank ``k`` more than a row has pairs first, and call ``top(k)`` afterwards.

        Examples
        --------
        >>> r = Ranking.from_lists([[(3, 0.9), (1, 0.5)], [(3, 0.7)]], n_labels=4)
        >>> r.without(sparse.csr_array(([1.0], ([0], [3])), shape=(2, 4)))[0]
        [(1, 0.5)]
        """
        if not sparse.issparse(pairs) or pairs.shape[0] != self.n_rows or pairs.shape[1] > self.n_labels:
            raise InputError(
                f"pairs must be a sparse matrix of {self.n_rows:,} rows and {self.n_labels:,} labels",
                given=f"shape {pairs.shape}" if sparse.issparse(pairs) else type(pairs).__name__,
            )
        matrix = sparse.coo_array(pairs)
        left_out = matrix.row.astype(np.int64) * self.n_labels + matrix.col
        rows = np.repeat(np.arange(self.n_rows, dtype=np.int64), np.diff(self.indptr))
        return self.keep(~np.isin(rows * self.n_labels + self.labels, left_out))

    def rows(self, index: ArrayLike) -> Ranking:
        """Return the rows of `index`, in that order."""
        wanted = np.arange(self.n_rows)[np.asarray(index)]
        sizes = np.diff(self.indptr)[wanted]
        indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[wanted] - indptr[:-1], sizes)
        return Ranking(indptr, self.labels[entries], self.scores[entries], self.n_labels)

    def followed_by(self, other: Ranking) -> Ranking:
        """Return the rows of this ranking and then those of another one of the same labels."""
        indptr = np.concatenate([self.indptr, other.indptr[1:] + self.indptr[-1]])
        labels = np.concatenate([self.labels, other.labels])
        return Ranking(indptr, labels, np.concatenate([self.scores, other.scores]), self.n_labels)

    @staticmethod
    def merge(rankings: Sequence[Ranking], how: str = "mean") -> Ranking:
        """Merge rankings of the same rows by the mean (a missing label counts as 0) or the ``"max"`` of the scores.

        Examples
        --------
        >>> a = Ranking.from_lists([[(0, 1.0), (1, 0.5)]], n_labels=3)
        >>> b = Ranking.from_lists([[(1, 0.75)]], n_labels=3)
        >>> Ranking.merge([a, b])[0]
        [(1, 0.625), (0, 0.5)]
        """
        check_choice(how, "how", ["mean", "max"])
        if not rankings:
            raise InputError("merge requires at least one ranking", given="none")
        n_rows, n_labels = rankings[0].n_rows, rankings[0].n_labels
        if any((r.n_rows, r.n_labels) != (n_rows, n_labels) for r in rankings):
            raise InputError("rankings to merge must have the same rows and labels")
        # Sparse matrices are not added, because SciPy drops entries whose sum is 0.
        rows = np.concatenate([np.repeat(np.arange(n_rows), np.diff(r.indptr)) for r in rankings])
        labels = np.concatenate([r.labels for r in rankings])
        scores = np.concatenate([r.scores.astype(np.float64) for r in rankings])
        cells, cell = np.unique(rows * np.int64(max(1, n_labels)) + labels, return_inverse=True)
        if how == "max":
            merged = np.full(cells.size, -np.inf)
            np.maximum.at(merged, cell, scores)
        else:
            merged = np.bincount(cell, weights=scores * (1 / len(rankings)), minlength=cells.size)
        row, label = np.divmod(cells, max(1, n_labels))
        indptr = np.searchsorted(row, np.arange(n_rows + 1))
        return Ranking.from_csr(sparse.csr_array((merged, label, indptr), shape=(n_rows, n_labels)))

    def to_csr(self) -> sparse.csr_array:
        """Return the scores as an (n_rows, n_labels) CSR array with rising columns; the order is lost."""
        arrays = (self.scores.copy(), self.labels.copy(), self.indptr)  # sorted in place below
        matrix = sparse.csr_array(arrays, shape=(self.n_rows, self.n_labels))
        matrix.has_sorted_indices = False
        matrix.sort_indices()
        return matrix

    def to_sets(self) -> sparse.csr_array:
        """Return the label sets as an (n_rows, n_labels) CSR array of ones, as in scikit-learn."""
        matrix = self.to_csr()
        matrix.data = np.ones(matrix.data.size, dtype=np.float32)
        return matrix

    def keep(self, mask: NDArray[np.bool_]) -> Ranking:
        """Return the entries where `mask` is true, one per entry."""
        kept = np.concatenate([[0], np.cumsum(mask)])
        return Ranking(kept[self.indptr], self.labels[mask], self.scores[mask], self.n_labels)


def _as_vector(values: ArrayLike, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    array = np.asarray(values)
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, dtype=dtype)
    whole = dtype is not np.float32
    if array.ndim != 1 or array.dtype.kind not in ("iu" if whole else "iuf"):
        raise InputError(
            f"{name} of a ranking must be a vector of {'whole ' if whole else ''}numbers",
            given=f"{array.dtype} of shape {array.shape}",
        )
    out = np.ascontiguousarray(array, dtype=dtype)
    if whole and array.dtype.itemsize > out.itemsize and not np.array_equal(out, array):
        raise InputError(f"{name} of a ranking must fit in {8 * out.itemsize} bits", given=str(array.max()))
    return out


def _check_ranking(ranking: Ranking) -> None:
    indptr, labels, scores = ranking.indptr, ranking.labels, ranking.scores
    if indptr.ndim != 1 or indptr.size < 1 or indptr[0] != 0 or np.any(np.diff(indptr) < 0):
        raise InputError("indptr of a ranking must rise from 0")
    if not indptr[-1] == labels.size == scores.size:
        raise InputError(
            f"a ranking whose indptr ends at {indptr[-1]} must have as many labels and scores",
            given=f"{labels.size} labels and {scores.size} scores",
        )
    if labels.size and (labels.min() < 0 or labels.max() >= ranking.n_labels):
        raise InputError(
            f"labels of a ranking must be from 0 to {ranking.n_labels - 1}",
            given=f"{labels.min()} to {labels.max()}",
        )
    if np.isnan(scores).any():
        raise InputError("scores of a ranking must be numbers", given="NaN")
    rises = np.diff(scores) > 0
    starts = indptr[1:-1]
    rises[starts[(starts > 0) & (starts < labels.size)] - 1] = False
    if rises.any():
        raise InputError("scores of a ranking must fall inside each row", hint="Use Ranking.from_csr to sort them.")
    if not _kernels.rows_distinct(indptr, labels):
        raise InputError("a label must occur at most once in a row of a ranking", given="a duplicate")
