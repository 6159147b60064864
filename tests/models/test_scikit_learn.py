"""`LinearTree` inside scikit-learn: clone, Pipeline, grid search. Warnings are errors."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError as SklearnNotFitted
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted
from tree_problems import planted_problem

from tagwood import LinearTree, Solver

TOPICS = ["apple pear plum", "dog cat horse", "red green blue", "one two three"]


@pytest.fixture
def texts():
    """Texts of one or two topics, and their topics."""
    rng = np.random.default_rng(0)
    Y = np.zeros((40, 4), dtype=np.float32)
    for row in range(40):
        Y[row, [row % 4, rng.integers(4)]] = 1
    words = [" ".join(rng.permutation(" ".join(TOPICS[t] for t in np.flatnonzero(y)).split())) for y in Y]
    return words, sparse.csr_array(Y)


def test_a_clone_has_equal_parameters_and_no_memory():
    model = LinearTree(C=0.5, solver=Solver(bias=2.0), threads=1).fit(np.eye(3), [[0], [1], [2]])
    other = clone(model)
    assert other.get_params(deep=False) == model.get_params(deep=False)
    assert repr(other) == repr(model)
    assert repr(model).startswith("LinearTree(C=0.5, solver=Solver(")
    assert repr(model).endswith("), threads=1)")
    check_is_fitted(model)
    with pytest.raises(SklearnNotFitted):
        check_is_fitted(other)
    assert is_classifier(model)


def test_a_pipeline_from_texts_to_label_sets(texts):
    words, Y = texts
    pipeline = make_pipeline(TfidfVectorizer(), LinearTree(max_leaf_size=2, threads=1))
    predicted = pipeline.fit(words, Y).predict(words)
    assert (predicted != Y).nnz == 0
    assert pipeline.predict(["a cat and a dog"]).toarray().tolist() == [[0, 1, 0, 0]]
    assert clone(pipeline).fit(words, Y.toarray()).predict(words).toarray().tolist() == Y.toarray().tolist()


def test_sample_weights_pass_through_a_pipeline(texts):
    words, Y = texts
    pipeline = Pipeline([("tfidf", TfidfVectorizer()), ("model", LinearTree(threads=1))])
    pipeline.fit(words, Y, model__sample_weight=np.linspace(0.5, 1, 40))
    assert (pipeline.predict(words) != Y).nnz == 0


def precision_at_1(model, X, Y):
    ranking = model.rank(X, k=1)
    return float(np.mean(Y[np.arange(Y.shape[0]), ranking.labels]))


def test_a_grid_search_over_cost():
    X, Y = planted_problem(n_rows=60)
    grid = {"C": [1e-3, 1.0], "max_leaf_size": [4, 100]}
    search = GridSearchCV(LinearTree(threads=1), grid, scoring=precision_at_1, cv=3, error_score="raise")
    search.fit(X, Y)
    assert search.best_params_["C"] == 1.0
    assert search.best_score_ > 0.8
    assert search.best_estimator_.rank(X, k=1).n_rows == 60


def test_a_grid_search_through_a_pipeline_with_a_metric_of_scikit_learn(texts):
    words, Y = texts
    pipeline = Pipeline([("tfidf", TfidfVectorizer()), ("model", LinearTree(threads=1))])
    grid = {"model__C": [1e-4, 1.0], "tfidf__sublinear_tf": [False, True]}
    scorer = make_scorer(f1_score, average="micro", zero_division=0.0)
    search = GridSearchCV(pipeline, grid, scoring=scorer, cv=2, error_score="raise").fit(words, Y)
    assert search.best_params_["model__C"] == 1.0
    assert search.best_score_ > 0.9


def test_a_fitted_model_can_be_sent_to_another_process():
    X, Y = planted_problem(n_rows=60)
    model = LinearTree(max_leaf_size=4, threads=1).fit(X, Y)
    assert pickle.loads(pickle.dumps(model)).rank(X) == model.rank(X)


def test_predictions_by_cross_validation():
    X, Y = planted_problem(n_rows=60)
    predicted = cross_val_predict(LinearTree(threads=1), X, Y, cv=3)
    assert predicted.shape == Y.shape
    assert f1_score(Y, predicted, average="micro") > 0.7
