"""What every `LabelModel` must do."""

import copy
import inspect

import numpy as np
import pytest
from checkerboard import checkerboard
from scipy import sparse
from sklearn.base import clone

import tagwood
from tagwood.errors import InputError, NotFittedError
from tagwood.models.base import LabelModel
from tagwood.ranking import Ranking


def bits(state, prefix=""):
    """Every parameter and the bytes of every array of a state, by name."""
    own = {prefix + name: array.tobytes() for name, array in state.arrays.items()}
    own[prefix + "params"] = repr(state.params)
    for name, part in state.parts.items():
        own |= bits(part, f"{prefix}{name}/")
    return own


def precision(Y, ranking, k):
    hits = [sum(Y[[row], [label]][0] > 0 for label, _ in pairs[:k]) for row, pairs in enumerate(ranking)]
    return sum(hits) / (k * len(hits))


def test_it_is_a_label_model(make):
    model = make()
    assert isinstance(model, LabelModel)
    assert {"threads", "seed"} <= set(model.get_params(deep=False))


@pytest.mark.parametrize(
    "shape",
    [{"n_labels": 12, "n_colours": 3}, {"n_labels": 9, "n_colours": 9}, {"n_labels": 2, "n_colours": 2}],
)
def test_it_solves_the_checkerboard(make, shape):
    problem = checkerboard(n_rows=54, n_features=24, seed=3, **shape)
    model = make().fit(problem.X_train, problem.Y_train)
    assert precision(problem.Y_test, model.rank(problem.X_test, k=1), 1) == 1


def test_fit_returns_the_model_and_stores_parameters_only_by_name(make, problem):
    model = make()
    assert set(vars(model)) == set(model.get_params(deep=False))
    before = {name: copy.deepcopy(value) for name, value in model.get_params(deep=False).items()}
    assert model.fit(problem.X_train, problem.Y_train) is model
    assert repr(model.get_params(deep=False)) == repr(before)  # models among them have no equality
    assert all(name in before or name.endswith("_") for name in vars(model))


def test_fit_forgets_earlier_fits(make, problem):
    other = checkerboard(n_rows=30, n_labels=8, n_colours=2, n_features=10)
    model = make().fit(other.X_train, other.Y_train).fit(problem.X_train, problem.Y_train)
    assert bits(model.state()) == bits(make().fit(problem.X_train, problem.Y_train).state())


def test_fit_neither_changes_nor_keeps_the_data(make, problem):
    X, Y = problem.X_train.copy(), problem.Y_train.copy()
    model = make().fit(X, Y)
    for now, before in ((X, problem.X_train), (Y, problem.Y_train)):
        assert now.data.tobytes() == before.data.tobytes()
        assert now.indices.tobytes() == before.indices.tobytes()
        assert now.indptr.tobytes() == before.indptr.tobytes()
    ranking = model.rank(problem.X_test)
    X.data[:], Y.data[:] = 9.0, 0.0
    assert model.rank(problem.X_test) == ranking


def test_same_seed_same_bits(make, problem):
    one, two = (make().fit(problem.X_train, problem.Y_train) for _ in range(2))
    assert bits(one.state()) == bits(two.state())


@pytest.mark.parametrize("threads", [2, 3, None])
def test_threads_do_not_matter(make, problem, threads):
    other = make().set_params(threads=threads).fit(problem.X_train, problem.Y_train)
    alone = make().fit(problem.X_train, problem.Y_train)
    mine, theirs = bits(other.state()), bits(alone.state())
    assert {k: v for k, v in mine.items() if k != "params"} == {
        k: v for k, v in theirs.items() if k != "params"
    }
    assert other.rank(problem.X_test, k=7) == alone.rank(problem.X_test, k=7)


def test_a_batch_equals_its_rows_one_by_one(model, problem):
    together = model.rank(problem.X_test, k=6)
    sets = model.predict(problem.X_test)
    for row in range(problem.X_test.shape[0]):
        alone = model.rank(problem.X_test[[row]], k=6)
        assert alone == together.rows([row])
        assert (model.predict(problem.X_test[[row]]) != sets[[row]]).nnz == 0


def test_prediction_changes_nothing(model, problem):
    X = problem.X_test.copy()
    before, attributes = bits(model.state()), set(vars(model))
    model.rank(X, k=3)
    model.predict(X)
    assert bits(model.state()) == before
    assert set(vars(model)) == attributes
    for name in ("data", "indices", "indptr"):
        assert getattr(X, name).tobytes() == getattr(problem.X_test, name).tobytes()


def test_a_saved_model_gives_equal_rankings(model, problem, tmp_path):
    folder = tagwood.save(model, tmp_path / "model", golden=problem.X_test[:4])
    loaded = tagwood.load(folder, verify=True)
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    assert bits(loaded.state()) == bits(model.state())
    assert loaded.rank(problem.X_test, k=5) == model.rank(problem.X_test, k=5)
    assert (loaded.predict(problem.X_test) != model.predict(problem.X_test)).nnz == 0


def test_a_loaded_model_can_be_fitted_again(model, problem, tmp_path):
    loaded = tagwood.load(tagwood.save(model, tmp_path / "model"))
    assert bits(loaded.fit(problem.X_train, problem.Y_train).state()) == bits(model.state())


def test_rankings_are_well_formed(model, problem):
    for k in (1, 5, 12):
        ranking = model.rank(problem.X_test, k=k)
        # The constructor checks labels, falling scores and that no label stands twice.
        checked = Ranking(ranking.indptr, ranking.labels, ranking.scores, ranking.n_labels)
        assert checked.n_rows == problem.X_test.shape[0]
        assert checked.n_labels == 12
        assert np.diff(checked.indptr).max() <= k
        assert np.all((checked.scores >= 0) & (checked.scores <= 1))


