"""Metrics against napkinXC and scikit-learn.

The napkinXC numbers were printed by napkinxc 0.7.2 (numpy 1.26, in an environment of its own) from the
lists below: `precision_at_k(TRUTH, RANKED, k=5)` and so on, inverse propensities from 30 rows with COUNTS.
Where it decides otherwise the test says how: it lets rows without true labels count 0 in recall, and does not
divide the Hamming loss by the number of labels.
"""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import hamming_loss, precision_recall_fscore_support

from tagwood import Ranking
from tagwood.metrics import LabelCounts, evaluate, evaluate_sets, inverse_propensity
from tagwood.metrics.annif import annif_measures

TRUTH = [[3], [4, 5], [0, 1, 5], [], [0, 1, 2, 4], [1, 2], [2], [2, 4, 7], [3, 7], [0, 1, 2, 3, 4, 6]]
RANKED = [
    [3, 7, 5],
    [4, 5, 2, 6],
    [1, 0, 5],
    [2, 0, 6, 5],
    [3, 7, 1, 0],
    [2, 3, 4, 0],
    [2, 3, 4, 0, 6],
    [2, 1, 7, 4, 5, 3],
    [7, 1, 3, 5, 2, 4],
    [6, 4],
]
COUNTS = LabelCounts(np.array([12, 10, 11, 9, 7, 5, 7, 2]), n_rows=30)
RANKING = Ranking.from_lists([[(x, 1 - i / 10) for i, x in enumerate(row)] for row in RANKED], n_labels=8)
SHARE_WITH_LABELS = 9 / 10

NAPKINXC_AT_1_TO_5 = {
    "P": [0.8, 0.55, 0.5000000000000001, 0.425, 0.33999999999999997],
    "R": [0.4333333333333333, 0.5333333333333332, 0.675, 0.7333333333333333, 0.7333333333333333],
    "nDCG": [0.8, 0.6839441578296375, 0.7236786070947782, 0.7438893417448329, 0.7355357448723641],
    "coverage": [0.75, 1.0, 1.0, 1.0, 1.0],
    "PSP": [
        0.8199324404287728,
        0.6663052769907308,
        0.7611719375347862,
        0.7848012092141881,
        0.7536961009623335,
    ],
    "PSR": [0.8919123955718194, 0.7272266179295691, 0.825781542893596, 0.8545569901969859, 0.839874871581861],
    "PSnDCG": [
        0.8199324404287728,
        0.7284867825931691,
        0.7949380090405519,
        0.8175406608544739,
        0.8092137430498203,
    ],
}
NAPKINXC_SETS = {"micro-F1": 0.5230769230769231, "macro-F1": 0.5195707070707071, "example-F1": 0.5}
NAPKINXC_HAMMING = 3.1
NAPKINXC_INVERSE_PROPENSITY = {
    "default": [
        1.9497543540598792,
        2.037315945070935,
        1.9908190745641057,
        2.090537869793896,
        2.2249389849766628,
        2.419686719497757,
        2.2249389849766628,
        2.9955262336495085,
    ],
    "wikipedia": [
        1.8068281391520462,
        1.8809985818104837,
        1.8414715812810645,
        1.9266760785010772,
        2.0444220186162756,
        2.2226298622218437,
        2.0444220186162756,
        2.8339447933327655,
    ],
    "amazon": [
        2.0365676432861006,
        2.132366556886681,
        2.0816481617907803,
        2.1899660417549804,
        2.3330505602658045,
        2.53363215704388,
        2.3330505602658045,
        3.072786934935107,
    ],
}


@pytest.mark.parametrize("family", NAPKINXC_AT_1_TO_5)
def test_metrics_at_k_equal_napkinxc(family):
    report = evaluate(TRUTH, RANKING, metrics=[f"{family}@{k}" for k in range(1, 6)], train_labels=COUNTS)
    ours = np.array([measure.value for measure in report.measures])
    if family == "R":  # napkinXC divides by all rows
        ours = ours * SHARE_WITH_LABELS
    np.testing.assert_allclose(ours, NAPKINXC_AT_1_TO_5[family], rtol=0, atol=1e-12)


