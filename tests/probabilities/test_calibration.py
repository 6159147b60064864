"""Calibrators: probabilities that are true, in an order that stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from set_problems import known_probabilities

import tagwood
from tagwood.errors import InputError, NotFittedError
from tagwood.metrics.matching import match
from tagwood.probabilities.calibration import CONTEXT_ROWS, METHODS, Calibrator, MonotoneCurve, fit_logistic
from tagwood.ranking import Ranking
from tagwood.storage import State

every_method = pytest.mark.parametrize("method", METHODS)


@every_method
def test_probabilities_agree_with_the_share_of_right_labels(method):
    scores, _, Y = known_probabilities(4000, seed=0, power=3.0)  # scores are the true probabilities cubed
    new, truth, _ = known_probabilities(2000, seed=1, power=3.0)
    found = Calibrator(method).fit(scores, Y).transform(new)
    assert np.abs(found.scores - truth.scores).mean() < 0.015
    assert np.abs(new.scores - truth.scores).mean() > 0.05  # what there was to repair


@every_method
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_labels_and_their_order_stay_the_same(method, seed, wide):
    random = np.random.default_rng(seed)
    scores, Y = random.random((12, 6)), random.random((12, 6)) < 0.3
    ranking = Ranking.from_csr(sparse.csr_array(scores * (20 if wide else 1)), k=4)
    found = Calibrator(method).fit(ranking, Y).transform(ranking)
    np.testing.assert_array_equal(found.labels, ranking.labels)
    np.testing.assert_array_equal(found.indptr, ranking.indptr)
    assert np.all((found.scores >= 0) & (found.scores <= 1))


@pytest.mark.parametrize("method", ["isotonic"])
def test_a_higher_score_never_gets_a_lower_probability(method):
    scores, _, Y = known_probabilities(300, seed=2)
    found = Calibrator(method).fit(scores, Y).transform(scores)
    order = np.argsort(scores.scores)
    assert np.all(np.diff(found.scores[order]) >= 0)


@pytest.mark.parametrize("method", ["isotonic"])
def test_scores_worse_than_chance_give_flat_probabilities(method):
    ranking = Ranking.from_lists([[(0, 0.9), (1, 0.1)]] * 50, n_labels=2)
    found = Calibrator(method).fit(ranking, [[1]] * 50).transform(ranking)
    assert found[0] == [(0, 0.5), (1, 0.5)]


def test_context_knows_more_than_the_score():
    # Equal scores; a label is right exactly where it stands first and is frequent.
    row = [(0, 0.5), (1, 0.5)], [(1, 0.5), (0, 0.5)]
    ranking = Ranking.from_lists([*row] * 100, n_labels=2)
    Y = [[0], []] * 100
    by_score = Calibrator("isotonic").fit(ranking, Y).transform(ranking)
    by_context = Calibrator("context").fit(ranking, Y, frequencies=[1000, 2]).transform(ranking)
    assert by_score[0][0][1] == pytest.approx(0.25)
    assert by_context[0][0][1] > 0.95
    assert by_context[1][0][1] < 0.05


def test_isotonic_curve_is_the_least_squares_rising_fit():
    curve = MonotoneCurve.fit(np.array([0.0, 1, 2, 2, 5]), np.array([1.0, 0, 0, 1, 1]))
    np.testing.assert_allclose(curve.y, [0.5, 1.0])
    np.testing.assert_allclose(curve.x, [1.25, 5.0])  # 0, 1, 2, 2 pooled at their mean


def test_rows_without_candidates_stay_empty():
    ranking = Ranking.from_lists([[], [(1, 0.5), (0, 0.1)], []], n_labels=2)
    for method in METHODS:
        found = Calibrator(method).fit(ranking, [[0], [1], []]).transform(ranking)
        assert np.diff(found.indptr).tolist() == [0, 2, 0]
        empty = Ranking.from_lists([[], []], n_labels=2)
        assert Calibrator(method).fit(ranking, [[0], [1], []]).transform(empty) == empty


@every_method
def test_saved_and_loaded_gives_the_same_probabilities(method, tmp_path):
    scores, _, Y = known_probabilities(200, seed=3)
    fitted = Calibrator(method).fit(scores, Y, frequencies=np.arange(scores.n_labels))
    tagwood.save(fitted, tmp_path / "model")
    again = tagwood.load(tmp_path / "model")
    assert again.transform(scores) == fitted.transform(scores)
    assert again.get_params() == {"method": method}


def test_a_forged_curve_is_refused():
    scores, _, Y = known_probabilities(50, seed=4)
    state = Calibrator("isotonic").fit(scores, Y).state()
    falling = State("MonotoneCurve", arrays={"x": np.array([0.0, 1.0]), "y": np.array([0.5, 0.1])})
    with pytest.raises(InputError, match="rising knots"):
        Calibrator.from_state(State(state.kind, state.params, state.arrays, {"curve": falling}))


def test_misuse_says_what_to_do():
    ranking = Ranking.from_lists([[(0, 0.5)]], n_labels=2)
    with pytest.raises(InputError, match="Did you mean 'isotonic'"):
        Calibrator("isotonik").fit(ranking, [[0]])
    with pytest.raises(NotFittedError, match="must be fitted first"):
        Calibrator().transform(ranking)
    with pytest.raises(InputError, match="one count for each of the 2 labels; got 3 numbers"):
        Calibrator("context").fit(ranking, [[0]], frequencies=[1, 2, 3])
    with pytest.raises(InputError, match="over the 2 labels"):
        Calibrator().fit(ranking, [[0]]).transform(Ranking.from_lists([[(0, 0.5)]], n_labels=3))
    with pytest.raises(InputError, match="at least one label; got none"):
        Calibrator().fit(Ranking.from_lists([[]], n_labels=2), [[0]])


def test_fitting_keeps_the_callers_arrays_as_they_are():
    scores, _, Y = known_probabilities(50, seed=5)
    before = scores.scores.copy()
    Calibrator("context").fit(scores, Y).transform(scores)
    np.testing.assert_array_equal(scores.scores, before)
    assert match(Y, scores).n_rows == 50


def ranked_problem(n_rows, n_labels=40, seed=0):
    """Return a ranking in which the gap to the next label tells more than the score, and the true labels."""
    random = np.random.default_rng(seed)
    rows, truth = [], []
    for _ in range(n_rows):
        labels = random.permutation(n_labels)[:10]
        scores = np.sort(random.random(10))[::-1] * 0.6
        if random.random() < 0.5:
            scores[0] = scores[1] + 0.35
        rows.append([(int(label), float(score)) for label, score in zip(labels, scores, strict=True)])
        truth.append([int(labels[0])] if scores[0] - scores[1] > 0.3 else [])
    return Ranking.from_lists(rows, n_labels), truth


def test_auto_takes_context_where_rows_are_enough():
    few, many = (Calibrator().fit(*ranked_problem(n)) for n in (CONTEXT_ROWS - 1, CONTEXT_ROWS))
    assert (few.method_, many.method_) == ("isotonic", "context")
    assert (few.uses_context, many.uses_context) == (False, True)
    assert few.transform(ranked_problem(9)[0]) == Calibrator("isotonic").fit(
        *ranked_problem(CONTEXT_ROWS - 1)
    ).transform(ranked_problem(9)[0])


def test_context_depends_neither_on_other_rows_nor_on_further_candidates():
    fitted = Calibrator("context").fit(*ranked_problem(500))
    together = ranked_problem(30, seed=1)[0]
    found = fitted.transform(together)
    for row in range(30):
        assert fitted.transform(together.rows([row])) == found.rows([row])
    longer = Ranking.from_lists([[*row, *((label, -1.0) for label in range(40, 45))] for row in together], n_labels=45)
    short = Ranking.from_lists(list(together), n_labels=45)
    train, truth = ranked_problem(500)
    wide = Calibrator("context").fit(Ranking.from_lists(list(train), n_labels=45), truth)
    wide._as_odds = False
    assert wide.transform(longer).top(10) == wide.transform(short)


def test_rankings_that_leave_labels_out_are_calibrated_by_their_scores_alone():
    train, truth = ranked_problem(500)
    context, plain = (Calibrator(method).fit(train, truth) for method in ("context", "isotonic"))
    new = ranked_problem(20, seed=2)[0]
    assert context.transform(new, complete=False) == plain.transform(new)
    assert context.transform(new) != plain.transform(new)
    again = Calibrator.from_state(context.state())
    assert again.transform(new, complete=False) == plain.transform(new)


def test_coefficients_stay_close_to_a_prior_with_few_rows_and_follow_many():
    random = np.random.default_rng(0)
    columns = np.column_stack([np.ones(20_000), random.normal(size=20_000)])
    prior, true = np.array([-1.0, 0.5]), np.array([1.0, 2.0])
    outcome = (random.random(20_000) < 1 / (1 + np.exp(-columns @ true))).astype(np.float64)
    assert np.array_equal(fit_logistic(columns[:0], outcome[:0], prior=prior), prior)
    few, many = (fit_logistic(columns[:n], outcome[:n], prior=prior) for n in (1, 20_000))
    assert np.linalg.norm(few - prior) < np.linalg.norm(few - true)
    assert np.allclose(many, true, atol=0.1)
