"""Training of a label tree in plain NumPy: one output at a time, in double precision, to the optimum.

The bias is the weight of a constant feature and is regularised like the others, as in LIBLINEAR. `match_unseen` trains
on one half of the rows and matches the other.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from reference.search import beam, log_link

_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]
_F64 = NDArray[np.float64]

SQUARED_HINGE, LOGISTIC = 0, 1


def node_rows(
    indptr: _I64,
    rows: _I32,
    weights: _F32,
    n_rows: int,
    parent: _I32,
    label_ptr: _I32,
    labels: _I32,
    threads: int,
) -> tuple[_I64, _I32, _F32]:
    """Return, as ``ptr, rows, weights``, the rows with a label below each node, rising.

    `indptr, rows, weights` are the columns of Y. A row's weight is the largest of its labels below the node.
    """
    found: list[dict[int, np.float32]] = [{} for _ in range(parent.size)]
    for node in range(parent.size):
        for label in labels[label_ptr[node] : label_ptr[node + 1]]:
            for at in range(indptr[label], indptr[label + 1]):
                above = node
                while above >= 0:
                    row = int(rows[at])
                    found[above][row] = max(found[above].get(row, weights[at]), weights[at])
                    above = int(parent[above])
    ptr = np.cumsum([0, *map(len, found)], dtype=np.int64)
    order = [sorted(node.items()) for node in found]
    flat = [pair for node in order for pair in node]
    return (
        ptr,
        np.array([r for r, _ in flat], dtype=np.int32),
        np.array([w for _, w in flat], dtype=np.float32),
    )


def train_blocks(
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    row_begin: _I64,
    row_end: _I64,
    rows: _I32,
    output_ptr: _I64,
    positive_begin: _I64,
    positive_end: _I64,
    positives: _I32,
    positive_weights: _F32,
    row_weights: _F32,
    loss: int,
    cost: float,
    bias: float,
    threshold: float,
    start: tuple[_F32, _F32] | None = None,
    guests: tuple[NDArray[np.uint8], _I64, _I64, _I32] | None = None,
) -> tuple[_F64, _F64]:
    """Return the best (n_outputs, n_features) weights and (n_outputs,) biases.

    Block b sees the rows ``rows[row_begin[b]:row_end[b]]`` and has the outputs
    ``output_ptr[b]:output_ptr[b + 1]``; output o is positive on
    ``positives[positive_begin[o]:positive_end[o]]``. Weights below `threshold` are dropped. From a `start` (W, b),
    with the squared hinge, weights move by the least that the rows need, and biases stay. `guests`, as ``guest,
    negative_begin, negative_end, negatives``, has a 1 for each place of `rows` where a row counts only for outputs
    that have it among their positives or negatives.
    """
    X = np.zeros((x_indptr.size - 1, n_features))
    X[np.repeat(np.arange(x_indptr.size - 1), np.diff(x_indptr)), x_indices] = x_data
    W, b = np.zeros((int(output_ptr[-1]), n_features)), np.zeros(int(output_ptr[-1]))
    for block in range(row_begin.size):
        seen = rows[row_begin[block] : row_end[block]]
        everyone = seen
        for output in range(output_ptr[block], output_ptr[block + 1]):
            span = slice(positive_begin[output], positive_end[output])
            if guests is not None:
                guest = guests[0][row_begin[block] : row_end[block]] == 1
                counted = np.append(positives[span], guests[3][guests[1][output] : guests[2][output]])
                seen = everyone[~guest | np.isin(everyone, counted)]
            sign, costs = np.full(X.shape[0], -1.0), np.full(X.shape[0], cost)
            sign[positives[span]] = 1.0
            if row_weights.size:
                costs *= row_weights
            if positive_weights.size:
                costs[positives[span]] *= positive_weights[span]
            if start is not None:
                b[output] = start[1][output] if bias > 0 else 0.0
                fixed = sign[seen] * (X[seen] @ start[0][output] + b[output])
                W[output] = start[0][output] + _descend_dual(X[seen], sign[seen], costs[seen], fixed=fixed)
                continue
            with_bias = np.column_stack([X[seen], np.full(seen.size, bias)])
            w = train_output(with_bias, sign[seen], costs[seen], loss)
            W[output], b[output] = np.where(np.abs(w[:-1]) >= threshold, w[:-1], 0.0), w[-1] * bias
    return W, b


def train_output(X: _F64, y: _F64, costs: _F64, loss: int) -> _F64:
    """Return the w with the least ``|w|^2 / 2 + sum_i costs_i * loss(y_i w.x_i)``; y holds +1 and -1."""
    return _descend_dual(X, y, costs) if loss == SQUARED_HINGE else _newton(X, y, costs)


def primal_objective(w: _F64, X: _F64, y: _F64, costs: _F64, loss: int) -> float:
    """Return ``|w|^2 / 2 + sum_i costs_i * loss(y_i w.x_i)``."""
    margins = y * (X @ w)
    losses = np.maximum(0, 1 - margins) ** 2 if loss == SQUARED_HINGE else np.logaddexp(0, -margins)
    return float(0.5 * w @ w + costs @ losses)


def hinge_dual_objective(alpha: _F64, X: _F64, y: _F64, costs: _F64) -> float:
    """Return the dual of the squared hinge at alpha >= 0: a lower bound of every primal objective."""
    w = X.T @ (alpha * y)
    return float(alpha.sum() - 0.5 * w @ w - 0.25 * (alpha**2 / costs).sum())


def _descend_dual(
    X: _F64, y: _F64, costs: _F64, tolerance: float = 1e-7, max_sweeps: int = 20_000, fixed: _F64 | None = None
) -> _F64:
    """Dual coordinate descent (Hsieh et al. 2008, Algorithm 1) for the squared hinge, row after row.

    `fixed` is a part of each row's margin that does not change.
    """
    known = np.zeros(y.size) if fixed is None else fixed
    alpha, w = np.zeros(y.size), np.zeros(X.shape[1])
    diagonal = 0.5 / costs
    curvature = (X**2).sum(axis=1) + diagonal
    for _ in range(max_sweeps):
        largest = 0.0
        for i in range(y.size):
            gradient = known[i] + y[i] * (X[i] @ w) - 1 + diagonal[i] * alpha[i]
            projected = gradient if alpha[i] > 0 else min(gradient, 0.0)
            largest = max(largest, abs(projected))
            after = max(alpha[i] - gradient / curvature[i], 0.0)
            w += (after - alpha[i]) * y[i] * X[i]
            alpha[i] = after
        if largest < tolerance:
            break
    return w


def _newton(X: _F64, y: _F64, costs: _F64) -> _F64:
    """Newton's method with halved steps on the primal of the logistic loss."""
    w = np.zeros(X.shape[1])
    for _ in range(100):
        p = np.exp(-np.logaddexp(0, y * (X @ w)))  # the probability of the wrong sign
        gradient = w - X.T @ (costs * y * p)
        if np.abs(gradient).max() < 1e-11:
            break
        hessian = np.eye(w.size) + (X.T * (costs * p * (1 - p))) @ X
        step, size = np.linalg.solve(hessian, gradient), 1.0
        now = primal_objective(w, X, y, costs, LOGISTIC)
        while size > 1e-6 and primal_objective(w - size * step, X, y, costs, LOGISTIC) > now:
            size /= 2
        w = w - size * step
    return w


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
        W, b = train_blocks(*X_parts, *spans, outputs, *spans, weights, row_weights, loss, cost, bias, threshold=0.0)
        for row in np.flatnonzero(second_half == half):
            log_p = log_link(W @ X[row] + b, link_power)
            nodes = [log_p[first:last] for first, last in pairwise(child_ptr)]
            found = beam([child_ptr], nodes, width, np.ones(child_ptr.size - 1, dtype=bool), followed)
            leaves[row, : len(found)] = [leaf for _, leaf in found]
    return leaves.ravel()
