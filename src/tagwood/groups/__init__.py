"""Labels known only for groups of rows: values, readers, grouping rules, EAGLE imputation."""

from tagwood.groups.group_files import read_group_labels
from tagwood.groups.grouped_labels import GroupedLabels
from tagwood.groups.impute import embed_labels, impute_labels
from tagwood.groups.imputed import Imputed
from tagwood.groups.rescore import impute_from_scores, keep_closest, share_within
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
