"""Odd but possible training data: each gets a right answer or a named error."""

import numpy as np
import pytest
from scipy import sparse
from tree_problems import planted_problem, same_arrays

from tagwood import LinearTree, Solver
from tagwood.errors import InputError


def fit(X, Y, **params):
    return LinearTree(**{"max_leaf_size": 3, "threads": 1, **params}).fit(X, Y)


@pytest.fixture(scope="module")
def problem():
    return planted_problem(n_rows=60)


@pytest.fixture(scope="module")
def model(problem):
    return fit(*problem)


def unsorted(matrix):
    """The same matrix with the columns of each row in falling order, and a flag that says otherwise."""
    other = matrix.copy()
    for row in range(matrix.shape[0]):
        span = slice(matrix.indptr[row], matrix.indptr[row + 1])
        other.indices[span], other.data[span] = matrix.indices[span][::-1], matrix.data[span][::-1]
    other.has_sorted_indices = True
    return other


def doubled(matrix):
    """The same matrix with every entry written down as two halves."""
    indptr, indices, data = 2 * matrix.indptr, np.repeat(matrix.indices, 2), np.repeat(matrix.data / 2, 2)
    return sparse.csr_array((data, indices, indptr), shape=matrix.shape)


def wide_indices(matrix):
    other = sparse.csr_array(
        (matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)), shape=matrix.shape
    )
    other.indices, other.indptr = other.indices.astype(np.int64), other.indptr.astype(np.int64)
    return other


def strided(matrix):
    """The same matrix with arrays that skip every other item."""
    other = matrix.copy()
    for name in ("data", "indices"):
        spread = np.repeat(getattr(matrix, name), 2)
        setattr(other, name, spread[::2])
    assert not other.data.flags.c_contiguous
    return other


def with_zeros(matrix):
    """The same matrix with a stored zero in each row."""
    rows = np.arange(matrix.shape[0])
    free = np.array([np.setdiff1d(np.arange(matrix.shape[1]), matrix[[row]].indices)[0] for row in rows])
    entries = matrix.tocoo()
    data = np.concatenate([entries.data, np.zeros(rows.size, np.float32)])
    place = (np.concatenate([entries.coords[0], rows]), np.concatenate([entries.coords[1], free]))
    return sparse.coo_array((data, place), shape=matrix.shape).tocsr()


def read_only(matrix):
    other = matrix.copy()
    for array in (other.data, other.indices, other.indptr):
        array.flags.writeable = False
    return other


SAME = {
    "unsorted": unsorted,
    "duplicate entries": doubled,
    "int64 indices": wide_indices,
    "strided arrays": strided,
    "float64": lambda m: m.astype(np.float64),
    "dense": lambda m: m.toarray(),
    "column order": lambda m: np.asfortranarray(m.toarray()),
    "strided dense": lambda m: np.repeat(m.toarray(), 2, axis=1)[:, ::2],
    "csc": lambda m: m.tocsc(),
    "csr_matrix": sparse.csr_matrix,
    "read-only": read_only,
}


@pytest.mark.parametrize("how", SAME)
def test_the_form_of_the_features_does_not_matter(model, problem, how):
    X, Y = problem
    same = SAME[how](X)
    assert same_arrays(fit(same, Y).trees_[0], model.trees_[0])
    assert model.rank(same) == model.rank(X)
    pairs = [[0, 1], [3, 2]]
    np.testing.assert_array_equal(model.score_labels(same, pairs), model.score_labels(X, pairs))


@pytest.mark.parametrize("how", SAME)
def test_the_form_of_the_labels_does_not_matter(model, problem, how):
    X, Y = problem
    assert same_arrays(fit(X, SAME[how](Y)).trees_[0], model.trees_[0])


def test_labels_may_be_lists_of_ids_in_any_order(model, problem):
    X, Y = problem
    lists = [[*ids[::-1], *ids[:1]] for ids in (Y[[row]].indices.tolist() for row in range(Y.shape[0]))]
    assert same_arrays(fit(X, lists).trees_[0], model.trees_[0])
    assert same_arrays(fit(X, [set(ids) for ids in lists]).trees_[0], model.trees_[0])


def test_stored_zeros_are_no_labels_and_change_no_score(model, problem):
    X, Y = problem
    assert same_arrays(fit(X, with_zeros(Y)).trees_[0], model.trees_[0])
    assert model.rank(with_zeros(X)) == model.rank(X)


