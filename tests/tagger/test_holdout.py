"""What is held out: single rows, or blocks of rows that stand together; filtered pairs do not count."""

import numpy as np
import pytest
from scipy import sparse

from tagwood import Tagger, load
from tagwood.data import Dataset
from tagwood.errors import InputError
from tagwood.tagger.fitting import SetRules


def sorted_rows(n_blocks=30, seed=0):
    """Rows in blocks of 40 with words and a label of their own, which say nothing about other blocks."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for block in range(n_blocks):
        for _ in range(40):
            texts.append(" ".join(f"block{block}word{random.integers(9)}" for _ in range(5)))
            labels.append([f"label{block % 10}"])
    return texts, labels


@pytest.mark.parametrize("quality", ["fast", "balanced"])
def test_blocks_measure_what_texts_of_other_sources_get(quality, tmp_path):
    texts, labels = sorted_rows()
    taggers = [Tagger(quality=quality, sets=SetRules(holdout_by=by)).fit(texts, labels) for by in ("rows", "blocks")]
    rows, blocks = (tagger.measures_.values["P@1"] for tagger in taggers)
    assert rows > 0.95
    assert blocks < 0.3
    assert load(taggers[1].save(tmp_path / "model")).sets.holdout_by == "blocks"


def test_other_ways_are_refused():
    with pytest.raises(InputError, match="holdout_by must be"):
        SetRules(holdout_by="labels").check()


@pytest.mark.parametrize("quality", ["fast", "balanced"])
def test_filtered_pairs_count_neither_as_returned_nor_as_true(quality):
    """Label 0 suits every text, but is filtered on a fifth of the rows; the label of the topic is right on these."""
    random = np.random.default_rng(0)
    topics, filtered = random.integers(1, 5, 600), np.arange(600) % 5 == 0
    texts = [" ".join(f"topic{t}word{random.integers(9)}" for _ in range(6)) for t in topics]
    labels = [[int(t)] if out else [0] for t, out in zip(topics, filtered, strict=True)]
    pairs = sparse.csr_array((np.ones(120), (np.flatnonzero(filtered), np.zeros(120, dtype=int))), shape=(600, 5))
    plain, known = (
        Tagger(quality=quality).fit(Dataset(labels, texts=texts, filter_pairs=one)).measures_.values["P@1"]
        for one in (None, pairs)
    )
    assert known > plain
