"""Weights of positive entries and of rows, from what users pass. In: Y and weights. Out: arrays for training."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._sparse import CsrParts, csr_parts
from tagwood.errors import InputError

_A, _B = 0.55, 1.5  # the repository's default propensity model
_HUB_SHARE = 0.25  # a label on more of the rows is a hub


class EntryWeights(NamedTuple):
    """What the positive entries and the rows of Y weigh in training.

    `label_rows` is Y transposed, its data the weights that the user gave (`weighted`: whether he did). `leaf_weights`
    are the weights of the same entries for the classifiers of labels, where rare labels count more; empty where they
    are all 1. `row_weights` has one number per row, or none.
    """

    label_rows: CsrParts
    weighted: bool
    leaf_weights: NDArray[np.float32]
    row_weights: NDArray[np.float32]


def entry_weights(Y: sparse.csr_array, sample_weight: Any, tail: float | None) -> EntryWeights:
    """Return the weights of the entries of Y (checked, (n_rows, n_labels)).

    Parameters
    ----------
    Y
        Label sets.
    sample_weight
        None, one positive number per row, or a sparse matrix with one positive number per entry of Y.
    tail
        0: labels count alike; 1: by their inverse propensity, scaled to a mean of 1 over the entries. None: 1, or 0
        where a label stands on more than a quarter of the labelled rows.
    """
    rows = leaves = np.empty(0, dtype=np.float32)
    entries = Y
    if sparse.issparse(sample_weight):
        entries = _per_entry(Y, sparse.csr_array(sample_weight))
    elif sample_weight is not None:
        rows = _per_row(sample_weight, Y.shape[0])
    label_rows = csr_parts(entries.T.tocsr())
    weighted = entries is not Y
    n_labelled = int(np.count_nonzero(np.diff(Y.indptr)))
    if tail is None:
        tail = 0.0 if np.diff(label_rows.indptr).max() > _HUB_SHARE * n_labelled else 1.0
    if tail > 0:
        leaves = _tail_weights(label_rows, tail, n_labelled)
    elif weighted:
        leaves = label_rows.data
    return EntryWeights(label_rows, weighted, leaves, rows)


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


def _tail_weights(label_rows: CsrParts, tail: float, n_labelled: int) -> NDArray[np.float32]:
    counts = np.diff(label_rows.indptr)
    scale = (np.log(max(n_labelled, 3)) - 1) * (_B + 1) ** _A
    per_label = (1 + scale * (counts + _B) ** -_A) ** tail
    per_entry = np.repeat(per_label, counts)
    weights: NDArray[np.float32] = (label_rows.data * per_entry / per_entry.mean()).astype(np.float32)
    return weights
