"""Labels that are known only for groups of rows: `GroupedLabels`, its files, and EAGLE imputation."""

from tagwood.groups.impute import (
    Imputed,
    embed_labels,
    impute_from_scores,
    impute_labels,
    keep_closest,
    share_within,
)
from tagwood.groups.labels import GroupedLabels, read_group_labels

__all__ = [
    "GroupedLabels",
    "Imputed",
    "embed_labels",
    "impute_from_scores",
    "impute_labels",
    "keep_closest",
    "read_group_labels",
    "share_within",
]
