"""`Ranking`: what it refuses, what its methods return, and that none of them changes it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tagwood import Ranking
from tagwood.errors import InputError

N_LABELS = 6


def make(rows, n_labels=N_LABELS):
    return Ranking.from_lists(rows, n_labels)


@st.composite
def rankings(draw, n_rows=None):
    n_rows = draw(st.integers(0, 5)) if n_rows is None else n_rows
    rows = []
    for _ in range(n_rows):
        labels = draw(st.lists(st.integers(0, N_LABELS - 1), unique=True))
        scores = draw(st.lists(st.integers(-4, 4), min_size=len(labels), max_size=len(labels)))
        rows.append(list(zip(labels, [s / 4 for s in sorted(scores, reverse=True)], strict=True)))
    return make(rows)


def dense(ranking, missing=-np.inf):
    out = np.full((ranking.n_rows, ranking.n_labels), float(missing))
    for row, pairs in enumerate(ranking):
        for label, score in pairs:
            out[row, label] = score
    return out


def test_rows_are_read_like_a_list():
    ranking = make([[(3, 0.9), (1, 0.5)], []])
    assert len(ranking) == ranking.n_rows == 2
    assert list(ranking) == [[(3, 0.9), (1, 0.5)], []]
    assert ranking[-2] == [(3, 0.9), (1, 0.5)]
    for row in (2, -3):
        with pytest.raises(IndexError, match="ranking of 2 rows"):
            ranking[row]


def test_arrays_have_the_kernel_types():
    ranking = Ranking([0, 1], [2], [0.5], 3)
    assert (ranking.indptr.dtype, ranking.labels.dtype, ranking.scores.dtype) == (
        np.int64,
        np.int32,
        np.float32,
    )


def test_equality_looks_at_all_parts():
    ranking = make([[(1, 0.5)]])
    assert ranking == make([[(1, 0.5)]])
    for other in (make([[(2, 0.5)]]), make([[(1, 0.4)]]), make([[(1, 0.5)], []]), make([[(1, 0.5)]], 7), "x"):
        assert ranking != other
    with pytest.raises(TypeError):
        hash(ranking)


@pytest.mark.parametrize(
    ("indptr", "labels", "scores", "message"),
    [
        ([1, 2], [0, 1], [0.5, 0.4], "must rise from 0"),
        ([0, 2, 1], [0], [0.5], "must rise from 0"),
        ([], [], [], "must rise from 0"),
        ([0, 2], [0], [0.5], "ends at 2 must have as many labels and scores; got 1 labels and 1 scores"),
        ([0, 1], [0], [0.5, 0.4], "got 1 labels and 2 scores"),
        ([0, 1], [6], [0.5], "from 0 to 5; got 6 to 6"),
        ([0, 1], [-1], [0.5], "from 0 to 5; got -1 to -1"),
        ([0, 1], [0], [np.nan], "must be numbers; got NaN"),
        ([0, 2], [0, 1], [0.4, 0.5], "must fall inside each row. Use Ranking.from_csr"),
        ([0, 2], [1, 1], [0.5, 0.4], "at most once in a row"),
        ([0, 20], [*range(19), 3], [0.0] * 20, "at most once in a row"),
        ([0, 1], [1.5], [0.5], "labels of a ranking must be a vector of whole numbers; got float64"),
        ([0, 1], [2**32 + 1], [0.5], "fit in 32 bits; got 4294967297"),
        ([0, 1], [-(2**32) + 1], [0.5], "fit in 32 bits"),
        ([0, 1], [[1]], [0.5], "must be a vector"),
        ([0, 1], [1], ["a"], "scores of a ranking must be a vector of numbers"),
        ([0.0, 1.0], [1], [0.5], "indptr of a ranking must be a vector of whole numbers"),
    ],
)
def test_broken_parts_are_refused(indptr, labels, scores, message):
    n_labels = 20 if len(labels) == 20 else N_LABELS
    with pytest.raises(InputError) as error:
        Ranking(indptr, labels, scores, n_labels)
    assert message in str(error.value)


def test_scores_may_rise_from_one_row_to_the_next_and_past_empty_rows():
    rows = [[], [(0, 0.1)], [], [], [(1, 0.9)], []]
    assert list(make(rows)) == rows


def test_same_label_in_different_rows_is_fine():
    assert make([[(1, 0.5)], [(1, 0.5)]]).n_rows == 2


def test_from_lists_refuses_labels_that_are_not_whole():
    with pytest.raises(InputError, match="whole numbers"):
        make([[(1.5, 0.5)]])


def test_from_csr_orders_and_breaks_ties_by_label():
    scores = sparse.csr_array(np.array([[0.1, 0.9, 0.0, 0.9], [0.0, 0.0, 0.0, 0.0]]))
    assert list(Ranking.from_csr(scores)) == [[(1, 0.9), (3, 0.9), (0, 0.1)], []]
    assert list(Ranking.from_csr(scores, k=1)) == [[(1, 0.9)], []]


@pytest.mark.parametrize("form", [sparse.csc_array, sparse.coo_array, sparse.csr_matrix])
def test_from_csr_takes_other_sparse_forms_for_what_they_are(form):
    scores = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    assert list(Ranking.from_csr(form(scores))) == [[(2, 2.0), (0, 1.0)], [(1, 3.0)]]


def test_from_csr_keeps_stored_zeros():
    scores = sparse.csr_array((np.array([0.0, -1.0]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    assert Ranking.from_csr(scores)[0] == [(2, 0.0), (0, -1.0)]


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.ones((1, 2)), "must be a sparse matrix; got ndarray. Wrap it: scipy.sparse.csr_array"),
        (sparse.csr_array([[np.nan, 1.0]]), "must be numbers; got NaN"),
        (sparse.csr_array((np.ones(2), np.array([1, 1]), np.array([0, 2])), shape=(1, 3)), "at most once"),
    ],
)
def test_from_csr_refuses_what_cannot_be_ranked(scores, message):
    with pytest.raises(InputError) as error:
        Ranking.from_csr(scores)
    assert message in str(error.value)


@pytest.mark.parametrize("k", [0, -1, 1.5, "2", True])
def test_k_must_be_a_positive_whole_number(k):
    for method in (make([[(0, 1.0)]]).top, lambda k: Ranking.from_csr(sparse.csr_array([[1.0]]), k)):
        with pytest.raises(InputError, match="k must be a whole number of at least 1"):
            method(k)


@given(rankings(), st.integers(1, 7))
def test_top_keeps_the_beginning_of_each_row(ranking, k):
    assert list(ranking.top(k)) == [row[:k] for row in ranking]


@given(rankings(), st.integers(-4, 4))
def test_above_keeps_scores_of_at_least_the_threshold(ranking, threshold):
    threshold = threshold / 4
    assert list(ranking.above(threshold)) == [[p for p in row if p[1] >= threshold] for row in ranking]


def test_above_takes_one_threshold_per_row():
    ranking = make([[(0, 0.9), (1, 0.5)], [(2, 0.9), (3, 0.5)]])
    assert list(ranking.above([0.6, 0.5])) == [[(0, 0.9)], [(2, 0.9), (3, 0.5)]]
    with pytest.raises(InputError, match=r"one for each of the 2 rows; got an array of shape \(3,\)"):
        ranking.above([0.1, 0.2, 0.3])


@given(rankings(n_rows=4), st.lists(st.integers(-4, 3)))
def test_rows_returns_them_in_the_order_asked_for(ranking, index):
    assert list(ranking.rows(np.array(index, dtype=np.int64))) == [ranking[i] for i in index]


def test_rows_takes_a_mask_and_refuses_rows_that_are_not_there():
    ranking = make([[(0, 0.9)], [(1, 0.5)]])
    assert list(ranking.rows([False, True])) == [[(1, 0.5)]]
    with pytest.raises(IndexError):
        ranking.rows([2])


@given(rankings())
def test_conversion_to_matrices_keeps_every_entry_and_changes_nothing(ranking):
    before = list(ranking)
    matrix = ranking.to_csr()
    sets = ranking.to_sets()
    assert list(ranking) == before
    assert matrix.nnz == sets.nnz == ranking.labels.size
    rows = np.repeat(np.arange(ranking.n_rows), np.diff(ranking.indptr))
    np.testing.assert_array_equal(matrix.toarray()[rows, ranking.labels], ranking.scores)
    assert set(sets.data) <= {1.0}
    assert all(np.all(np.diff(part) > 0) for part in np.split(matrix.indices, matrix.indptr[1:-1]))


@given(rankings())
def test_csr_round_trip_gives_the_same_scores(ranking):
    again = Ranking.from_csr(ranking.to_csr())
    np.testing.assert_array_equal(dense(again), dense(ranking))
    np.testing.assert_array_equal(again.scores, ranking.scores)


@given(rankings(n_rows=3), rankings(n_rows=3))
def test_merging_by_mean_equals_dense_means(a, b):
    merged = Ranking.merge([a, b])
    expected = (dense(a, 0) + dense(b, 0)) / 2
    expected[np.isinf(dense(a)) & np.isinf(dense(b))] = -np.inf
    np.testing.assert_allclose(dense(merged), expected, atol=1e-6)


@given(rankings(n_rows=3), rankings(n_rows=3))
def test_merging_by_max_equals_dense_maxima_also_below_zero(a, b):
    np.testing.assert_allclose(dense(Ranking.merge([a, b], how="max")), np.maximum(dense(a), dense(b)))


def test_merging_keeps_labels_whose_scores_cancel_or_are_zero():
    a, b = make([[(0, 0.5), (2, 0.0)]]), make([[(0, -0.5)]])
    assert Ranking.merge([a, b])[0] == [(0, 0.0), (2, 0.0)]


@given(rankings(n_rows=2))
def test_merging_one_ranking_with_itself_changes_no_score(ranking):
    for how in ("mean", "max"):
        np.testing.assert_allclose(dense(Ranking.merge([ranking, ranking], how=how)), dense(ranking))


def test_merging_refuses_what_does_not_fit():
    one = make([[(0, 1.0)]])
    for arguments, message in [
        (([],), "at least one ranking"),
        (([one, make([])],), "same rows and labels"),
        (([one, make([[]], n_labels=7)],), "same rows and labels"),
        (([one], "sum"), "how must be one of 'mean', 'max'; got 'sum'"),
    ]:
        with pytest.raises(InputError, match=message):
            Ranking.merge(*arguments)
