"""Means, intervals and paired differences over seeds or over rows. In: measures, rankings or sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood import Ranking, compare

T_95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57}  # Student's t of a 95 % interval, by number of seeds


def seed_interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and half the width of its 95 % interval over the seeds; None for a single seed.

    Examples
    --------
    >>> seed_interval([50.0, 51.0, 52.0])  # doctest: +ELLIPSIS
    (51.0, 2.482...)
    >>> seed_interval([50.0])
    (50.0, None)
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None
    return mean, float(T_95[len(values)] * np.std(values, ddof=1) / len(values) ** 0.5)


def in_words(values: Sequence[float], form: str = ".1f") -> str:
    """Return the mean and its interval.

    Examples
    --------
    >>> in_words([50.0, 51.0, 52.0]), in_words([1.0], "+.1f")
    ('51.0 ± 2.5', '+1.0')
    """
    mean, half = seed_interval(values)
    return f"{mean:{form}}" if half is None else f"{mean:{form}} ± {half:{form.removeprefix('+')}}"


def below_each_other(rankings: list[Ranking]) -> Ranking:
    """Return the rows of all rankings, one ranking after the other."""
    ends = np.cumsum([0, *(ranking.labels.size for ranking in rankings)])
    indptr = [ranking.indptr[1:] + end for ranking, end in zip(rankings, ends, strict=False)]
    parts = [np.concatenate([getattr(r, name) for r in rankings]) for name in ("labels", "scores")]
    return Ranking(np.concatenate([[0], *indptr]), *parts, rankings[0].n_labels)


def compare_seeds(
    Y: sparse.csr_array, first: list[Ranking], second: list[Ranking], **options: Any
) -> dict[str, list[float]]:
    """Return for each measure the second's value, its difference from the first, and the interval, in percent.

    Rows occur once per seed and are not independent: intervals are as wide as if all seeds gave the same result.
    """
    true = sparse.vstack([Y] * len(first), format="csr")
    found = compare(true, below_each_other(first), below_each_other(second), **options)
    wider = np.sqrt(len(first))
    return {
        one.name: [
            round(100 * value, 3)
            for value in (
                one.second,
                one.difference,
                one.difference - wider * (one.difference - one.low),
                one.difference + wider * (one.high - one.difference),
            )
        ]
        for one in found.differences
    }


def set_counts(Y: sparse.csr_array, found: sparse.csr_array) -> NDArray[np.int64]:
    """Return for each row the number of right labels, of found labels and of true labels: (n_rows, 3)."""
    right = sparse.csr_array(Y > 0).multiply(sparse.csr_array(found > 0))
    return np.column_stack([np.diff(sparse.csr_array(one).indptr) for one in (right, found, Y)]).astype(np.int64)


def micro_f1(counts: NDArray[np.int64]) -> float:
    """Return the micro-F1 of rows in percent, from their `set_counts`."""
    right, found, true = counts.sum(axis=0)
    return float(200 * right / max(1, found + true))


def compare_sets(
    first: NDArray[np.int64], second: NDArray[np.int64], draws: int = 1000, seed: int = 0
) -> tuple[float, float, float]:
    """Return the difference in micro-F1 of the second to the first sets of the same rows, and its 95 % interval.

    Rows are drawn with replacement, the same for both (paired bootstrap). In: `set_counts` of both.

    Examples
    --------
    >>> first, second = np.array([[1, 2, 2]] * 50), np.array([[2, 2, 2]] * 50)
    >>> compare_sets(first, second)
    (50.0, 50.0, 50.0)
    """
    random = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        rows = random.integers(0, len(first), len(first))
        found.append(micro_f1(second[rows]) - micro_f1(first[rows]))
    low, high = np.quantile(found, [0.025, 0.975])
    return micro_f1(second) - micro_f1(first), float(low), float(high)
