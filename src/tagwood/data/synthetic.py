"""Synthetic problems with a known answer, and sparse problems with the statistics of the large public sets.

In: sizes and a seed. Out: a `Problem` with train and test parts as CSR arrays. Models are tested on
`checkerboard`; benchmarks that need hundreds of thousands of labels take `power_law` and its presets.

Decisions. A power-law problem has a hidden order of the labels. Neighbours in that order stand together on
rows and share words, on three scales (16, 256 and 4,096 labels), so a good label tree exists and a random one
is worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._check import check_float, check_int
from tagwood.data._power_law import (
    STOP_WORDS,
    Words,
    deal_labels,
    draw_words,
    relabel,
    unit_rows,
    weigh,
    zipf_counts,
)
from tagwood.errors import InputError

_DUPLICATES = 1.04  # a label dealt twice to the same row counts once


@dataclass(frozen=True, eq=False)
class Problem:
    """Features and labels of a train and a test part.

    Parameters
    ----------
    X_train, X_test
        (n_rows, n_features) float32 CSR, rows of norm 1, columns rising.
    Y_train, Y_test
        (n_rows, n_labels) float32 CSR of ones, columns rising. Every label stands on a training row.
    """

    X_train: sparse.csr_array
    Y_train: sparse.csr_array
    X_test: sparse.csr_array
    Y_test: sparse.csr_array


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
    check_int(n_colours, "n_colours", low=2)
    for name, value in (("n_rows", n_rows), ("n_labels", n_labels), ("n_features", n_features)):
        check_int(value, name, low=n_colours)
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
        unit_rows(_dense(np.where(features, rng.uniform(0.5, 1.5, features.shape), 0.0))) for _ in range(2)
    ]
    return Problem(parts[0], _dense(shown), parts[1], _dense(labels))


def power_law(
    n_train: int,
    n_test: int,
    n_labels: int,
    n_features: int,
    *,
    labels_per_row: float = 5.0,
    nnz_per_row: float = 75.0,
    exponent: float = 0.6,
    noise: float = 0.6,
    seed: int = 0,
) -> Problem:
    """Return a sparse problem with Zipf labels, topics and tf-idf weights, as real extreme sets have them.

    1. Label counts fall as rank ** -exponent, at least one training row each.
    2. The label slots, ordered by topic with jitter, are dealt out to rows: neighbours stand together.
    3. A row's words come from the prototypes of its labels and their neighbourhoods, and from a Zipf
       background.
    4. Weights are (1 + log tf) * idf with the idf of the train part; rows get norm 1.

    Parameters
    ----------
    n_train, n_test
        Rows of the two parts, at least 1 each.
    n_labels, n_features
        Sizes of the label and feature space. n_train * labels_per_row must be at least n_labels.
    labels_per_row, nnz_per_row
        Means, met within a few per cent; single rows vary.
    exponent
        Of the label counts; 0 is flat, 1 is the classical Zipf law.
    noise
        Share of words that say nothing about the labels, 0 to 0.95.
    seed
        Same seed, same problem.

    Examples
    --------
    >>> problem = power_law(200, 50, 100, 500, labels_per_row=3, nnz_per_row=20, seed=1)
    >>> problem.X_train.shape, problem.Y_test.shape
    ((200, 500), (50, 100))
    """
    for name, value in (("n_train", n_train), ("n_test", n_test), ("n_labels", n_labels)):
        check_int(value, name, low=1)
    check_int(n_features, "n_features", low=STOP_WORDS)
    check_float(labels_per_row, "labels_per_row", low=1, high=n_labels)
    check_float(nnz_per_row, "nnz_per_row", low=1, high=n_features / 4)
    check_float(exponent, "exponent", low=0, high=2)
    check_float(noise, "noise", low=0, high=0.95)
    slots = round(n_train * labels_per_row * _DUPLICATES)
    if slots < n_labels:
        raise InputError(
            f"n_train * labels_per_row must be at least the {n_labels:,} labels", given=f"{slots:,}"
        )
    rng = np.random.default_rng(seed)
    counts = zipf_counts(n_labels, slots, exponent)[rng.permutation(n_labels)]
    test_counts = rng.multinomial(round(n_test * labels_per_row * _DUPLICATES), counts / counts.sum())
    # Labels are numbered by hidden place while rows are made; public ids are shuffled so that they tell
    # nothing.
    public = rng.permutation(n_labels).astype(np.int32)
    words = Words(n_features, nnz_per_row, noise, int(rng.integers(1 << 62)))
    parts = []
    for n_rows, part_counts in ((n_train, counts), (n_test, test_counts)):
        labels = deal_labels(part_counts, n_rows, labels_per_row, rng)
        parts.append((draw_words(labels, words, rng), relabel(labels, public)))
    (X_train, Y_train), (X_test, Y_test) = parts
    idf = np.log((1 + n_train) / (1 + np.bincount(X_train.indices, minlength=n_features))) + 1
    return Problem(weigh(X_train, idf), Y_train, weigh(X_test, idf), Y_test)


def amazon_670k_like(scale: float = 1.0, seed: int = 0) -> Problem:
    """Return a problem with the sizes of Amazon-670K: 490,449 rows, 670,091 labels, 135,909 features.

    Parameters
    ----------
    scale
        Above 0 to 1: multiplies rows and labels; the features shrink with its square root, as vocabularies
        do.
    seed
        Same seed, same problem.
    """
    return _preset(scale, (490_449, 153_025, 670_091, 135_909), 5.45, 76.0, seed)


def amazon_3m_like(scale: float = 1.0, seed: int = 0) -> Problem:
    """Return a problem with the sizes of Amazon-3M: 1,717,899 rows, 2,812,281 labels, 337,067 features.

    Parameters as in `amazon_670k_like`. At scale 1 the result alone takes about 1.8 GB.
    """
    return _preset(scale, (1_717_899, 742_507, 2_812_281, 337_067), 36.0, 50.0, seed)


def amazon_3m_few(scale: float = 1.0, seed: int = 0) -> Problem:
    """Return a problem with the sizes of Amazon-3M, but the 5.45 labels per row of Amazon-670K.

    Parameters as in `amazon_670k_like`. Training cost grows with labels times rows: this one takes minutes where
    `amazon_3m_like` takes hours.
    """
    return _preset(scale, (1_717_899, 742_507, 2_812_281, 337_067), 5.45, 50.0, seed)


def _preset(
    scale: float, sizes: tuple[int, int, int, int], labels_per_row: float, nnz_per_row: float, seed: int
) -> Problem:
    check_float(scale, "scale", above=0)
    check_float(scale, "scale", high=1)
    n_train, n_test, n_labels = (max(100, round(size * scale)) for size in sizes[:3])
    n_features = max(1000, round(sizes[3] * scale**0.5))
    return power_law(
        n_train,
        n_test,
        n_labels,
        n_features,
        labels_per_row=labels_per_row,
        nnz_per_row=nnz_per_row,
        seed=seed,
    )


def _dense(values: NDArray[Any]) -> sparse.csr_array:
    return sparse.csr_array(values.astype(np.float32))
