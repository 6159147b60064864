"""Row kernels against their twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import rows as reference

from tagwood import _kernels

quick = settings(deadline=None, max_examples=60)


@st.composite
def matrices(draw, max_rows=12, max_cols=9):
    """Canonical CSR arrays, their number of columns and a generator."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n_rows, n_cols = draw(st.integers(0, max_rows)), draw(st.integers(1, max_cols))
    mask = rng.random((n_rows, n_cols)) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    # Few different values, so that ties and zeros are common.
    values = rng.choice([-1.5, -0.5, 0.0, 0.5, 2.0], size=int(mask.sum())).astype(np.float32)
    indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int64)
    return (indptr, np.nonzero(mask)[1].astype(np.int32), values), n_cols, rng


@quick
@given(matrices(), st.integers(1, 3))
def test_rows_are_normalised_as_by_the_twin(problem, threads):
    (indptr, _, data), _, _ = problem
    found = _kernels.normalize_rows(indptr, data, threads)
    np.testing.assert_allclose(found, reference.normalize_rows(indptr, data, 1), rtol=1e-6)


@quick
@given(matrices(), st.integers(1, 12), st.integers(1, 3))
def test_the_largest_entries_are_those_of_the_twin(problem, k, threads):
    rows, _, _ = problem
    for found, wanted in zip(
        _kernels.top_k_rows(*rows, k, threads), reference.top_k_rows(*rows, k, 1), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


@quick
@given(matrices(), st.integers(1, 8), st.integers(1, 9), st.integers(1, 3))
def test_label_centroids_are_those_of_the_twin(problem, n_labels, max_features, threads):
    X, n_features, rng = problem
    n_rows = X[0].size - 1
    stands = rng.random((n_labels, n_rows)) < 0.4
    labels = (
        np.concatenate([[0], np.cumsum(stands.sum(axis=1))]).astype(np.int64),
        np.nonzero(stands)[1].astype(np.int32),
        rng.choice([0.5, 1.0, 2.0], size=int(stands.sum())).astype(np.float32),
    )
    found = _kernels.label_centroids(*X, n_features, *labels, max_features, threads)
    wanted = reference.label_centroids(*X, n_features, *labels, max_features, 1)
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1])
    np.testing.assert_allclose(found[2], wanted[2], rtol=1e-5, atol=1e-6)


@quick
@given(
    matrices(),
    st.sampled_from(["none", "order", "repeat", "column", "negative", "nan", "inf", "indptr", "short"]),
)
def test_broken_matrices_are_told_from_canonical_ones(problem, damage):
    (indptr, indices, data), n_cols, _ = problem
    indptr, indices, data = indptr.copy(), indices.copy(), data.copy()
    if damage == "order":
        indices = indices[::-1].copy()
    elif damage == "repeat":
        indices[:] = 0
    elif damage == "column" and indices.size:
        indices[-1] = n_cols
    elif damage == "negative" and indices.size:
        indices[0] = -1
    elif damage in ("nan", "inf") and data.size:
        data[data.size // 2] = float(damage)
    elif damage == "indptr" and indptr.size > 2:
        indptr[1] = indptr[-1] + 1
    elif damage == "short":
        data = data[:-1].copy()
    wanted = reference.rows_valid(indptr, indices, data, n_cols)
    assert _kernels.rows_valid(indptr, indices, data, n_cols) == wanted
    if damage == "none":
        assert wanted


@quick
@given(matrices())
def test_rising_rows_are_recognised(problem):
    (indptr, indices, _), _, _ = problem
    for columns in (indices, indices[::-1].copy(), np.zeros_like(indices)):
        assert _kernels.rows_rise(indptr, columns) == reference.rows_rise(indptr, columns)


@pytest.mark.parametrize("bad", [np.float64, np.int32])
def test_arrays_of_another_type_are_refused_not_converted(bad):
    with pytest.raises(TypeError):
        _kernels.normalize_rows(np.array([0, 1]), np.ones(1, dtype=bad), 1)
