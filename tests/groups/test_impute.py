"""Imputation: the paper's toy, planted problems, corner cases, soft assignments, scores of a model, misuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from experiments.eagle.grouping import random_groups
from tagwood.errors import InputError
from tagwood.features.base import label_centroids
from tagwood.groups import (
    GroupedLabels,
    embed_labels,
    impute_from_scores,
    impute_labels,
    keep_closest,
    share_within,
)

METHODS = ["baseline", "eagle-0", "eagle"]


@pytest.fixture
def toy():
    """Section 3 of the paper: x and -x in each group, both labels on every group."""
    x = np.array([0.6, 0.0, 0.8])
    X = np.tile([x, -x], (5, 1))
    return X, np.repeat(np.eye(5), 2, axis=0), np.ones((5, 2))


@pytest.fixture
def planted():
    """Rows with one label each, a noisy copy of the label's direction, in groups of five by chance."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(40, 60))
    truth = np.arange(1000) % 40
    X = centres[truth] + 1.5 * random.normal(size=(1000, 60))
    Y = sparse.csr_array(np.eye(40)[truth])
    groups = random_groups(1000, 5)
    return X, groups, groups.T @ Y, Y


def entries(imputed):
    return imputed.labels.toarray().astype(int).tolist()


def nearest_label_precision(X, embeddings):
    """P@1 of the nearest embedding, with the better of the two orders; equal scores count as a coin flip."""
    scores = np.asarray(X @ embeddings.T)
    truth = np.arange(len(X)) % 2
    right = scores[np.arange(len(X)), truth] - scores[np.arange(len(X)), 1 - truth]
    precision = np.where(right == 0, 0.5, right > 0).mean()
    return max(precision, 1 - precision)


def test_toy_mean_of_the_group_labels_is_zero_and_eagle_finds_both_directions(toy):
    X, groups, labels = toy
    baseline = label_centroids(X, impute_labels(*toy, method="baseline").labels).toarray()
    learned = embed_labels(X, groups, labels).toarray()
    assert np.abs(baseline).max() == 0
    np.testing.assert_allclose(np.abs(learned), np.abs([X[0], X[0]]), atol=1e-6)
    assert learned[0] @ learned[1] == pytest.approx(-1)


def test_toy_precision_goes_from_chance_to_one(toy):
    precision = {}
    for method in METHODS:
        labels = impute_labels(*toy, method=method).labels
        precision[method] = nearest_label_precision(toy[0], label_centroids(toy[0], labels).toarray())
    assert precision == {"baseline": 0.5, "eagle-0": 0.5, "eagle": 1.0}


def test_seed_chooses_which_label_takes_which_side_of_the_toy(toy):
    first, second = impute_labels(*toy, seed=0), impute_labels(*toy, seed=1)
    assert entries(first) == [[1, 0], [0, 1]] * 5
    assert entries(second) == [[0, 1], [1, 0]] * 5


def test_eagle_recovers_more_planted_labels_than_eagle_0_than_baseline(planted):
    X, groups, labels, Y = planted
    right = {}
    for method in METHODS:
        found = impute_labels(X, groups, labels, method=method).labels
        right[method] = found.multiply(Y).sum() / found.nnz
    assert right["baseline"] < 0.25 < 0.9 < right["eagle-0"] < right["eagle"]


def test_contrast_finds_labels_beside_a_common_topic(planted):
    X, groups, labels, Y = planted
    common = np.array(X) + np.abs(X).mean() * 2  # what all rows share outweighs what they differ in
    right = {}
    for contrast in (0.0, 1.0):
        found = impute_labels(common, groups, labels, contrast=contrast).labels
        right[contrast] = found.multiply(Y).sum() / found.nnz
    assert right[0.0] < 0.7 < 0.9 < right[1.0]


def test_label_on_every_group_goes_to_the_rows_all_groups_share():
    X = [[1.0, 0, 0], [0, 1, 0], [1, 0.1, 0], [0, 0, 1], [0, 0.5, 0.5], [1, 0, 0.1]]
    groups = [[0], [0], [1], [1], [2], [2]]
    assert entries(impute_labels(X, groups, [[0]] * 3)) == [[1], [0], [1], [0], [0], [1]]


