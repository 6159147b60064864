"""Kernels on rows and rankings against their NumPy twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import rows as reference

from tagwood import Ranking, _kernels

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
    for found, wanted in zip(_kernels.top_k_rows(*rows, k, threads), reference.top_k_rows(*rows, k, 1), strict=True):
        np.testing.assert_array_equal(found, wanted)


@quick
@given(matrices())
def test_some_rows_are_taken_under_their_numbers(problem):
    X, _, rng = problem
    rows = np.flatnonzero(rng.random(X[0].size - 1) < 0.5).astype(np.int32)
    for found, wanted in zip(_kernels.take_rows(*X, rows), reference.take_rows(*X, rows), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("rows", [[1, 0], [0, 0], [-1], [3]])
def test_rows_to_take_must_rise_and_exist(rows):
    X = np.zeros(4, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
    with pytest.raises(ValueError, match="rows must rise"):
        _kernels.take_rows(*X, np.array(rows, dtype=np.int32))


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


def lists(seed: int, n_lists: int, n_rows: int, width: int, n_labels: int):
    rng = np.random.default_rng(seed)
    labels = np.full((n_lists, n_rows, width), -1, dtype=np.int32)
    scores = np.zeros((n_lists, n_rows, width), dtype=np.float32)
    found = rng.integers(0, min(width, n_labels) + 1, (n_lists, n_rows)).astype(np.int32)
    for one in range(n_lists):
        for row in range(n_rows):
            n = found[one, row]
            labels[one, row, :n] = rng.choice(n_labels, n, replace=False)
            scores[one, row, :n] = np.sort(rng.integers(0, 5, n) / 4)[::-1]  # many ties
    return labels.ravel(), scores.ravel(), found.ravel()


@given(
    seed=st.integers(0, 10_000),
    n_lists=st.integers(1, 4),
    n_rows=st.integers(1, 6),
    width=st.integers(1, 7),
    k=st.integers(1, 9),
    threads=st.integers(1, 2),
)
def test_lists_are_merged_as_the_reference_does(seed, n_lists, n_rows, width, k, threads):
    given_lists = lists(seed, n_lists, n_rows, width, 12)
    native = _kernels.merge_lists(*given_lists, n_lists, k, threads)
    for ours, wanted in zip(native, reference.merge_lists(*given_lists, n_lists, k), strict=True):
        np.testing.assert_array_equal(ours, wanted)


def test_the_result_is_what_ranking_merge_gives():
    labels, scores, found = lists(3, 3, 50, 6, 20)
    rankings = [
        Ranking.from_padded(*(part[one] for part in parts), 20)
        for one in range(3)
        for parts in [(labels.reshape(3, -1), scores.reshape(3, -1), found.reshape(3, -1))]
    ]
    merged = Ranking.merge(rankings).top(4)
    ours = Ranking.from_padded(*_kernels.merge_lists(labels, scores, found, 3, 4, 2), 20)
    np.testing.assert_array_equal(ours.indptr, merged.indptr)
    np.testing.assert_array_equal(ours.labels, merged.labels)
    np.testing.assert_allclose(ours.scores, merged.scores, rtol=1e-6)


def test_arrays_that_do_not_fit_together_are_refused():
    labels, scores, found = lists(0, 2, 3, 4, 9)
    with pytest.raises(ValueError, match="inconsistent"):
        _kernels.merge_lists(labels[:-1], scores, found, 2, 5, 1)


@given(seed=st.integers(0, 10_000), n_knots=st.integers(1, 9), as_odds=st.booleans())
def test_values_are_those_of_the_reference(seed, n_knots, as_odds):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.normal(size=n_knots) * 4)
    y = np.sort(rng.random(n_knots))
    scores = np.concatenate([rng.random(20), x, [0, 1]]).astype(np.float32)
    ours = _kernels.calibrate(scores, as_odds, x, y)
    np.testing.assert_allclose(ours, reference.calibrate(scores, as_odds, x, y), rtol=1e-6, atol=1e-7)


def test_beyond_the_knots_the_curve_is_constant():
    x, y = np.array([0.25, 0.5]), np.array([0.1, 0.9])
    scores = np.array([0.0, 0.25, 0.375, 0.5, 0.75], dtype=np.float32)
    np.testing.assert_allclose(_kernels.calibrate(scores, False, x, y), [0.1, 0.1, 0.5, 0.9, 0.9], rtol=1e-6)


@pytest.mark.parametrize(("n_x", "n_y"), [(0, 0), (2, 1)])
def test_knots_that_do_not_fit_are_refused(n_x, n_y):
    with pytest.raises(ValueError, match="same length"):
        _kernels.calibrate(np.zeros(1, dtype=np.float32), True, np.zeros(n_x), np.zeros(n_y))
