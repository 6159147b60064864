import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_problems import TREE, matching_problems
from scipy import sparse

from experiments.disentanglement.copies import count_covered
from tagwood.errors import InputError
from tagwood.trees.copies import reassign_by_gain, reassign_labels, without_empty_leaves
from tagwood.trees.label_tree import LabelTree


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
    greedy = reassign_by_gain(TREE, Y, matched, growth=99, max_copies=copies, keep_empty=True)
    by_count = reassign_labels(TREE, Y, matched, copies, keep_empty=True)
    assert count_covered(greedy, Y, matched) >= count_covered(by_count, Y, matched)
    assert set(greedy.labels.tolist()) == set(range(6))


@settings(deadline=None, max_examples=60)
@given(matching_problems(), st.floats(1, 2), st.floats(1, 2), st.sampled_from([0.0, 0.1]), st.integers(1, 3))
def test_copies_and_work_are_bounded(problem, growth, most, price, max_copies):
    Y, matched = problem
    options = {"growth": growth, "work": most, "price": price, "brings_all": True, "keep_empty": True}
    moved = reassign_by_gain(TREE, Y, matched, max_copies=1, **options)
    new = reassign_by_gain(TREE, Y, matched, max_copies=max_copies, **options)
    assert new.labels.size <= int(growth * 6)
    assert np.bincount(new.labels, minlength=6).max() <= max_copies
    assert np.bincount(new.labels, minlength=6).min() == 1
    assert work(new, Y) <= 1.01 * max(most * work(TREE, Y), work(moved, Y))  # costs are rounded


def test_a_copy_that_wins_too_few_rows_is_not_made():
    Y, matched = [[0]] * 5, [[3]] * 4 + [[4]]
    assert reassign_by_gain(TREE, sets(Y), matched, growth=2, least_gain=2).leaves_of(0).size == 1
    assert reassign_by_gain(TREE, sets(Y), matched, growth=2, least_gain=1).leaves_of(0).size == 2


def test_a_copy_that_is_not_worth_its_work_is_not_made():
    Y = [[0]] * 6 + [[3]] * 8  # label 3 alone is matched to leaf 4, and two rows of label 0
    matched = [[3]] * 4 + [[4]] * 2 + [[4]] * 8
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
        new = reassign_by_gain(tree, Y, [[1]] * 136, price=price, max_copies=1, keep_empty=True)
        assert new.labels[new.leaf_of_copy == 1].tolist() == list(there)


def test_copies_go_first_to_the_labels_that_win_most_for_their_work():
    Y = [[0]] * 6 + [[1]] * 6
    matched = [[3]] * 3 + [[4]] * 3 + [[3]] * 5 + [[4]]
    new = reassign_by_gain(TREE, sets(Y), matched, growth=7 / 6)
    assert [new.leaves_of(label).size for label in (0, 1)] == [2, 1]


def test_a_label_stays_where_no_other_leaf_reaches_more_of_its_rows():
    own, other = 3, 4
    assert TREE.leaves_of(0).tolist() == [own]
    stays = reassign_by_gain(TREE, sets([[0], [0]]), [[other, own], [own, other]], max_copies=1)
    moves = reassign_by_gain(TREE, sets([[0], [0]]), [[other, own], [other, -1]], max_copies=1)
    assert [stays.leaves_of(0).tolist(), moves.leaves_of(0).tolist()] == [[own], [other]]


def test_the_first_choice_of_most_rows_reaches_most():
    low, high = (leaf for leaf in sorted(TREE.leaves.tolist()) if leaf not in TREE.leaves_of(0))
    for first, second in ((low, high), (high, low)):
        new = reassign_by_gain(TREE, sets([[0]]), [[first, second]], max_copies=1, keep_empty=True)
        assert new.leaves_of(0).tolist() == [first]


def test_of_several_leaves_of_a_label_the_first_is_where_it_starts():
    doubled = LabelTree.from_nested([[0, 1], [0, 2], [3]])
    new = reassign_by_gain(doubled, sets([[1]], 4), [[1]])
    assert new.leaves_of(0).tolist() == [1]


def test_nodes_without_labels_are_dropped_and_the_others_known_by_their_former_numbers():
    new = reassign_labels(TREE, np.eye(6, dtype=np.float32), np.full((6, 1), 2), keep_empty=True)
    assert new.n_nodes == TREE.n_nodes
    shorter, former = without_empty_leaves(new)
    assert shorter.n_leaves == 1
    assert former.tolist() == [0, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"growth": 0.9},
        {"work": 0.9},
        {"least_gain": 0},
        {"price": -0.1},
        {"max_copies": 0},
    ],
)
def test_settings_are_checked(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        reassign_by_gain(TREE, sets([[0]]), [[3]], **wrong)


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