def test_labels_that_nearly_all_groups_have_are_found_where_rows_are_drawn_many_times():
    random = np.random.default_rng(0)
    centres = random.normal(size=(10, 30))
    label = random.integers(0, 10, 500)
    X = centres[label] + random.normal(size=(500, 30)) + 3
    members = random.integers(0, 500, (600, 25))  # 93 % of the groups have a given label
    groups, labels = np.zeros((500, 600)), np.zeros((600, 10))
    groups[members.ravel(), np.repeat(np.arange(600), 25)] = 1
    labels[np.repeat(np.arange(600), 25), label[members.ravel()]] = 1
    given = impute_labels(X, groups, labels, method="eagle-0", threads=1).labels.tocoo()
    assert np.mean(label[given.row] == given.col) > 0.9


def test_similarity_is_the_cosine_with_the_embedding(planted):
    X, groups, labels, _ = planted
    found = impute_labels(X, groups, labels)
    cosines = X / np.linalg.norm(X, axis=1, keepdims=True) @ embed_labels(X, groups, labels).toarray().T
    rows, columns = found.similarity.nonzero()
    np.testing.assert_allclose(found.similarity.data, cosines[rows, columns], atol=1e-5)


def test_scaling_the_rows_changes_nothing(planted):
    X, groups, labels, _ = planted
    scaled = X * np.random.default_rng(1).uniform(0.1, 10, (len(X), 1))
    assert entries(impute_labels(scaled, groups, labels)) == entries(impute_labels(X, groups, labels))


def test_every_group_keeps_each_of_its_labels(planted):
    X, groups, labels, _ = planted
    for method in METHODS:
        kept = groups.T @ impute_labels(X, groups, labels, method=method).labels
        np.testing.assert_array_equal((kept > 0).toarray(), (labels > 0).toarray())


def test_groups_of_one_row_give_the_row_all_labels():
    labels = [[1, 0, 1], [0, 1, 0]]
    for method in METHODS:
        assert entries(impute_labels([[1.0, 0], [0, 1]], np.eye(2), np.array(labels), method=method)) == labels


def test_equally_close_rows_all_get_the_label_and_share_its_weight():
    X = [[1.0, 0], [1, 0], [0, 1], [1, 0]]
    found = impute_labels(X, [[0], [0], [0], [1]], [[0], [0]])
    assert entries(found) == [[1], [1], [0], [1]]
    assert found.weights.data.tolist() == [0.5, 0.5, 1.0]


def test_two_rows_of_a_labels_only_group_are_equally_close_in_spite_of_rounding():
    X = np.random.default_rng(3).random((2, 50))
    assert entries(impute_labels(X, [[0], [0]], [[0]], method="eagle-0")) == [[1], [1]]


def test_row_in_several_groups_gets_a_label_once():
    X = [[1.0, 0], [0, 1], [0.1, 1]]
    found = impute_labels(X, [[0, 1], [0], [1]], [[0], [0]])
    assert entries(found) == [[1], [0], [0]]
    assert found.weights.toarray().tolist() == [[1], [0], [0]]


def test_rows_without_features_get_labels_only_where_all_rows_have_none():
    X = [[0.0, 0], [1, 0], [0, 0], [0, 0]]
    assert entries(impute_labels(X, [[0], [0], [1], [1]], [[0], [0]])) == [[0], [1], [1], [1]]


def test_labels_without_groups_and_groups_without_rows_or_labels_give_nothing():
    groups = np.array([[1, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]])
    labels = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0]])  # group 1 has no rows, group 2 no labels, label 2 no group
    X = [[1.0, 0], [0.5, 0.5], [0, 1], [1, 1]]
    for method in METHODS:
        found = impute_labels(X, groups, labels, method=method).labels
        assert found.shape == (4, 3)
        assert found.toarray()[:, 1:].sum() == found.toarray()[2:].sum() == 0
        assert found.toarray()[:2, 0].sum() >= 1


