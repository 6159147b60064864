"""Candidates of several rankings, and sums of boosted trees, against their twins and scikit-learn."""

import numpy as np
import pytest
from reference import neighbours as reference
from scipy import sparse

from tagwood import _kernels
from tagwood.models.ensemble.fusion import Boosted, Thinning, gather
from tagwood.models.ensemble.together import LabelPairs
from tagwood.ranking import Ranking


def _problem(n_rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6)).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = np.nan
    right = np.nan_to_num(X[:, 0], nan=-1.0) + np.nan_to_num(X[:, 3]) * 0.5 + rng.normal(size=n_rows) > 0.5
    return X, right


def test_stored_trees_give_what_scikit_learn_gives():
    from sklearn.ensemble import HistGradientBoostingClassifier

    X, right = _problem()
    fusion = Boosted.fit(X, right, n_trees=20)
    learner = HistGradientBoostingClassifier(
        learning_rate=0.1,
        max_iter=20,
        max_leaf_nodes=16,
        max_bins=64,
        min_samples_leaf=20,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    ).fit(X, right)
    np.testing.assert_allclose(fusion.logits(X), learner.decision_function(X), rtol=1e-6)


def test_trees_from_a_share_of_the_wrong_candidates_give_the_same_probabilities():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, 4, 40_000), rng.normal(size=40_000)]).astype(np.float32)
    right = rng.random(40_000) < 0.02 * 3.0 ** X[:, 0] / (1 + np.exp(-X[:, 1]))
    thinning = Thinning(-2, ((0.5, 0.1), (1.5, 0.5)))
    assert 0.3 < thinning.draw(X, right).mean() < 0.7
    probabilities = 1 / (1 + np.exp(-Boosted.fit(X, right, 60, thinning).logits(X)))
    for value in range(4):
        own = X[:, 0] == value
        assert probabilities[own].mean() == pytest.approx(right[own].mean(), rel=0.1)


def test_one_wrong_candidate_is_always_kept():
    X, right = np.zeros((50, 1), dtype=np.float32), np.arange(50) != 7
    assert Thinning(0, ((0.5, 0.0001),)).draw(X, right).all()


def test_the_kernel_equals_its_twin_for_any_number_of_threads():
    X, right = _problem(1500)
    fusion = Boosted.fit(X, right, n_trees=5)
    expected = reference.boosted_sums(*fusion[:7], X[:200], fusion.start)
    np.testing.assert_allclose(fusion.logits(X[:200]), expected, rtol=1e-12)
    np.testing.assert_array_equal(fusion.logits(X, 1), fusion.logits(X, 2))


def _chain(n_leaves):
    """Return the arrays of one tree that splits off a leaf at each node, with values 0, 1, 2, ..."""
    inner = n_leaves - 1
    nodes = np.arange(2 * inner + 1)
    leaf = (nodes % 2 == 1) | (nodes == 2 * inner)
    left, right = np.where(leaf, 0, nodes + 1), np.where(leaf, 0, nodes + 2)
    arrays = (np.where(leaf, -1, 0), nodes / 2, left, right, np.zeros(nodes.size), np.cumsum(leaf) - 1.0)
    types = (np.int32, np.float64, np.int32, np.int32, np.uint8, np.float64)
    return np.zeros(1, dtype=np.int64), *(np.asarray(a, dtype=t) for a, t in zip(arrays, types, strict=True))


@pytest.mark.parametrize("n_leaves", [1, 2, 31, 32, 33, 200])
def test_trees_of_any_size_equal_their_twin(n_leaves):
    arrays = _chain(n_leaves)
    X = np.append(np.arange(-1, n_leaves, 0.25), np.nan).astype(np.float32)[:, None]
    expected = reference.boosted_sums(*arrays, X, 0.5)
    np.testing.assert_array_equal(_kernels.boosted_sums(*arrays, X.ravel(), 1, 0.5, 1), expected)


