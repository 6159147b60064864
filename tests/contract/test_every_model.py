"""What every `LabelModel` must do, and Taggers with them."""

import copy
import inspect
import pickle

import joblib
import numpy as np
import pytest
from model_factories import CASES, cases
from scipy import sparse
from sklearn.base import clone

import tagwood
from tagwood import Ensemble, Tagger
from tagwood.errors import InputError, NotFittedError
from tagwood.models.base import LabelModel
from tagwood.ranking import Ranking

FEATURES = cases(texts=False)
TEXTS = cases(texts=True)


def bits(state, prefix=""):
    """Every parameter and the bytes of every array of a state, by name; times are left out."""
    own = {prefix + name: array.tobytes() for name, array in state.arrays.items()}
    own[prefix + "params"] = repr({k: v for k, v in state.params.items() if "seconds" not in k})
    for name, part in state.parts.items():
        own |= bits(part, f"{prefix}{name}/")
    return own


def arrays(state):
    return {name: value for name, value in bits(state).items() if not name.endswith("params")}


def precision(Y, ranking, k):
    hits = [sum(Y[[row], [label]][0] > 0 for label, _ in pairs[:k]) for row, pairs in enumerate(ranking)]
    return sum(hits) / (k * len(hits))


def test_it_is_a_label_model_with_at_most_ten_parameters(case):
    model = case.make()
    assert isinstance(model, LabelModel)
    params = model.get_params(deep=False)
    assert len(params) <= 10
    if not isinstance(model, Tagger | Ensemble):  # their parts have threads of their own
        assert "threads" in params


@pytest.mark.parametrize(
    "shape",
    [{"n_labels": 12, "n_colours": 3}, {"n_labels": 9, "n_colours": 9}, {"n_labels": 2, "n_colours": 2}],
)
def test_it_solves_the_checkerboard(case, shape):
    rows = case.rows(n_rows=54, n_features=24, seed=3, **shape)
    model = case.fit(rows)
    assert precision(rows.Y_test, model.rank(rows.X_test, k=1), 1) == 1
    assert 0.5 < model.score(rows.X_test, y=rows.Y_test) <= 1.0


def test_fit_returns_the_model_and_stores_parameters_only_by_name(case, rows):
    model = case.make()
    assert set(vars(model)) == set(model.get_params(deep=False))
    before = {name: copy.deepcopy(value) for name, value in model.get_params(deep=False).items()}
    assert case.fit(rows, model) is model
    assert repr(model.get_params(deep=False)) == repr(before)  # models among them have no equality
    assert all(name in before or name.endswith("_") or name.startswith("_") for name in vars(model))


def test_fit_forgets_earlier_fits(case, rows):
    other = case.rows(n_rows=30, n_labels=8, n_colours=2, n_features=10)
    model = case.fit(rows, case.fit(other))
    assert bits(model.state()) == bits(case.fit(rows).state())


@pytest.mark.parametrize("case", FEATURES, indirect=True)
def test_fit_neither_changes_nor_keeps_the_data(case, rows):
    X, Y = rows.X_train.copy(), rows.Y_train.copy()
    model = case.make().fit(X, y=Y)
    for now, before in ((X, rows.X_train), (Y, rows.Y_train)):
        assert now.data.tobytes() == before.data.tobytes()
        assert now.indices.tobytes() == before.indices.tobytes()
        assert now.indptr.tobytes() == before.indptr.tobytes()
    ranking = model.rank(rows.X_test)
    X.data[:], Y.data[:] = 9.0, 0.0
    assert model.rank(rows.X_test) == ranking


def test_same_seed_same_bits(case, rows):
    one, two = (case.fit(rows) for _ in range(2))
    assert bits(one.state()) == bits(two.state())


@pytest.mark.parametrize("case", [name for name in cases() if CASES[name.values[0]].exact_threads], indirect=True)
@pytest.mark.parametrize("threads", [2, 3, None])
def test_threads_do_not_matter(case, rows, threads):
    changed = case.make()
    names = [name for name in changed.get_params() if name.split("__")[-1] == "threads"]
    if not names:
        pytest.skip("its members have threads of their own")
    other, alone = case.fit(rows, changed.set_params(**dict.fromkeys(names, threads))), case.fit(rows)
    assert arrays(other.state()) == arrays(alone.state())
    assert other.rank(rows.X_test, k=7) == alone.rank(rows.X_test, k=7)


def test_a_batch_equals_its_rows_one_by_one(model, case, rows):
    together = model.rank(rows.X_test, k=6)
    sets = model.predict(rows.X_test)
    for row in range(len(rows.label_texts)):
        one = [rows.X_test[row]] if case.texts else rows.X_test[[row]]
        alone = model.rank(one, k=6)
        if case.neural:  # a matrix product of another size rounds differently
            np.testing.assert_allclose(alone.scores, together.rows([row]).scores, rtol=2e-3, atol=1e-5)
            continue
        assert alone == together.rows([row])
        assert (model.predict(one) != sets[[row]]).nnz == 0


