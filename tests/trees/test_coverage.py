import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_problems import TREE, matching_problems
from scipy import sparse

from tagwood.errors import InputError
from tagwood.trees.coverage import count_covered, reassign_by_gain
from tagwood.trees.label_tree import LabelTree
from tagwood.trees.reassign import reassign_labels, without_empty_leaves


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
def test_greedy_copies_never_cover_fewer_positives_than_the_largest_counts(problem, copies):
    Y, matched = problem
    greedy = reassign_by_gain(TREE, Y, matched, growth=9, max_copies=copies, keep_empty=True)
    by_count = reassign_labels(TREE, Y, matched, copies, keep_empty=True)
    if copies <= 2:  # the first leaf is the same, and the second wins most of the rest
        assert count_covered(greedy, Y, matched) >= count_covered(by_count, Y, matched)
    assert set(greedy.labels.tolist()) == set(range(6))


@settings(deadline=None, max_examples=60)
@given(matching_problems(), st.floats(1, 2), st.integers(1, 4), st.integers(1, 6))
def test_growth_gain_and_leaf_size_are_bounded(problem, growth, least_gain, limit):
    Y, matched = problem
    new = reassign_by_gain(
        TREE, Y, matched, growth=growth, least_gain=least_gain, max_leaf_size=limit, keep_empty=True
    )
    assert new.labels.size <= int(growth * 6)
    assert set(new.labels.tolist()) == set(range(6))
    moved = np.array(
        [not set(new.leaves_of(label).tolist()) <= set(TREE.leaves_of(label).tolist()) for label in range(6)]
    )
    assert np.bincount(new.leaf_of_copy[moved[new.labels]]).max(initial=0) <= round(growth * limit)


def test_a_copy_that_wins_too_little_is_not_made():
    Y, matched = [[0]] * 5, [[3]] * 4 + [[4]]
    assert reassign_by_gain(TREE, sets(Y), matched, growth=2, least_gain=2).leaves_of(0).size == 1
    assert reassign_by_gain(TREE, sets(Y), matched, growth=2, least_gain=1).leaves_of(0).size == 2


def test_a_copy_that_wins_too_small_a_share_of_its_leaf_is_not_made():
    Y = [[0]] * 6 + [[3]] * 8  # label 3 alone is matched to leaf 4, and two rows of label 0
    matched = [[3]] * 4 + [[4]] * 2 + [[4]] * 8
    assert reassign_by_gain(TREE, sets(Y), matched, growth=2, least_share=0.25).leaves_of(0).size == 2
    assert reassign_by_gain(TREE, sets(Y), matched, growth=2, least_share=0.26).leaves_of(0).size == 1


def test_copies_go_first_to_the_labels_that_win_most():
    Y = [[0]] * 6 + [[1]] * 4
    matched = [[3]] * 3 + [[4]] * 3 + [[3]] * 3 + [[4]]
    new = reassign_by_gain(TREE, sets(Y), matched, growth=7 / 6)
    assert [new.leaves_of(label).size for label in (0, 1)] == [2, 1]


def test_a_label_stays_where_no_other_leaf_sees_more_of_its_rows():
    own, other = 3, 4
    assert TREE.leaves_of(0).tolist() == [own]
    stays = reassign_by_gain(TREE, sets([[0], [0]]), [[other, own], [own, other]])
    moves = reassign_by_gain(TREE, sets([[0], [0]]), [[other, own], [other, -1]])
    assert [stays.leaves_of(0).tolist(), moves.leaves_of(0).tolist()] == [[own], [other]]


def test_among_equal_leaves_the_first_choice_of_most_rows_is_taken():
    low, high = (leaf for leaf in sorted(TREE.leaves.tolist()) if leaf not in TREE.leaves_of(0))
    for first, second in ((low, high), (high, low)):
        new = reassign_by_gain(TREE, sets([[0]]), [[first, second]], keep_empty=True)
        assert new.leaves_of(0).tolist() == [first]


def test_crowded_leaves_have_less_room_and_the_others_more():
    tree = LabelTree.from_nested([[0, 1, 2, 3], [4, 5, 6, 7]])
    Y = [[0]] * 90 + [[label] for label in range(1, 8)]
    to_crowded, to_other = [[1]] * 97, [[2]] * 97
    sizes = []
    for crowding in (0.0, 0.2):
        for matched in (to_crowded, to_other):
            options = {"max_leaf_size": 5, "crowding": crowding, "max_copies": 1, "keep_empty": True}
            new = reassign_by_gain(tree, sets(Y, 8), matched, **options)
            sizes.append(int(np.diff(new.label_ptr)[matched[0][0]]))
    # Before anything moves, leaf 1 has 93 positives and leaf 2 has four.
    assert sizes[:2] == [5, 5]
    assert sizes[2] < 5 < sizes[3]
    unlimited = reassign_by_gain(tree, sets(Y, 8), to_crowded, crowding=0.2, max_copies=1)
    assert unlimited.leaves_of(7).tolist() == [1]


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
        {"least_gain": 0},
        {"least_share": 1.1},
        {"max_copies": 0},
        {"max_leaf_size": 0},
        {"crowding": -0.1},
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
