"""Tests of `LabelFilter`: sets of labels, and what every model makes of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tagwood.errors import InputError
from tagwood.models.centroids import Centroids
from tagwood.models.label_filter import LabelFilter, allowed_labels
from tagwood.models.linear_tree import LinearTree
from tagwood.models.neighbours import Neighbours
from tagwood.models.softmax_tree import SoftmaxTree


@settings(deadline=None)
@given(st.lists(st.integers(0, 19)), st.lists(st.integers(0, 29)))
def test_filters_are_sets(some, others):
    one, two = LabelFilter.of(some, 20), LabelFilter.of(others, 30)
    assert set((one & two).ids) == set(some) & set(others)
    assert set((one | two).ids) == set(some) | set(others)
    assert set((~one).ids) == set(range(20)) - set(some)
    assert set(one.without(two).ids) == set(some) - set(others)
    assert one.without(two) is one.without(two)  # computed once
    assert [label in one for label in range(20)] == one.mask.tolist()
    assert (len(one), one.n_labels) == (len(set(some)), 20)


def test_labels_added_later_are_outside_a_filter_and_inside_its_complement():
    sold = LabelFilter.of([1], 3)
    assert sold.resized(5).mask.tolist() == [False, True, False, False, False]
    assert (~sold).resized(5).mask.tolist() == [True, False, True, True, True]
    assert 4 not in sold
    assert 4 in ~sold
    assert (~sold & ~LabelFilter.of([0], 4)).resized(5).mask.tolist() == [False, False, True, True, True]


def test_a_filter_does_not_change_with_the_mask_it_was_made_of():
    mask = np.array([True, False])
    made = LabelFilter(mask)
    mask[:] = False
    assert made.ids.tolist() == [0]
    with pytest.raises(ValueError, match="read-only"):
        made.mask[0] = False


def test_without_restrict_and_exclude_everything_is_allowed():
    assert allowed_labels(None, None, 4) is None
    assert allowed_labels([0, 1], [1], 4).ids.tolist() == [0]
    assert allowed_labels([], None, 4).ids.tolist() == []
    with pytest.raises(InputError, match="restrict must hold label ids from 0 to 3"):
        allowed_labels([4], None, 4)


@pytest.mark.parametrize(
    "model",
    [
        LinearTree(arity=4, max_leaf_size=3, threads=1),
        LinearTree(arity=4, max_leaf_size=3, n_trees=3, threads=1),
        Neighbours(threads=1),
        Centroids(threads=1),
        SoftmaxTree(dimension=8, threads=1),
    ],
)
def test_the_best_allowed_labels_are_returned_not_those_of_the_best(model):
    rng = np.random.default_rng(0)
    Y = sparse.csr_array(np.eye(30, dtype=np.float32)[np.arange(300) % 30])
    words = [f"w{label} w{label} x{rng.integers(9)} y{label // 10}" for label in np.arange(300) % 30]
    if getattr(model, "takes", "") == "texts":
        rows = words
    else:
        rows = sparse.csr_array((Y @ np.eye(30) + 0.2 * rng.random((300, 30))).astype(np.float32))
    model.fit(rows, Y)
    options = {"beam_width": 30} if hasattr(model, "trees_") else {}
    whole = model.rank(rows[:20], k=30, **options)
    allowed = LabelFilter.of([3, 4, 11, 17, 29], 30)
    found = model.rank(rows[:20], k=2, restrict=allowed, **options)
    for row in range(20):
        expected = [label for label, _ in whole[row] if label in allowed][:2]
        assert [label for label, _ in found[row]][: len(expected)] == expected
        assert all(label in allowed for label, _ in found[row])