def test_prediction_changes_nothing(model, case, rows):
    X = copy.deepcopy(rows.X_test)
    before, attributes = bits(model.state()), set(vars(model))
    model.rank(X, k=3)
    model.predict(X)
    model.score(X, rows.Y_test)
    assert bits(model.state()) == before
    assert set(vars(model)) == attributes
    if case.texts:
        assert rows.X_test == X
        return
    for name in ("data", "indices", "indptr"):
        assert getattr(X, name).tobytes() == getattr(rows.X_test, name).tobytes()


def test_a_saved_model_gives_equal_rankings(model, rows, tmp_path):
    folder = tagwood.save(model, tmp_path / "model", golden=rows.X_test[:4])
    loaded = tagwood.load(folder, verify=True)
    assert type(loaded) is type(model)
    assert bits(loaded.state()) == bits(model.state())
    assert loaded.rank(rows.X_test, k=5) == model.rank(rows.X_test, k=5)
    assert (loaded.predict(rows.X_test) != model.predict(rows.X_test)).nnz == 0


def test_a_loaded_model_can_be_fitted_again(model, case, rows, tmp_path):
    loaded = tagwood.load(tagwood.save(model, tmp_path / "model"))
    assert arrays(case.fit(rows, loaded).state()) == arrays(model.state())


def test_a_model_is_the_same_in_another_process(model, rows, tmp_path):
    joblib.dump(model, tmp_path / "model.joblib")
    for again in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        assert again.rank(rows.X_test) == model.rank(rows.X_test)
        assert repr(again) == repr(model)


def test_rankings_are_well_formed(model, rows):
    for k in (1, 5, 12):
        ranking = model.rank(rows.X_test, k=k)
        # The constructor checks labels, falling scores and that no label occurs twice.
        checked = Ranking(ranking.indptr, ranking.labels, ranking.scores, ranking.n_labels)
        assert checked.n_rows == 48
        assert checked.n_labels == 12
        assert np.diff(checked.indptr).max() <= k
        assert np.all((checked.scores >= -1) & (checked.scores <= 1))


def test_more_labels_than_there_are_may_be_requested(model, case, rows):
    ranking = model.rank(rows.X_test, k=100)
    assert np.diff(ranking.indptr).max() <= 12
    if not isinstance(model, Ensemble):  # its scores depend on the candidates
        assert ranking.top(3) == model.rank(rows.X_test, k=3)
    assert model.rank(rows.X_test, k=10**9) == ranking  # no memory for labels that there are not


def test_empty_rows_get_an_answer_like_any_other(model, case):
    X = ["", "", ""] if case.texts else sparse.csr_array((3, 24), dtype=np.float32)
    ranking = model.rank(X, k=4)
    assert ranking.n_rows == 3
    assert ranking[0] == ranking[1] == ranking[2]
    assert model.predict(X).shape == (3, 12)


def test_no_rows_give_an_empty_ranking(model, case):
    X = [] if case.texts else sparse.csr_array((0, 24), dtype=np.float32)
    ranking = model.rank(X)
    assert (ranking.n_rows, ranking.labels.size) == (0, 0)
    assert model.predict(X).shape == (0, 12)


def test_predict_gives_zeros_and_ones_and_finds_the_colour(model, rows):
    sets = model.predict(rows.X_test)
    assert sets.shape == rows.Y_test.shape
    assert set(np.unique(sets.data)) <= {1.0}
    assert (sets > rows.Y_test).nnz == 0  # nothing of another colour


@pytest.mark.parametrize("case", FEATURES, indirect=True)
def test_dense_and_sparse_features_of_any_format_are_alike(model, rows):
    ranking = model.rank(rows.X_test)
    dense = rows.X_test.toarray()
    for same in (dense, dense.astype(np.float64), dense.tolist(), np.asfortranarray(dense)):
        assert model.rank(same) == ranking
    for same in (rows.X_test.tocsc(), rows.X_test.tocoo(), sparse.csr_matrix(rows.X_test)):
        assert model.rank(same) == ranking


def test_parameters_can_be_read_set_and_cloned(case):
    model = case.make()
    params = model.get_params(deep=False)
    assert list(params) == list(inspect.signature(type(model)).parameters)
    other = clone(model)
    assert other is not model
    assert repr(other.get_params()) == repr(model.get_params())
    name = next(name for name in ("seed", "candidates", "threads") if name in params)
    assert other.set_params(**{name: 77}) is other
    assert (getattr(other, name), getattr(model, name)) == (77, params[name])
    assert f"{name}=77" in repr(other)
    with pytest.raises(InputError, match=f"Did you mean '{name}'"):
        model.set_params(**{name[:-1]: 1})


