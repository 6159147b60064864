"""`PrototypeModel` as users meet it: learns, ranks, adds labels it never saw, is stored, and names what is wrong."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from prototype_problem import word_pairs
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import tagwood
from tagwood import PrototypeModel, TextEncoder
from tagwood._sparse import check_labels
from tagwood.errors import InputError, NotFittedError
from tagwood.neural.encoders.modules import StateMemory, TransformerModule
from tagwood.neural.prime.model import NEW_LABEL_WEIGHT
from tagwood.neural.prime.settings import (
    PRESETS,
    Batching,
    Prototype,
    PrototypeLoss,
    PrototypeSettings,
    PrototypeTraining,
)
from tagwood.neural.prime.training import SHARES, best_candidate, draw_trial_rows, untrained_prototypes
from tagwood.neural.training import Training
from tagwood.ranking import Ranking

ENCODER = TextEncoder("bag", dimension=64, vocabulary=400, threads=1)
QUICK = {"encoder": ENCODER, "epochs": 8, "batch_size": 64, "threads": 1}


@pytest.fixture(scope="module")
def problem():
    texts, labels, names = word_pairs(8)
    n_test = len(names)
    return texts[n_test:], labels[n_test:], names, texts[:n_test], labels[:n_test]


@pytest.fixture(scope="module")
def fitted(problem):
    texts, labels, names, *_ = problem
    return PrototypeModel(**QUICK, centroids="leave-one-out").fit(texts, labels, label_texts=names)


def right(model, texts, labels):
    return np.mean(model.rank(texts, k=1).labels == [row[0] for row in labels])


@pytest.mark.parametrize("preset", list(PRESETS))
def test_every_preset_learns(problem, preset):
    texts, labels, names, test_texts, test_labels = problem
    model = PrototypeModel(**QUICK, preset=preset, centroids=None if preset[0] != "p" else "momentum")
    model.fit(texts, labels, label_texts=names)
    assert right(model, test_texts, test_labels) > 0.9
    assert model.history_.losses[-1] < model.history_.losses[0]


def test_a_transformer_is_trained_too(problem):
    texts, labels, names, test_texts, test_labels = problem
    encoder = TextEncoder("small", dimension=32, layers=1, vocabulary=400, threads=1)
    model = PrototypeModel(encoder=encoder, centroids="momentum", epochs=6, batch_size=64, threads=1)
    model.fit(texts, labels, label_texts=names)
    assert right(model, test_texts, test_labels) > 0.5


def test_same_seed_same_model_and_prediction_changes_nothing(problem, fitted):
    texts, labels, names, test_texts, _ = problem
    again = PrototypeModel(**QUICK, centroids="leave-one-out").fit(texts, labels, label_texts=names)
    np.testing.assert_array_equal(again.index_.vectors, fitted.index_.vectors)
    first = fitted.rank(test_texts)
    assert fitted.rank(test_texts) == first
    rises = itertools.count()  # every epoch is accepted
    trained = [
        PrototypeModel(**QUICK, centroids="leave-one-out", seed=seed).fit(
            texts, labels, label_texts=names, evaluate=lambda _: next(rises)
        )
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(trained[0].index_.vectors, trained[1].index_.vectors)
    assert not np.array_equal(trained[0].index_.vectors, trained[2].index_.vectors)


def test_training_that_improves_nothing_is_undone_and_centroids_are_exact(problem):
    texts, labels, names, *_ = problem
    falls = itertools.count(0, -1)
    model = PrototypeModel(**QUICK, centroids="momentum").fit(
        texts, labels, label_texts=names, evaluate=lambda _: next(falls)
    )
    assert model.untrained_ == 0
    assert model.history_.best_epoch == 0
    Y = check_labels(labels)
    found = {
        share: untrained_prototypes(model.encode(texts), model.encode(names), Y, share)[: Y.shape[1]]
        for share in SHARES
    }
    assert any(np.allclose(model.index_.vectors, vectors, atol=1e-5) for vectors in found.values())


def test_a_frozen_network_sees_each_text_once_in_all_trainings_with_one_memory(problem, monkeypatch):
    texts, labels, names, *_ = problem
    seen = []
    forward = TransformerModule.forward
    monkeypatch.setattr(
        TransformerModule, "forward", lambda self, tokens: (seen.append(len(tokens)), forward(self, tokens))[1]
    )
    encoder = TextEncoder("minilm", trained="head", max_length=8, threads=1)
    encoder.memory = StateMemory()
    model = PrototypeModel(encoder=encoder, epochs=0, threads=1)
    model.fit(texts, labels, label_texts=names)
    first = sum(seen)
    again = PrototypeModel(**model.get_params(deep=False)).fit(texts, labels, label_texts=names)
    assert 0 < first == sum(seen) <= len({*texts, *names})
    again.forget_texts()
    again.rank(["a new text"])
    assert again.encoder_.memory is again.encoder.memory is None


def test_softmax_over_all_labels_learns(problem):
    texts, labels, names, test_texts, test_labels = problem
    settings = PrototypeModel(**QUICK, centroids="leave-one-out").resolved_settings()
    loss = PrototypeLoss(prototypes=0.0, texts=0.0, queries=0.0, regulariser=0.0, softmax=1.0)
    rises = itertools.count()
    model = PrototypeModel(preset=replace(settings, loss=loss), encoder=ENCODER, threads=1)
    model.fit(texts, labels, label_texts=names, evaluate=lambda _: next(rises))
    assert model.history_.losses[-1] < 0.8 * model.history_.losses[0]
    assert right(model, test_texts, test_labels) > 0.5


def test_scores_are_cosines_of_prototypes(problem, fitted):
    ranking = fitted.rank(problem[3][:4], k=3)
    assert np.abs(ranking.scores).max() <= 1.0 + 1e-5
    rows = np.repeat(np.arange(4), 3)
    scores = fitted.score_labels(problem[3][:4], np.stack([rows, ranking.labels], axis=1))
    np.testing.assert_allclose(scores, ranking.scores, atol=1e-5)


def test_sets_are_about_as_large_as_they_should_be(problem, fitted):
    found = fitted.predict(problem[3])
    assert found.shape == (len(problem[3]), 45)
    assert 0.6 < found.nnz / len(problem[3]) < 1.4


def test_restrictions_and_odd_texts(problem, fitted):
    assert set(fitted.rank(problem[3], k=5, restrict=[3, 7]).labels.tolist()) == {3, 7}
    assert 0 not in fitted.rank(problem[3], k=45, exclude=[0]).labels
    assert fitted.rank([], k=2).n_rows == 0
    assert fitted.rank(["", "unknown 樹"], k=99).n_rows == 2


def test_new_labels_are_ranked_by_their_text_alone(problem):
    texts, labels, names, test_texts, test_labels = problem
    new = np.arange(0, 45, 9)
    old = np.setdiff1d(np.arange(45), new)
    place = {int(label): number for number, label in enumerate(old)}
    kept = [row for row, label in enumerate(labels) if label[0] in place]
    model = PrototypeModel(**QUICK, centroids="leave-one-out").fit(
        [texts[row] for row in kept],
        [[place[labels[row][0]]] for row in kept],
        label_texts=[names[label] for label in old],
    )
    seen = [row for row, label in enumerate(test_labels) if label[0] in place]
    before = right(model, [test_texts[row] for row in seen], [[place[test_labels[row][0]]] for row in seen])
    ids = model.add_labels([names[label] for label in new])
    np.testing.assert_array_equal(ids, np.arange(old.size, 45))
    assert model.n_labels_ == 45
    found = model.rank([test_texts[label] for label in new], k=5)
    hits = np.mean([place_of in found.labels[5 * i : 5 * i + 5] for i, place_of in enumerate(ids)])
    assert hits >= 0.8  # by chance 5 of 45
    after = right(model, [test_texts[row] for row in seen], [[place[test_labels[row][0]]] for row in seen])
    assert after >= before - 0.1


def test_a_stored_model_answers_alike_and_takes_new_labels(tmp_path, problem, fitted):
    tagwood.save(fitted, tmp_path / "model")
    again = tagwood.load(tmp_path / "model")
    assert again.rank(problem[3]) == fitted.rank(problem[3])
    assert again.get_params(deep=False)["centroids"] == "leave-one-out"
    ids = again.add_labels(["oak sea"])
    twin = PrototypeModel.from_state(fitted.state())
    twin.add_labels(["oak sea"])
    assert again.rank(problem[3], k=3) == twin.rank(problem[3], k=3)
    assert ids.tolist() == [45]
    assert fitted.n_labels_ == 45
    half = again.add_labels(["oak sea"], weight=NEW_LABEL_WEIGHT / 2)
    np.testing.assert_allclose(again.index_.vectors[half], again.index_.vectors[ids] / 2, atol=1e-6)


def test_centroids_are_chosen_by_trials(problem):
    texts, labels, names, *_ = problem
    model = PrototypeModel(**{**QUICK, "epochs": 1}).fit(texts, labels, label_texts=names)
    assert set(model.trials_) == {"momentum", "leave-one-out", "none", "none, low margin"}
    assert model.centroids_ in (max(model.trials_, key=model.trials_.get), "none")
    few = PrototypeModel(**{**QUICK, "epochs": 1}).fit(texts[:90], labels[:90], label_texts=names)
    assert (few.centroids_, few.trials_) == ("leave-one-out", {})


def test_centroids_must_lead_by_more_than_luck():
    Y = tagwood._sparse.check_labels([[0]] * 200 + [[1]])[:200]
    good = Ranking.from_lists([[(0, 1.0)]] * 200, 2)
    hardly = Ranking.from_lists([[(0, 1.0)]] + [[(1, 1.0), (0, 0.5)]] * 199, 2)
    bad = Ranking.from_lists([[(1, 1.0), (0, 0.5)]] * 200, 2)
    almost = Ranking.from_lists([[(0, 1.0)]] * 199 + [[(1, 1.0), (0, 0.5)]], 2)
    best, measures = best_candidate(Y, {"none": bad, "momentum": good})
    assert best == "momentum"
    assert measures == pytest.approx({"none": 0.6309, "momentum": 1.0}, abs=1e-4)
    assert best_candidate(Y, {"none": bad, "momentum": hardly})[0] == "none"
    assert best_candidate(Y, {"none": good, "momentum": bad})[0] == "none"
    low = "none, low margin"
    assert best_candidate(Y, {"none": bad, low: almost, "momentum": good})[0] == low


def test_a_settled_copy_trains_without_trials(problem):
    texts, labels, names, *_ = problem
    preset = replace(PRESETS["prime"], batches=Batching(positives=1))
    model = PrototypeModel(**{**QUICK, "epochs": 1}, preset=preset)
    again = model.fit(texts, labels, label_texts=names).settled()
    assert not hasattr(again, "n_labels_")
    assert again.preset.batches == preset.batches
    again.fit(texts, labels, label_texts=names)
    assert (again.trials_, again.centroids_) == ({}, model.centroids_)
    np.testing.assert_array_equal(again.index_.vectors, model.index_.vectors)
    assert repr(PrototypeModel.from_state(model.state()).settled()) == repr(model.settled())


def test_a_margin_is_tried_unless_one_was_given(problem):
    texts, labels, names, *_ = problem
    preset = PrototypeSettings(loss=PrototypeLoss(high=0.2))
    model = PrototypeModel(**{**QUICK, "epochs": 1}, preset=preset)
    model.fit(texts, labels, label_texts=names)
    assert set(model.trials_) == {"momentum", "leave-one-out", "none"}
    assert model.settings_.loss.high == 0.2


def test_a_trial_keeps_all_rows_of_its_labels():
    Y = tagwood._sparse.check_labels([[i % 50] for i in range(1000)])
    labels, train, held = draw_trial_rows(Y, 0, n_rows=300)
    rows = np.concatenate([train, held])
    assert 300 <= rows.size < 340
    assert np.all(np.bincount(Y[rows].indices, minlength=50)[labels] == 20)
    assert not np.intersect1d(train, held).size


def test_early_stopping_holds_rows_out(problem):
    texts, labels, names, *_ = problem
    settings = Training(epochs=6, batch_size=64, learning_rate=1e-9, patience=1)
    model = PrototypeModel(encoder=ENCODER, preset="ngame", training=settings, threads=1)
    model.fit(texts, labels, label_texts=names)
    assert len(model.history_.measures) == 2  # nothing gets better at this rate
    assert model.history_.best_epoch == 0


def test_a_measure_sees_a_whole_model(problem):
    texts, labels, names, test_texts, test_labels = problem
    seen = []

    def evaluate(model):
        seen.append(right(model, test_texts, test_labels))
        return seen[-1]

    model = PrototypeModel(**QUICK, centroids="momentum").fit(texts, labels, label_texts=names, evaluate=evaluate)
    assert [model.untrained_, *model.history_.measures] == seen
    assert right(model, test_texts, test_labels) >= max(seen) - 0.05


def test_training_begins_with_a_fitted_encoder_and_leaves_it_alone(problem):
    texts, labels, names, *_ = problem
    encoder = TextEncoder(**{**ENCODER.get_params(deep=False), "seed": 5}).fit([*texts, *names])
    before = encoder.module.vectors.weight.detach().clone()
    model = PrototypeModel(encoder=encoder, preset="ngame", epochs=1, learning_rate=1e-9, threads=1)
    model.fit(texts, labels, label_texts=names)
    assert torch.allclose(model.encoder_.module.vectors.weight, before, atol=1e-6)
    PrototypeModel(encoder=encoder, preset="ngame", epochs=1, threads=1).fit(texts, labels, label_texts=names)
    assert torch.equal(encoder.module.vectors.weight, before)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"preset": "prim"}, "Did you mean 'prime'"),
        ({"encoder": "bagg"}, "got 'bagg'"),
        ({"centroids": "mean"}, "centroids must be one of 'auto', 'momentum'"),
        ({"epochs": -1}, "epochs must be a whole number of at least 0"),
        ({"preset": PrototypeSettings(prototype=3)}, "prototype must be a Prototype; got int"),
        ({"training": 3}, "training must be a Training; got int"),
        ({"index": "tree"}, "kind must be one of"),
    ],
)
def test_misuse_is_named(problem, change, words):
    texts, labels, names, *_ = problem
    with pytest.raises(InputError, match=words):
        PrototypeModel(**change).fit(texts[:45], labels[:45], label_texts=names)


def test_label_texts_are_asked_for(problem):
    texts, labels, names, *_ = problem
    with pytest.raises(InputError, match=r"needs label_texts.*fit\(X, y, label_texts=names\)"):
        PrototypeModel(**QUICK).fit(texts, labels)
    with pytest.raises(InputError, match="one text for each of the 45 labels; got 44"):
        PrototypeModel(**QUICK).fit(texts, labels, label_texts=names[1:])
    with pytest.raises(NotFittedError, match="must be fitted first"):
        PrototypeModel().rank(["oak"])


def test_free_vectors_can_be_shared_by_texts(problem):
    texts, labels, names, test_texts, test_labels = problem
    prototype = Prototype(centroids="none", free_vectors=9, clusters="texts")
    preset = PrototypeSettings(prototype=prototype)
    model = PrototypeModel(**QUICK, preset=preset)
    assert right(model.fit(texts, labels, label_texts=names), test_texts, test_labels) > 0.9


def test_models_are_pickled_and_cloned(problem, fitted):
    test_texts = problem[3]
    again = pickle.loads(pickle.dumps(fitted))
    assert again.rank(test_texts) == fitted.rank(test_texts)
    assert again.add_labels(["oak sea"]).tolist() == [45]
    preset = PrototypeSettings(batches=Batching(positives=1))
    unfitted = PrototypeModel(**QUICK, preset=preset, training=PrototypeTraining(epochs=2))
    for copy in (pickle.loads(pickle.dumps(unfitted)), clone(unfitted)):
        assert repr(copy) == repr(unfitted)
        assert not hasattr(copy, "n_labels_")
    changed = clone(unfitted).set_params(encoder__dimension=32, training__epochs=3, seed=1)
    assert (changed.encoder.dimension, changed.training.epochs) == (32, 3)
    assert (unfitted.encoder.dimension, unfitted.training.epochs) == (64, 2)


def test_custom_settings_are_stored(problem, tmp_path):
    texts, labels, names, test_texts, _ = problem
    preset = replace(PRESETS["ngame"], loss=replace(PRESETS["ngame"].loss, high=0.2))
    model = PrototypeModel(**{**QUICK, "epochs": 1}, preset=preset).fit(texts, labels, label_texts=names)
    tagwood.save(model, tmp_path / "model")
    again = tagwood.load(tmp_path / "model")
    assert (again.preset, again.settings_) == (preset, model.settings_)
    assert again.rank(test_texts) == model.rank(test_texts)


def test_models_work_in_scikit_learn(problem):
    texts, labels, names, *_ = problem
    Y = np.zeros((len(texts), len(names)))
    Y[np.arange(len(texts)), np.ravel(labels)] = 1
    model = PrototypeModel(**QUICK, preset="ngame")
    search = GridSearchCV(model, {"epochs": [1, 4], "encoder__dimension": [32]}, cv=2)
    search.fit(texts, Y, label_texts=names)
    assert search.best_score_ > 0.9
    classifiers = search.best_estimator_.with_classifiers(texts, Y, label_texts=names)
    assert cross_val_score(classifiers, texts, Y, cv=2, params={"label_texts": names}).min() > 0.9


def test_without_epochs_prototypes_are_the_means_of_texts_and_rows(problem):
    texts, labels, names, *_ = problem
    model = PrototypeModel(**{**QUICK, "epochs": 0}).fit(texts, labels, label_texts=names)
    assert model.trials_ == {}
    assert model.history_.losses == []
    Y = check_labels(labels)
    assert any(
        np.allclose(model.index_.vectors, untrained_prototypes(model.encode(texts), model.encode(names), Y, share))
        for share in SHARES
    )
