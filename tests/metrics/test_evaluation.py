"""`evaluate`: its rules for empty rows, slices, threads and misuse."""

import numpy as np
import pytest
from scipy import sparse

from tagwood import Ranking
from tagwood.errors import InputError
from tagwood.metrics import LabelCounts, evaluate, evaluate_sets, frequency_slices

ALL = [
    "P@2",
    "R@2",
    "RP@2",
    "nDCG@2",
    "PSP@2",
    "PSR@2",
    "PSnDCG@2",
    "coverage@2",
    "micro-F1",
    "macro-F1",
    "hamming",
]


def ranking(*rows, n_labels=4):
    return Ranking.from_lists([[(x, 1 - i / 10) for i, x in enumerate(row)] for row in rows], n_labels)


def random_problem(n_rows=200, n_labels=30, seed=0):
    rng = np.random.default_rng(seed)
    truth = sparse.csr_array((rng.random((n_rows, n_labels)) < 0.1).astype(np.float32))
    scores = rng.random((n_rows, n_labels)) + 0.6 * truth.toarray()
    return truth, Ranking.from_csr(sparse.csr_array(scores), k=5), LabelCounts.of(truth)


def test_a_perfect_ranking_scores_one_everywhere():
    truth = [[0, 1], [2, 3], [1, 3]]
    report = evaluate(truth, ranking(*truth), metrics=ALL, propensity=[4.0, 3.0, 2.0, 1.0])
    assert {m.name: m.value for m in report.measures} == {name: float(name != "hamming") for name in ALL}


def test_propensity_metrics_reach_one_only_with_the_best_order():
    truth, weights = [[0, 1]], [1.0, 5.0, 1.0, 1.0]
    assert evaluate(truth, ranking([1]), metrics=["PSP@1"], propensity=weights)["PSP@1"] == 1.0
    assert evaluate(truth, ranking([0]), metrics=["PSP@1"], propensity=weights)["PSP@1"] == 0.2


def test_rows_without_labels_count_in_precision_but_not_in_recall():
    report = evaluate(
        [[0], []], ranking([0], [1]), metrics=["P@1", "nDCG@1", "R@1", "RP@1", "PSP@1"], propensity=[1.0] * 4
    )
    assert [m.value for m in report.measures] == [0.5, 0.5, 1.0, 1.0, 1.0]
    assert report.n_rows_without_labels == 1


def test_when_no_row_has_labels_everything_is_zero():
    report = evaluate([[], []], ranking([0], []), metrics=[m for m in ALL if m != "hamming"], propensity=[1.0] * 4)
    assert {m.value for m in report.measures} == {0.0}


def test_short_rows_still_divide_by_k():
    assert evaluate([[0]], ranking([0]), metrics=["P@5"])["P@5"] == 0.2


def test_huge_k_needs_no_huge_memory():
    assert evaluate([[0]], ranking([0]), metrics=["nDCG@999999999"])["nDCG@999999999"] == 1.0


def test_default_metrics_depend_on_whether_training_labels_are_known():
    truth, returned, counts = random_problem()
    assert [m.name for m in evaluate(truth, returned).measures] == ["P@1", "P@3", "P@5", "nDCG@5", "R@5"]
    report = evaluate(truth, returned, train_labels=counts)
    assert [m.name for m in report.measures][-3:] == ["PSP@1", "PSP@3", "PSP@5"]
    assert report.propensity == "default (A=0.55, B=1.5)"


def test_training_labels_and_their_counts_give_the_same_report():
    truth, returned, counts = random_problem()
    assert evaluate(truth, returned, train_labels=truth) == evaluate(truth, returned, train_labels=counts)


def test_threads_change_nothing_and_input_stays_as_it_was():
    truth, returned, counts = random_problem(n_rows=9000)
    before = truth.copy(), returned.labels.copy()
    reports = [evaluate(truth, returned, metrics=ALL, train_labels=counts, threads=t) for t in (1, 2, None)]
    assert reports[0] == reports[1] == reports[2]
    assert (truth != before[0]).nnz == 0
    np.testing.assert_array_equal(returned.labels, before[1])


