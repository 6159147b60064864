"""The figures of a dataset, counted by hand, and the warnings they lead to."""

import json

import numpy as np
import pytest

from tagwood.data import Dataset, LabelVocab
from tagwood.data.statistics import Spread, compute_statistics

VOCAB = LabelVocab.from_names(["ash", "oak", "elm", "fir", "unused"])


@pytest.fixture
def train():
    return Dataset(
        [[0, 1], [0], [0, 2], [], [0, 1, 2], [0]],
        VOCAB,
        texts=["a tree", "b", " a  tree ", "d", "", "b"],
        groups=["g", "g", "", "h", "h", ""],
    )


def test_rows_labels_and_spreads(train):
    found = compute_statistics(train)
    assert (found.rows, found.labels, found.labels_used, found.pairs, found.groups) == (6, 5, 3, 9, 2)
    assert found.labels_per_row == Spread(1.5, 0, 1.0, 1.5, 2.0, 3)
    assert found.rows_per_label == Spread(3.0, 2, 2.0, 2.0, 3.5, 5)
    assert found.words_per_row == Spread(7 / 6, 0, 1.0, 1.0, 1.75, 2)
    assert found.features is None


def test_empty_unlabelled_and_duplicate_rows(train):
    found = compute_statistics(train)
    assert (found.empty_rows, found.rows_without_labels) == (1, 1)
    assert (found.duplicate_rows, found.conflicting_rows) == (2, 1)


def test_tail_counts_labels_on_at_most_five_rows():
    labels = [[0] for _ in range(6)] + [[1]] + [[2]] * 3
    found = compute_statistics(Dataset(labels, VOCAB, texts=[str(row) for row in range(10)]))
    assert (found.tail_labels, found.singleton_labels) == (2, 1)
    assert found.tail_share == pytest.approx(2 / 3)
    assert found.tail_pair_share == pytest.approx(4 / 10)


def test_leaks_and_labels_only_in_test(train):
    test = Dataset([[3], [3, 0], []], VOCAB, texts=["a\ntree", "new", ""])
    found = compute_statistics(train, test).test
    assert (found.rows, found.leaked_rows, found.labels_only_in_test, found.pairs_only_in_test) == (
        3,
        1,
        1,
        2,
    )
    assert found.rows_without_labels == 1


def test_rows_without_texts_are_compared_by_features():
    data = Dataset([[0], [0], [0]], features=np.array([[1, 0], [0, 0], [1, 0]]))
    found = compute_statistics(data, Dataset([[0]], features=np.array([[1, 0]])))
    assert (found.duplicate_rows, found.empty_rows, found.test.leaked_rows, found.features) == (1, 1, 1, 2)


def test_warnings_are_in_plain_words(train):
    test = Dataset([[3]], VOCAB, texts=["b"])
    words = compute_statistics(train, test).warnings
    assert words[0].startswith("Test rows that are also in the training set: 1 of 1 (100 %).")
    assert any(
        line.startswith("Labels that appear only in the test set: 1 of 1 (100 %), with 1 assignment") for line in words
    )
    assert "Rows without labels: 1 of 6 (17 %)." in words
    assert any(line.startswith("Labels without any row: 2 of 5 (40 %).") for line in words)
    assert any(line.startswith("Rows that repeat an earlier row: 2 of 6 (33 %), 1 of them") for line in words)


def test_a_set_without_labels_or_rows_says_so_first():
    assert compute_statistics(Dataset([[], []], VOCAB, texts=["a", "b"])).warnings[0].startswith("No row has a label")
    assert compute_statistics(Dataset([], VOCAB, texts=[])).warnings == ("There are no rows.",)


def test_a_clean_set_has_no_warnings():
    data = Dataset([[row % 2] for row in range(40)], texts=[f"text {row}" for row in range(40)])
    assert compute_statistics(data).warnings == ()


def test_figures_are_plain_json_values(train):
    found = json.loads(json.dumps(compute_statistics(train, train).to_dict()))
    assert found["test"]["leaked_rows"] == 5
    assert found["labels_per_row"]["median"] == 1.5
    assert isinstance(found["warnings"], list)