def test_nested_parameters_are_listed_and_set(case):
    model = case.make()
    nested = {name: value for name, value in model.get_params().items() if "__" in name}
    assert clone(model).set_params(**nested).get_params().keys() == model.get_params().keys()
    for name, value in nested.items():
        assert repr(clone(model).set_params(**{name: value}).get_params()[name]) == repr(value)


def test_a_clone_of_a_fitted_model_is_not_fitted(model, rows):
    with pytest.raises(NotFittedError):
        clone(model).rank(rows.X_test)


@pytest.mark.parametrize("ask", ["rank", "predict", "score", "state"])
def test_use_before_fit_is_refused(case, rows, ask):
    model = case.make()
    arguments = {"state": [], "score": [rows.X_test, rows.Y_test]}.get(ask, [rows.X_test])
    with pytest.raises(NotFittedError, match=f"this {type(model).__name__} must be fitted first.*Call fit"):
        getattr(model, ask)(*arguments)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3", None])
def test_a_k_that_is_no_positive_whole_number_is_refused(model, rows, k):
    with pytest.raises(InputError, match="k must be a whole number of at least 1; got"):
        model.rank(rows.X_test, k=k)


@pytest.mark.parametrize("case", FEATURES, indirect=True)
@pytest.mark.parametrize("ask", ["rank", "predict"])
def test_features_that_do_not_fit_are_refused(model, rows, ask):
    X = rows.X_test.toarray()
    bad = X.copy()
    bad[2, 5] = np.nan
    for wrong, message in [
        (X[:, :-1], "X must have the 24 features this model was fitted with; got 23"),
        (np.hstack([X, X]), "got 48"),
        (
            X[0],
            r"X must be a matrix of rows and columns; got 1 dimension\(s\). Reshape a single row",
        ),
        (bad, r"X must hold finite numbers; got nan \(1 such values\)"),
        (sparse.csr_array(bad), "X must hold finite numbers"),
        (np.where(np.isnan(bad), np.inf, bad), "X must hold finite numbers; got inf"),
        (np.full((1, 24), 1e300), "X in float32 must hold finite numbers"),
        (X.astype(complex), "X must contain real numbers; got values of type complex128"),
        (X.astype(str), "X must contain real numbers"),
        (X.astype(object), "X must contain real numbers; got values of type object"),
    ]:
        with pytest.raises(InputError, match=message):
            getattr(model, ask)(wrong)


@pytest.mark.parametrize("case", TEXTS, indirect=True)
@pytest.mark.parametrize("ask", ["rank", "predict"])
def test_texts_that_do_not_fit_are_refused(model, ask):
    for wrong in (["word1", 3], [None], [b"word1"]):
        with pytest.raises(InputError, match="text"):
            getattr(model, ask)(wrong)


@pytest.mark.parametrize("case", FEATURES, indirect=True)
def test_labels_that_do_not_fit_are_refused_and_the_model_stays_unfitted(case, rows):
    X, Y = rows.X_train, rows.Y_train.toarray()
    nan = Y.copy()
    nan[0, 0] = np.nan
    for wrong, message in [
        (Y[:-1], "Y must have one row for each of the 48 rows of X; got 47 rows"),
        (np.zeros_like(Y), "Y must hold at least one label; got none. Check"),
        (np.empty((48, 0)), "Y must hold at least one label"),
        (-Y, "Y must contain 0 and 1; got -1.0"),
        (nan, "Y must hold finite numbers"),
        ([[0]] * 47, "Y must have one row for each of the 48 rows of X"),
        ([["red"]] * 48, "Y must contain integer label ids.*LabelVocab"),
        ([[-1]] * 48, "Y must contain label ids from 0"),
        (["red"] * 48, "Y as a list must have one collection of label ids per row"),
    ]:
        model = case.make()
        with pytest.raises(InputError, match=message):
            model.fit(X, wrong)
        with pytest.raises(NotFittedError):
            model.rank(X)


@pytest.mark.parametrize("case", FEATURES, indirect=True)
def test_training_data_without_rows_or_features_are_refused(case):
    with pytest.raises(InputError, match="X must have at least one row and one feature"):
        case.make().fit(np.empty((0, 3)), np.empty((0, 2)))
    with pytest.raises(InputError, match="X must have at least one row and one feature"):
        case.make().fit(np.empty((2, 0)), np.ones((2, 2)))
    with pytest.raises(InputError, match="X must hold finite numbers"):
        case.make().fit([[np.inf, 0.0]], [[0]])
