"""Label sets: promises that hold as often as promised, sizes that are best, rows that need a person."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from set_problems import known_probabilities

import tagwood
from tagwood.errors import InputError
from tagwood.metrics import set_scores
from tagwood.probabilities.sets import (
    SetRule,
    fit_set_rule,
    last_that_holds,
    mean_is_positive,
    parse_rule,
    thresholds,
)
from tagwood.ranking import Ranking
from tagwood.storage import State

_, POOL, TRUTH = known_probabilities(40_000, seed=7)
SCORES = POOL.scores.reshape(-1, 8)  # all labels are candidates
HITS = np.take_along_axis(TRUTH.toarray(), POOL.labels.reshape(-1, 8), axis=1)


def precision_at(threshold, max_size=8):
    kept = (threshold <= SCORES) & (np.arange(8) < max_size)
    return HITS[kept].mean()


def recall_at(threshold):
    some = HITS.any(axis=1)
    return ((HITS * (threshold <= SCORES)).sum(axis=1)[some] / HITS.sum(axis=1)[some]).mean()


def resampled_rules(rule, n_rows, n_times, **options):
    random = np.random.default_rng(11)
    for _ in range(n_times):
        rows = random.integers(0, POOL.n_rows, n_rows)  # drawn anew from the pool, which is the population
        yield fit_set_rule(rule, POOL.rows(rows), TRUTH[rows], **options)


@pytest.mark.parametrize(("confidence", "allowed"), [(0.9, 0.1), (0.7, 0.3)])
@pytest.mark.parametrize("rule", ["precision>=0.85", "recall>=0.8"])
def test_promises_are_broken_no_more_often_than_said(rule, confidence, allowed):
    tried = list(resampled_rules(rule, 600, 60, confidence=confidence))
    found = [f for f in tried if f.kept]
    exact = [precision_at(f.threshold, f.max_size) if rule[0] == "p" else recall_at(f.threshold) for f in found]
    broken = np.sum(np.array(exact) < parse_rule(rule).value) / len(tried)
    assert len(found) > 0.9 * len(tried)
    assert broken <= allowed


@pytest.mark.parametrize(
    ("rule", "slack"), [("precision>=0.85", 0.10), ("recall>=0.8", 0.10)], ids=["precision", "recall"]
)
def test_sets_are_nearly_as_large_or_small_as_the_best_in_hindsight(rule, slack):
    value, grid = parse_rule(rule).value, np.linspace(0.01, 0.99, 400)
    if rule[0] == "p":
        best = min(t for t in grid if precision_at(t) >= value)
    else:
        best = max(t for t in grid if recall_at(t) >= value)
    ratios = [(f.threshold <= SCORES).sum() / (best <= SCORES).sum() for f in resampled_rules(rule, 4000, 5)]
    assert abs(np.mean(ratios) - 1) < slack


def test_promises_hold_for_probabilities_that_are_too_sure():
    """The guarantee must not rest on the calibration."""
    sure = Ranking(POOL.indptr, POOL.labels, POOL.scores**0.5, POOL.n_labels)
    rows = np.arange(20_000)
    found = fit_set_rule("precision>=0.9", sure.rows(rows), TRUTH[rows])
    assert precision_at(found.threshold**2, found.max_size) >= 0.9
    assert found.threshold > 0.9  # found on the way up


def test_the_test_of_the_mean_errs_no_more_often_than_allowed():
    random = np.random.default_rng(3)
    gains = (random.random((2000, 100)) < 0.9) - 0.9  # mean exactly 0: each yes is wrong
    wrong = np.mean([mean_is_positive(row, -0.9, 0.2) for row in gains])
    assert 0.02 < wrong <= 0.2


def test_more_rows_allow_larger_precision_sets():
    few, many = (next(resampled_rules("precision>=0.85", n, 1)) for n in (150, 5000))
    assert many.threshold < few.threshold


def test_a_promise_that_cannot_be_kept_returns_nothing_and_flags_every_row():
    wrong = Ranking.from_lists([[(0, 0.99), (1, 0.5)]] * 400, n_labels=3)
    found = fit_set_rule("precision>=0.9", wrong, [[2]] * 400)
    sets, review = found.apply(wrong)
    assert not found.kept
    assert sets.labels.size == 0
    assert review.all()


def test_recall_that_candidates_cannot_reach_returns_all_and_flags_every_row():
    ranking = Ranking.from_lists([[(0, 0.9)]] * 400, n_labels=3)
    found = fit_set_rule("recall>=0.8", ranking, [[0, 1]] * 400)
    sets, review = found.apply(ranking)
    assert not found.kept
    assert sets == ranking
    assert review.all()


def test_rows_whose_candidates_miss_too_much_are_flagged_under_a_recall_promise():
    rows = [[(0, 0.9)]] * 9 + [[(0, 0.1)]]
    ranking = Ranking.from_lists(rows * 100, n_labels=2)
    found = fit_set_rule("recall>=0.8", ranking, ([[0]] * 9 + [[1]]) * 100)
    assert found.apply(ranking)[1].tolist() == ([False] * 9 + [True]) * 100


def test_precision_flags_the_rows_where_no_label_passes():
    found = fit_set_rule("precision>=0.85", POOL.rows(np.arange(2000)), TRUTH[:2000])
    sets, review = found.apply(POOL)
    np.testing.assert_array_equal(review, np.diff(sets.indptr) == 0)
    assert 0 < review.sum() < review.size


def test_f1_sets_are_those_of_the_best_threshold():
    best = max(set_scores(TRUTH, POOL.above(t)).f1 for t in np.linspace(0.05, 0.95, 91))
    found = fit_set_rule("f1", POOL.rows(np.arange(3000)), TRUTH[:3000])
    assert set_scores(TRUTH, found.apply(POOL)[0]).f1 > best - 0.002
    assert found.threshold == pytest.approx(best / 2, abs=0.02)


def test_row_f1_beats_f1_in_the_mean_over_rows_and_the_other_way_round():
    rows = POOL.rows(np.arange(3000))
    whole, single = (fit_set_rule(r, rows, TRUTH[:3000]).apply(POOL)[0] for r in ("f1", "row-f1"))
    assert set_scores(TRUTH, single, "example").f1 > set_scores(TRUTH, whole, "example").f1
    assert set_scores(TRUTH, whole).f1 > set_scores(TRUTH, single).f1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(0.0, 1.0, width=32), max_size=6), min_size=1, max_size=5), st.floats(0, 3))
def test_row_f1_takes_the_size_with_the_largest_expected_f1(rows, missed):
    ranked = [sorted(row, reverse=True) for row in rows]
    ranking = Ranking.from_lists([list(enumerate(row)) for row in ranked], n_labels=6)
    sets, review = SetRule("row-f1", missed=missed).apply(ranking)
    for row, size, flagged in zip(ranked, np.diff(sets.indptr), review, strict=True):
        n_true = sum(row) + missed
        expected = [0.0] + [2 * sum(row[:k]) / (k + n_true) for k in range(1, len(row) + 1)]
        assert expected[size] == pytest.approx(max(expected), abs=1e-6)
        assert flagged == (size == 0)


def test_thresholds_and_top_need_no_rows_to_learn_from():
    ranking = Ranking.from_lists([[(0, 0.9), (1, 0.5), (2, 0.4)], []], n_labels=3)
    for rule, sizes in (("threshold>=0.5", [2, 0]), ("top-1", [1, 0]), ("Threshold >= 45%", [2, 0])):
        sets, review = fit_set_rule(rule, ranking, [[0], []]).apply(ranking)
        assert np.diff(sets.indptr).tolist() == sizes
        assert review.tolist() == [False, True]


@pytest.mark.parametrize("rule", ["precision>=0.85", "recall>=0.8", "f1", "row-f1", "threshold>=0.5", "top-3"])
def test_saved_and_loaded_gives_the_same_sets(rule, tmp_path):
    found = fit_set_rule(rule, POOL.rows(np.arange(500)), TRUTH[:500])
    tagwood.save(found, tmp_path / "rule")
    again = tagwood.load(tmp_path / "rule")
    assert again == found
    assert again.apply(POOL)[0] == found.apply(POOL)[0]


def test_a_forged_rule_is_refused():
    state = SetRule("threshold>=0.5", threshold=0.5).state()
    with pytest.raises(InputError, match="threshold must be a number from 0 to 1; got 7"):
        SetRule.from_state(State("SetRule", {**state.params, "threshold": 7.0}))


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("precision=0.9", "precision>=0.9"),
        ("recall=0.8", "recall>=0.8"),
        ("f2", "f1"),
        ("top5", "top-5"),
        ("threshold 0.5", "threshold>=0.5"),
    ],
)
def test_mistyped_rules_name_the_nearest_form(text, nearest):
    with pytest.raises(InputError, match=f"Did you mean '{nearest}'"):
        parse_rule(text)


@pytest.mark.parametrize("text", ["precision>=1", "recall>=0", "precision>=90", "top-0", "", None, 0.9, "\x00"])
def test_impossible_rules_are_refused(text):
    with pytest.raises(InputError, match="rule must"):
        parse_rule(text)


def test_scores_that_are_no_probabilities_are_refused():
    ranking = Ranking.from_lists([[(0, 3.0)]], n_labels=1)
    with pytest.raises(InputError, match="Turn scores into probabilities with a Calibrator"):
        fit_set_rule("f1", ranking, [[0]])


def test_settings_are_tried_in_order_up_to_the_first_that_fails():
    asked = []
    assert last_that_holds([3, 2, 1], lambda x: asked.append(x) or x > 2) == 3
    assert asked == [3, 2]
    assert last_that_holds([1], lambda _: False) is None
    assert np.all(np.diff(thresholds(0.9, 0.1)) < 0)


def sized_rows(tell_size, n_rows=1200, seed=0):
    """Rows whose probabilities are flat, so that only their sum tells the size of a set; or usual probabilities."""
    rng = np.random.default_rng(seed)
    rows, truth = [], []
    for size in rng.integers(1, 6, n_rows):
        if tell_size:  # the first labels are right, all ten with the same probability but for their order
            rows.append([(label, size / 10 + 1e-4 * (10 - label)) for label in range(10)])
            truth.append(list(range(size)))
        else:
            chances = np.sort(rng.random(10))[::-1]
            rows.append([(label, float(p)) for label, p in enumerate(chances)])
            truth.append(np.flatnonzero(rng.random(10) < chances).tolist())
    return Ranking.from_lists(rows, 10), truth


def test_f1_takes_learned_sizes_where_they_are_better(tmp_path):
    probabilities, truth = sized_rows(tell_size=True)
    rule = fit_set_rule("f1", probabilities, truth)
    assert rule.sizes
    new, true = sized_rows(tell_size=True, n_rows=300, seed=1)
    assert [[label for label, _ in row] for row in rule.apply(new)[0]] == true
    assert SetRule.from_state(rule.state()) == rule


def test_f1_keeps_one_threshold_where_probabilities_are_good():
    for seed in range(5):
        assert fit_set_rule("f1", *sized_rows(tell_size=False, seed=seed)).sizes == ()
    few = sized_rows(tell_size=True, n_rows=150)
    assert fit_set_rule("f1", *few).sizes == ()


def test_rules_stored_without_sizes_load():
    state = SetRule("f1", threshold=0.4).state()
    del state.params["sizes"]
    assert SetRule.from_state(state) == SetRule("f1", threshold=0.4)
