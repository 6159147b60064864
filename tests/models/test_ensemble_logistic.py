"""The joint curve of an ensemble: good members count, bad ones do not, probabilities are right, it is stored."""

from __future__ import annotations

import numpy as np
import pytest
from ensemble_problem import LABELS, TEXTS, Fixed, members

import tagwood
from tagwood import Ensemble
from tagwood.errors import InputError, NotFittedError
from tagwood.metrics import evaluate
from tagwood.models.ensemble.fusion import JointLogistic
from tagwood.models.ensemble.members import Candidates
from tagwood.ranking import Ranking


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


def test_two_half_blind_members_are_better_together_and_weights_of_ones_own_are_kept():
    true, good, _ = problem(600)
    _, noise, other = problem(600, seed=1)
    one, two = good + noise, 50 * (good + other)
    given, Y = [Fixed(one.tolist()), Fixed(two.tolist())], [[label] for label in true]
    first = lambda model: evaluate(Y, model.rank(np.arange(600)), metrics=["P@1"])["P@1"]  # noqa: E731
    joined = Ensemble(given).calibrate(np.arange(600), Y)
    assert first(joined) > max(first(Ensemble([member])) for member in given) + 0.02
    assert Ensemble(given).joint_ is None
    weighed = Ensemble(given, weights=[1, 1]).calibrate(np.arange(600), Y)
    assert weighed.rank(np.arange(9)) == Ensemble(given, how="probability").calibrate(np.arange(600), Y).rank(
        np.arange(9)
    )
    with pytest.raises(InputError, match=r"learns how much members count; got weights\. Leave them out"):
        Ensemble(given, weights=[1, 1], how="logistic").rank(np.arange(9))
    with pytest.raises(NotFittedError, match="how='logistic' needs calibrated members"):
        Ensemble(given, how="logistic").rank(np.arange(9))


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
