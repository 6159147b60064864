"""Titles: the first line of a text counts more where that helps."""

from __future__ import annotations

import numpy as np
import pytest

from tagwood import Tagger, TfidfEncoder, load


def titled(n_rows=800, n_labels=20, *, telling="title", seed=0):
    """Texts with a title and a body; the words of one of them tell the label, the other has words of any label."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(n_rows):
        label = int(random.integers(n_labels))
        own = " ".join(f"topic{label}word{random.integers(4)}" for _ in range(2))
        any_label = " ".join(f"topic{random.integers(n_labels)}word{random.integers(4)}" for _ in range(6))
        texts.append(f"{own}\n{any_label}" if telling == "title" else f"{any_label}\n{own}")
        labels.append([f"label{label}"])
    return texts, labels


@pytest.mark.parametrize(("telling", "counts_more"), [("title", True), ("body", False)])
def test_titles_count_more_where_that_helps(telling, counts_more, tmp_path):
    texts, labels = titled(telling=telling)
    tagger = Tagger(quality="fast").fit(texts, labels)
    title, rest = tagger.encoder_.field_weights
    assert (title > 1) is counts_more
    assert (rest > 1) is not counts_more
    again = load(tagger.save(tmp_path / "model"))
    assert again.encoder_.field_weights == (title, rest)
    assert again.tag(texts[:9]) == tagger.tag(texts[:9])


def test_a_given_weight_and_texts_without_titles_are_left_alone():
    texts, labels = titled()
    given = Tagger(TfidfEncoder(field_weights=(1, 1)), quality="fast").fit(texts, labels)
    assert given.encoder_.field_weights == (1, 1)
    flat = [text.replace("\n", " ") for text in texts]
    assert Tagger(quality="fast").fit(flat, labels).encoder_.field_weights is None
