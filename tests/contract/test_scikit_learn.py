"""Models inside scikit-learn's own objects: clone, Pipeline, grid search, cross-validation, scorers."""

import pickle

import numpy as np
import pytest
from model_factories import CASES, cases
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError as SklearnNotFitted
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted
from tree_problems import planted_problem

from tagwood import Disentangled, LinearTree, Solver, Tagger, TfidfEncoder

TOPICS = ["apple pear plum", "dog cat horse", "red green blue", "one two three"]
FOLDS = KFold(2, shuffle=True, random_state=0)


@pytest.fixture
def texts():
    """Texts of one or two topics, and their topics."""
    rng = np.random.default_rng(0)
    Y = np.zeros((40, 4), dtype=np.float32)
    for row in range(40):
        Y[row, [row % 4, rng.integers(4)]] = 1
    words = [" ".join(rng.permutation(" ".join(TOPICS[t] for t in np.flatnonzero(y)).split())) for y in Y]
    return words, sparse.csr_array(Y)


def words_to_labels(**options):
    return Pipeline([("encoder", TfidfEncoder(threads=1)), ("model", LinearTree(threads=1).set_params(**options))])


def test_a_clone_has_equal_parameters_and_no_memory():
    model = LinearTree(C=0.5, solver=Solver(bias=2.0), threads=1).fit(np.eye(3), [[0], [1], [2]])
    other = clone(model)
    assert other.get_params() == model.get_params()
    assert repr(other) == repr(model)
    assert repr(model).startswith("LinearTree(C=0.5, solver=Solver(")
    assert repr(model).endswith("), threads=1)")
    check_is_fitted(model)
    with pytest.raises(SklearnNotFitted):
        check_is_fitted(other)
    assert is_classifier(model)


@pytest.mark.parametrize("encoder", [TfidfEncoder(threads=1), TfidfVectorizer()])
def test_a_pipeline_from_texts_to_label_sets(texts, encoder):
    words, Y = texts
    pipeline = make_pipeline(encoder, LinearTree(max_leaf_size=2, threads=1))
    predicted = pipeline.fit(X=words, y=Y).predict(words)
    assert (predicted != Y).nnz == 0
    assert pipeline.score(words, Y) == pytest.approx(1.0)
    assert pipeline.predict(["a cat and a dog"]).toarray().tolist() == [[0, 1, 0, 0]]
    assert clone(pipeline).fit(words, Y.toarray()).predict(words).toarray().tolist() == Y.toarray().tolist()
    again = pickle.loads(pickle.dumps(pipeline))
    assert (again.predict(words) != predicted).nnz == 0


def test_sample_weights_pass_through_a_pipeline(texts):
    words, Y = texts
    pipeline = words_to_labels().fit(words, Y, model__sample_weight=np.linspace(0.5, 1, 40))
    assert (pipeline.predict(words) != Y).nnz == 0


def precision_at_1(model, X, Y):
    ranking = model.rank(X, k=1)
    return float(np.mean(Y[np.arange(Y.shape[0]), ranking.labels]))


@pytest.mark.parametrize("scoring", [None, precision_at_1, make_scorer(f1_score, average="micro", zero_division=0.0)])
@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (LinearTree(threads=1), {"C": [1e-4, 1.0], "solver__link": ["l3-hinge", "l2-hinge"]}),
        (Disentangled(threads=1), {"base__C": [1e-4, 1.0], "copies": [1, 2]}),
        (Disentangled(LinearTree(), threads=1), {"base__C": [1e-4, 1.0], "copy_settings__growth": [1.1]}),
    ],
)
def test_a_grid_search_over_nested_names(model, grid, scoring):
    X, Y = planted_problem(n_rows=60)
    search = GridSearchCV(model, grid, scoring=scoring, cv=FOLDS, error_score="raise").fit(X, Y)
    assert search.best_params_[next(name for name in grid if name.endswith("C"))] == 1.0
    assert search.best_score_ > 0.6
    assert search.best_estimator_.rank(X, k=1).n_rows == 60


@pytest.mark.parametrize("scoring", [None, make_scorer(f1_score, average="micro", zero_division=0.0)])
def test_a_grid_search_through_a_pipeline(texts, scoring):
    words, Y = texts
    grid = {"model__C": [1e-4, 1.0], "encoder__ngrams": [(1, 1), (1, 2)]}
    search = GridSearchCV(words_to_labels(), grid, scoring=scoring, cv=FOLDS, error_score="raise").fit(words, Y)
    assert search.best_score_ > 0.9
    if scoring is not None:  # the order of labels is easy here, even with a tiny C
        assert search.best_params_["model__C"] == 1.0


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("scoring", [None, make_scorer(f1_score, average="micro", zero_division=0.0)])
def test_a_grid_search_over_a_tagger(texts, scoring, names):
    words, Y = texts
    labels = Y
    if names:
        if scoring is not None:
            pytest.skip("scikit-learn's own metrics take matrices")
        labels = np.empty(40, dtype=object)
        labels[:] = [[TOPICS[label] for label in row.indices] for row in Y]
    grid = {"model__C": [0.1, 1.0], "encoder__ngrams": [(1, 1), (1, 2)]}
    search = GridSearchCV(Tagger(), grid, scoring=scoring, cv=FOLDS, error_score="raise").fit(words, labels)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.tag_one("a cat and a dog", k=1).names == ([TOPICS[1]] if names else ["1"])


@pytest.mark.parametrize("name", [name for name in cases() if not CASES[name.values[0]].needs_label_texts])
def test_cross_validation_uses_the_score_of_the_model(name):
    case = CASES[name]
    rows = case.rows(n_rows=48, n_labels=12, n_colours=3, n_features=24, seed=1)
    scores = cross_val_score(case.make(), rows.X_train, rows.Y_train.toarray(), cv=FOLDS, error_score="raise")
    assert scores.shape == (2,)
    assert np.all((scores > 0.4) & (scores <= 1))
    half = case.make()
    train, test = next(FOLDS.split(rows.Y_train))
    pick = (lambda ids: [rows.X_train[i] for i in ids]) if case.texts else (lambda ids: rows.X_train[ids])
    half.fit(pick(train), y=rows.Y_train[train])
    assert half.score(pick(test), y=rows.Y_train[test]) == pytest.approx(scores[0], abs=1e-6)


def test_models_are_sent_to_other_processes(texts):
    words, Y = texts
    alone = cross_val_score(words_to_labels(), words, Y.toarray(), cv=FOLDS)
    assert cross_val_score(words_to_labels(), words, Y.toarray(), cv=FOLDS, n_jobs=2).tolist() == alone.tolist()


def test_predictions_by_cross_validation():
    X, Y = planted_problem(n_rows=60)
    predicted = cross_val_predict(LinearTree(threads=1), X, Y, cv=3)
    assert predicted.shape == Y.shape
    assert f1_score(Y, predicted, average="micro") > 0.7
