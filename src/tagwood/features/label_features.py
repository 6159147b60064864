"""Label features: what a label looks like in the space of the rows (PIFA).

In: X and Y. Out: V, one row per label.
"""

from __future__ import annotations

from typing import Any

from scipy import sparse

from tagwood import _kernels
from tagwood._check import check_int, check_threads
from tagwood._sparse import CsrParts, check_features, check_labels, csr_parts


def label_centroids(
    X: Any, Y: Any, max_features: int | None = None, threads: int | None = None
) -> sparse.csr_array:
    """Return V (n_labels, n_features): each label's rows of X summed up and scaled to norm 1.

    Positive instance feature aggregation. Labels that stand on no row get an empty row.

    Parameters
    ----------
    X
        (n_rows, n_features) features, sparse or dense.
    Y
        (n_rows, n_labels) label sets, or the label ids of each row.
    max_features
        Keep only that many of a label's largest features; default all. About 100 build trees just as good in a
        fraction of the time and memory.
    threads
        Number of threads; default all cores. The result does not depend on it.

    Examples
    --------
    >>> label_centroids([[1.0, 0.0], [0.0, 1.0]], [[0, 1], [1]]).toarray().round(3)
    array([[1.   , 0.   ],
           [0.707, 0.707]], dtype=float32)
    """
    features = csr_parts(check_features(X))
    labels = csr_parts(check_labels(Y, n_rows=features.n_rows).T.tocsr())
    limit = features.n_cols if max_features is None else check_int(max_features, "max_features", low=1)
    return centroid_parts(features, labels, limit, check_threads(threads)).to_scipy()


def centroid_parts(features: CsrParts, label_rows: CsrParts, max_features: int, threads: int) -> CsrParts:
    """Return V from checked kernel arrays; `label_rows` is Y transposed: the rows each label stands on."""
    indptr, indices, data = _kernels.label_centroids(*features, *label_rows[:3], max_features, threads)
    return CsrParts(indptr, indices, data, features.n_cols)