@pytest.mark.parametrize("preset", NAPKINXC_INVERSE_PROPENSITY)
def test_propensities_equal_napkinxc(preset):
    np.testing.assert_allclose(
        inverse_propensity(COUNTS, preset), NAPKINXC_INVERSE_PROPENSITY[preset], rtol=0, atol=1e-12
    )


def test_set_metrics_equal_napkinxc():
    report = evaluate(TRUTH, RANKING, metrics=[*NAPKINXC_SETS, "hamming"])
    for name, value in NAPKINXC_SETS.items():
        assert report[name] == pytest.approx(value, abs=1e-12)
    assert report["hamming"] * RANKING.n_labels == pytest.approx(NAPKINXC_HAMMING, abs=1e-12)


@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "samples"])
def test_set_metrics_equal_scikit_learn(average):
    rng = np.random.default_rng(5)
    truth, predicted = (rng.random((2, 60, 12)) < 0.15).astype(int)
    seen = np.flatnonzero((truth + predicted).any(axis=0))
    labels = seen if average == "macro" else None  # scikit-learn counts labels that never occur as 0
    expected = precision_recall_fscore_support(truth, predicted, average=average, labels=labels, zero_division=0)
    ours = "example" if average == "samples" else average
    report = evaluate_sets(truth, predicted, metrics=[f"{ours}-{what}" for what in ("P", "R", "F1")])
    np.testing.assert_allclose([m.value for m in report.measures], expected[:3], rtol=0, atol=1e-12)
    assert evaluate_sets(truth, predicted)["hamming"] == pytest.approx(hamming_loss(truth, predicted))


def test_the_block_of_annif_equals_its_definitions_in_scikit_learn():
    rng = np.random.default_rng(3)
    truth = (rng.random((40, 15)) < 0.15).astype(int)
    truth[:3] = 0
    truth[:, 14] = 0  # never used
    scores = np.where(rng.random((40, 15)) < 0.3, rng.random((40, 15)), 0.0)
    scores[:, 14] = 0
    found = annif_measures(truth, Ranking.from_csr(sparse.csr_array(scores)))
    names = {"doc avg": "samples", "subj avg": "macro", "weighted subj avg": "weighted", "microavg": "micro"}
    for name, average in names.items():
        expected = precision_recall_fscore_support(truth, scores > 0, average=average, zero_division=0)
        values = [found[f"{what} ({name})"] for what in ("Precision", "Recall", "F1 score")]
        np.testing.assert_allclose(values, expected[:3], atol=1e-12)
    order = np.argsort(-scores, axis=1, kind="stable")
    places = np.argsort(order, axis=1)
    for k in (1, 3, 5):
        first = (places < k) & (scores > 0)
        expected = precision_recall_fscore_support(truth, first, average="samples", zero_division=0)
        assert found[f"Precision@{k}"] == pytest.approx(expected[0])
    assert found["F1@5"] == pytest.approx(expected[2])
    for name, limit in (("NDCG", 15), ("NDCG@5", 5), ("NDCG@10", 10)):
        gains = np.where((places < limit) & (scores > 0), truth / np.log2(places + 2.0), 0).sum(axis=1)
        best = np.array([(1 / np.log2(np.arange(min(n, limit)) + 2.0)).sum() for n in truth.sum(axis=1)])
        expected = np.where(best > 0, gains / np.maximum(best, 1e-9), 1.0).mean()
        assert found[name] == pytest.approx(expected)
    assert found["True positives"] == (truth & (scores > 0)).sum()
    assert found["False positives"] == ((scores > 0) & (truth == 0)).sum()
    assert found["False negatives"] == (truth & (scores == 0)).sum()
    assert found["Documents evaluated"] == 40


def test_annif_names_of_measures_are_known():
    report = evaluate(TRUTH, RANKING, metrics=["F1@5", "precision@3", "Recall@5", "example-F1@5", "example-P@3"])
    assert [m.name for m in report.measures][:3] == ["F1@5", "Precision@3", "Recall@5"]
    assert report["F1@5"] == report["example-F1@5"]
    assert report["Precision@3"] == report["example-P@3"]
