"""Kernels on rows and rankings in plain NumPy: norms, checks, top-k, centroids, matches, means, parsing."""

from __future__ import annotations

import re
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


def take_rows(indptr: _I64, indices: _I32, data: _F32, rows: _I32) -> tuple[_I64, _I32, _F32]:
    """Return some rows under their own numbers; all others are empty."""
    sizes = np.zeros(indptr.size, dtype=np.int64)
    sizes[rows + 1] = np.diff(indptr)[rows]
    kept = np.isin(np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), rows)
    return np.cumsum(sizes), indices[kept], data[kept]


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


def merge_lists(
    labels: _I32, scores: _F32, found: _I32, n_lists: int, k: int, threads: int = 1
) -> tuple[_I32, _F32, _I32]:
    """Return the best `k` labels of each row by their mean score over the lists of an ensemble."""
    n_rows = found.size // n_lists
    ids, given = labels.reshape(n_lists, n_rows, -1), scores.reshape(n_lists, n_rows, -1)
    used = found.reshape(n_lists, n_rows)
    out_labels = np.full((n_rows, k), -1, dtype=np.int32)
    out_scores = np.zeros((n_rows, k), dtype=np.float32)
    out_found = np.zeros(n_rows, dtype=np.int32)
    for row in range(n_rows):
        total: dict[int, float] = {}
        for one in range(n_lists):
            for place in range(int(used[one, row])):
                label = int(ids[one, row, place])
                total[label] = total.get(label, 0.0) + float(given[one, row, place]) * (1 / n_lists)
        best = sorted(total.items(), key=lambda item: (-float(np.float32(item[1])), item[0]))[:k]
        out_found[row] = len(best)
        for place, (label, score) in enumerate(best):
            out_labels[row, place], out_scores[row, place] = label, score
    return out_labels.ravel(), out_scores.ravel(), out_found


def calibrate(
    scores: NDArray[np.float32], as_odds: bool, x: NDArray[np.float64], y: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return the values of the curve through the knots (x, y) at the scores, or at their log odds."""
    signal = scores.astype(np.float64)
    if as_odds:
        share = np.clip(signal, 1e-6, 1 - 1e-6)
        signal = np.log(share) - np.log1p(-share)
    return np.interp(signal, x, y).astype(np.float32)


_SPACES = re.compile(rb"[ \t\r]+")
_LABELS = re.compile(rb"[0-9]+(,[0-9]+)*")
_FEATURE = re.compile(rb"([0-9]+):(.*)", re.DOTALL)
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(rb"[+-]?(inf|nan|Inf|NaN|INF|NAN)", re.DOTALL)


class _ProblemError(Exception):
    def __init__(self, code: int, token: int) -> None:
        self.code = code
        self.token = token


def parse_rows(
    text: NDArray[np.uint8], last: bool, max_rows: int, n_labels: int, n_features: int
) -> tuple[_I64, _I32, _I64, _I32, _F32, tuple[int, int, int]]:
    """Parse complete lines ``l1,l2 f:v f:v``, at most `max_rows`, up to the first bad one.

    Returns the ends of the label lists, the labels, the ends of the feature lists, features, values, and
    (bytes parsed, problem, byte of the offending token). Problems: 0 none, 1 no label, 2 label too large,
    3 no ``feature:value``, 4 feature too large, 5 value is no number, 6 value is not finite in float32.
    """
    content = text.tobytes()
    labels: list[int] = []
    features: list[int] = []
    values: list[np.float32] = []
    label_ends: list[int] = []
    feature_ends: list[int] = []
    at = problem = problem_at = 0
    while at < len(content) and len(label_ends) < max_rows:
        end = content.find(b"\n", at)
        if end < 0 and not last:
            break
        line = content[at:] if end < 0 else content[at:end]
        try:
            row_labels, row_features, row_values = _parse_line(line, n_labels, n_features)
        except _ProblemError as found:
            problem, problem_at = found.code, at + found.token
            break
        labels += row_labels
        features += row_features
        values += row_values
        label_ends.append(len(labels))
        feature_ends.append(len(features))
        at = len(content) if end < 0 else end + 1
    return (
        np.array(label_ends, dtype=np.int64),
        np.array(labels, dtype=np.int32),
        np.array(feature_ends, dtype=np.int64),
        np.array(features, dtype=np.int32),
        np.array(values, dtype=np.float32),
        (at, problem, problem_at),
    )


def _parse_line(line: bytes, n_labels: int, n_features: int) -> tuple[list[int], list[int], list[np.float32]]:
    labels: list[int] = []
    features: list[int] = []
    values: list[np.float32] = []
    place = 0
    for number, token in enumerate(_SPACES.split(line)):
        place = line.find(token, place)
        if not token:
            continue
        if number == 0 and not re.match(rb"[0-9]*:", token):
            labels = _parse_labels(token, n_labels, place)
        else:
            feature, value = _parse_feature(token, n_features, place)
            features.append(feature)
            values.append(value)
        place += len(token)
    return labels, features, values


def _parse_labels(token: bytes, n_labels: int, place: int) -> list[int]:
    labels = []
    for part in re.findall(rb"[0-9]+,?|.", token, re.DOTALL):
        if not part[:1].isdigit():
            raise _ProblemError(1, place)
        # A label is read up to its comma or the end of the token; anything else behind it is no label.
        digits = part.rstrip(b",")
        followed = token.endswith(part) or part.endswith(b",")
        if not followed:
            raise _ProblemError(1, place)
        if int(digits) >= n_labels:
            raise _ProblemError(2, place)
        labels.append(int(digits))
    if not _LABELS.fullmatch(token):
        raise _ProblemError(1, place)
    return labels


def _parse_feature(token: bytes, n_features: int, place: int) -> tuple[int, np.float32]:
    match = _FEATURE.fullmatch(token)
    if match is None:
        raise _ProblemError(3, place)
    if int(match[1]) >= n_features:
        raise _ProblemError(4, place)
    if _NUMBER.fullmatch(match[2]) is None:
        raise _ProblemError(6 if _NOT_FINITE.match(match[2]) else 5, place)
    with np.errstate(over="ignore"):
        value = np.float32(float(match[2]))
    if not np.isfinite(value):
        raise _ProblemError(6, place)
    return int(match[1]), value
