"""Confidence intervals and comparisons: seeded, of the right width, and right about the hypothesis."""

import json

import numpy as np
import pytest
from scipy import sparse

from tagwood import Ranking
from tagwood.errors import InputError
from tagwood.metrics import LabelCounts, compare, evaluate, resampling

EVERY = [
    "P@1",
    "R@3",
    "nDCG@3",
    "PSP@3",
    "micro-F1@3",
    "macro-F1@3",
    "weighted-P@3",
    "example-R@3",
    "hamming@3",
]
N_LABELS = 12


def problem(n_rows=300, noise=1.0, seed=0):
    truth = sparse.csr_array((np.random.default_rng(1).random((n_rows, N_LABELS)) < 0.2).astype(np.float32))
    scores = np.random.default_rng(seed).random((n_rows, N_LABELS)) * noise + truth.toarray()
    return truth, Ranking.from_csr(sparse.csr_array(scores), k=4)


def hit_ranking(hits):
    return Ranking.from_lists([[(0 if hit else 1, 1.0)] for hit in hits], n_labels=2)


def test_intervals_hold_the_value_and_depend_on_the_seed_only():
    truth, ranking = problem(noise=2.0)
    counts = LabelCounts.of(truth)
    reports = [
        evaluate(truth, ranking, metrics=EVERY, train_labels=counts, confidence=0.9, n_resamples=200, seed=seed)
        for seed in (0, 0, 1)
    ]
    assert reports[0] == reports[1] != reports[2]
    for measure in reports[0].measures:
        assert measure.low < measure.value < measure.high, measure
    plain = evaluate(truth, ranking, metrics=EVERY, train_labels=counts)
    assert [m.value for m in plain.measures] == [m.value for m in reports[0].measures]


def test_the_interval_of_a_share_has_the_width_of_the_binomial():
    hits = np.arange(400) % 4 == 0
    truth = [[0]] * 400
    found = evaluate(truth, hit_ranking(hits), metrics=["P@1"], confidence=0.95, n_resamples=4000).measure("P@1")
    half = 1.96 * np.sqrt(0.25 * 0.75 / 400)
    assert found.low == pytest.approx(0.25 - half, abs=0.006)
    assert found.high == pytest.approx(0.25 + half, abs=0.006)


def test_a_metric_without_spread_has_an_interval_of_no_width():
    found = evaluate(
        [[0]] * 9, hit_ranking([True] * 9), metrics=["P@1", "PSP@1"], propensity=[2.0, 1.0], confidence=0.9
    )
    assert all((m.low, m.value, m.high) == (1.0, 1.0, 1.0) for m in found.measures)


def test_coverage_has_no_interval():
    truth, ranking = problem()
    found = evaluate(truth, ranking, metrics=["coverage@3", "P@1"], confidence=0.9, n_resamples=20)
    assert found.measure("coverage@3").low is None
    assert found.measure("P@1").low is not None
    assert evaluate(truth, ranking, metrics=["coverage@3"], confidence=0.9).measure("coverage@3").high is None


def test_resampled_values_are_those_of_the_drawn_rows(monkeypatch):
    truth, ranking = problem(n_rows=40)
    drawn = []
    draw = resampling._draw_rows

    def spy(rng, n_rows):
        drawn.append(draw(rng, n_rows))
        return drawn[-1]

    monkeypatch.setattr(resampling, "_draw_rows", spy)
    values = []
    original = resampling.intervals
    monkeypatch.setattr("tagwood.metrics.evaluation.intervals", lambda v, c: values.append(v) or original(v, c))
    counts = LabelCounts.of(truth)
    evaluate(truth, ranking, metrics=EVERY, train_labels=counts, confidence=0.9, n_resamples=12)
    for repeat, weights in enumerate(drawn):
        index = np.repeat(np.arange(40), weights.astype(int))
        again = evaluate(truth[index], ranking.rows(index), metrics=EVERY, train_labels=counts)
        np.testing.assert_allclose(values[0][:, repeat], [m.value for m in again.measures], atol=1e-12)


