"""Ensembles: joined rankings by hand, mixed inputs, exact scores of missing candidates, storage, misuse."""

from __future__ import annotations

import numpy as np
import pytest
from ensemble_problem import LABELS, TEXTS, Fixed, members

import tagwood
from tagwood import Ensemble, LinearTree, SoftmaxTree, Tagger, TfidfEncoder
from tagwood.errors import InputError, NotFittedError
from tagwood.models.base import takes_texts


def test_scaled_scores_are_averaged():
    one, two = Fixed([[0.0, 1.0, 0.5]]), Fixed([[30.0, 10.0, 20.0]])
    assert Ensemble([one, two]).rank([0], k=3)[0] == [(0, 0.5), (1, 0.5), (2, 0.5)]
    assert Ensemble([one, two], weights=[3, 1]).rank([0], k=3)[0] == [(1, 0.75), (2, 0.5), (0, 0.25)]


def test_candidates_of_others_are_scored_too():
    one, two = Fixed([[9.0, 8.0, 7.0, 0.0]]), Fixed([[0.0, 8.0, 7.0, 9.0]])
    assert Ensemble([one, two], candidates=1).rank([0], k=1)[0] == [(0, 0.5)]  # the other's lowest of two
    assert Ensemble([one, two], candidates=2).rank([0], k=1)[0] == [(1, pytest.approx(8 / 9, abs=1e-5))]


def test_a_member_that_cannot_score_gives_its_lowest():
    one, two = Fixed([[0.9, 0.1, 0.2]], complete=False), Fixed([[0.0, 1.0, 0.5]])
    assert Ensemble([one, two], candidates=2, weights=[1, 3]).rank([0], k=2)[0] == [(1, 0.75), (2, 0.375)]


def test_places_are_averaged():
    one, two = Fixed([[0.9, 0.1, 0.2]]), Fixed([[0.0, 1.0, 0.5]])
    found = Ensemble([one, two], how="rank").rank([0], k=3)[0]
    assert found == [(0, pytest.approx(2 / 3, abs=1e-5)), (1, pytest.approx(2 / 3, abs=1e-5)), (2, 0.5)]


def test_probabilities_need_held_out_rows_and_then_decide():
    random = np.random.default_rng(0)
    true = random.integers(0, 4, size=400)
    good = np.eye(4)[true] * 0.5 + random.random((400, 4)) * 0.4
    bad = random.random((400, 4)) * 100
    ensemble = Ensemble([Fixed(good.tolist()), Fixed(bad.tolist())], how="probability")
    with pytest.raises(NotFittedError, match=r"calibrate\(X, Y\) with held-out rows"):
        ensemble.rank(np.arange(400))
    ensemble.calibrate(np.arange(400), [[label] for label in true])
    found = ensemble.rank(np.arange(400), k=1).labels
    assert np.mean(found == true) > 0.95
    assert np.mean(Ensemble(ensemble.members).rank(np.arange(400), k=1).labels == true) < 0.9


def test_fit_keeps_rows_back_to_calibrate():
    ensemble = Ensemble(members()).fit(TEXTS * 40, LABELS * 40)
    assert ensemble.calibrators_ is not None
    found = ensemble.rank(["salt of the sea"], k=2)
    assert found.labels.tolist()[0] == 1
    assert 0.8 < found.scores[0] <= 1.0
    assert found.scores[1] < 0.2
    assert ensemble.predict(["salt of the sea"]).toarray().tolist() == [[0, 1]]
    assert Ensemble(members(), holdout=0.0).fit(TEXTS * 40, LABELS * 40).calibrators_ is None
    assert Ensemble(members()).fit(TEXTS, LABELS).calibrators_ is None  # too few rows


def test_sets_are_voted():
    one, two, three = Fixed([[0.9, 0.1]]), Fixed([[0.9, 0.9]]), Fixed([[0.1, 0.1]])
    assert Ensemble([one, two, three]).predict([0]).toarray().tolist() == [[1, 0]]
    assert Ensemble([one, two], weights=[1, 2]).predict([0]).toarray().tolist() == [[1, 1]]


def test_restrictions_reach_the_members():
    one, two = Fixed([[0.9, 0.5, 0.1]]), Fixed([[0.9, 0.1, 0.5]])
    assert set(Ensemble([one, two]).rank([0], k=3, restrict=[1, 2]).labels.tolist()) == {1, 2}


def test_members_that_read_texts_and_features_are_fitted_together():
    given = members()
    ensemble = Ensemble(given)
    assert takes_texts(ensemble)
    found = ensemble.fit(TEXTS, LABELS).rank(["wood of an oak", "salt of the sea"], k=1)
    assert found.labels.tolist() == [0, 1]
    assert not hasattr(given[0], "n_labels_")  # copies were fitted
    assert ensemble.predict(["wood of an oak"]).shape == (1, 2)


