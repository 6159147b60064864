"""Weights of an ensemble: learned where they rank held-out rows best, never worse than equal ones, stored."""

from __future__ import annotations

import numpy as np
import pytest
from ensemble_problem import LABELS, TEXTS, Fixed, members

import tagwood
from tagwood import Ensemble
from tagwood.errors import InputError
from tagwood.metrics import evaluate
from tagwood.models.ensemble_members import Candidates
from tagwood.models.ensemble_weights import check_shares, learn_shares
from tagwood.ranking import Ranking


def problem(n_rows=300, n_labels=8, seed=0):
    """Return true labels, a good opinion of every cell and one that is chance."""
    random = np.random.default_rng(seed)
    true = random.integers(0, n_labels, size=n_rows)
    rows = [[(label, 1.0) for label in range(n_labels)]] * n_rows
    cells = Candidates.of([Ranking.from_lists(rows, n_labels)])
    good = (np.eye(n_labels)[true] * 0.5 + random.random((n_rows, n_labels)) * 0.6).ravel()
    return [[int(label)] for label in true], cells, good, random.random(good.size)


def ndcg(Y, cells, scores):
    return evaluate(Y, cells.ranking(scores, 5), metrics=["nDCG@5"])["nDCG@5"]


def test_a_member_of_chance_counts_little():
    Y, cells, good, chance = problem()
    for opinions, place in (([good, chance], 0), ([chance, good], 1)):
        shares = learn_shares(opinions, cells, Y)
        assert shares.sum() == pytest.approx(1.0)
        assert shares[place] > 0.85


def test_learned_shares_are_at_least_as_good_as_equal_ones_and_as_each_member():
    for seed in range(3):
        Y, cells, good, chance = problem(seed=seed)
        opinions = [good, 0.5 * good + 0.5 * chance, chance]
        found = ndcg(Y, cells, learn_shares(opinions, cells, Y) @ np.stack(opinions))
        assert found >= max(ndcg(Y, cells, one) for one in [*opinions, sum(opinions)])


def test_equal_shares_stay_where_nothing_is_better():
    Y, cells, good, _ = problem()
    assert learn_shares([good, good], cells, Y).tolist() == [0.5, 0.5]
    assert learn_shares([good], cells, Y).tolist() == [1.0]


def test_an_ensemble_learns_them_from_held_out_rows():
    random = np.random.default_rng(0)
    true = random.integers(0, 4, size=400)
    good, chance = np.eye(4)[true] * 0.5 + random.random((400, 4)) * 0.6, random.random((400, 4))
    given = [Fixed(good.tolist()), Fixed(chance.tolist())]
    Y = [[label] for label in true]
    learned = Ensemble(given, how="scaled").calibrate(np.arange(400), Y)
    equal = Ensemble(given, how="scaled", weights=[1, 1]).calibrate(np.arange(400), Y)
    assert equal.shares_ is None
    assert learned.shares_[0] > 0.8
    first, second = (
        evaluate(Y, one.rank(np.arange(400)), metrics=["P@1"])["P@1"] for one in (learned, equal)
    )
    assert first > second + 0.05
    assert Ensemble(given).shares_ is None


def test_learned_weights_are_stored_and_forgotten_by_the_next_fit(tmp_path):
    ensemble = Ensemble(members()).fit(TEXTS * 40, LABELS * 40)
    ensemble.shares_ = np.array([0.25, 0.75])
    tagwood.save(ensemble, tmp_path / "model")
    again = tagwood.load(tmp_path / "model")
    assert again.shares_.tolist() == [0.25, 0.75]
    assert again.rank(TEXTS[:6]) == ensemble.rank(TEXTS[:6])
    assert again.fit(TEXTS, LABELS).shares_ is None  # too few rows to hold any out


@pytest.mark.parametrize("values", [[1.0], [0.5, 0.6], [-0.5, 1.5], ["a", "b"], [0.5, float("nan")]])
def test_stored_shares_are_checked(values):
    with pytest.raises(InputError, match="2 numbers from 0 to 1 that add up to 1"):
        check_shares(values, 2)