def test_block_size_does_not_change_the_draws(monkeypatch):
    truth, ranking = problem(n_rows=50)
    options = {"metrics": ["P@1", "macro-F1"], "confidence": 0.9, "n_resamples": 30}
    whole = evaluate(truth, ranking, **options)
    monkeypatch.setattr(resampling, "_BLOCK", 70)
    parts = evaluate(truth, ranking, **options)
    for a, b in zip(whole.measures, parts.measures, strict=True):
        assert (a.low, a.high) == pytest.approx((b.low, b.high))


def test_a_clear_gain_is_significant_and_its_interval_is_above_zero():
    truth, poor = problem(noise=8.0)
    _, good = problem(noise=1.2, seed=1)
    counts = LabelCounts.of(truth)
    names = [name for name in EVERY if not name.startswith("hamming")]
    comparison = compare(truth, poor, good, metrics=names, train_labels=counts, n_resamples=300)
    for found in comparison.differences:
        assert found.difference == pytest.approx(found.second - found.first)
        assert 0 < found.low < found.difference < found.high, found
        assert found.p_value == pytest.approx(1 / 301)
    assert comparison == compare(truth, poor, good, metrics=names, train_labels=counts, n_resamples=300)


def test_swapping_the_rankings_turns_the_sign():
    truth, first = problem(noise=3.0)
    _, second = problem(noise=2.5, seed=1)
    there, back = (compare(truth, *pair, metrics=["P@1"])["P@1"] for pair in ((first, second), (second, first)))
    assert there.difference == -back.difference
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.p_value == pytest.approx(back.p_value, abs=0.03)


def test_a_ranking_against_itself_is_never_significant():
    truth, ranking = problem()
    for found in compare(truth, ranking, ranking, metrics=EVERY[:3], n_resamples=50).differences:
        assert (found.difference, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_p_values_equal_the_exact_sign_test_on_a_small_case():
    # Six rows differ, all in favour of the second: of 2^6 equally likely swaps two are as extreme.
    first, second = hit_ranking([False] * 6 + [True] * 4), hit_ranking([True] * 10)
    found = compare([[0]] * 10, first, second, metrics=["P@1"], n_resamples=20_000)["P@1"]
    assert found.p_value == pytest.approx(2 / 64, abs=0.005)


def test_p_values_are_spread_evenly_when_nothing_differs():
    truth = [[0]] * 60
    rng = np.random.default_rng(0)
    p_values = [
        compare(truth, *(hit_ranking(rng.random(60) < 0.5) for _ in range(2)), metrics=["P@1"], n_resamples=99)[
            "P@1"
        ].p_value
        for _ in range(80)
    ]
    assert np.mean(np.array(p_values) <= 0.1) < 0.2
    assert 0.4 < np.mean(p_values) < 0.75


def test_comparisons_are_shown_as_plain_values_and_markdown():
    found = compare([[0]] * 4, hit_ranking([0, 0, 1, 1]), hit_ranking([1, 1, 1, 1]), metrics=["P@1"], n_resamples=50)
    assert json.loads(json.dumps(found.to_dict()))["differences"][0]["difference"] == 0.5
    assert found.to_markdown().splitlines()[0] == "| metric | first | second | difference | 95 % interval | p |"
    assert found.to_markdown().splitlines()[2].startswith("| P@1 | 50.00 | 100.00 | 50.00 | ")


def test_misuse_is_named():
    truth, ranking = problem()
    for call, message in [
        (lambda: compare(truth, ranking, ranking.rows(range(5))), "the same rows"),
        (
            lambda: compare(truth, ranking, ranking, metrics=["coverage@5"]),
            "cannot be compared by resampling",
        ),
        (lambda: compare([[0]], hit_ranking([1]), Ranking.from_lists([[]], 5)), "same labels; got 2 and 5"),
        (lambda: compare(truth, ranking, ranking, confidence=2), "confidence must be"),
        (lambda: compare(truth, ranking, ranking, n_resamples=0), "n_resamples must be"),
        (lambda: compare(truth, ranking, ranking, n_resamples=10)["P@2"], "the measured metrics are P@1"),
    ]:
        with pytest.raises(InputError, match=message):
            call()
