"""The native kernels in plain NumPy: slow, obvious, the definition of what the native ones must return."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]
_F64 = NDArray[np.float64]
_U8 = NDArray[np.uint8]


def normalize_rows(indptr: _I64, data: _F32, threads: int) -> _F32:
    """Scale each row of a CSR matrix to Euclidean norm 1; rows of norm 0 stay as they are."""
    out = data.copy()
    for begin, end in pairwise(indptr):
        norm = np.sqrt(np.square(data[begin:end], dtype=np.float64).sum())
        if norm > 0:
            out[begin:end] = data[begin:end] / norm
    return out


def rows_rise(indptr: _I64, indices: _I32) -> bool:
    """Say whether the columns rise strictly inside every row."""
    return all(np.all(np.diff(indices[b:e]) > 0) for b, e in pairwise(indptr))


def rows_valid(indptr: _I64, indices: _I32, data: _F32, n_cols: int) -> bool:
    """Say whether a CSR matrix is canonical: indptr rises from 0, columns rise and fit, values are finite."""
    stored = min(indices.size, data.size)
    if indptr[0] != 0 or indptr.max() > stored or np.any(np.diff(indptr) < 0):
        return False
    used = slice(0, int(indptr[-1]))
    fits = np.all(indices[used] >= 0) and np.all(indices[used] < n_cols) and np.all(np.isfinite(data[used]))
    return bool(fits) and rows_rise(indptr, indices)


def top_k_rows(indptr: _I64, indices: _I32, data: _F32, k: int, threads: int) -> tuple[_I64, _I32, _F32]:
    """Keep the k largest entries of each row, largest first; ties go to the smaller column."""
    out_indices, out_data, sizes = [], [], [0]
    for begin, end in pairwise(indptr):
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
    max_features: int,
    threads: int,
) -> tuple[_I64, _I32, _F32]:
    """PIFA: for each label the weighted sum of its rows of X, scaled to norm 1, as CSR with rising columns.

    `label_indptr, label_rows, label_weights` are the columns of Y: the rows each label stands on.
    A label keeps its `max_features` largest features (ties: the smaller one). Labels without rows get an empty row.
    """
    out_indices, out_data, sizes = [], [], [0]
    for begin, end in pairwise(label_indptr):
        total = np.zeros(n_features)
        touched = np.zeros(n_features, dtype=bool)
        for row, weight in zip(label_rows[begin:end], label_weights[begin:end], strict=True):
            span = slice(x_indptr[row], x_indptr[row + 1])
            total[x_indices[span]] += np.float64(weight) * x_data[span]
            touched[x_indices[span]] = True
        seen = np.flatnonzero(touched)
        columns = np.sort(seen[np.lexsort((seen, -np.abs(total[seen])))[:max_features]])
        norm = np.sqrt(np.square(total[columns]).sum())
        out_indices.append(columns)
        out_data.append(total[columns] / norm if norm > 0 else total[columns])
        sizes.append(columns.size)
    return (
        np.cumsum(sizes, dtype=np.int64),
        np.concatenate([*out_indices, np.empty(0)]).astype(np.int32),
        np.concatenate([*out_data, np.empty(0)]).astype(np.float32),
    )


def rows_distinct(indptr: _I64, labels: _I32) -> bool:
    """Say whether no row holds a label twice."""
    return all(np.unique(labels[b:e]).size == e - b for b, e in pairwise(indptr))


def match_rows(true_indptr: _I64, true_labels: _I32, indptr: _I64, labels: _I32, threads: int) -> _U8:
    """Mark with 1 the entries of a ranking whose label is among the true labels (rising) of the same row."""
    hits = np.zeros(labels.size, dtype=np.uint8)
    for row in range(indptr.size - 1):
        span = slice(indptr[row], indptr[row + 1])
        hits[span] = np.isin(labels[span], true_labels[true_indptr[row] : true_indptr[row + 1]])
    return hits


def ranked_gains(
    indptr: _I64, labels: _I32, hits: _U8, weights: _F64, discounts: _F64, cutoffs: _I64, threads: int
) -> _F64:
    """Sum hit * weight * discount over the first `cutoffs[c]` entries of each row; (n_rows, n_cutoffs)."""
    out = np.zeros((indptr.size - 1, cutoffs.size))
    for row, (begin, end) in enumerate(pairwise(indptr)):
        gains = hits[begin:end] * weights[labels[begin:end]]
        for c, k in enumerate(cutoffs):
            out[row, c] = (gains[:k] * discounts[: gains[:k].size]).sum()
    return out.ravel()


def best_gains(
    true_indptr: _I64, true_labels: _I32, weights: _F64, discounts: _F64, cutoffs: _I64, threads: int
) -> _F64:
    """Return `ranked_gains` of the best ranking: the true labels of each row in falling order of weight."""
    out = np.zeros((true_indptr.size - 1, cutoffs.size))
    for row, (begin, end) in enumerate(pairwise(true_indptr)):
        gains = np.sort(weights[true_labels[begin:end]])[::-1]
        for c, k in enumerate(cutoffs):
            out[row, c] = (gains[:k] * discounts[: gains[:k].size]).sum()
    return out.ravel()


def accept_pairs(labels: _I32, leaves: _I32, copies: int, n_labels: int, room: _I64) -> _U8:
    """Say for each claim, in order, whether it is served: labels get `copies` leaves, leaves `room` labels."""
    left, free = [copies] * n_labels, room.tolist()
    served = np.zeros(labels.size, dtype=np.uint8)
    for claim, (label, leaf) in enumerate(zip(labels.tolist(), leaves.tolist(), strict=True)):
        if left[label] > 0 and free[leaf] > 0:
            left[label] -= 1
            free[leaf] -= 1
            served[claim] = 1
    return served
