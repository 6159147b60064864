"""The inverted index and its search against their twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import neighbours as reference
from scipy import sparse

from tagwood import _kernels

_NONE = np.empty(0, dtype=np.uint8)


def _rows(n_rows, n_features, density, seed):
    rng = np.random.default_rng(seed)
    # Few distinct values, so that there are ties, and none of them half way between two codes.
    dense = rng.choice([1, 3, 5], (n_rows, n_features)) * (rng.random((n_rows, n_features)) < density)
    matrix = sparse.csr_array(dense.astype(np.float32))
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.integers(1, 12), st.floats(0, 1), st.integers(0, 1000))
def test_the_index_equals_its_twin(n_rows, n_features, density, seed):
    rows = _rows(n_rows, n_features, density, seed)
    for ours, twin in zip(
        _kernels.build_index(*rows, n_features), reference.build_index(*rows, n_features), strict=True
    ):
        np.testing.assert_array_equal(ours, twin)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 300),
    st.integers(1, 20),
    st.floats(0.02, 0.6),
    st.integers(1, 8),
    st.booleans(),
    st.sampled_from([0.0, 0.02, 0.3]),
    st.integers(0, 1000),
)
def test_the_search_equals_comparing_every_row(n_rows, n_features, density, k, some_dead, neglected, seed):
    index = _kernels.build_index(*_rows(n_rows, n_features, density, seed), n_features)
    queries = _rows(5, n_features, 0.5, seed + 1)
    dead = (np.random.default_rng(seed).random(n_rows) < 0.3).astype(np.uint8) if some_dead else _NONE
    ids, scores, found = _kernels.nearest_rows(*index, n_rows, dead, *queries, k, neglected, 1)
    expected = reference.nearest_rows(index, n_rows, dead, queries, k, neglected)
    np.testing.assert_array_equal(found, expected[2])
    for query, n in enumerate(found):
        ours, best = scores.reshape(5, k)[query, :n], expected[1][query, :n]
        np.testing.assert_allclose(ours, best, rtol=1e-5)
        clear = np.abs(np.diff(best, prepend=np.inf, append=-np.inf)) > 1e-4  # rows whose place is certain
        certain = clear[:-1] & clear[1:]
        np.testing.assert_array_equal(
            ids.reshape(5, k)[query, :n][certain[:n]][:-1], expected[0][query, :n][certain[:n]][:-1]
        )


def test_threads_and_batches_do_not_matter():
    index = _kernels.build_index(*_rows(2000, 50, 0.2, 0), 50)
    indptr, indices, data = _rows(200, 50, 0.2, 1)
    whole = _kernels.nearest_rows(*index, 2000, _NONE, indptr, indices, data, 7, 0.02, 1)
    for ours, other in zip(
        whole, _kernels.nearest_rows(*index, 2000, _NONE, indptr, indices, data, 7, 0.02, 2), strict=True
    ):
        np.testing.assert_array_equal(ours, other)
    one = slice(indptr[13], indptr[14])
    alone = _kernels.nearest_rows(
        *index, 2000, _NONE, np.array([0, one.stop - one.start]), indices[one], data[one], 7, 0.02, 1
    )
    np.testing.assert_array_equal(alone[0], whole[0][13 * 7 : 14 * 7])
    np.testing.assert_array_equal(alone[1], whole[1][13 * 7 : 14 * 7])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.integers(1, 6), st.integers(1, 5), st.booleans(), st.integers(0, 1000))
def test_votes_equal_their_twin(n_rows, places, k, some_blocked, seed):
    rng = np.random.default_rng(seed)
    labels = [sorted(rng.choice(9, rng.integers(0, 4), replace=False).tolist()) for _ in range(n_rows)]
    ptr = np.cumsum([0, *map(len, labels)]).astype(np.int64)
    flat = np.array([label for row in labels for label in row], dtype=np.int32)
    rows = rng.integers(0, n_rows, (3, places)).astype(np.int32)
    weights = rng.integers(1, 4, (3, places)).astype(np.float32)
    found = rng.integers(0, places + 1, 3).astype(np.int32)
    blocked = (rng.random(9) < 0.3).astype(np.uint8) if some_blocked else _NONE
    ours = _kernels.vote_labels(rows.ravel(), weights.ravel(), found, ptr, flat, blocked, k, 1)
    expected = reference.vote_labels(rows, weights, found, labels, blocked, k)
    for query, best in enumerate(expected):
        assert ours[2][query] == len(best)
        assert ours[0].reshape(3, k)[query, : len(best)].tolist() == [label for label, _ in best]
        np.testing.assert_allclose(ours[1].reshape(3, k)[query, : len(best)], [score for _, score in best])


def test_arrays_that_do_not_fit_are_refused():
    index = _kernels.build_index(*_rows(5, 3, 0.5, 0), 3)
    with pytest.raises(ValueError, match="do not fit"):
        _kernels.nearest_rows(*index, 5, np.zeros(4, dtype=np.uint8), *_rows(1, 3, 1, 0), 2, 0.0, 1)
