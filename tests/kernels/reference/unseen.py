"""Matching of training rows by classifiers that have not seen them, in plain NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from reference.search import beam, log_link
from reference.train import train_blocks

_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]
_U8 = NDArray[np.uint8]


def match_unseen(
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    node_ptr: _I64,
    rows: _I32,
    positive_weights: _F32,
    row_weights: _F32,
    child_ptr: _I32,
    second_half: _U8,
    width: int,
    followed: int,
    link_power: int,
    loss: int,
    cost: float,
    bias: float,
) -> _I32:
    """Return `width` leaves per row, unused places -1; classifiers of the inner nodes are trained to the optimum.

    Node i has the rows ``rows[node_ptr[i]:node_ptr[i + 1]]``, which are the positives of its parent's output for it.
    Each half of the rows is matched by classifiers trained on the other. Of the inner nodes in a beam the best
    `followed` are looked into.
    """
    n_rows = x_indptr.size - 1
    X = np.zeros((n_rows, n_features))
    X[np.repeat(np.arange(n_rows), np.diff(x_indptr)), x_indices] = x_data
    leaves = np.full((n_rows, width), -1, dtype=np.int32)
    for half in (0, 1):
        taught = second_half[rows] != half
        ptr = np.concatenate([[0], np.cumsum(taught)])[node_ptr]
        weights = positive_weights[taught] if positive_weights.size else positive_weights
        spans = (ptr[:-1], ptr[1:], rows[taught])
        X_parts, outputs = (x_indptr, x_indices, x_data, n_features), child_ptr.astype(np.int64)
        W, b = train_blocks(
            *X_parts, *spans, outputs, *spans, weights, row_weights, loss, cost, bias, threshold=0.0
        )
        for row in np.flatnonzero(second_half == half):
            log_p = log_link(W @ X[row] + b, link_power)
            nodes = [log_p[first:last] for first, last in pairwise(child_ptr)]
            found = beam([child_ptr], nodes, width, np.ones(child_ptr.size - 1, dtype=bool), followed)
            leaves[row, : len(found)] = [leaf for _, leaf in found]
    return leaves.ravel()