def test_any_positive_number_is_a_label(model, problem):
    X, Y = problem
    assert same_arrays(fit(X, Y * 7).trees_[0], model.trees_[0])


def test_a_negative_or_too_large_column_is_refused(model, problem):
    X, Y = problem
    for column, message in ((-1, "X must have columns from 0 to 39; got column -1"), (40, "got column 40")):
        bad = X.copy()
        bad.indices[3] = column
        with pytest.raises(InputError, match=message):
            fit(bad, Y)
        with pytest.raises(InputError, match=message):
            model.rank(bad)
    bad = Y.copy()
    bad.indices[0] = -1
    with pytest.raises(InputError, match="Y must have columns from 0 to 19; got column -1"):
        fit(X, bad)


def test_a_broken_indptr_is_refused(model, problem):
    for place, value in ((3, 10**6), (-1, 10**6), (0, 1), (0, -1), (4, -7)):
        bad = problem[0].copy()
        bad.indptr[place] = value
        with pytest.raises(InputError, match="X must be a valid CSR matrix; got"):
            model.rank(bad)


def test_a_row_without_labels_takes_no_part(problem):
    X, Y = problem
    rng = np.random.default_rng(0)
    more = sparse.vstack([X, sparse.csr_array(rng.random((9, 40)).astype(np.float32))], format="csr")
    none = sparse.vstack([Y, sparse.csr_array((9, 20), dtype=np.float32)], format="csr")
    for negatives in ("teacher", "teacher+matcher"):
        params = {
            "solver": Solver(negatives=negatives),
            "rare_label_weight": 0.0,
        }  # the number of rows enters the propensities of labels
        assert same_arrays(fit(more, none, **params).trees_[0], fit(X, Y, **params).trees_[0])


@pytest.mark.parametrize("negatives", ["teacher", "teacher+matcher"])
@pytest.mark.parametrize("loss", ["squared-hinge", "logistic"])
def test_a_label_without_rows_is_not_returned(problem, negatives, loss):

    X, Y = problem
    wider = sparse.hstack([Y, sparse.csr_array((60, 2), dtype=np.float32)], format="csr")
    model = fit(X, wider, solver=Solver(loss=loss, negatives=negatives))
    ranking = model.rank(X, k=22, beam_width=99)
    assert np.diff(ranking.indptr).tolist() == [20] * 60
    assert ranking.labels.max() == 19
    assert model.predict(X)[:, [20, 21]].nnz == 0


def test_a_single_label_is_given_to_its_rows():
    model = fit(np.eye(3), [[0], [0], []])
    assert model.rank(np.eye(3), k=5).labels.tolist() == [0, 0, 0]
    assert model.predict(np.eye(3)[:2]).toarray().tolist() == [[1], [1]]


def test_a_single_row_is_learned():
    model = fit([[1.0, 0.0]], [[0, 2]])
    assert sorted(model.rank([[1.0, 0.0]], k=2).labels.tolist()) == [0, 2]


def test_rows_that_are_all_empty_are_learned_by_their_frequency():
    X = sparse.csr_array((8, 5), dtype=np.float32)
    model = fit(X, [[0, 1], [1], [1], [1], [0, 1], [1], [1], [1, 2]], max_leaf_size=10)
    assert model.rank(X[:1], k=1).labels.tolist() == [1]


def test_large_finite_values_give_numbers(problem):
    X, Y = problem
    for link in ("sigmoid", "l3-hinge"):
        model = fit(X, Y, solver=Solver(link=link))
        ranking = model.rank(X * np.float32(1e37), k=5)
        assert np.isfinite(ranking.scores).all()
        assert np.all(np.diff(ranking.indptr) == 5)


def test_features_may_be_sparse_and_dense_side_by_side(problem):
    X, Y = problem
    dense = np.random.default_rng(0).random((60, 4)).astype(np.float32)
    model = fit(sparse.hstack([X, dense], format="csr"), Y)
    assert model.n_features_ == 44
    assert model.rank(np.hstack([X.toarray(), dense])).n_rows == 60


def test_plans_of_searches_are_remembered_by_type_too():
    model = LinearTree(threads=1).fit(np.eye(4, dtype=np.float32), [[0], [1], [2], [3]])
    model.rank(np.eye(4, dtype=np.float32), k=1)
    for k in (True, 1.0, [1], "1"):
        with pytest.raises(InputError, match="k must be a whole number of at least 1"):
            model.rank(np.eye(4, dtype=np.float32), k=k)
