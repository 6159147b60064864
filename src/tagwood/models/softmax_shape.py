"""Which label tree a softmax tree uses. In: a tree, or the name or λ of one. Out: a binary tree, one label a leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scipy import sparse

from tagwood._check import check_choice, check_float
from tagwood.errors import InputError
from tagwood.features.label_features import label_centroids
from tagwood.features.tfidf import TfidfEncoder
from tagwood.models.softmax_weights import check_binary
from tagwood.models.tree_training import Progress
from tagwood.trees.coding import build_fano_tree, build_huffman_tree
from tagwood.trees.frequencies import label_frequencies
from tagwood.trees.interpolated import build_interpolated_tree
from tagwood.trees.label_tree import LabelTree

SHAPES = ("interpolated", "balanced", "fano", "huffman")
_TREE_FEATURES = 512  # largest features of a label that shape the tree, as in LinearTree


def _check_shape(shape: Any) -> None:
    if isinstance(shape, str):
        check_choice(shape, "tree", SHAPES[1:])
    else:
        check_float(shape, "tree", low=0.0, high=2.0)


def shape_tree(
    shape: LabelTree | str | float,
    texts: Sequence[str],
    Y: sparse.csr_array,
    seed: int,
    threads: int,
    report: Progress,
) -> LabelTree:
    """Return a checked tree over the labels of Y.

    Coding trees need label frequencies only; the others compare labels by the TF-IDF features of their texts.
    """
    if isinstance(shape, LabelTree):
        if shape.n_labels != Y.shape[1]:
            raise InputError(
                f"the tree must be over the {Y.shape[1]:,} labels of Y", given=f"{shape.n_labels:,} labels"
            )
        return check_binary(shape)
    _check_shape(shape)
    frequencies = label_frequencies(Y)
    if shape in ("huffman", "fano"):
        report("label tree", 0.0)
        return (
            build_huffman_tree(frequencies.marginal)
            if shape == "huffman"
            else build_fano_tree(frequencies.coding)
        )
    report("label features", 0.0)
    V = softmax_label_features(texts, Y, threads)
    report("label tree", 0.0)
    lam = 0.0 if shape == "balanced" else float(shape)
    return build_interpolated_tree(V, frequencies, lam=lam, max_leaf_size=1, seed=seed, threads=threads)


def softmax_label_features(texts: Sequence[str], Y: sparse.csr_array, threads: int) -> sparse.csr_array:
    """Return V (n_labels, n_words): the mean of the TF-IDF features of each label's texts, scaled to norm 1."""
    X = TfidfEncoder(ngrams=(1, 1), min_df=1, threads=threads).fit_transform(texts)
    return label_centroids(X, Y, max_features=_TREE_FEATURES, threads=threads)
