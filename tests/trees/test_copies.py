"""Copies of labels: by count, by gain, and without empty leaves."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_problems import TREE, matching_problems
from scipy import sparse

from experiments.disentanglement.copies import count_covered, duplicate_at_random
from tagwood.trees.copies import count_arrivals, reassign_by_gain, reassign_labels, without_empty_leaves
from tagwood.trees.label_tree import LabelTree


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
        ranked = [leaf for leaf in np.lexsort((np.arange(counts.shape[1]), -counts[label])) if counts[label, leaf] > 0]
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
    new = reassign_labels(TREE, sparse.csr_array((3, 6), dtype=np.float32), np.array([[3], [4], [2]]))
    assert new.labels.tolist() == TREE.labels.tolist()
    assert new.parent.tolist() == TREE.parent.tolist()


def test_empty_leaves_and_their_parents_disappear():
    Y = sparse.csr_array(np.eye(6, dtype=np.float32))
    new, _ = without_empty_leaves(reassign_labels(TREE, Y, np.full((6, 1), 2), copies=1))
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
    claims = sorted((-counts[label, leaf], label, leaf) for label, leaf in zip(*counts.nonzero(), strict=True))
    served = {label: set() for label in range(6)}
    for _, label, leaf in claims:
        full = sum(leaf in leaves for leaves in served.values()) >= limit
        if len(served[label]) < copies and not full:
            served[label].add(int(leaf))
    new = reassign_labels(TREE, Y, matched, copies, max_leaf_size=limit)
    for label, leaves in served.items():
        assert set(new.leaves_of(label).tolist()) == (leaves or set(TREE.leaves_of(label).tolist()))


def test_random_duplicates_are_seeded_and_bounded():
    new = duplicate_at_random(TREE, 5, seed=1)
    assert 6 <= new.labels.size <= 11
    assert new.labels.tolist() == duplicate_at_random(TREE, 5, seed=1).labels.tolist()
    assert set(new.labels.tolist()) == set(range(6))


def naive_covered(tree, Y, matched):
    return sum(
        bool(set(matched[row].tolist()) & set(tree.leaves_of(label).tolist()))
        for row, label in zip(*Y.nonzero(), strict=True)
    )


@settings(deadline=None, max_examples=60)
@given(matching_problems())
def test_covered_positives_are_counted(problem):
    Y, matched = problem
    assert count_covered(TREE, Y, matched) == naive_covered(TREE, Y, matched)


@settings(deadline=None, max_examples=60)
@given(matching_problems(), st.integers(1, 3))
def test_free_copies_never_cover_fewer_positives_than_the_largest_counts(problem, copies):
    Y, matched = problem
    matched = matched[:, :1]  # one leaf per row: what is reached is what is covered
    greedy = reassign_by_gain(TREE, Y, matched, growth=99, max_copies=copies)
    by_count = reassign_labels(TREE, Y, matched, copies)
    assert count_covered(greedy, Y, matched) >= count_covered(by_count, Y, matched)
    assert set(greedy.labels.tolist()) == set(range(6))


@settings(deadline=None, max_examples=60)
@given(matching_problems(), st.floats(1, 2), st.floats(1, 2), st.sampled_from([0.0, 0.1]), st.integers(1, 3))
def test_copies_and_work_are_bounded(problem, growth, most, price, max_copies):
    Y, matched = problem
    options = {"growth": growth, "work": most, "price": price, "brings_all": True}
    moved = reassign_by_gain(TREE, Y, matched, max_copies=1, **options)
    new = reassign_by_gain(TREE, Y, matched, max_copies=max_copies, **options)
    assert new.labels.size <= int(growth * 6)
    assert np.bincount(new.labels, minlength=6).max() <= max_copies
    assert np.bincount(new.labels, minlength=6).min() == 1
    assert work(new, Y) <= 1.01 * max(most * work(TREE, Y), work(moved, Y))  # costs are rounded


def test_a_copy_that_wins_too_few_rows_is_not_made():
    Y, matched = [[0]] * 5, np.array([[3]] * 4 + [[4]])
    assert reassign_by_gain(TREE, sets(Y), matched, growth=2, least_gain=2).leaves_of(0).size == 1
    assert reassign_by_gain(TREE, sets(Y), matched, growth=2, least_gain=1).leaves_of(0).size == 2


def test_a_copy_that_is_not_worth_its_work_is_not_made():
    Y = [[0]] * 6 + [[3]] * 8  # label 3 alone is matched to leaf 4, and two rows of label 0
    matched = np.array([[3]] * 4 + [[4]] * 2 + [[4]] * 8)
    # Both leaves have two labels. A copy in leaf 4 learns from its eight rows, brings two to three labels there, and
    # takes them from two labels in leaf 3, for two of 14 positives.
    assert [TREE.leaves_of(label).tolist() for label in (0, 3)] == [[3], [4]]
    worth = 2 / 14 / ((3 * 10**1.25 - 2 * 8**1.25 - 2 * 2 * 1.25 * 6**0.25) / work(TREE, sets(Y)))
    for price, n_leaves in ((0.98 * worth, 2), (1.02 * worth, 1)):
        new = reassign_by_gain(TREE, sets(Y), matched, growth=2, price=price)
        assert new.leaves_of(0).size == n_leaves


def test_a_dear_leaf_is_for_labels_that_win_much_there():
    tree = LabelTree.from_nested([[0, 1, 2, 3], [4, 5, 6, 7]])
    Y = sets([[0]] * 90 + [[4]] * 40 + [[label] for label in (1, 2, 3, 5, 6, 7)], 8)
    for price, there in ((0.0, range(8)), (0.2, range(5))):  # one row is not worth training on 93 others
        new = reassign_by_gain(tree, Y, np.array([[1]] * 136), price=price, max_copies=1)
        assert new.labels[new.leaf_of_copy == 1].tolist() == list(there)


def test_copies_go_first_to_the_labels_that_win_most_for_their_work():
    Y = [[0]] * 6 + [[1]] * 6
    matched = np.array([[3]] * 3 + [[4]] * 3 + [[3]] * 5 + [[4]])
    new = reassign_by_gain(TREE, sets(Y), matched, growth=7 / 6)
    assert [new.leaves_of(label).size for label in (0, 1)] == [2, 1]


def test_a_label_stays_where_no_other_leaf_reaches_more_of_its_rows():
    own, other = 3, 4
    assert TREE.leaves_of(0).tolist() == [own]
    stays = reassign_by_gain(TREE, sets([[0], [0]]), np.array([[other, own], [own, other]]), max_copies=1)
    moves = reassign_by_gain(TREE, sets([[0], [0]]), np.array([[other, own], [other, -1]]), max_copies=1)
    assert [stays.leaves_of(0).tolist(), moves.leaves_of(0).tolist()] == [[own], [other]]


def test_the_first_choice_of_most_rows_reaches_most():
    low, high = (leaf for leaf in sorted(TREE.leaves.tolist()) if leaf not in TREE.leaves_of(0))
    for first, second in ((low, high), (high, low)):
        new = reassign_by_gain(TREE, sets([[0]]), np.array([[first, second]]), max_copies=1)
        assert new.leaves_of(0).tolist() == [first]


def test_of_several_leaves_of_a_label_the_first_is_where_it_starts():
    doubled = LabelTree.from_nested([[0, 1], [0, 2], [3]])
    new = reassign_by_gain(doubled, sets([[1]], 4), np.array([[1]]))
    assert new.leaves_of(0).tolist() == [1]


def test_nodes_without_labels_are_dropped_and_the_others_known_by_their_former_numbers():
    new = reassign_labels(TREE, sparse.csr_array(np.eye(6, dtype=np.float32)), np.full((6, 1), 2))
    assert new.n_nodes == TREE.n_nodes
    shorter, former = without_empty_leaves(new)
    assert shorter.n_leaves == 1
    assert former.tolist() == [0, 2]


def sets(lists, n_labels=6):
    Y = np.zeros((len(lists), n_labels), dtype=np.float32)
    for row, labels in enumerate(lists):
        Y[row, labels] = 1
    return sparse.csr_array(Y)


def work(tree, Y):
    """What training the leaves costs, where labels bring all their rows to all their leaves."""
    rows = [set(Y[:, [label]].nonzero()[0].tolist()) for label in range(tree.n_labels)]
    held = [tree.labels[tree.label_ptr[leaf] : tree.label_ptr[leaf + 1]].tolist() for leaf in tree.leaves]
    return sum(len(set().union(*(rows[label] for label in labels))) ** 1.25 * len(labels) for labels in held)
