import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_problems import TREE, matching_problems
from scipy import sparse

from experiments.disentanglement.copies import duplicate_at_random
from tagwood.errors import InputError
from tagwood.trees.copies import count_arrivals, reassign_labels


def covered(tree, Y, leaf_of, matched):
    """Count positives (row, label) whose row arrives at a leaf that holds the label."""
    return sum(
        bool(set(matched[row][matched[row] >= 0]) & set(leaf_of[label]))
        for row, label in zip(*Y.nonzero(), strict=True)
    )


@settings(deadline=None, max_examples=60)
@given(matching_problems(), st.integers(1, 3))
def test_labels_go_to_the_leaves_with_most_of_their_rows(problem, copies):
    Y, matched = problem
    counts = count_arrivals(TREE, Y, matched).toarray()
    new = reassign_labels(TREE, Y, matched, copies)
    back = {int(new_leaf): set(new.leaf_labels(new_leaf).tolist()) for new_leaf in new.leaves}
    for label in range(6):
        ranked = [
            leaf
            for leaf in np.lexsort((np.arange(counts.shape[1]), -counts[label]))
            if counts[label, leaf] > 0
        ]
        wanted = len(ranked[:copies]) or 1
        assert sum(label in labels for labels in back.values()) == wanted
    assert set(new.labels.tolist()) == set(range(6))


@settings(deadline=None, max_examples=60)
@given(matching_problems())
def test_two_copies_never_cover_fewer_positives_than_the_best_disjoint_assignment(problem):
    Y, matched = problem
    counts = count_arrivals(TREE, Y, matched).toarray()
    best_disjoint = counts.max(axis=1).sum()
    leaf_of = {label: np.lexsort((np.arange(counts.shape[1]), -counts[label]))[:2] for label in range(6)}
    assert covered(TREE, Y, leaf_of, matched) >= best_disjoint


def test_a_label_nobody_matches_keeps_its_leaf():
    new = reassign_labels(TREE, sparse.csr_array((3, 6), dtype=np.float32), [[3], [4], [2]])
    assert new.labels.tolist() == TREE.labels.tolist()
    assert new.parent.tolist() == TREE.parent.tolist()


def test_empty_leaves_and_their_parents_disappear():
    Y = sparse.csr_array(np.eye(6, dtype=np.float32))
    new = reassign_labels(TREE, Y, np.full((6, 1), 2), copies=1)
    assert new.n_leaves == 1
    assert sorted(new.labels.tolist()) == list(range(6))


def test_a_full_leaf_passes_labels_on():
    Y = sparse.csr_array(np.repeat(np.eye(6, dtype=np.float32), 3, axis=0))
    matched = np.tile([3, 4, 2], (18, 1))
    new = reassign_labels(TREE, Y, matched, copies=1, max_leaf_size=2)
    assert max(new.leaf_labels(leaf).size for leaf in new.leaves) <= 2
    assert set(new.labels.tolist()) == set(range(6))


@settings(deadline=None, max_examples=100)
@given(matching_problems(), st.integers(1, 3), st.integers(1, 4))
def test_the_strongest_claims_are_served_first(problem, copies, limit):
    Y, matched = problem
    counts = count_arrivals(TREE, Y, matched).toarray()
    claims = sorted(
        (-counts[label, leaf], label, leaf) for label, leaf in zip(*counts.nonzero(), strict=True)
    )
    served = {label: set() for label in range(6)}
    for _, label, leaf in claims:
        full = sum(leaf in leaves for leaves in served.values()) >= limit
        if len(served[label]) < copies and not full:
            served[label].add(int(leaf))
    new = reassign_labels(TREE, Y, matched, copies, max_leaf_size=limit, keep_empty=True)
    for label, leaves in served.items():
        assert set(new.leaves_of(label).tolist()) == (leaves or set(TREE.leaves_of(label).tolist()))


def test_random_duplicates_are_seeded_and_bounded():
    new = duplicate_at_random(TREE, 5, seed=1)
    assert 6 <= new.labels.size <= 11
    assert new.labels.tolist() == duplicate_at_random(TREE, 5, seed=1).labels.tolist()
    assert set(new.labels.tolist()) == set(range(6))


@pytest.mark.parametrize(
    "matched, message",
    [
        ([[0]] * 3, "leaves of the tree"),
        ([[99]] * 3, "leaves of the tree"),
        ([[3]] * 2, "each of the 3 rows"),
    ],
)
def test_matched_places_must_be_leaves(matched, message):
    with pytest.raises(InputError, match=message):
        reassign_labels(TREE, sparse.csr_array((3, 6), dtype=np.float32), matched)


def test_labels_must_be_those_of_the_tree():
    with pytest.raises(InputError, match="the tree's 6 labels; got 5"):
        reassign_labels(TREE, sparse.csr_array((3, 5), dtype=np.float32), [[3]] * 3)
