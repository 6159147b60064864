"""Claims of labels on leaves: against the twin, and refused where they do not fit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import rows as reference

from tagwood import _kernels


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
