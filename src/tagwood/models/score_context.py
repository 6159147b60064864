"""What a label's score means in its row: the features of the ``"context"`` calibrator.

In: a ranking. Out: one row of features per ranked label: its score, place, distance to its neighbours, the best score
and the sum of scores of its row, how frequent the label is, and all products of two of them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from tagwood.ranking import Ranking

Floats = NDArray[np.float64]


def log_odds(scores: NDArray[np.float32]) -> Floats:
    """Return the log odds of scores that are shares of 1, kept within about ±14.

    Examples
    --------
    >>> log_odds(np.array([0.5, 1.0], dtype=np.float32)).round(1)
    array([ 0. , 13.8])
    """
    share = np.minimum(
        np.maximum(scores, 1e-6, dtype=np.float64), 1 - 1e-6
    )  # np.clip takes longer than the rest
    return np.asarray(np.log(share) - np.log1p(-share))


def context_features(ranking: Ranking, signal: Floats, frequencies: Floats | None) -> Floats:
    """Return (n_entries, n_features) features of each ranked label, products of two included.

    Parameters
    ----------
    ranking
        Candidates, best first.
    signal
        Score of each entry on a scale where differences mean something, such as log odds.
    frequencies
        (n_labels,) training rows of each label, or None where they are unknown.
    """
    sizes = np.diff(ranking.indptr)
    first = np.repeat(ranking.indptr[:-1], sizes)
    last = np.repeat(ranking.indptr[1:], sizes) - 1
    entry = np.arange(signal.size)
    mass = np.concatenate([[0.0], np.cumsum(1.0 / (1.0 + np.exp(-np.clip(signal, -30, 30))))])[ranking.indptr]
    columns = [
        signal,
        np.log1p(entry - first),
        signal - signal[np.minimum(entry + 1, last)],  # gap to the next label, 0 at the end
        signal[np.maximum(entry - 1, first)] - signal,  # gap to the one before, 0 at the start
        signal[first],
        np.repeat(np.log(np.diff(mass) + 1e-6), sizes),
    ]
    if frequencies is not None:
        columns.append(np.log1p(frequencies[ranking.labels]))
    return np.stack(columns, axis=1)


def with_products(features: Floats) -> Floats:
    """Return a column of ones, the features, and all products of two of them.

    Examples
    --------
    >>> with_products(np.array([[2.0, 3.0]]))
    array([[1., 2., 3., 4., 6., 9.]])
    """
    left, right = _pairs(features.shape[1])
    ones = np.ones((features.shape[0], 1))
    return np.hstack([ones, features, features[:, left] * features[:, right]])


def weigh_products(features: Floats, weights: Floats) -> Floats:
    """Return ``with_products(features) @ weights`` without making the products.

    Examples
    --------
    >>> weigh_products(np.array([[2.0, 3.0]]), np.array([1.0, 0, 0, 0, 1, 10]))
    array([97.])
    """
    n = features.shape[1]
    square = np.zeros((n, n))
    square[_pairs(n)] = weights[1 + n :]
    return np.asarray(weights[0] + np.einsum("ij,ij->i", features @ square + weights[1 : 1 + n], features))


@cache
def _pairs(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    left, right = np.triu_indices(n)
    return left, right


def falling(values: Floats, ranking: Ranking) -> Floats:
    """Return `values` with each one lowered to the smallest before it in its row: ranks stay as they are.

    Examples
    --------
    >>> row = Ranking.from_lists([[(0, 3.0), (1, 2.0), (2, 1.0)], [(1, 0.5)]], n_labels=3)
    >>> falling(np.array([0.5, 0.2, 0.4, 0.9]), row)
    array([0.5, 0.2, 0.2, 0.9])
    """
    if values.size == 0:
        return values
    sizes = np.diff(ranking.indptr)
    used = np.arange(sizes.max()) < sizes[:, None]
    table = np.full(used.shape, np.inf)
    table[used] = values
    return np.asarray(np.minimum.accumulate(table, axis=1)[used])
