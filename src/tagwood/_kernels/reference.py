"""The native kernels in plain NumPy: slow, obvious, and the definition of what the native ones must return."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]


def normalize_rows(indptr: _I64, data: _F32, threads: int) -> _F32:
    """Scale each row of a CSR matrix to Euclidean norm 1; rows of norm 0 stay as they are."""
    out = data.copy()
    for begin, end in zip(indptr[:-1], indptr[1:], strict=True):
        norm = np.sqrt(np.square(data[begin:end], dtype=np.float64).sum())
        if norm > 0:
            out[begin:end] = data[begin:end] / norm
    return out


def rows_rise(indptr: _I64, indices: _I32) -> bool:
    """Say whether the columns rise strictly inside every row."""
    return all(np.all(np.diff(indices[b:e]) > 0) for b, e in zip(indptr[:-1], indptr[1:], strict=True))


def top_k_rows(indptr: _I64, indices: _I32, data: _F32, k: int, threads: int) -> tuple[_I64, _I32, _F32]:
    """Keep the k largest entries of each row, largest first; ties go to the smaller column."""
    out_indices, out_data, sizes = [], [], [0]
    for begin, end in zip(indptr[:-1], indptr[1:], strict=True):
        order = np.lexsort((indices[begin:end], -data[begin:end]))[:k]
        out_indices.append(indices[begin:end][order])
        out_data.append(data[begin:end][order])
        sizes.append(order.size)
    return (
        np.cumsum(sizes, dtype=np.int64),
        np.concatenate([*out_indices, np.empty(0, np.int32)]).astype(np.int32),
        np.concatenate([*out_data, np.empty(0, np.float32)]).astype(np.float32),
    )


def label_centroids(
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    label_indptr: _I64,
    label_rows: _I32,
    label_weights: _F32,
    threads: int,
) -> tuple[_I64, _I32, _F32]:
    """PIFA: for each label the weighted sum of its rows of X, scaled to norm 1, as CSR with rising columns.

    `label_indptr, label_rows, label_weights` are the columns of Y: the rows each label stands on.
    Labels whose sum is zero get an empty row.
    """
    out_indices, out_data, sizes = [], [], [0]
    for begin, end in zip(label_indptr[:-1], label_indptr[1:], strict=True):
        total = np.zeros(n_features)
        for row, weight in zip(label_rows[begin:end], label_weights[begin:end], strict=True):
            span = slice(x_indptr[row], x_indptr[row + 1])
            total[x_indices[span]] += np.float64(weight) * x_data[span]
        norm = np.sqrt(np.square(total).sum())
        columns = np.flatnonzero(total)
        out_indices.append(columns)
        out_data.append(total[columns] / norm if norm > 0 else total[columns])
        sizes.append(columns.size)
    return (
        np.cumsum(sizes, dtype=np.int64),
        np.concatenate([*out_indices, np.empty(0)]).astype(np.int32),
        np.concatenate([*out_data, np.empty(0)]).astype(np.float32),
    )
