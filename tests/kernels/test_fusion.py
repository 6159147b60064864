"""Sums of boosted trees against their twin and against scikit-learn."""

import numpy as np
import pytest
from reference import neighbours as reference

from tagwood import _kernels
from tagwood.models.ensemble.fusion import Boosted


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
        min_samples_leaf=40,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    ).fit(X, right)
    np.testing.assert_allclose(fusion.logits(X), learner.decision_function(X), rtol=1e-6)


def test_the_kernel_equals_its_twin_for_any_number_of_threads():
    X, right = _problem(1500)
    fusion = Boosted.fit(X, right, n_trees=5)
    expected = reference.boosted_sums(*fusion[:7], X[:200], fusion.start)
    np.testing.assert_allclose(fusion.logits(X[:200]), expected, rtol=1e-12)
    np.testing.assert_array_equal(fusion.logits(X, 1), fusion.logits(X, 2))


def test_arrays_that_do_not_fit_are_refused():
    X, right = _problem(500)
    fusion = Boosted.fit(X, right, n_trees=2)
    arrays = list(fusion[:7])
    arrays[2] = arrays[2][:-1]
    with pytest.raises(ValueError, match="do not fit"):
        _kernels.boosted_sums(*arrays, X.ravel(), 6, 0.0, 1)
