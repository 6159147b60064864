"""Sparse matrices: validation of user input, index types, row norms and row top-k.

In: sparse or dense matrices, or lists of label ids. Out: canonical CSR arrays. Kernels take `indptr` int64, `indices`
int32, `data` float32, all contiguous, columns rising in a row. SciPy widens `indices` when `indptr` is int64, so the
three arrays are kept as `CsrParts` and converted to SciPy where users see them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._check import as_list, check_finite
from tagwood._lazy import sparse
from tagwood.errors import InputError

_INT32_MAX = np.iinfo(np.int32).max
_GAPS_FROM, _GAPS = 10_000_000, 100  # label matrices with more columns than both are refused


class CsrParts(NamedTuple):
    """The arrays of a CSR matrix with the types of the kernels."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.float32]
    n_cols: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.indptr.size - 1

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the three arrays by name, as they are stored."""
        return {"indptr": self.indptr, "indices": self.indices, "data": self.data}

    def to_scipy(self) -> sparse.csr_array:
        """Return a SciPy array; `data` and `indices` are shared if possible."""
        # SciPy converts both index arrays to the wider type; an int32 indptr keeps `indices` int32.
        indptr = self.indptr if self.data.size > _INT32_MAX else self.indptr.astype(np.int32)
        return sparse.csr_array((self.data, self.indices, indptr), shape=(self.n_rows, self.n_cols))


def csr_parts(matrix: sparse.csr_array) -> CsrParts:
    """Return the kernel arrays of a canonical CSR array (see `check_features`, `check_labels`)."""
    return CsrParts(
        np.ascontiguousarray(matrix.indptr, dtype=np.int64),
        np.ascontiguousarray(matrix.indices, dtype=np.int32),
        np.ascontiguousarray(matrix.data, dtype=np.float32),
        int(matrix.shape[1]),
    )


def check_features(X: Any, *, n_features: int | None = None, name: str = "X") -> sparse.csr_array:
    """Return a sparse or dense (n_rows, n_features) matrix as a canonical float32 CSR array.

    Canonical: sorted columns, duplicates summed, finite values. The input is never changed.
    """
    matrix = _to_csr(X, name)
    if n_features is not None and matrix.shape[1] != n_features:
        raise InputError(
            f"{name} must have the {n_features:,} features this model was fitted with",
            given=f"{matrix.shape[1]:,}",
            hint="Encode the texts with the encoder that was fitted with the model.",
        )
    check_finite(matrix.data, name)
    if matrix.dtype != np.float32:
        with np.errstate(over="ignore"):  # raises an error below
            matrix = matrix.astype(np.float32)
        check_finite(matrix.data, f"{name} in float32")
    return _canonical(matrix)


def feature_parts(X: Any, n_features: int) -> CsrParts:
    """Return the kernel arrays of user features; fast for a canonical CSR matrix, and for those of an encoder.

    One pass in native code checks the matrix; only if that fails, `check_features` repairs it or raises an error.
    """
    if isinstance(X, CsrParts) and X.n_cols == n_features:
        return X
    if isinstance(X, sparse.csr_array | sparse.csr_matrix) and X.shape[1] == n_features and X.dtype == np.float32:
        indptr, indices, data = X.indptr, X.indices, X.data
        if indices.dtype == np.int32 and indptr.size == X.shape[0] + 1:
            indptr = indptr.astype(np.int64)
            contiguous = indices.flags.c_contiguous and data.flags.c_contiguous
            if contiguous and _kernels.rows_valid(indptr, indices, data, n_features):
                return CsrParts(indptr, indices, data, n_features)
    return csr_parts(check_features(X, n_features=n_features))


def check_labels(Y: Any, *, n_rows: int | None = None, name: str = "Y") -> sparse.csr_array:
    """Return label sets as a canonical 0/1 float32 CSR array of shape (n_rows, n_labels).

    `Y` may be a sparse or dense matrix of zeros and non-negative numbers (any positive number counts as 1), a sequence
    with the label ids of each row, or with one id per row; also a series of pandas, Polars or Arrow with either.
    """
    Y = _plain_labels(Y, name)
    matrix = _canonical(_lists_to_csr(Y, name) if isinstance(Y, list | tuple) else _to_csr(Y, name))
    check_finite(matrix.data, name)
    if matrix.shape[1] > _GAPS_FROM and matrix.shape[1] > _GAPS * matrix.nnz:
        raise InputError(
            f"{name} must number its labels without large gaps",
            given=f"{matrix.shape[1]:,} columns for {matrix.nnz:,} entries",
            hint="A Tagger takes any ids; for a model number them by np.unique(ids, return_inverse=True).",
        )
    if matrix.data.size and matrix.data.min() < 0:
        raise InputError(f"{name} must contain 0 and 1", given=str(matrix.data.min()))
    if n_rows is not None and matrix.shape[0] != n_rows:
        raise InputError(
            f"{name} must have one row for each of the {n_rows:,} rows of X",
            given=f"{matrix.shape[0]:,} rows",
        )
    if not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    ones = np.ones(matrix.data.size, dtype=np.float32)
    return sparse.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def normalize_rows(matrix: sparse.csr_array, threads: int = 1) -> sparse.csr_array:
    """Return `matrix` with every row scaled to Euclidean norm 1; empty rows stay empty."""
    parts = csr_parts(matrix)
    data = _kernels.normalize_rows(parts.indptr, parts.data, threads)
    return parts._replace(data=data).to_scipy()


def top_k_rows(matrix: sparse.csr_array, k: int, threads: int = 1) -> CsrParts:
    """Return the `k` largest stored entries of each row, largest first; ties go to the smaller column."""
    parts = csr_parts(matrix)
    indptr, indices, data = _kernels.top_k_rows(parts.indptr, parts.indices, parts.data, k, threads)
    return CsrParts(indptr, indices, data, parts.n_cols)


def _plain_labels(Y: Any, name: str) -> Any:
    """Return a column of labels as a list; other forms are unchanged."""
    if sparse.issparse(Y) or isinstance(Y, list | tuple):
        return Y
    if isinstance(Y, np.ndarray):
        return Y.tolist() if Y.ndim == 1 and Y.dtype.kind in "iuO" else Y
    series = any(hasattr(Y, method) for method in ("to_pylist", "to_list"))
    table = hasattr(Y, "columns") or hasattr(Y, "column_names")
    return as_list(Y, name) if series and not table else Y


def _to_csr(value: Any, name: str) -> sparse.csr_array:
    if sparse.issparse(value):
        if value.ndim != 2:
            raise InputError(f"{name} must be a matrix", given=f"{value.ndim} dimension(s)")
        try:
            matrix = sparse.csr_array(value)
        except ValueError as error:  # SciPy checks the ends of indptr
            raise InputError(f"{name} must be a valid CSR matrix", given=f"one with a wrong {error}") from error
        _check_structure(matrix, name)
    else:
        matrix = sparse.csr_array(_dense(value, name))
    _check_real(matrix.dtype, name)
    if matrix.shape[1] > _INT32_MAX:
        raise InputError(f"{name} must have at most {_INT32_MAX:,} columns", given=f"{matrix.shape[1]:,}")
    return matrix


def _dense(value: Any, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name} must be a matrix", given="rows of different lengths") from error
    if array.ndim != 2:
        raise InputError(
            f"{name} must be a matrix of rows and columns",
            given=f"{array.ndim} dimension(s)",
            hint="Reshape a single row: X.reshape(1, -1)." if array.ndim == 1 else None,
        )
    _check_real(array.dtype, name)
    return array.astype(np.float32) if array.dtype == np.float16 else array  # SciPy does not support float16


def _check_real(dtype: np.dtype[Any], name: str) -> None:
    if dtype.kind not in "fiub":
        raise InputError(f"{name} must contain real numbers", given=f"values of type {dtype}")


def _lists_to_csr(rows: Iterable[Iterable[int]], name: str) -> sparse.csr_array:
    rows = list(rows)
    if rows and all(isinstance(row, int | np.integer) and not isinstance(row, bool) for row in rows):
        rows = [[row] for row in rows]  # type: ignore[list-item]  # one label per row
    if any(isinstance(row, str) or not hasattr(row, "__len__") for row in rows):
        raise InputError(f"{name} as a list must have one collection of label ids per row")
    sizes = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))  # type: ignore[arg-type]
    flat = [item for row in rows for item in row]
    if not all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in flat):
        raise InputError(
            f"{name} must contain integer label ids",
            hint="To use label names, fit a Tagger, or build a LabelVocab first.",
        )
    ids = np.asarray(flat, dtype=np.int64)
    if ids.size and (ids.min() < 0 or ids.max() >= _INT32_MAX):
        raise InputError(f"{name} must contain label ids from 0 to {_INT32_MAX - 1:,}")
    n_labels = int(ids.max()) + 1 if ids.size else 0
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return sparse.csr_array((np.ones(ids.size, dtype=np.float32), ids, indptr), shape=(len(rows), n_labels))


def _check_structure(matrix: sparse.csr_array, name: str) -> None:
    indptr, indices = matrix.indptr, matrix.indices
    broken = indptr[0] != 0 or indptr[-1] > min(indices.size, matrix.data.size) or np.any(np.diff(indptr) < 0)
    if broken:
        raise InputError(f"{name} must be a valid CSR matrix", given="an indptr that does not rise from 0")
    used = indices[: indptr[-1]]
    if used.size and (used.min() < 0 or used.max() >= matrix.shape[1]):
        bad = used.min() if used.min() < 0 else used.max()
        raise InputError(f"{name} must have columns from 0 to {matrix.shape[1] - 1:,}", given=f"column {bad}")


def _canonical(matrix: sparse.csr_array) -> sparse.csr_array:
    # The flags of SciPy may be wrong for matrices that were edited in place, so the columns are checked.
    if _kernels.rows_rise(
        np.ascontiguousarray(matrix.indptr, dtype=np.int64),
        np.ascontiguousarray(matrix.indices, dtype=np.int32),
    ):
        return matrix
    matrix = matrix.copy()
    matrix.has_sorted_indices = False
    matrix.has_canonical_format = False
    matrix.sum_duplicates()
    return matrix
