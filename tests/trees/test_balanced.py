"""Balanced trees: sizes, arities, seeds, threads and bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tagwood.errors import InputError
from tagwood.trees.balanced import build_balanced_tree


def clusters(seed=0, n_clusters=4, size=6, n_features=12):
    """Labels in well separated groups, shuffled; returns features and the group of each label."""
    rng = np.random.default_rng(seed)
    centres = np.eye(n_clusters, n_features)
    group = rng.permutation(np.repeat(np.arange(n_clusters), size))
    V = centres[group] + 0.05 * rng.random((group.size, n_features))
    return V / np.linalg.norm(V, axis=1, keepdims=True), group


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 120), st.sampled_from([2, 4, 8, 16, 64]), st.integers(1, 30))
def test_every_label_sits_in_one_leaf_and_no_leaf_is_too_large(seed, n_labels, arity, max_leaf_size):
    V = np.random.default_rng(seed).random((n_labels, 5))
    tree = build_balanced_tree(V, arity=arity, max_leaf_size=max_leaf_size, seed=seed, threads=1)
    assert sorted(tree.labels.tolist()) == list(range(n_labels))
    sizes = np.diff(tree.label_ptr)[tree.leaves]
    assert 1 <= sizes.min() <= sizes.max() <= max_leaf_size
    assert np.diff(tree.child_ptr).max() <= arity
    assert all(np.all(np.diff(tree.leaf_labels(leaf)) > 0) for leaf in tree.leaves)


def test_binary_leaves_of_a_power_of_two_have_equal_sizes_and_depths():
    tree = build_balanced_tree(np.random.default_rng(0).random((64, 6)), max_leaf_size=4, threads=1)
    assert set(np.diff(tree.label_ptr)[tree.leaves].tolist()) == {4}
    assert set(tree.depth[tree.leaves].tolist()) == {4}


def test_a_wide_tree_has_the_leaves_of_the_binary_one():
    V = np.random.default_rng(1).random((200, 6))

    def leaves(arity):
        tree = build_balanced_tree(V, arity=arity, max_leaf_size=7, threads=1)
        return {tuple(tree.leaf_labels(leaf).tolist()) for leaf in tree.leaves}, int(tree.depth.max())

    binary, depth = leaves(2)
    assert depth == 5
    for arity, expected in ((4, 3), (16, 2), (1 << 20, 1)):
        wide, wide_depth = leaves(arity)
        assert wide == binary
        assert wide_depth == expected


@pytest.mark.parametrize("seed", range(4))
def test_labels_alike_come_together(seed):
    V, group = clusters(n_clusters=2)
    tree = build_balanced_tree(V, max_leaf_size=6, seed=seed, threads=1)
    assert all(np.unique(group[tree.leaf_labels(leaf)]).size == 1 for leaf in tree.leaves)


def test_same_seed_same_tree_for_any_number_of_threads():
    V = np.random.default_rng(2).random((5000, 8))

    def build(seed, threads):
        tree = build_balanced_tree(V, arity=4, max_leaf_size=50, seed=seed, threads=threads)
        return tree.parent.tobytes(), tree.label_ptr.tobytes(), tree.labels.tobytes()

    assert build(3, 1) == build(3, 2) == build(3, 3)
    assert build(3, 1) != build(4, 1)


def test_labels_without_features_are_kept():
    V = np.zeros((9, 3))
    V[:3] = np.eye(3)
    tree = build_balanced_tree(V, max_leaf_size=2, threads=1)
    assert sorted(tree.labels.tolist()) == list(range(9))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"arity": 3}, "arity must be a power of two; got 3"),
        ({"arity": 1}, "arity must be a whole number of at least 2; got 1"),
        ({"max_leaf_size": 0}, "max_leaf_size must be a whole number of at least 1; got 0"),
        ({"seed": -1}, "seed must be a whole number from 0 to 18446744073709551615; got -1"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"threads": 0}, "threads must be a whole number from 1 to 1024; got 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        build_balanced_tree(np.eye(4), **options)


def test_no_labels_and_features_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match="needs at least one label; got none"):
        build_balanced_tree(np.empty((0, 3)))
    with pytest.raises(InputError, match="V must hold finite numbers"):
        build_balanced_tree([[np.nan, 1.0]])