def test_more_labels_than_there_are_may_be_asked_for(model, problem):
    ranking = model.rank(problem.X_test, k=100)
    assert np.diff(ranking.indptr).max() <= 12
    assert ranking.top(3) == model.rank(problem.X_test, k=3)


def test_empty_rows_get_an_answer_like_any_other(model, problem):
    X = sparse.csr_array((3, 24), dtype=np.float32)
    ranking = model.rank(X, k=4)
    assert ranking.n_rows == 3
    assert ranking[0] == ranking[1] == ranking[2]
    assert model.predict(X).shape == (3, 12)


def test_no_rows_give_an_empty_ranking(model):
    X = sparse.csr_array((0, 24), dtype=np.float32)
    ranking = model.rank(X)
    assert (ranking.n_rows, ranking.labels.size) == (0, 0)
    assert model.predict(X).shape == (0, 12)


def test_predict_gives_zeros_and_ones_and_finds_the_colour(model, problem):
    sets = model.predict(problem.X_test)
    assert sets.shape == problem.Y_test.shape
    assert set(np.unique(sets.data)) <= {1.0}
    assert (sets > problem.Y_test).nnz == 0  # nothing of another colour


def test_dense_and_sparse_features_of_any_format_are_alike(model, problem):
    ranking = model.rank(problem.X_test)
    dense = problem.X_test.toarray()
    for same in (dense, dense.astype(np.float64), dense.tolist(), np.asfortranarray(dense)):
        assert model.rank(same) == ranking
    for same in (problem.X_test.tocsc(), problem.X_test.tocoo(), sparse.csr_matrix(problem.X_test)):
        assert model.rank(same) == ranking


def test_parameters_can_be_read_set_and_cloned(make):
    model = make()
    params = model.get_params(deep=False)
    assert list(params) == list(inspect.signature(type(model)).parameters)
    other = clone(model)
    assert other is not model
    assert repr(other.get_params(deep=False)) == repr(params)
    assert other.set_params(seed=77) is other
    assert (other.seed, model.seed) == (77, params["seed"])
    assert "seed=77" in repr(other)
    with pytest.raises(InputError, match="Did you mean 'seed'"):
        model.set_params(sed=1)


def test_a_clone_of_a_fitted_model_is_not_fitted(model, problem):
    with pytest.raises(NotFittedError):
        clone(model).rank(problem.X_test)


@pytest.mark.parametrize("ask", ["rank", "predict", "state"])
def test_asking_before_fit_is_refused(make, problem, ask):
    model = make()
    with pytest.raises(NotFittedError, match=f"this {type(model).__name__} must be fitted first.*Call fit"):
        getattr(model, ask)(*([] if ask == "state" else [problem.X_test]))


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3", None])
def test_a_k_that_is_no_positive_whole_number_is_refused(model, problem, k):
    with pytest.raises(InputError, match="k must be a whole number of at least 1; got"):
        model.rank(problem.X_test, k=k)


@pytest.mark.parametrize("ask", ["rank", "predict"])
def test_features_that_do_not_fit_are_refused(model, problem, ask):
    X = problem.X_test.toarray()
    bad = X.copy()
    bad[2, 5] = np.nan
    for wrong, message in [
        (X[:, :-1], "X must have the 24 features this model was fitted with; got 23"),
        (np.hstack([X, X]), "got 48"),
        (
            X[0],
            r"X must be a matrix of rows and columns; got 1 dimension\(s\). A single row needs to be wrapped",
        ),
        (bad, r"X must hold finite numbers; got nan \(1 such values\)"),
        (sparse.csr_array(bad), "X must hold finite numbers"),
        (np.where(np.isnan(bad), np.inf, bad), "X must hold finite numbers; got inf"),
        (np.full((1, 24), 1e300), "X in float32 must hold finite numbers"),
        (X.astype(complex), "X must hold real numbers; got values of type complex128"),
        (X.astype(str), "X must hold real numbers"),
        (X.astype(object), "X must hold real numbers; got values of type object"),
    ]:
        with pytest.raises(InputError, match=message):
            getattr(model, ask)(wrong)


def test_labels_that_do_not_fit_are_refused_and_the_model_stays_unfitted(make, problem):
    X, Y = problem.X_train, problem.Y_train.toarray()
    nan = Y.copy()
    nan[0, 0] = np.nan
    for wrong, message in [
        (Y[:-1], "Y must have one row for each of the 48 rows of X; got 47 rows"),
        (np.zeros_like(Y), "Y must hold at least one label; got none. Check"),
        (np.empty((48, 0)), "Y must hold at least one label"),
        (-Y, "Y must hold 0 and 1; got -1.0"),
        (nan, "Y must hold finite numbers"),
        ([[0]] * 47, "Y must have one row for each of the 48 rows of X"),
        ([["red"]] * 48, "Y must hold whole-number label ids.*LabelVocab"),
        ([[-1]] * 48, "Y must hold label ids from 0"),
        ([0] * 48, "Y as a list must hold one collection of label ids per row"),
    ]:
        model = make()
        with pytest.raises(InputError, match=message):
            model.fit(X, wrong)
        with pytest.raises(NotFittedError):
            model.rank(X)


def test_training_data_without_rows_or_features_are_refused(make):
    with pytest.raises(InputError, match="X must have at least one row and one feature"):
        make().fit(np.empty((0, 3)), np.empty((0, 2)))
    with pytest.raises(InputError, match="X must have at least one row and one feature"):
        make().fit(np.empty((2, 0)), np.ones((2, 2)))
    with pytest.raises(InputError, match="X must hold finite numbers"):
        make().fit([[np.inf, 0.0]], [[0]])