def test_thresholds_between_two_floats_are_not_rounded_up():
    arrays = list(_chain(2))
    arrays[2] = np.full(3, float(np.float32(0.1)) - 1e-12)
    X = np.array([[0.1]], dtype=np.float32)
    assert _kernels.boosted_sums(*arrays, X.ravel(), 1, 0.0, 1).tolist() == [1.0]


@pytest.mark.parametrize("n_rows", [0, 1, 600])
def test_gathered_candidates_equal_their_twin_for_any_number_of_threads(n_rows):
    rng = np.random.default_rng(n_rows)
    lists = [
        [
            sorted(
                zip(rng.permutation(30)[:size].tolist(), rng.random(size).tolist(), strict=True), key=lambda x: -x[1]
            )
            for size in rng.integers(0, most, n_rows)
        ]
        for most in (1, 8, 25)
    ]
    rankings = [Ranking.from_lists(rows, 30) for rows in lists]
    counts, lengths = rng.integers(0, 9, 30), rng.integers(0, 99, n_rows)
    cells, features = gather(rankings, counts, lengths)
    expected = reference.gather_candidates(lists, counts, lengths.tolist(), 10)
    assert cells.label.tolist() == [label for row in expected for label in row]
    assert np.diff(cells.indptr).tolist() == [len(row) for row in expected]
    own = np.array([one for row in expected for one in row.values()], dtype=np.float32).reshape(-1, 12)
    np.testing.assert_allclose(features, own, rtol=1e-6)
    np.testing.assert_array_equal(features, gather(rankings, counts, lengths, 2)[1])


def test_a_label_outside_the_counts_is_refused():
    ranking = Ranking.from_lists([[(5, 0.5)]], 6)
    with pytest.raises(ValueError, match="do not fit"):
        gather([ranking], np.zeros(5, dtype=np.int64), np.ones(1, dtype=np.int64))


def test_arrays_that_do_not_fit_are_refused():
    X, right = _problem(500)
    fusion = Boosted.fit(X, right, n_trees=2)
    arrays = list(fusion[:7])
    arrays[2] = arrays[2][:-1]
    with pytest.raises(ValueError, match="do not fit"):
        _kernels.boosted_sums(*arrays, X.ravel(), 6, 0.0, 1)


@pytest.mark.parametrize("k", [1, 5, 30])
def test_what_candidates_tell_of_each_other_equals_the_twin(k):
    rng = np.random.default_rng(k)
    Y = (rng.random((300, 40)) < 0.1).astype(np.float32)
    sizes = rng.integers(0, 40, 60)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    labels = np.concatenate([np.sort(rng.permutation(40)[:size]) for size in sizes]).astype(np.int32)
    logits = rng.normal(-2, 3, labels.size)
    logits[2:4] = logits[4]  # of equal ones the first is better
    arrays = indptr, labels, logits, *LabelPairs.of(sparse.csr_array(Y))
    entries, features, partners = reference.candidate_context(indptr, labels, logits, Y, k)
    found = _kernels.candidate_context(*arrays, k, 1)
    assert found[0].tolist() == entries
    np.testing.assert_allclose(found[1].reshape(-1, 15), features, rtol=1e-4, atol=1e-5)
    assert found[2].tolist() == partners
    for one, other in zip(found, _kernels.candidate_context(*arrays, k, 3), strict=True):
        np.testing.assert_array_equal(one, other)


def test_labels_added_after_training_tell_nothing():
    pairs = LabelPairs.of(sparse.csr_array(np.ones((4, 2), dtype=np.float32)))
    arrays = np.array([0, 2], dtype=np.int64), np.array([1, 7], dtype=np.int32), np.array([1.0, 2.0])
    entries, features, partners = _kernels.candidate_context(*arrays, *pairs, 5, 1)
    assert (entries.tolist(), partners.tolist()) == ([1, 0], [1, -1])
    assert np.isfinite(features).all()
