"""The checkerboard: a small problem with a known answer that every correct model solves exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.synthetic import Problem
from tagwood._sparse import normalize_rows


def checkerboard(
    n_rows: int = 60, n_labels: int = 12, n_colours: int = 3, n_features: int = 24, seed: int = 0
) -> Problem:
    """Return a problem that every correct model solves: P@k is exactly 1 up to k = n_labels // n_colours.

    Row i, label j and feature f have the colours i, j and f modulo `n_colours`; a row has features and labels
    of its own colour only, so that Y and X look like checkerboards. Training rows show a random half of their
    colour's labels, test rows all of them. With ``n_colours=n_labels`` each row has one label.

    Parameters
    ----------
    n_rows
        Rows of the train part and of the test part, at least `n_colours`.
    n_labels, n_features
        At least `n_colours` each.
    n_colours
        Number of colours, at least 2.
    seed
        Chooses the feature values and the labels that training rows show.

    Examples
    --------
    >>> problem = checkerboard(n_rows=4, n_labels=4, n_colours=2, n_features=4)
    >>> problem.Y_test.toarray().astype(int)
    array([[1, 0, 1, 0],
           [0, 1, 0, 1],
           [1, 0, 1, 0],
           [0, 1, 0, 1]])
    """
    rng = np.random.default_rng(seed)
    row_colour = np.arange(n_rows)[:, None] % n_colours
    labels = row_colour == np.arange(n_labels) % n_colours
    features = row_colour == np.arange(n_features) % n_colours
    shown = labels & (rng.random(labels.shape) < 0.5)
    # Each label is shown by the first row of its colour at least, and each row shows one label at least.
    shown[:n_colours] = labels[:n_colours]
    bare = ~shown.any(axis=1)
    shown[bare, labels[bare].argmax(axis=1)] = True
    parts = [
        normalize_rows(_dense(np.where(features, rng.uniform(0.5, 1.5, features.shape), 0.0)), 1) for _ in range(2)
    ]
    return Problem(parts[0], _dense(shown), parts[1], _dense(labels))


def _dense(values: NDArray[Any]) -> sparse.csr_array:
    return sparse.csr_array(values.astype(np.float32))
