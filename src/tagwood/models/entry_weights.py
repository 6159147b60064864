"""Weights of positive entries and of rows, from what users pass. In: Y and weights. Out: arrays for training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._sparse import CsrParts, csr_parts
from tagwood.errors import InputError

_A, _B = 0.55, 1.5  # the repository's default propensity model


def entry_weights(
    Y: sparse.csr_array, sample_weight: Any, tail: float
) -> tuple[CsrParts, NDArray[np.float32], bool]:
    """Return Y transposed with its entries' weights, the rows' weights (or an empty array), and whether any differ.

    Parameters
    ----------
    Y
        Checked (n_rows, n_labels) label sets.
    sample_weight
        None, one positive number per row, or a sparse matrix with one positive number per entry of Y.
    tail
        0: entries count alike; 1: by their label's inverse propensity, scaled to a mean of 1.
    """
    rows = np.empty(0, dtype=np.float32)
    entries = Y
    if sparse.issparse(sample_weight):
        entries = _per_entry(Y, sparse.csr_array(sample_weight))
    elif sample_weight is not None:
        rows = _per_row(sample_weight, Y.shape[0])
    label_rows = csr_parts(entries.T.tocsr())
    if tail > 0:
        label_rows = label_rows._replace(data=_tail_weights(label_rows, tail))
    return label_rows, rows, tail > 0 or entries is not Y


def _per_row(sample_weight: Any, n_rows: int) -> NDArray[np.float32]:
    weights = np.asarray(sample_weight, dtype=np.float32)
    if weights.shape != (n_rows,) or not np.all(np.isfinite(weights)) or not np.all(weights > 0):
        raise InputError(
            f"sample_weight must hold one positive number for each of the {n_rows:,} rows",
            given=f"an array of shape {weights.shape}",
            hint="Leave out rows that should not count.",
        )
    return weights


def _per_entry(Y: sparse.csr_array, weights: sparse.csr_array) -> sparse.csr_array:
    if weights.shape != Y.shape:
        raise InputError(f"sample_weight must have the shape of Y, {Y.shape}", given=str(weights.shape))
    joined = sparse.csr_array(Y.multiply(weights))
    joined.eliminate_zeros()
    if joined.nnz != Y.nnz or not np.all(np.isfinite(joined.data)) or np.any(joined.data <= 0):
        raise InputError("sample_weight must hold a positive number for each entry of Y")
    return joined.astype(np.float32)


def _tail_weights(label_rows: CsrParts, tail: float) -> NDArray[np.float32]:
    counts = np.diff(label_rows.indptr)
    scale = (np.log(max(label_rows.n_cols, 3)) - 1) * (_B + 1) ** _A
    per_label = (1 + scale * (counts + _B) ** -_A) ** tail
    per_entry = np.repeat(per_label, counts)
    weights: NDArray[np.float32] = (label_rows.data * per_entry / per_entry.mean()).astype(np.float32)
    return weights
