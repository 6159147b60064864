"""`LabelTree`: numbering, depths, copies, checks and exports."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_problems import random_tree

from tagwood.errors import InputError
from tagwood.trees.label_tree import LabelTree


@pytest.fixture
def tree():
    """Leaves at depths 1 and 2; label 2 sits in two of them."""
    return LabelTree.from_nested([[0, 2], [[1], [2, 3, 4]]])


def test_nodes_are_numbered_breadth_first(tree):
    assert tree.parent.tolist() == [-1, 0, 0, 2, 2]
    assert tree.child_ptr.tolist() == [1, 3, 3, 5, 5, 5]
    assert tree.depth.tolist() == [0, 1, 1, 2, 2]
    assert tree.leaves.tolist() == [1, 3, 4]
    assert (tree.n_nodes, tree.n_leaves, tree.n_labels) == (5, 3, 5)
    assert [tree.leaf_labels(node).tolist() for node in range(5)] == [[], [0, 2], [], [1], [2, 3, 4]]
    assert tree.path(4) == [0, 2, 4]


def test_copies_of_a_label_are_known(tree):
    assert tree.has_copies
    assert tree.leaves_of(2).tolist() == [1, 4]
    assert tree.leaves_of(3).tolist() == [4]
    assert tree.label_depths().tolist() == [1, 2, 1, 2, 2]
    assert not LabelTree.from_nested([[0], [1]]).has_copies


def test_a_single_leaf_is_a_tree():
    tree = LabelTree.from_nested([0, 1, 2])
    assert (tree.n_nodes, tree.leaves.tolist(), tree.depth.tolist()) == (1, [0], [0])
    assert tree.path(0) == [0]
    assert tree.nodes_with([True, False, False]).tolist() == [True]


def test_nodes_with_an_allowed_label_below_are_found(tree):
    assert tree.nodes_with([False, False, False, True, False]).tolist() == [True, False, True, False, True]
    assert tree.nodes_with([False, False, True, False, False]).tolist() == [True, True, True, False, True]
    assert not tree.nodes_with(np.zeros(5, dtype=bool)).any()


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(0, 8))
def test_the_parts_of_a_random_tree_agree(seed, n_labels, n_copies):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n_labels, n_copies)
    for node in range(tree.n_nodes):
        children = range(tree.child_ptr[node], tree.child_ptr[node + 1])
        assert all(tree.parent[child] == node for child in children)
        assert bool(children) != (node in tree.leaves)
        assert tree.depth[node] == len(tree.path(node)) - 1
    assert sorted(set(tree.labels.tolist())) == list(range(n_labels))
    for label in range(n_labels):
        leaves = tree.leaves_of(label)
        assert all(label in tree.leaf_labels(leaf) for leaf in leaves)
        assert tree.label_depths()[label] == tree.depth[leaves].min()
    allowed = rng.random(n_labels) < 0.3
    below = {node for label in np.flatnonzero(allowed) for leaf in tree.leaves_of(label) for node in tree.path(leaf)}
    assert set(np.flatnonzero(tree.nodes_with(allowed)).tolist()) == below


@pytest.mark.parametrize(
    "parent, label_ptr, labels, n_labels, message",
    [
        ([], [0], [], 0, "with the root first"),
        ([0], [0, 1], [0], 1, "with the root first"),
        ([-1, 1], [0, 0, 1], [0], 1, "must come before their children"),
        ([-1, -1], [0, 0, 1], [0], 1, "must come before their children"),
        ([-1, 0, 1, 0], [0, 0, 0, 1, 2], [0, 1], 2, "numbered breadth-first"),
        ([-1], [0], [0], 1, "must rise from 0"),
        ([-1], [1, 1], [0], 1, "must rise from 0"),
        ([-1, 0, 0], [0, 0, 2, 1], [0], 1, "must rise from 0"),
        ([-1], [0, 2], [0], 1, "must end at the number of labels; got 2"),
        ([-1, 0], [0, 1, 2], [0, 1], 2, "inner nodes of a label tree must have no labels"),
        ([-1], [0, 2], [0, 2], 2, "must be from 0 to 1; got 2"),
        ([-1], [0, 2], [0, -1], 2, "must be from 0 to 1"),
        ([-1], [0, 1], [0], 2, "every label must be in a leaf of the tree; got label 1 in none"),
        ([-1], [0, 3], [0, 1, 0], 2, "must contain each label once"),
    ],
)
def test_a_tree_that_is_none_is_refused(parent, label_ptr, labels, n_labels, message):
    with pytest.raises(InputError, match=message):
        LabelTree(np.array(parent, dtype=np.int32), np.array(label_ptr), np.array(labels, dtype=np.int32), n_labels)


@pytest.mark.parametrize("nested", [[0, [1]], [["a"]], [[0.5]]])
def test_nested_lists_that_mix_labels_and_nodes_are_refused(nested):
    with pytest.raises(InputError, match="either lists or label numbers"):
        LabelTree.from_nested(nested)


def test_a_tree_cannot_be_changed(tree):
    with pytest.raises(ValueError, match="read-only"):
        tree.labels[0] = 1


def test_a_tree_keeps_no_hold_of_the_callers_arrays():
    labels = np.array([1, 0], dtype=np.int32)
    tree = LabelTree(np.array([-1], dtype=np.int32), np.array([0, 2], dtype=np.int32), labels, 2)
    labels[0] = 0
    assert tree.labels.tolist() == [1, 0]


def test_text_shows_depth_by_indents_and_cuts_long_leaves(tree):
    assert tree.to_text(max_labels=2).splitlines() == [
        "node 0: 2 children",
        "  leaf 1: 0, 2",
        "  node 2: 2 children",
        "    leaf 3: 1",
        "    leaf 4: 2, 3, ... (3 labels)",
    ]
    assert tree.to_text(max_depth=0) == "node 0: 2 children"
