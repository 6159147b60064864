"""The typed face of the native module.

Every function takes contiguous arrays and numbers, releases the GIL, and gives the same bits for any number of
threads. `reference` holds the same functions in plain NumPy; the tests compare the two.
"""

from tagwood._kernels._native import (
    best_gains,
    label_centroids,
    match_rows,
    normalize_rows,
    parse_rows,
    ranked_gains,
    rows_distinct,
    rows_rise,
    top_k_rows,
)

__all__ = [
    "best_gains",
    "label_centroids",
    "match_rows",
    "normalize_rows",
    "parse_rows",
    "ranked_gains",
    "rows_distinct",
    "rows_rise",
    "top_k_rows",
]
