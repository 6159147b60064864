"""Cuts: every threshold, number of labels and promise measured as `evaluate` would, and the best one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tagwood import Ranking, evaluate
from tagwood.errors import InputError
from tagwood.probabilities.sets import fit_set_rule, fixed_rule
from tagwood.tuning.thresholds import best_cut, check_metric, measure_rules, measure_sizes, measure_thresholds

RANKING = Ranking.from_lists([[(0, 0.9), (1, 0.4), (2, 0.1)], [(1, 0.6), (0, 0.2)], []], n_labels=3)
TRUTH = [[0], [1], [2]]


def test_thresholds_are_measured_from_the_lowest_to_the_highest():
    cuts = measure_thresholds(TRUTH, RANKING, thresholds=[0.5, 0.15, 0.95])
    assert [cut.rule for cut in cuts] == ["threshold>=0.15", "threshold>=0.5", "threshold>=0.95"]
    assert [cut.labels for cut in cuts] == [4 / 3, 2 / 3, 0]
    assert [cut.review for cut in cuts] == [1 / 3, 1 / 3, 1]
    assert [cut.measures["micro-P"] for cut in cuts] == [0.5, 1.0, 0.0]
    assert best_cut(cuts, "micro-F1").rule == "threshold>=0.5"


def test_sizes_are_the_first_labels():
    cuts = measure_sizes(TRUTH, RANKING, sizes=[1, 2])
    assert [cut.measures["micro-R"] for cut in cuts] == [2 / 3, 2 / 3]
    assert best_cut(cuts, "micro-P").rule == "top-1"


def test_the_smallest_loss_is_the_best():
    cuts = measure_thresholds(TRUTH, RANKING, "hamming", [0.01, 0.5])
    assert best_cut(cuts, "hamming").rule == "threshold>=0.5"


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_every_threshold_is_measured_as_its_own_rule_cuts(seed):
    random = np.random.default_rng(seed)
    scores = np.sort(random.random((6, 4)).round(2))[:, ::-1]
    labels = np.array([random.permutation(4) for _ in range(6)])
    ranking = Ranking(np.arange(7) * 4, labels.ravel(), scores.ravel(), 4)
    truth = random.random((6, 4)) < 0.4
    for cut in measure_thresholds(truth, ranking, thresholds=[0.1, 0.5, 0.77]):
        sets, review = fixed_rule(cut.rule).apply(ranking)
        assert cut.measures["micro-F1"] == evaluate(truth, sets, metrics=["micro-F1"])["micro-F1"]
        assert cut.review == review.mean()


def test_promises_count_the_rows_to_review():
    right = Ranking.from_lists([[(0, 0.95), (1, 0.3)]] * 300, n_labels=2)
    truth = [[0]] * 300
    cuts = measure_rules(
        truth,
        right,
        lambda ranking, rule: fit_set_rule(rule, right, truth).apply(ranking),
        rules=["precision>=0.9", "recall>=0.9"],
    )
    assert [cut.measures["micro-P"] for cut in cuts] == [1.0, 1.0]
    assert [cut.review for cut in cuts] == [0.0, 0.0]


def test_only_metrics_of_sets_choose_a_threshold():
    assert check_metric("MACRO-f1") == "macro-F1"
    for wrong in ("P@5", "micro-F1@5"):
        with pytest.raises(InputError, match="must be one of label sets; got"):
            check_metric(wrong)