def test_fitted_models_and_taggers_are_joined_by_one_line():
    tree = Tagger(TfidfEncoder(ngrams=(1, 1)), LinearTree(threads=1)).fit(TEXTS, LABELS)
    softmax = SoftmaxTree(tree="huffman", epochs=30, threads=1).fit(TEXTS, LABELS)
    for first in (tree, (tree.encoder_, tree.model_)):
        assert Ensemble([first, softmax]).rank(["salt of the sea"], k=1).labels.tolist() == [1]


def test_a_tagger_takes_an_ensemble(tmp_path):
    tagger = Tagger(model=Ensemble(members())).fit(
        TEXTS, [["tree"] if row == [0] else ["water"] for row in LABELS]
    )
    assert tagger.tag_one("salt of the sea", k=1).names == ["water"]
    tagger.save(tmp_path / "model")
    assert Tagger.load(tmp_path / "model").tag_one("wood of an oak", k=1).names == ["tree"]


def test_a_stored_ensemble_answers_alike(tmp_path):
    ensemble = Ensemble(members(), weights=[1, 3], candidates=2).fit(TEXTS, LABELS).calibrate(TEXTS, LABELS)
    tagwood.save(ensemble, tmp_path / "model")
    again = tagwood.load(tmp_path / "model")
    assert again.rank(TEXTS[:6]) == ensemble.rank(TEXTS[:6])
    assert again.get_params()["weights"] == [1, 3]
    again.how = ensemble.how = "scaled"
    assert again.rank(TEXTS[:6]) == ensemble.rank(TEXTS[:6])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Ensemble([]), "members must be a list of models"),
        (lambda: Ensemble([3]), r"a member must be a model, a pair .* got int"),
        (
            lambda: Ensemble([Fixed(), Fixed([[0.0, 1.0]])]),
            r"members must have the same labels; got \[1, 2\]",
        ),
        (lambda: Ensemble([Fixed(), Fixed()], weights=[1]), "one positive number for each of the 2 members"),
        (lambda: Ensemble([Fixed()], how="scald"), "Did you mean 'scaled'"),
        (lambda: Ensemble([Fixed()], holdout=1), "holdout must be a number from 0.0 to 0.9"),
        (
            lambda: Ensemble(
                [
                    LinearTree(threads=1).fit(np.eye(2), [[0], [1]]),
                    SoftmaxTree(epochs=1, threads=1).fit(TEXTS, LABELS),
                ]
            ),
            r"needs its encoder.*Give the pair",
        ),
    ],
)
def test_misuse_is_named(make, words):
    with pytest.raises(InputError, match=words):
        make().rank(["oak"])


def test_prediction_changes_nothing_and_members_may_grow():
    one, two = Fixed([[0.9, 0.5]]), Fixed([[0.1, 0.5]])
    ensemble = Ensemble([one, two])
    before = dict(vars(ensemble))
    ensemble.rank([0])
    ensemble.predict([0])
    assert vars(ensemble) == before
    assert ensemble.n_labels_ == 2
    assert not hasattr(Ensemble([LinearTree()]), "n_labels_")


def test_unfitted_members_are_named():
    with pytest.raises(NotFittedError, match="must be fitted first"):
        Ensemble([LinearTree()]).rank(np.eye(2))


def test_a_settled_ensemble_is_unfitted_and_keeps_what_members_chose():
    class Chooser(Fixed):
        def settled(self):
            return Chooser([[0.1, 0.2]])

    pairs = [(TfidfEncoder(), one) for one in (Chooser([[0.9, 0.5]]), Fixed([[0.1, 0.5]]))]
    ensemble = Ensemble(pairs, candidates=7)
    again = ensemble.settled()
    assert again.candidates == 7
    assert [model.scores for _, model in again.members] == [[[0.1, 0.2]], [[0.1, 0.5]]]


def test_members_are_trained_again_on_all_rows_after_calibration():
    again, once = (Ensemble(members(), refit=refit).fit(TEXTS * 40, LABELS * 40) for refit in (True, False))
    assert again.joint_.plain() == once.joint_.plain()
    whole = Ensemble(members(), holdout=0.0).fit(TEXTS * 40, LABELS * 40)
    for place in range(2):
        refitted, first, all_rows = (one.members_[place] for one in (again, once, whole))
        scores = [one.model.rank(one.encode(TEXTS[:6])).scores for one in (refitted, first, all_rows)]
        np.testing.assert_array_equal(scores[0], scores[2])
        assert not np.array_equal(scores[0], scores[1])
