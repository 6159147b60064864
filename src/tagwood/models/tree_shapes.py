"""The label trees that a `LinearTree` is trained on. In: checked features and label sets, λ. Out: `LabelTree`s."""

from __future__ import annotations

from typing import Any

from scipy import sparse

from tagwood._sparse import CsrParts, check_features
from tagwood.errors import InputError
from tagwood.features.label_features import centroid_parts
from tagwood.trees.balanced import build_balanced_tree
from tagwood.trees.frequencies import label_frequencies
from tagwood.trees.interpolated import build_interpolated_tree
from tagwood.trees.label_tree import LabelTree

# Largest features of a label that shape the tree: more cost time and memory and gain nothing. Very large label spaces
# take fewer, so that label features stay below 2 GB.
_TREE_FEATURES = 512
_TREE_ENTRIES = 1 << 28


def check_trees(tree: LabelTree | list[LabelTree], n_trees: int, n_labels: int) -> list[LabelTree]:
    """Return the trees that a user brought: as many as the ensemble has members, over the labels of Y."""
    given = tree if isinstance(tree, list) else [tree]
    if len(given) != n_trees or any(t.n_labels != n_labels for t in given):
        raise InputError(
            f"fit with n_trees={n_trees} needs as many trees over the {n_labels:,} labels of Y",
            given=f"{len(given)} tree(s) over {[t.n_labels for t in given]} labels",
        )
    return given


def shaping_features(features: CsrParts, label_rows: CsrParts, given: Any, threads: int) -> sparse.csr_array:
    """Return the (n_labels, any) features that say which labels are alike: those given, or the mean of each's rows."""
    n_labels = label_rows.n_rows
    if given is None:
        limit = min(_TREE_FEATURES, max(64, _TREE_ENTRIES // n_labels))
        return centroid_parts(features, label_rows, limit, threads).to_scipy()
    V = check_features(given, name="label_features")
    if V.shape[0] != n_labels:
        raise InputError(f"label_features must have one row for each of the {n_labels:,} labels of Y")
    return V


def build_trees(
    V: sparse.csr_array,
    Y: sparse.csr_array,
    *,
    lam: float,
    arity: int,
    max_leaf_size: int,
    seeds: range,
    threads: int,
) -> list[LabelTree]:
    """Return one tree per seed; λ=0 is the balanced tree and needs no frequencies."""
    shape: dict[str, Any] = {"arity": arity, "max_leaf_size": max_leaf_size, "threads": threads}
    if lam == 0:
        return [build_balanced_tree(V, seed=seed, **shape) for seed in seeds]
    counted = label_frequencies(Y)
    return [build_interpolated_tree(V, counted, lam=lam, seed=seed, **shape) for seed in seeds]
