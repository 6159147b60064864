"""Imputing again with a model's scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tagwood.errors import InputError
from tagwood.groups import impute_from_scores, impute_labels


def looped(scores, groups, labels):
    """The same, one group and label at a time; 0 is "no score"."""
    found = np.zeros(scores.shape)
    for j, label in zip(*labels.nonzero(), strict=True):
        members = np.flatnonzero(groups[:, j])
        given = members[scores[members, label] > 0]
        if given.size:
            best = scores[given, label].max()
            found[given[scores[given, label] == best], label] = 1
        else:
            found[members, label] = 1
    return found


@given(st.integers(0, 2**32 - 1))
def test_equals_the_loop_over_groups_and_labels(seed):
    random = np.random.default_rng(seed)
    n_rows, n_groups, n_labels = random.integers(1, 9, 3)
    scores = random.integers(0, 4, (n_rows, n_labels)) / 4
    groups = random.random((n_rows, n_groups)) < 0.4
    labels = random.random((n_groups, n_labels)) < 0.5
    found = impute_from_scores(sparse.csr_array(scores), groups, labels)
    np.testing.assert_array_equal(found.labels.toarray(), looped(scores, groups, labels))
    np.testing.assert_allclose(found.similarity.toarray(), np.where(found.labels.toarray(), scores, 0))


def test_tiny_scores_are_not_ties():
    found = impute_from_scores([[3e-9], [1e-9]], [[0], [0]], [[0]])
    assert found.labels.toarray().tolist() == [[1], [0]]


def test_without_scores_the_previous_assignment_stays():
    X, groups, labels = [[1.0, 0], [0, 1], [1, 0]], [[0], [0], [1]], np.array([[1, 0], [1, 0]])
    previous = impute_labels(X, groups, labels)
    nothing = sparse.csr_array((3, 2))
    again = impute_from_scores(nothing, groups, labels, previous=previous)
    assert again.labels.toarray().tolist() == previous.labels.toarray().tolist() == [[1, 0], [0, 0], [1, 0]]
    assert impute_from_scores(nothing, groups, labels).labels.toarray().tolist() == [[1, 0]] * 3


def test_scores_of_labels_the_group_does_not_have_are_ignored():
    found = impute_from_scores([[0.1, 0.9], [0.2, 0.8]], [[0], [0]], np.array([[1, 0]]))
    assert found.labels.toarray().tolist() == [[0, 0], [1, 0]]


def test_equal_scores_share_the_weight_and_groups_add_up():
    found = impute_from_scores([[0.5], [0.5], [0.2]], [[0, 1], [0], [1]], [[0], [0]])
    assert found.weights.toarray().ravel().tolist() == [1.0, 0.5, 0.0]


def test_wrong_shapes_are_named():
    with pytest.raises(InputError, match=r"scores must have shape \(2, 1\); got \(1, 1\)"):
        impute_from_scores([[1.0]], [[0], [0]], [[0]])
    other = impute_labels([[1.0]], [[0]], [[0]])
    with pytest.raises(InputError, match=r"previous must have shape \(2, 1\); got \(1, 1\)"):
        impute_from_scores([[1.0], [1.0]], [[0], [0]], [[0]], previous=other)
