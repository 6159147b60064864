"""The imputation kernels in plain NumPy: Algorithms 1 and 2 of the EAGLE paper, line by line.

Decisions, shared with the native kernels:

- Two similarities closer than 1e-5 are equal. Exact equality would let rounding decide: in a group of two
  rows that is the only group of its label, both rows are mathematically equally close to their sum.
- A sum of n rows (all of norm 1) that is shorter than n * 1e-5 is zero; a direction of zero moves nothing.
- Beyond the paper: `contrast` times the mean of the rows of groups without the label (of all rows if there are none) is
  taken off every row that is summed up, at the features that the sum of the label's rows uses (so embeddings stay
  sparse). 0 gives the paper's algorithm. Where nothing is left of the first sum, as for a
  label that stands on every group, it starts from the plain sum.
- Where the rows of all groups of a label cancel out (x and -x), every row is equally close to e = 0 and
  Algorithm 1 as printed stays there. It starts instead from one row of the label's first group, another one
  for each label of the group. With zero steps (EAGLE-0) the embedding stays zero.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]
_F64 = NDArray[np.float64]

TIE = 1e-5
ZERO = 1e-5
UNUSED = 1e-5


def impute_groups(
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    group_indptr: _I64,
    group_rows: _I32,
    label_indptr: _I64,
    label_groups: _I32,
    label_starts: _I32,
    mean: _F32,
    contrast: float,
    steps: int,
    step_size: float,
    margin: float,
    threads: int,
) -> tuple[_I64, _I32, _F32, _F32]:
    """Give each label, in each of its groups, to the row closest to its embedding (ties: to all of them).

    Rows of X have norm 1 or are empty. Group j holds ``group_rows[group_indptr[j]:group_indptr[j + 1]]``,
    label l stands on the groups ``label_groups[label_indptr[l]:label_indptr[l + 1]]``, and
    ``label_starts[l]`` chooses its first row where rows cancel out. With a positive `margin`, rows that
    are behind the closest by less than `margin` times its similarity get the label too, with a share that falls
    linearly to zero there.
    Shares sum to 1 in each group and label.

    Returns per label, as ``indptr, rows, similarity, share``, its rows in rising order. A row that gets the
    label through several groups is there once, with its largest similarity and the sum of its shares, at most
    1.
    """
    X = _dense(x_indptr, x_indices, x_data, n_features)
    found: list[dict[int, tuple[float, float]]] = []
    for members, start in _labels(group_indptr, group_rows, label_indptr, label_groups, label_starts):
        e = _embed(X, members, int(start), (group_rows.size, mean, contrast), steps, step_size)
        best: dict[int, tuple[float, float]] = {}
        for rows in members:
            similarity = X[rows] @ e
            share = _shares(similarity.max() - similarity, margin * similarity.max())
            for row, s, w in zip(rows.tolist(), similarity, share, strict=True):
                if w > 0:
                    old = best.get(row, (-np.inf, 0.0))
                    best[row] = (max(old[0], s), min(old[1] + w, 1.0))
        found.append(dict(sorted(best.items())))
    return (
        np.cumsum([0, *map(len, found)], dtype=np.int64),
        np.array([row for rows in found for row in rows], dtype=np.int32),
        np.array([s for rows in found for s, _ in rows.values()], dtype=np.float32),
        np.array([w for rows in found for _, w in rows.values()], dtype=np.float32),
    )


def embed_groups(
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    group_indptr: _I64,
    group_rows: _I32,
    label_indptr: _I64,
    label_groups: _I32,
    label_starts: _I32,
    mean: _F32,
    contrast: float,
    steps: int,
    step_size: float,
    threads: int,
) -> tuple[_I64, _I32, _F32]:
    """Return the embedding of each label, of norm 1 or zero, as CSR with rising columns."""
    X = _dense(x_indptr, x_indices, x_data, n_features)
    E = np.array(
        [
            _embed(X, members, int(start), (group_rows.size, mean, contrast), steps, step_size)
            for members, start in _labels(group_indptr, group_rows, label_indptr, label_groups, label_starts)
        ]
    ).reshape(-1, n_features)
    columns = [np.flatnonzero(e) for e in E]
    return (
        np.cumsum([0, *map(len, columns)], dtype=np.int64),
        np.concatenate([*columns, np.empty(0)]).astype(np.int32),
        E[E != 0].astype(np.float32),
    )


def _embed(
    X: _F64, members: list[_I32], start: int, others: tuple[int, _F32, float], steps: int, step_size: float
) -> _F64:
    """Algorithm 1, GROUP_ROBUST_LABEL_REPR: `members` holds the rows of each group of the label."""
    everyone = np.concatenate([*members, np.empty(0, dtype=np.int32)])
    total, (n_all, mean, contrast) = X[everyone].sum(axis=0), others
    rest = n_all - everyone.size
    background = (n_all * mean.astype(np.float64) - total) / rest if rest > 0 else mean
    common = np.where(np.abs(total) > UNUSED, contrast * background, 0.0)
    e = _project((X[everyone] - common).sum(axis=0), everyone.size)
    if not e.any():
        e = _project(X[everyone].sum(axis=0), everyone.size)
    if steps > 0 and not e.any():
        e = _first_row(X, members, start)
    for _ in range(steps):
        picked = [rows[(v := X[rows] @ e) >= v.max() - TIE] for rows in members]
        chosen = np.concatenate([*picked, np.empty(0, dtype=np.int32)])
        g = _project((X[chosen] - common).sum(axis=0), chosen.size)
        moved = _project(e + step_size * g, 1)
        e = moved if moved.any() else e
    return e


def _project(total: _F64, n_rows: int) -> _F64:
    norm = np.linalg.norm(total)
    return total / norm if norm > ZERO * n_rows else np.zeros_like(total)


def _first_row(X: _F64, members: list[_I32], start: int) -> _F64:
    for rows in members:
        filled = rows[X[rows].any(axis=1)]
        if filled.size:
            return np.asarray(X[filled[start % filled.size]])
    return np.zeros(X.shape[1])


def _shares(behind: _F64, window: float) -> _F64:
    """Return each row's share of the label, 0 for rows that do not get it."""
    share = np.where(behind <= TIE, 1.0, np.maximum(0.0, 1.0 - behind / max(window, TIE)))
    return np.asarray(share / share.sum())


def _labels(
    group_indptr: _I64, group_rows: _I32, label_indptr: _I64, label_groups: _I32, label_starts: _I32
) -> Iterator[tuple[list[_I32], np.int32]]:
    for begin, end, start in zip(label_indptr[:-1], label_indptr[1:], label_starts, strict=True):
        members = [group_rows[group_indptr[j] : group_indptr[j + 1]] for j in label_groups[begin:end]]
        yield [rows for rows in members if rows.size], start


def _dense(indptr: _I64, indices: _I32, data: _F32, n_features: int) -> _F64:
    X = np.zeros((indptr.size - 1, n_features))
    X[np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), indices] = data
    return X
