"""The splits and intervals of the quality benchmark."""

import numpy as np
from scipy import sparse

from benchmarks.quality.data import Split, without_labels
from benchmarks.quality.worker import Answers, gains
from tagwood.data import LabelVocab
from tagwood.metrics import LabelCounts
from tagwood.ranking import Ranking


def test_labels_taken_out_have_no_training_row_and_come_last():
    Y = sparse.csr_array(np.eye(20, dtype=np.float32).repeat(3, axis=0))
    names = [f"label {label}" for label in range(20)]
    texts = [names[row // 3] for row in range(60)]
    split = Split(texts, Y, texts[::3], Y[::3], LabelVocab.from_names(names, uris=names))
    unseen = without_labels(split, seed=0)
    assert len(unseen.new_names) == 2
    assert len(unseen.split.vocab) == 18
    assert not set(unseen.new_names) & set(unseen.split.texts)
    columns = [*unseen.split.vocab.names, *unseen.new_names]
    assert [columns[label] for label in unseen.Y_test.indices] == split.test_texts


def test_a_gain_is_the_difference_on_the_same_rows():
    Y = sparse.csr_array(np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=np.float32))
    right = Ranking.from_lists([[(0, 0.9)], [(1, 0.9)]] * 2, 2)
    wrong = Ranking.from_lists([[(1, 0.9)], [(0, 0.9)]] * 2, 2)
    found = gains(Answers(wrong, wrong), Answers(right, right), Y, LabelCounts.of(Y))
    assert found["P@1"] == [100.0, 0.0]
    assert found["micro-F1"] == [100.0, 0.0]
    assert gains(Answers(right, right), Answers(right, right), Y, LabelCounts.of(Y))["nDCG@5"] == [0.0, 0.0]
