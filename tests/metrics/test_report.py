"""Reports: values by name, and the forms they are shown in."""

import io
import json
import pickle

import numpy as np
import pytest
from rich.console import Console

from tagwood import Ranking
from tagwood.errors import InputError
from tagwood.metrics import LabelCounts, evaluate, label_scores, set_scores

TRUTH = [[0, 2], [1], []]
RANKING = Ranking.from_lists([[(2, 0.9), (1, 0.5)], [(0, 0.8)], []], n_labels=3)


@pytest.fixture
def report():
    return evaluate(
        TRUTH,
        RANKING,
        metrics=["P@1", "PSP@1", "depth@2", "hamming", "coverage@1"],
        train_labels=LabelCounts(np.array([3, 9, 3]), n_rows=10),
        label_depths=[1, 2, 3],
        confidence=0.9,
        n_resamples=50,
        slices=True,
    )


def test_values_are_found_by_name_in_any_case(report):
    assert report["p@1"] == pytest.approx(1 / 3)
    assert report.measure("P@1").value == report["P@1"]
    with pytest.raises(InputError) as error:
        report["P@2"]
    assert "the measured metrics are P@1, PSP@1, depth@2, hamming, coverage@1; got 'P@2'" in str(error.value)
    with pytest.raises(InputError, match="unknown metric"):
        report["accuracy"]


def test_json_holds_plain_fractions_and_the_circumstances(report):
    plain = json.loads(report.to_json())
    assert plain["measures"]["P@1"]["value"] == report["P@1"]
    assert set(plain["measures"]["P@1"]) == {"value", "low", "high"}
    assert set(plain["measures"]["coverage@1"]) == {"value"}
    assert (plain["n_rows"], plain["n_labels"], plain["n_rows_without_labels"]) == (3, 3, 1)
    assert plain["propensity"] == "default (A=0.55, B=1.5)"
    assert [part["name"] for part in plain["slices"]] == ["head", "torso", "tail"]
    assert "P@1" in plain["slices"][0]["measures"]


def test_markdown_shows_percentages_intervals_and_slices(report):
    lines = report.to_markdown().splitlines()
    assert lines[0] == "| metric | value | 90 % interval | head | torso | tail |"
    assert lines[1] == "|---|---:|---:|---:|---:|---:|"
    assert lines[2].startswith("| P@1 | 33.33 | ")
    assert lines[4].startswith("| depth@2 | 2.00 | ")
    assert lines[4].endswith("|  |  |  |")
    assert lines[5].startswith("| hamming | 0.4444 | ")
    assert "1 rows without labels" in lines[-1]
    assert "head: 1 labels with 9 to 9 training rows" in lines[-1]


def test_table_has_a_line_per_metric(report):
    out = io.StringIO()
    Console(file=out, width=200).print(report.to_table())
    assert "33.33" in out.getvalue()
    assert report.to_table().row_count == 5


def test_reports_are_values(report):
    assert pickle.loads(pickle.dumps(report)) == report
    with pytest.raises(AttributeError):
        report.n_rows = 5


def test_scores_per_label_count_true_returned_and_both():
    scores = label_scores(TRUTH, RANKING)
    assert scores.true.tolist() == [1, 1, 1]
    assert scores.returned.tolist() == [1, 1, 1]
    assert scores.hits.tolist() == [0, 0, 1]
    assert scores.f1.tolist() == scores.precision.tolist() == scores.recall.tolist() == [0.0, 0.0, 1.0]
    assert label_scores(TRUTH, RANKING, k=1).returned.tolist() == [1, 0, 1]


def test_set_scores_name_their_averages():
    truth, predicted = np.array([[1, 1, 0]]), np.array([[1, 0, 1]])
    assert set_scores(truth, predicted) == (0.5, 0.5, 0.5)
    assert set_scores(truth, predicted, "macro").f1 == pytest.approx(1 / 3)
    with pytest.raises(InputError, match="average must be one of 'micro', 'macro', 'weighted', 'example'"):
        set_scores(truth, predicted, "samples")
