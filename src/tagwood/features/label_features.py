"""Label features: what a label looks like in the space of the rows (PIFA).

In: X and Y. Out: V, one row per label.
"""

from __future__ import annotations

from typing import Any

from scipy import sparse

from tagwood import _kernels
from tagwood._check import check_threads
from tagwood._sparse import CsrParts, check_features, check_labels, csr_parts


def label_centroids(X: Any, Y: Any, threads: int | None = None) -> sparse.csr_array:
    """Return V (n_labels, n_features): each label's rows of X summed up and scaled to norm 1.

    Positive instance feature aggregation. Labels that stand on no row get an empty row.

    Parameters
    ----------
    X
        (n_rows, n_features) features, sparse or dense.
    Y
        (n_rows, n_labels) label sets, or the label ids of each row.
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
    return centroid_parts(features, labels, check_threads(threads)).to_scipy()


def centroid_parts(features: CsrParts, label_rows: CsrParts, threads: int) -> CsrParts:
    """Return V from checked kernel arrays; `label_rows` is Y transposed: the rows each label stands on."""
    indptr, indices, data = _kernels.label_centroids(*features, *label_rows[:3], threads)
    return CsrParts(indptr, indices, data, features.n_cols)
