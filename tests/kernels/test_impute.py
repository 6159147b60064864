"""The native imputation kernels against their NumPy twins, and threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import impute as reference_impute
from scipy import sparse

from tagwood import _kernels
from tagwood._sparse import csr_parts, normalize_rows


def kernel_arrays(X, sample_groups, group_labels, contrast=0.0):
    X = csr_parts(normalize_rows(sparse.csr_array(np.asarray(X, dtype=np.float32))))
    by_group = csr_parts(sparse.csr_array(np.asarray(sample_groups, dtype=np.float32).T))
    by_label = csr_parts(sparse.csr_array(np.asarray(group_labels, dtype=np.float32).T))
    starts = np.arange(by_label.n_rows, dtype=np.int32)
    mean = X.to_scipy()[by_group.indices].mean(axis=0) if by_group.indices.size else np.zeros(X.n_cols)
    groups = (by_group.indptr, by_group.indices, by_label.indptr, by_label.indices, starts)
    return (*X, *groups, mean.astype(np.float32), contrast)


@st.composite
def problems(draw):
    n_rows, n_groups = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    n_labels, n_features = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # Few small whole numbers: many duplicate and empty rows, many exact ties, some rows that cancel out.
    values = draw(st.sampled_from([[0, 0, 1], [0, 1, 2, 3], [-1, 0, 1], [-1, 1]]))
    X = random.choice(values, (n_rows, n_features))
    return kernel_arrays(
        X,
        random.random((n_rows, n_groups)) < draw(st.sampled_from([0.2, 0.5])),
        random.random((n_groups, n_labels)) < 0.6,
        draw(st.sampled_from([0.0, 0.9])),
    )


def assert_same(native, twin):
    for ours, theirs in zip(native[:2], twin[:2], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(native[2:], twin[2:], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@settings(deadline=None, max_examples=300)
@given(problems(), st.sampled_from([0, 1, 2, 20]), st.sampled_from([0.3, 10.0]), st.sampled_from([0.0, 0.21]))
def test_imputing_equals_the_twin(problem, steps, step_size, margin):
    native = _kernels.impute_groups(*problem, steps, step_size, margin, 1)
    assert_same(native, reference_impute.impute_groups(*problem, steps, step_size, margin, 1))


@settings(deadline=None, max_examples=150)
@given(problems(), st.sampled_from([0, 1, 20]), st.sampled_from([0.3, 10.0]))
def test_embeddings_equal_the_twins(problem, steps, step_size):
    n_labels, n_features = problem[6].size - 1, problem[3]
    ours, theirs = (
        sparse.csr_array((data, indices, indptr), shape=(n_labels, n_features)).toarray()
        for indptr, indices, data in (
            _kernels.embed_groups(*problem, steps, step_size, 1),
            reference_impute.embed_groups(*problem, steps, step_size, 1),
        )
    )
    np.testing.assert_allclose(ours, theirs, atol=5e-6)


@pytest.fixture(scope="module")
def real_size():
    random = np.random.default_rng(5)
    X = sparse.random_array((600, 80), density=0.1, rng=random, dtype=np.float32).toarray()
    groups = np.eye(100)[random.permutation(600) % 100]
    return kernel_arrays(X, groups, random.random((100, 30)) < np.linspace(0.02, 0.9, 30), 1.0)


@pytest.mark.parametrize("step_size", [0.3, 10.0])
def test_labels_on_many_rows_and_few_equal_the_twin(real_size, step_size):
    # Labels with many rows work in the features of X, the others in features of their own.
    native = _kernels.impute_groups(*real_size, 20, step_size, 0.0, 1)
    assert_same(native, reference_impute.impute_groups(*real_size, 20, step_size, 0.0, 1))


def test_threads_do_not_matter(real_size):
    for kernel, settings_ in ((_kernels.impute_groups, (20, 10.0, 0.1)), (_kernels.embed_groups, (20, 10.0))):
        alone = kernel(*real_size, *settings_, 1)
        for threads in (2, 5):
            for ours, theirs in zip(kernel(*real_size, *settings_, threads), alone, strict=True):
                assert ours.tobytes() == theirs.tobytes()