@pytest.mark.parametrize("shape", [(0, 0, 0), (3, 0, 0), (3, 2, 0), (0, 2, 2)])
@pytest.mark.parametrize("method", METHODS)
def test_empty_problems_have_empty_answers(shape, method):
    n_rows, n_groups, n_labels = shape
    groups, labels = np.zeros((n_rows, n_groups)), np.ones((n_groups, n_labels))
    found = impute_labels(np.ones((n_rows, 2)), groups, labels, method=method)
    assert found.labels.shape == (n_rows, n_labels)
    assert found.labels.nnz == 0


def test_soft_shares_sum_to_one_in_each_group_and_fall_with_the_distance(planted):
    X, groups, labels, _ = planted
    hard = impute_labels(X, groups, labels)
    soft = impute_labels(X, groups, labels, soft=True, margin=0.9)
    assert soft.labels.nnz > hard.labels.nnz
    assert (soft.labels - hard.labels).min() == 0
    shares = (groups.T @ soft.weights).toarray()
    np.testing.assert_allclose(shares[shares > 0], 1, atol=1e-5)
    label = soft.weights.tocsc()[:, [0]].toarray().ravel()
    closeness = soft.similarity.tocsc()[:, [0]].toarray().ravel()
    for members in groups.tocsc().T.toarray() > 0:
        inside = np.flatnonzero(members & (label > 0))
        assert np.all(np.diff(label[inside][np.argsort(closeness[inside])]) >= 0)


def test_soft_with_margin_zero_is_the_plain_version(planted):
    X, groups, labels, _ = planted
    plain = impute_labels(X, groups, labels)
    assert entries(impute_labels(X, groups, labels, soft=True, margin=0.0)) == entries(plain)


def test_baseline_is_the_product_of_the_two_matrices(planted):
    X, groups, labels, _ = planted
    found = impute_labels(X, groups, labels, method="baseline")
    np.testing.assert_array_equal(found.labels.toarray(), ((groups @ labels) > 0).toarray())
    np.testing.assert_array_equal(found.labels.toarray(), GroupedLabels(groups, labels).spread().toarray())
    np.testing.assert_allclose(found.weights.data, 0.2, rtol=1e-6)


def test_order_of_the_rows_does_not_matter(planted):
    X, groups, labels, _ = planted
    order = np.random.default_rng(2).permutation(len(X))
    moved = impute_labels(X[order], groups[order], labels)
    np.testing.assert_array_equal(moved.labels.toarray(), impute_labels(X, groups, labels).labels.toarray()[order])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "eagel"}, "Did you mean 'eagle'?"),
        ({"steps": -1}, "steps must be a whole number of at least 0; got -1"),
        ({"step_size": 0}, "step_size must be a number greater than 0.0; got 0"),
        ({"contrast": 2}, "contrast must be a number from 0.0 to 1.0; got 2"),
        ({"margin": 3}, "margin must be a number from 0.0 to 1.0; got 3"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"threads": 0}, "threads must be a whole number from 1"),
        ({"X": [[1.0]]}, "sample_groups must have one row for each of the 1 rows of X; got 2 rows"),
        ({"X": [[np.nan], [1]]}, "X must hold finite numbers"),
        (
            {"group_labels": np.eye(1)},
            "group_labels must have one row for each of the 2 groups of sample_groups; got 1",
        ),
        ({"sample_groups": np.array([[1, -1], [0, 1]])}, "sample_groups must contain 0 and 1; got -1"),
    ],
)
def test_misuse_is_named(change, words):
    given = {"X": [[1.0], [1.0]], "sample_groups": np.eye(2), "group_labels": np.eye(2)} | change
    with pytest.raises(InputError, match=words.replace("?", r"\?")):
        impute_labels(**given)


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
    assert keep_closest(found, GroupedLabels(np.ones((shape[0], 1)), np.ones((1, shape[1])))).labels.shape == shape


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
