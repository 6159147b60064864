"""The typed face of the native module.

Every function takes contiguous arrays and numbers, releases the GIL, and gives the same bits for any number of
threads. `reference` holds the same functions in plain NumPy; the tests compare the two.
"""

from tagwood._kernels._native import (
    best_gains,
    build_vocabulary,
    complex_rows,
    count_terms,
    label_centroids,
    match_rows,
    merge_counts,
    normalize_rows,
    parse_rows,
    ranked_gains,
    rows_distinct,
    rows_rise,
    spell_terms,
    tfidf_rows,
    top_k_rows,
)

__all__ = [
    "best_gains",
    "build_vocabulary",
    "complex_rows",
    "count_terms",
    "label_centroids",
    "match_rows",
    "merge_counts",
    "normalize_rows",
    "parse_rows",
    "ranked_gains",
    "rows_distinct",
    "rows_rise",
    "spell_terms",
    "tfidf_rows",
    "top_k_rows",
]
