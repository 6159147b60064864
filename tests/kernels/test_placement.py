"""Placement kernels: leaves by gain, and pairs accepted within limits."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference import placement as reference

from tagwood import _kernels


def made_problem(seed, n_rows, n_labels, n_nodes, width):
    rng = np.random.default_rng(seed)
    rows = [np.flatnonzero(rng.random(n_rows) < rng.choice([0.05, 0.4])) for _ in range(n_labels)]
    label_ptr = np.concatenate([[0], np.cumsum([r.size for r in rows])]).astype(np.int64)
    matched = np.stack([rng.permutation(np.arange(-1, n_nodes))[:width] for _ in range(n_rows)])
    first = rng.integers(0, n_nodes, n_labels).astype(np.int32)
    return (
        label_ptr,
        np.concatenate(rows).astype(np.int32),
        first,
        matched.astype(np.int32).ravel(),
        width,
        int(rng.integers(1, width + 1)),
        n_nodes,
    )


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 10**9),
    shape=st.tuples(st.integers(1, 40), st.integers(1, 20), st.integers(3, 8), st.integers(1, 3)),
    brings_all=st.booleans(),
    price=st.sampled_from([0.0, 0.03, 0.1, 0.5]),
    growth=st.sampled_from([1.0, 1.3, 2.0, 50.0]),
    most_work=st.sampled_from([1.0, 1.2, 2.0, np.inf]),
    least_gain=st.integers(1, 3),
    max_copies=st.integers(1, 4),
)
@example(3119, (5, 4, 7, 2), False, 0.03, 2.0, 2.0, 2, 1)  # staying and moving are worth the same
def test_labels_are_placed_as_by_the_twin(seed, shape, brings_all, price, growth, most_work, least_gain, max_copies):
    problem = made_problem(seed, *shape)
    options = brings_all, price, growth, most_work, least_gain, max_copies
    labels, leaves = _kernels.place_labels(*problem, *options)
    twin_labels, twin_leaves = reference.place_labels(*problem, *options)
    np.testing.assert_array_equal(labels, twin_labels)
    np.testing.assert_array_equal(leaves, twin_leaves)


def test_labels_with_many_copies_are_placed_as_by_the_twin():
    problem = made_problem(1, 400, 60, 30, 5)
    labels, leaves = _kernels.place_labels(*problem, False, 0.0, 50.0, 50.0, 1, 20)
    twin_labels, twin_leaves = reference.place_labels(*problem, False, 0.0, 50.0, 50.0, 1, 20)
    np.testing.assert_array_equal(labels, twin_labels)
    np.testing.assert_array_equal(leaves, twin_leaves)
    assert np.bincount(labels).max() > 5


@pytest.mark.parametrize(
    "number, wrong",
    [
        (0, np.array([0, 2, 1])),
        (0, np.array([0, 3])),
        (1, np.array([0, 2, 1], np.int32)),
        (2, np.array([0, 3], np.int32)),
        (2, np.array([0, -1], np.int32)),
        (3, np.array([0, 3], np.int32)),
        (3, np.array([0, -2], np.int32)),
        (4, 0),
        (5, 0),
        (5, 2),
    ],
)
def test_what_does_not_fit_is_refused(number, wrong):
    arguments = [np.array([0, 1, 3]), np.array([0, 0, 1], np.int32), np.array([1, 2], np.int32)]
    arguments += [np.array([1, 2], np.int32), 1, 1, 3]
    assert _kernels.place_labels(*arguments, False, 0.0, 2.0, 2.0, 1, 2)[0].size >= 2
    arguments[number] = wrong
    with pytest.raises(ValueError, match="inconsistent"):
        _kernels.place_labels(*arguments, False, 0.0, 2.0, 2.0, 1, 2)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**9),
    n_claims=st.integers(0, 80),
    n_labels=st.integers(1, 12),
    n_leaves=st.integers(1, 6),
    copies=st.integers(1, 3),
)
def test_claims_are_served_as_by_the_twin(seed, n_claims, n_labels, n_leaves, copies):
    rng = np.random.default_rng(seed)
    labels, leaves = (rng.integers(0, n, n_claims).astype(np.int32) for n in (n_labels, n_leaves))
    room = rng.integers(0, 6, n_leaves)
    served = _kernels.accept_pairs(labels, leaves, copies, n_labels, room)
    np.testing.assert_array_equal(served, reference.accept_pairs(labels, leaves, copies, n_labels, room))
    assert np.bincount(labels[served > 0], minlength=n_labels).max() <= copies
    assert np.all(np.bincount(leaves[served > 0], minlength=n_leaves) <= room)


@pytest.mark.parametrize("label, leaf", [(-1, 0), (3, 0), (0, -1), (0, 2)])
def test_claims_outside_the_tree_are_refused(label, leaf):
    claim = np.array([label], dtype=np.int32), np.array([leaf], dtype=np.int32)
    with pytest.raises(ValueError, match="must have the same length"):
        _kernels.accept_pairs(*claim, 1, 3, np.array([1, 1]))


def test_claims_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="must have the same length"):
        _kernels.accept_pairs(np.zeros(2, np.int32), np.zeros(1, np.int32), 1, 3, np.array([1]))