def test_slices_share_out_precision_and_cut_recall_to_their_labels():
    truth, returned, _ = random_problem()
    counts = LabelCounts(np.arange(30), n_rows=100)
    report = evaluate(truth, returned, metrics=["P@5", "R@5", "micro-F1", "PSP@5"], train_labels=counts, slices=True)
    assert [part.name for part in report.slices] == ["head", "torso", "tail"]
    assert sum(part.n_labels for part in report.slices) == 30
    precision = [part.measures[0].value for part in report.slices]
    assert sum(precision) == pytest.approx(report["P@5"])
    tail = frequency_slices(counts)[2].mask
    only_tail = sparse.csr_array(truth * tail[None, :])
    assert report.slices[2].measures[1].value == evaluate(only_tail, returned, metrics=["R@5"])["R@5"]
    assert report.slices[2].measures[3].value == pytest.approx(
        evaluate(only_tail, returned, metrics=["PSP@5"], train_labels=counts)["PSP@5"]
    )
    both = evaluate_sets(only_tail, sparse.csr_array(returned.to_sets() * tail[None, :]), metrics=["micro-F1"])
    assert report.slices[2].measures[2].value == pytest.approx(both["micro-F1"])


def test_slices_leave_out_depth_which_knows_no_truth():
    truth, returned, counts = random_problem()
    report = evaluate(
        truth,
        returned,
        metrics=["P@1", "depth@5"],
        train_labels=counts,
        label_depths=np.ones(30),
        slices=True,
    )
    assert report["depth@5"] == 1.0
    assert all([m.name for m in part.measures] == ["P@1"] for part in report.slices)


GOOD = ranking([0], [1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluate([[0]], GOOD), "the same rows, at least one; got 1 rows of Y and 2 ranked rows"),
        (lambda: evaluate([], ranking()), "at least one; got 0 rows"),
        (lambda: evaluate(np.ones((2, 3)), GOOD), "the same labels; got 3 labels in Y and 4 in the ranking"),
        (lambda: evaluate([[0], [7]], GOOD), "label ids of Y must be below 4; got 7"),
        (lambda: evaluate([[0], [1]], np.ones((2, 4))), "ranking must be a Ranking; got ndarray"),
        (lambda: evaluate([[0], [1]], GOOD, metrics=["PSP@1"]), "Pass train_labels"),
        (lambda: evaluate([[0], [1]], GOOD, slices=True), "slices require the label frequencies"),
        (lambda: evaluate([[0], [1]], GOOD, metrics=["depth@1"]), "Pass label_depths"),
        (lambda: evaluate([[0], [1]], GOOD, label_depths=[1]), "one number for each of 4 labels"),
        (lambda: evaluate([[0], [1]], GOOD, label_depths=[1, 2, 3, np.inf]), "label_depths must hold finite"),
        (lambda: evaluate([[0], [1]], GOOD, train_labels=[[0], [1]]), "the 4 labels of Y; got 2"),
        (
            lambda: evaluate([[0], [1]], GOOD, metrics=["PSP@1"], propensity=[1.0]),
            "each of 4 labels; got an array of shape",
        ),
        (lambda: evaluate([[0], [1]], GOOD, confidence=1.0), "confidence must be a number from 0.5 to 0.999"),
        (lambda: evaluate([[0], [1]], GOOD, confidence=0.9, n_resamples=1), "n_resamples must be"),
        (lambda: evaluate([[0], [1]], GOOD, threads=0), "threads must be"),
        (
            lambda: evaluate_sets([[0]], [[0]], metrics=["P@1"]),
            "P@1 requires ranked labels, and label sets have no order",
        ),
        (lambda: evaluate_sets([[0]], [[0]], metrics=["micro-F1@2"]), "micro-F1@2 requires ranked labels"),
    ],
)
def test_misuse_is_named(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert message in str(error.value)


def test_sets_may_be_lists_matrices_or_a_ranking():
    truth = [[0, 1], [3]]
    for predicted in ([[0], [3]], np.array([[1, 0, 0, 0], [0, 0, 0, 1]]), ranking([0], [3])):
        dense = np.array([[1, 1, 0, 0], [0, 0, 0, 1]])
        assert evaluate_sets(truth, predicted, metrics=["micro-R"])["micro-R"] == pytest.approx(2 / 3)
        if not isinstance(predicted, list):
            assert evaluate_sets(dense, predicted)["hamming"] == 1 / 8
