"""The plain assignment, and narrower ones, out of a soft one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tagwood.groups import GroupedLabels, impute_labels, keep_closest, share_within


@given(st.integers(0, 2**32 - 1))
def test_the_closest_of_a_soft_assignment_are_the_plain_one(seed):
    random = np.random.default_rng(seed)
    X = random.random((12, 5))
    groups = sparse.csr_array((random.random((12, 4)) < 0.4).astype(float))
    labels = (random.random((4, 3)) < 0.6).astype(float)
    plain = impute_labels(X, groups, labels, threads=1)
    kept = keep_closest(
        impute_labels(X, groups, labels, soft=True, margin=0.2, threads=1), GroupedLabels(groups, labels)
    )
    # A row in two groups may be the closest in one and only near in the other: it is kept for the one.
    np.testing.assert_array_equal(kept.labels.toarray(), plain.labels.toarray())
    np.testing.assert_allclose(kept.similarity.data, plain.similarity.data, atol=1e-6)
    assert np.all(kept.weights.data <= plain.weights.data + 1e-6)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.5, 0.9]))
def test_shares_within_a_smaller_margin_are_those_of_imputing_with_it(seed, margin):
    random = np.random.default_rng(seed)
    X = random.random((12, 5)) - 0.2
    groups = sparse.csr_array((random.random((12, 4)) < 0.4).astype(float))
    labels = (random.random((4, 3)) < 0.6).astype(float)
    wide, narrow = (impute_labels(X, groups, labels, soft=True, margin=m, threads=1) for m in (1.0, margin))
    found = share_within(wide, GroupedLabels(groups, labels), margin)
    np.testing.assert_allclose(found.weights.toarray(), narrow.weights.toarray(), atol=1e-4)
    np.testing.assert_allclose(
        found.similarity.toarray() * (narrow.weights.toarray() > 1e-4),
        narrow.similarity.toarray() * (narrow.weights.toarray() > 1e-4),
        atol=1e-6,
    )


@pytest.mark.parametrize("shape", [(0, 2), (3, 0)])
def test_nothing_stays_nothing(shape):
    found = impute_labels(np.ones((shape[0], 2)), np.ones((shape[0], 1)), np.ones((1, shape[1])))
    assert (
        keep_closest(found, GroupedLabels(np.ones((shape[0], 1)), np.ones((1, shape[1])))).labels.shape
        == shape
    )
