"""Grouping rules: hide the known labels of rows behind groups of rows.

In: a number of rows, or the rows X. Out: the (n_rows, n_groups) matrix that `GroupedLabels` and `impute_labels` take.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._check import check_float, check_int, check_threads
from tagwood._sparse import check_features, csr_parts, normalize_rows
from tagwood.errors import InputError


def random_groups(n_rows: int, size: int, *, seed: int = 0) -> sparse.csr_array:
    """Put rows into random groups of `size`; the last group may be smaller.

    Examples
    --------
    >>> random_groups(5, 2).sum(axis=0).tolist()
    [2.0, 2.0, 1.0]
    """
    check_int(n_rows, "n_rows", low=0)
    check_int(size, "size", low=1)
    order = np.random.default_rng(check_int(seed, "seed", low=0)).permutation(n_rows)
    codes = np.empty(n_rows, dtype=np.int64)
    codes[order] = np.arange(n_rows) // size
    return _from_codes(codes, -(-n_rows // size))


def clustered_groups(
    X: Any, depth: int, *, noise: float = 0.0, seed: int = 0, threads: int | None = None
) -> sparse.csr_array:
    """Group similar rows: balanced spherical 2-means, applied `depth` times, gives 2^depth groups.

    Parameters
    ----------
    X
        (n_rows, n_features) sparse or dense matrix.
    depth
        Number of times the rows are halved; at most log2(n_rows).
    noise
        From 0 (clusters) to 1 (random groups): each row is clustered as the mixture (1 - noise) * its own features +
        noise * those of a random row, which is as sparse as X.
    seed, threads
        Same seed, same groups, for any number of threads.

    Examples
    --------
    >>> groups = clustered_groups([[1.0, 0], [0, 1], [1, 0], [0, 1]], depth=1)
    >>> codes = groups.indices.tolist()
    >>> codes[0] == codes[2] != codes[1] == codes[3]
    True
    """
    rows = check_features(X)
    check_int(depth, "depth", low=0)
    check_float(noise, "noise", low=0.0, high=1.0)
    check_int(seed, "seed", low=0)
    n_rows = rows.shape[0]
    if n_rows < 2**depth:
        raise InputError(f"depth={depth} needs at least {2**depth:,} rows", given=f"{n_rows:,}")
    workers = check_threads(threads)
    rows = normalize_rows(rows, workers)
    if noise > 0:
        other = np.random.default_rng(seed).permutation(n_rows)
        rows = normalize_rows(sparse.csr_array((1 - noise) * rows + noise * rows[other]), workers)
    largest = -(-n_rows // 2**depth)
    ones = np.ones(n_rows)
    order, begin, end, left = _kernels.split_labels(
        *csr_parts(rows), ones, ones, 0.0, 0.0, False, largest, 20, 1e-4, seed, workers
    )
    codes = np.empty(n_rows, dtype=np.int64)
    leaves = np.flatnonzero(left < 0)
    for code, leaf in enumerate(leaves):
        codes[order[begin[leaf] : end[leaf]]] = code
    return _from_codes(codes, leaves.size)


def _from_codes(codes: NDArray[np.int64], n_groups: int) -> sparse.csr_array:
    ones = np.ones(codes.size, dtype=np.float32)
    return sparse.csr_array((ones, codes, np.arange(codes.size + 1)), shape=(codes.size, n_groups))
