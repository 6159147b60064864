"""`PrototypeClassifiers`: start from prototypes, learn what rows show beyond them, and are chosen on held-out rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from prototype_problem import word_pairs
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone

import tagwood
from tagwood import Ensemble, PrototypeModel, TextEncoder
from tagwood.errors import InputError
from tagwood.neural.prime import classifiers
from tagwood.neural.prime.classifiers import PrototypeClassifiers, train_classifiers

ENCODER = TextEncoder("bag", dimension=64, vocabulary=400, threads=1)


@pytest.fixture(scope="module")
def problem():
    texts, labels, names = word_pairs(8)
    n_test = len(names)
    return texts[n_test:], labels[n_test:], names, texts[:n_test], labels[:n_test]


@pytest.fixture(scope="module")
def prototypes(problem):
    texts, labels, names, *_ = problem
    return PrototypeModel(encoder=ENCODER, epochs=0, threads=1).fit(texts, labels, label_texts=names)


@pytest.fixture(scope="module")
def fitted(problem, prototypes):
    texts, labels, names, *_ = problem
    return prototypes.with_classifiers(texts, labels, label_texts=names)


def unit_rows(n_rows, dimension, seed):
    rows = np.random.default_rng(seed).normal(size=(n_rows, dimension)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def mixture(seed=0):
    """Rows of four labels with two clusters each, so that a mean says little; and their means."""
    centres = unit_rows(8, 8, 1)
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, 8, 400)
    X = centres[cluster] + 0.3 * rng.normal(size=(400, 8)).astype(np.float32)
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    Y = sparse.csr_array(np.eye(4, dtype=np.float32)[cluster % 4])
    means = np.asarray(Y.T @ X)
    return X, Y, (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32)


def test_without_weight_of_the_rows_classifiers_are_the_prototypes():
    X, Y, means = mixture()
    np.testing.assert_array_equal(train_classifiers(X, Y, means, 0.0, 1)[0], means)
    np.testing.assert_allclose(train_classifiers(X, Y, means, 1e-7, 1)[0], means, atol=1e-4)


def test_classifiers_minimise_their_distance_to_the_prototypes_plus_the_losses(monkeypatch):
    monkeypatch.setattr(classifiers, "_STEPS", 400)
    X, Y, means = mixture()
    C, found, threshold = 0.05, *train_classifiers(X, Y, means, 0.05, 1)
    X, means = X.astype(np.float64), means.astype(np.float64)  # for differences in place of gradients
    scores, own = X @ means.T, Y.toarray() > 0
    scale = 2 / (scores[own].mean() - scores[~own].mean())
    assert threshold == pytest.approx((scores[own].mean() + scores[~own].mean()) / 2, abs=1e-5)
    for label in range(4):
        signs = np.where(own[:, label], scale, -scale)

        def loss(w, signs=signs, label=label):
            slack = np.maximum(0, 1 - signs * (X @ w - threshold))
            return 0.5 * np.sum((w - means[label]) ** 2) + C * np.sum(slack**2)

        best = minimize(loss, means[label], method="BFGS")
        np.testing.assert_allclose(found[label], best.x, atol=2e-3)
        assert loss(found[label]) < 0.9 * loss(means[label])


def test_a_label_that_no_row_comes_near_keeps_its_prototype(monkeypatch):
    monkeypatch.setattr(classifiers, "_NEAREST", 1)
    X, Y, means = mixture()
    X, means = (np.column_stack([0.9 * rows, np.full(len(rows), 0.19**0.5)]).astype(np.float32) for rows in (X, means))
    far = -np.eye(9, dtype=np.float32)[8:]  # no row is on its side
    Y = sparse.csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], 5))
    found, _ = train_classifiers(X, Y, np.concatenate([means, far]), 0.3, 1)
    np.testing.assert_array_equal(found[4], far[0])
    assert not np.allclose(found[:4], means, atol=0.01)


def test_rows_teach_what_means_do_not_show():
    X, Y, means = mixture()
    X_test, Y_test, _ = mixture(seed=5)
    true = Y_test.toarray().argmax(axis=1)
    found, _ = train_classifiers(X, Y, means, 0.3, 1)
    right = [np.mean((X_test @ W.T).argmax(axis=1) == true) for W in (means, found)]
    assert right[1] > right[0] + 0.03


def test_cost_is_chosen_on_held_out_rows_and_may_keep_the_prototypes(monkeypatch):
    X, Y, _ = mixture()
    texts, seen = unit_rows(4, 8, 9), []
    original = classifiers.train_classifiers

    def noted(rows, *rest):
        seen.append((len(rows), rest[2]))
        return original(rows, *rest)

    monkeypatch.setattr(classifiers, "train_classifiers", noted)
    chosen = classifiers.choose_cost(X, texts, Y, 1, 1)
    assert seen == [(320, C) for C in classifiers.COSTS]
    assert chosen > 0
    assert classifiers.choose_cost(X[:100], texts, Y[:100], 0, 1) == 0.03  # too few to hold some out
    monkeypatch.setattr(classifiers, "train_classifiers", lambda X, Y, start, C, threads: ((1 - C) * start[::-1], 0.0))
    monkeypatch.setattr(classifiers, "COSTS", (0.0, 0.1))
    assert classifiers.choose_cost(X, texts, Y, 0, 1) == 0.0  # equal: the prototypes


def test_classifiers_rank_are_stored_pickled_and_cloned(tmp_path, problem, fitted):
    texts, labels, names, test_texts, test_labels = problem
    ranking = fitted.rank(test_texts)
    assert np.mean(ranking.rows([0]).labels[0] == test_labels[0][0]) == 1
    assert fitted.score(test_texts, test_labels) > 0.9
    tagwood.save(fitted, tmp_path / "model")
    for again in (tagwood.load(tmp_path / "model"), pickle.loads(pickle.dumps(fitted))):
        assert again.rank(test_texts) == ranking
        assert (again.C_, again.threshold_) == (fitted.C_, fitted.threshold_)
    copy = clone(fitted)
    assert not hasattr(copy, "index_")
    copy.fit(texts, labels, label_texts=names)
    assert copy.score(test_texts, test_labels) > 0.9
    sets = fitted.predict(test_texts)
    assert fitted.rank(test_texts, k=50).above(fitted.threshold_).to_sets().nnz == sets.nnz > 0


def test_classifiers_know_all_labels_of_their_model_and_obey_filters(problem, prototypes):
    texts, labels, names, test_texts, _ = problem
    few = [row if row[0] < 40 else [0] for row in labels]
    found = prototypes.with_classifiers(texts, few, label_texts=names)
    assert found.n_labels_ == len(names)
    only = found.rank(test_texts, k=3, restrict=[1, 44])
    assert set(only.labels.tolist()) == {1, 44}
    pairs = np.array([[0, 1], [3, 44]])
    scores = found.score_labels(test_texts, pairs)
    assert scores[0] == pytest.approx(only.to_csr()[0, 1], abs=1e-5)


def test_classifiers_join_an_ensemble(problem, prototypes, fitted):
    *_, test_texts, test_labels = problem
    assert Ensemble([prototypes, fitted]).score(test_texts, test_labels) > 0.9


def test_wrong_use_is_named(problem, prototypes):
    texts, labels, names, *_ = problem
    with pytest.raises(InputError, match="need label_texts: one text for each of the 45 labels"):
        prototypes.with_classifiers(texts, labels)
    assert prototypes.with_classifiers(texts, labels, C=0.1).C_ == 0.1
    with pytest.raises(InputError, match="y must have the 45 labels of the model; got 46"):
        prototypes.with_classifiers(texts, [[45]] * len(texts), label_texts=names)
    with pytest.raises(InputError, match="C must be"):
        prototypes.with_classifiers(texts, labels, C=-1.0)
    with pytest.raises(InputError, match="encoder must be a TextEncoder"):
        PrototypeClassifiers("minilm").fit(texts, labels, label_texts=names)
    with pytest.raises(InputError, match=r"prototypes must have the shape \(45, 64\); got \(45, 3\)"):
        PrototypeClassifiers(prototypes.encoder_, C=0.1).fit(texts, labels, prototypes=np.ones((45, 3)))
