"""Label trees, in which models search: built from label features and frequencies."""

from tagwood.trees.balanced import build_balanced_tree
from tagwood.trees.coding import build_fano_tree, build_huffman_tree
from tagwood.trees.interpolated import (
    LabelFrequencies,
    build_interpolated_tree,
    label_frequencies,
    lambda_grid,
)
from tagwood.trees.label_tree import LabelTree

__all__ = [
    "LabelFrequencies",
    "LabelTree",
    "build_balanced_tree",
    "build_fano_tree",
    "build_huffman_tree",
    "build_interpolated_tree",
    "label_frequencies",
    "lambda_grid",
]
