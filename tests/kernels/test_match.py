"""The kernels under the metrics against their NumPy twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import rows as reference

from tagwood import _kernels

N_LABELS = 40


def ragged(rows):
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return indptr, np.array([label for row in rows for label in row], dtype=np.int32)


label_lists = st.lists(st.integers(0, N_LABELS - 1), max_size=30)
unique_lists = st.lists(st.integers(0, N_LABELS - 1), max_size=30, unique=True)


@st.composite
def problems(draw):
    n_rows = draw(st.integers(0, 6))
    truth = [sorted(draw(unique_lists)) for _ in range(n_rows)]
    ranked = [draw(unique_lists) for _ in range(n_rows)]
    cutoffs = sorted(draw(st.sets(st.integers(1, 45), max_size=4)))
    weights = np.random.default_rng(draw(st.integers(0, 99))).uniform(0.5, 9, N_LABELS)
    return (
        ragged(truth),
        ragged(ranked),
        weights,
        1 / np.log2(np.arange(2, 50)),
        np.array(cutoffs, dtype=np.int64),
    )


@given(st.lists(label_lists, max_size=5))
def test_rows_distinct_finds_repeated_labels(rows):
    assert _kernels.rows_distinct(*ragged(rows)) == reference.rows_distinct(*ragged(rows))
    assert reference.rows_distinct(*ragged(rows)) == all(len(set(row)) == len(row) for row in rows)


@given(problems())
def test_hits_and_gains_equal_their_twins(problem):
    truth, ranked, weights, discounts, cutoffs = problem
    hits = _kernels.match_rows(*truth, *ranked, 1)
    np.testing.assert_array_equal(hits, reference.match_rows(*truth, *ranked, 1))
    np.testing.assert_allclose(
        _kernels.ranked_gains(*ranked, hits, weights, discounts, cutoffs, 1),
        reference.ranked_gains(*ranked, hits, weights, discounts, cutoffs, 1),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        _kernels.best_gains(*truth, weights, discounts, cutoffs, 1),
        reference.best_gains(*truth, weights, discounts, cutoffs, 1),
        rtol=1e-12,
    )


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_do_not_change_a_bit(threads):
    rng = np.random.default_rng(0)
    n_rows = 20_000
    truth = np.sort(rng.permuted(np.tile(np.arange(N_LABELS), (n_rows, 1)), axis=1)[:, :4], axis=1)
    ranked = rng.permuted(np.tile(np.arange(N_LABELS), (n_rows, 1)), axis=1)[:, :6]
    true_parts = np.arange(0, 4 * n_rows + 1, 4), truth.astype(np.int32).ravel()
    parts = np.arange(0, 6 * n_rows + 1, 6), ranked.astype(np.int32).ravel()
    weights, discounts = rng.random(N_LABELS), 1 / np.log2(np.arange(2, 8))
    cutoffs = np.array([1, 3, 6])

    def run(threads):
        hits = _kernels.match_rows(*true_parts, *parts, threads)
        return (
            hits,
            _kernels.ranked_gains(*parts, hits, weights, discounts, cutoffs, threads),
            _kernels.best_gains(*true_parts, weights, discounts, cutoffs, threads),
        )

    for alone, together in zip(run(1), run(threads), strict=True):
        np.testing.assert_array_equal(alone, together)
