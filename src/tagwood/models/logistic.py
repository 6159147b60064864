"""Logistic regression on a few dense columns by Newton's method: the inner fit of Platt and context calibration."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Floats = NDArray[np.float64]
_CHUNK = 1 << 16  # rows whose weighted copy is in memory at once


def sigmoid(z: Floats) -> Floats:
    """Return 1 / (1 + exp(-z)) without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * z)))


def fit_logistic(columns: Floats, outcome: Floats, *, ridge: float = 1.0, steps: int = 50) -> Floats:
    """Return the coefficients that maximise the likelihood minus ``ridge / 2 * |coefficients|²``.

    The penalty spares the first column, the intercept. Outcomes may be shares from 0 to 1 (Platt's soft targets).

    Examples
    --------
    >>> ones = np.ones((4, 1))
    >>> sigmoid(fit_logistic(ones, np.array([1.0, 0, 0, 0]))).round(6)
    array([0.25])
    """
    weights = np.zeros(columns.shape[1])
    penalty = np.full(columns.shape[1], ridge)
    penalty[0] = 1e-9
    loss = _loss(columns, outcome, weights, penalty)
    for _ in range(steps):
        gradient, hessian = _derivatives(columns, outcome, weights, penalty)
        step = linalg.solve(hessian, gradient, assume_a="pos")
        size = 1.0
        while (new := _loss(columns, outcome, weights - size * step, penalty)) > loss and size > 1e-6:
            size /= 2
        if size <= 1e-6:
            break
        weights = weights - size * step
        done, loss = loss - new < 1e-9 * abs(loss), new
        if done:
            break
    return weights


def _loss(columns: Floats, outcome: Floats, weights: Floats, penalty: Floats) -> float:
    z = columns @ weights
    return float(np.sum(np.logaddexp(0.0, z) - outcome * z) + 0.5 * penalty @ weights**2)


def _derivatives(columns: Floats, outcome: Floats, weights: Floats, penalty: Floats) -> tuple[Floats, Floats]:
    share = sigmoid(columns @ weights)
    gradient = columns.T @ (share - outcome) + penalty * weights
    hessian = np.diag(penalty + 1e-9)
    for begin in range(0, columns.shape[0], _CHUNK):
        part = columns[begin : begin + _CHUNK]
        curve = (share * (1.0 - share))[begin : begin + _CHUNK]
        hessian += part.T @ (part * curve[:, None])
    return gradient, hessian
