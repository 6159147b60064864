"""Compare two models over several seeds, row by row. In: a ranking of the same rows for each seed. Out: differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from tagwood import Ranking, compare


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

    A row is there once for each seed, and these are not independent: intervals are as wide as if all seeds said the
    same.
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
