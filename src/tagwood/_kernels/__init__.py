"""The typed face of the native module.

Every function takes contiguous arrays and numbers, releases the GIL, and gives the same bits for any number of
threads. `reference` holds the same functions in plain NumPy; the tests compare the two.
"""

from tagwood._kernels._native import (
    beam_leaves,
    best_gains,
    build_vocabulary,
    complex_rows,
    count_terms,
    embed_groups,
    impute_groups,
    label_centroids,
    margins,
    match_rows,
    merge_counts,
    node_rows,
    normalize_rows,
    parse_rows,
    ranked_gains,
    rows_distinct,
    rows_rise,
    rows_valid,
    search,
    spell_terms,
    split_labels,
    tfidf_rows,
    top_k_rows,
    train_blocks,
)

__all__ = [
    "beam_leaves",
    "best_gains",
    "build_vocabulary",
    "complex_rows",
    "count_terms",
    "embed_groups",
    "impute_groups",
    "label_centroids",
    "margins",
    "match_rows",
    "merge_counts",
    "node_rows",
    "normalize_rows",
    "parse_rows",
    "ranked_gains",
    "rows_distinct",
    "rows_rise",
    "rows_valid",
    "search",
    "spell_terms",
    "split_labels",
    "tfidf_rows",
    "top_k_rows",
    "train_blocks",
]
