"""Ensembles: joined rankings, mixed inputs, scores of missing candidates, the joint curve, storage, misuse."""

from __future__ import annotations

import numpy as np
import pytest
from ensemble_problem import LABELS, TEXTS, Fixed, members

import tagwood
from tagwood import Ensemble, LinearTree, SoftmaxTree, Tagger, TfidfEncoder
from tagwood.errors import InputError, NotFittedError
from tagwood.features.base import takes_texts
from tagwood.metrics import evaluate
from tagwood.models.ensemble.fusion import JointLogistic
from tagwood.models.ensemble.members import Candidates
from tagwood.ranking import Ranking


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


def test_fit_keeps_rows_back_to_calibrate():
    ensemble = Ensemble(members()).fit(TEXTS * 40, LABELS * 40)
    assert ensemble.joint_ is not None
    found = ensemble.rank(["salt of the sea"], k=2)
    assert found.labels.tolist()[0] == 1
    assert 0.8 < found.scores[0] <= 1.0
    assert found.scores[1] < 0.2
    assert ensemble.predict(["salt of the sea"]).toarray().tolist() == [[0, 1]]
    assert Ensemble(members(), holdout=0.0).fit(TEXTS * 40, LABELS * 40).joint_ is None
    assert Ensemble(members()).fit(TEXTS, LABELS).joint_ is None  # too few rows


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
    ensemble = Ensemble(members(), weights=[1, 3], candidates=2).fit(TEXTS, LABELS)
    tagwood.save(ensemble, tmp_path / "model")
    again = tagwood.load(tmp_path / "model")
    assert again.rank(TEXTS[:6]) == ensemble.rank(TEXTS[:6])
    assert again.get_params()["weights"] == [1, 3]


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
        (lambda: Ensemble([Fixed()], weights=[1]).calibrate([0], [[0]]), "Leave weights out"),
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


def problem(n_rows=400, n_labels=6, seed=0):
    """Return true labels, scores that know them and scores of chance, each (n_rows, n_labels)."""
    random = np.random.default_rng(seed)
    true = random.integers(0, n_labels, size=n_rows)
    good = np.eye(n_labels)[true] + 0.7 * random.standard_normal((n_rows, n_labels))
    return true, good, random.standard_normal(good.shape)


def right_cells(true, good):
    return np.eye(good.shape[1])[true].ravel()


def test_a_member_of_chance_hardly_counts_and_one_that_harms_not_at_all():
    true, good, chance = problem()
    right = right_cells(true, good)
    assert JointLogistic.fit([good.ravel(), chance.ravel()], right).shares[0] > 0.9
    assert JointLogistic.fit([good.ravel(), -good.ravel()], right).shares.tolist() == [1.0, 0.0]
    both = JointLogistic.fit([-good.ravel(), -good.ravel()], right)
    assert both.weights.tolist() == [0.0, 0.0]
    assert both.shares.tolist() == [0.5, 0.5]


def test_probabilities_are_right_on_average_and_rise_with_each_score():
    true, good, chance = problem()
    right = right_cells(true, good)
    joint = JointLogistic.fit([good.ravel(), 100 * good.ravel() + 300 * chance.ravel()], right)
    assert joint([good.ravel(), 100 * good.ravel() + 300 * chance.ravel()]).mean() == pytest.approx(
        right.mean(), abs=1e-3
    )
    assert np.all(np.diff(joint([np.linspace(-2, 2, 9), np.zeros(9)])) > 0)


def test_shares_of_one_are_taken_as_log_odds():
    true, good, chance = problem()
    right = right_cells(true, good)
    share = 1 / (1 + np.exp(-3 * good.ravel()))
    joint = JointLogistic.fit([share, chance.ravel()], right)
    assert joint.odds == (True, False)
    np.testing.assert_allclose(
        joint.weights[0], JointLogistic.fit([3 * good.ravel()], right).weights[0], rtol=0.05
    )


def test_right_cells_are_those_of_the_true_labels():
    cells = Candidates.of([Ranking.from_lists([[(0, 1.0), (2, 0.5)], [(1, 1.0)]], 3)])
    assert cells.right(tagwood._sparse.check_labels([[2], [0]])).tolist() == [0.0, 1.0, 0.0]


def test_two_half_blind_members_are_better_together():
    true, good, _ = problem(600)
    _, noise, other = problem(600, seed=1)
    one, two = good + noise, 50 * (good + other)
    given, Y = [Fixed(one.tolist()), Fixed(two.tolist())], [[label] for label in true]
    first = lambda model: evaluate(Y, model.rank(np.arange(600)), metrics=["P@1"])["P@1"]  # noqa: E731
    joined = Ensemble(given).calibrate(np.arange(600), Y)
    assert first(joined) > max(first(Ensemble([member])) for member in given) + 0.02
    assert Ensemble(given).joint_ is None


def test_the_curve_is_stored_and_forgotten_by_the_next_fit(tmp_path):
    ensemble = Ensemble(members()).fit(TEXTS * 40, LABELS * 40)
    tagwood.save(ensemble, tmp_path / "model")
    again = tagwood.load(tmp_path / "model")
    assert again.rank(TEXTS[:6]) == ensemble.rank(TEXTS[:6])
    assert again.joint_.plain() == ensemble.joint_.plain()
    assert again.fit(TEXTS, LABELS).joint_ is None  # too few rows to hold any out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": [1.0]}, "for each of 2 members"),
        ({"weights": [-1.0, 1.0]}, "at least 0"),
        ({"spread": [0.0, 1.0]}, "above 0"),
        ({"bias": float("nan")}, "finite numbers"),
        ({"odds": None}, "must have odds, weights, bias and spread"),
    ],
)
def test_a_stored_curve_is_checked(change, words):
    good = {"odds": [True, False], "weights": [1.0, 2.0], "bias": 0.0, "spread": [1.0, 1.0]}
    assert JointLogistic.of_plain(good, 2).plain() == good
    with pytest.raises(InputError, match=words):
        JointLogistic.of_plain({**good, **change}, 2)
