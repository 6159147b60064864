"""Scores to probabilities along a curve, native against reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import search as reference_search

from tagwood import _kernels


@given(seed=st.integers(0, 10_000), n_knots=st.integers(1, 9), as_odds=st.booleans())
def test_values_are_those_of_the_reference(seed, n_knots, as_odds):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.normal(size=n_knots) * 4)
    y = np.sort(rng.random(n_knots))
    scores = np.concatenate([rng.random(20), x, [0, 1]]).astype(np.float32)
    ours = _kernels.calibrate(scores, as_odds, x, y)
    np.testing.assert_allclose(ours, reference_search.calibrate(scores, as_odds, x, y), rtol=1e-6, atol=1e-7)


def test_beyond_the_knots_the_curve_is_constant():
    x, y = np.array([0.25, 0.5]), np.array([0.1, 0.9])
    scores = np.array([0.0, 0.25, 0.375, 0.5, 0.75], dtype=np.float32)
    np.testing.assert_allclose(_kernels.calibrate(scores, False, x, y), [0.1, 0.1, 0.5, 0.9, 0.9], rtol=1e-6)


@pytest.mark.parametrize(("n_x", "n_y"), [(0, 0), (2, 1)])
def test_knots_that_do_not_fit_are_refused(n_x, n_y):
    with pytest.raises(ValueError, match="same length"):
        _kernels.calibrate(np.zeros(1, dtype=np.float32), True, np.zeros(n_x), np.zeros(n_y))
