"""Probabilities of a Tagger: those of the context where enough rows were held out, the same for every question."""

import numpy as np
import pytest

from tagwood import LinearTree, Tagger, TfidfEncoder
from tagwood.tagger.fitting import SetRules


def library(n_rows, seed=0):
    random = np.random.default_rng(seed)
    labels = [random.choice(20, size=2, replace=False).tolist() for _ in range(n_rows)]
    words = [
        " ".join(f"w{label}x{random.integers(4)}" for label in row) + f" noise{random.integers(9)}" for row in labels
    ]
    return words, [[f"label{label}" for label in row] for row in labels]


@pytest.fixture(scope="module")
def tagger():
    encoder = TfidfEncoder(ngrams=(1, 1), threads=1)
    return Tagger(encoder, LinearTree(threads=1), sets=SetRules(holdout=0.5), keep_texts=0).fit(*library(2000))


def test_context_is_used_where_enough_rows_were_held_out(tagger):
    assert tagger.probabilities_.calibrator.uses_context
    few = Tagger(model=LinearTree(threads=1), keep_texts=0).fit(*library(600))
    assert not few.probabilities_.calibrator.uses_context


def test_probabilities_do_not_depend_on_the_number_of_labels_or_on_other_texts(tagger):
    texts, _ = library(20, seed=1)
    ten = tagger.rank(texts, k=10)
    for k in (1, 3, 20, 100):
        assert tagger.rank(texts, k=k).top(min(k, 10)) == ten.top(k)
    for row, text in enumerate(texts):
        assert tagger.rank([text], k=10) == ten.rows([row])
    assert tagger.explain(texts[0], int(ten.labels[0])).score == pytest.approx(float(ten.scores[0]))


def test_labels_that_are_left_out_change_no_score_but_by_the_plain_curve(tagger):
    texts, _ = library(5, seed=2)
    plain = tagger.rank(texts, k=5, exclude=["label3"])
    assert plain.scores.tolist() == tagger.rank(texts, k=20, exclude=["label3"]).top(5).scores.tolist()
    assert tagger.rank(texts, k=5, restrict=[f"label{label}" for label in range(20)]).n_rows == 5


def test_a_stored_tagger_has_the_same_probabilities(tagger, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    texts, _ = library(9, seed=3)
    tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model")
    assert again.rank(texts, k=7) == tagger.rank(texts, k=7)
    assert (again.predict(texts) != tagger.predict(texts)).nnz == 0
