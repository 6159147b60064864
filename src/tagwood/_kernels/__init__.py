"""The typed face of the native module.

Every function takes contiguous arrays and numbers, releases the GIL, and gives the same bits for any number of
threads. `reference` holds the same functions in plain NumPy; the tests compare the two.
"""

from tagwood._kernels._native import (
    label_centroids,
    normalize_rows,
    rows_rise,
    top_k_rows,
)

__all__ = ["label_centroids", "normalize_rows", "rows_rise", "top_k_rows"]
