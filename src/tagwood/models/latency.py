"""Latency of single rows. In: fitted models and features. Out: microseconds per row, as a service would see them.

Models take turns pass by pass, so that a machine that slows down for a while slows all of them down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood._sparse import CsrParts, check_features, csr_parts


def single_row_times(
    rankers: Sequence[Callable[[CsrParts], object]], X: Any, *, passes: int = 3, max_rows: int = 1000
) -> NDArray[np.float64]:
    """Return (n_rankers, n_rows) microseconds: of each row the fastest of `passes` requests.

    Parameters
    ----------
    rankers
        Functions that rank one row, given in the form an encoder hands it over.
    X
        (n_rows, n_features) rows to ask for, one at a time.
    passes
        How often each row is asked for; the first answers warm caches up.
    max_rows
        Rows beyond these are left out.
    """
    matrix = check_features(X)[:max_rows]
    rows = [csr_parts(matrix[i : i + 1]) for i in range(matrix.shape[0])]
    best = np.full((len(rankers), len(rows)), np.inf)
    for _ in range(passes):
        for number, rank in enumerate(rankers):
            mine = best[number]
            for at, row in enumerate(rows):
                start = perf_counter()
                rank(row)
                mine[at] = min(mine[at], perf_counter() - start)
    return 1e6 * best
