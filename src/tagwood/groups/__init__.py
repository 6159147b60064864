"""Labels known only for groups of rows: values, readers, grouping rules, EAGLE imputation."""

from tagwood.groups.impute import (
    Imputed,
    embed_labels,
    impute_from_scores,
    impute_labels,
    keep_closest,
    share_within,
)
from tagwood.groups.labels import GroupedLabels, read_group_labels
from tagwood.groups.rules import clustered_groups, random_groups

__all__ = [
    "GroupedLabels",
    "Imputed",
    "clustered_groups",
    "embed_labels",
    "impute_from_scores",
    "impute_labels",
    "keep_closest",
    "random_groups",
    "read_group_labels",
    "share_within",
]
