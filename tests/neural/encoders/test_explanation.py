"""Weights of words against their definition: what the score loses without a word."""

import numpy as np
import pytest

from tagwood import TextEncoder
from tagwood.neural.encoders import text_encoder

TEXTS = ["the oak tree", "an ash tree", "salt of the sea", "the sea, the sea!"] * 3


@pytest.fixture(scope="module", params=["bag", "small", "minilm"])
def encoder(request):
    return TextEncoder(request.param, dimension=64, layers=1, threads=1).fit(TEXTS)


def test_a_weight_is_what_the_score_loses_without_the_word(encoder):
    vector = encoder.transform(["sea water"])[0]
    words = encoder.explain("salt of sea", vector)
    assert [word for word, _ in words] == ["salt", "of", "sea"]
    whole, without = encoder.transform(["salt of sea", "salt of"]) @ vector
    assert dict(words)["sea"] == pytest.approx(whole - without, abs=1e-5)


def test_all_occurrences_of_a_word_are_left_out_together(encoder):
    vector = encoder.transform(["sea"])[0]
    words = encoder.explain("The sea the SEA", vector)
    assert [word for word, _ in words] == ["The", "sea"]
    whole, without = encoder.transform(["the sea the sea", "the the"]) @ vector
    assert dict(words)["sea"] == pytest.approx(whole - without, abs=1e-5)


def test_the_only_word_carries_the_whole_score(encoder):
    vector = encoder.transform(["oak"])[0]
    ((word, weight),) = encoder.explain("oak", vector)
    assert (word, weight) == ("oak", pytest.approx(1.0, abs=1e-5))


@pytest.mark.parametrize("text", ["", "  ", "!!! ..."])
def test_texts_without_words_have_no_weights(encoder, text):
    assert encoder.explain(text, encoder.transform(["oak"])[0]) == []


def test_words_behind_the_last_token_are_left_out():
    encoder = TextEncoder("bag", dimension=32, max_length=3, threads=1).fit(TEXTS)
    words = encoder.explain("sea oak ash tree salt", encoder.transform(["oak"])[0])
    assert [word for word, _ in words] == ["sea", "oak", "ash"]


def test_long_texts_are_split_into_phrases(encoder, monkeypatch):
    monkeypatch.setattr(text_encoder, "MAX_WORDS", 5)
    text = " ".join(f"{first}{second}" for first in "abcd" for second in "xyz")
    words = encoder.explain(text, encoder.transform(["ax"])[0])
    assert [word for word, _ in words][:2] == ["ax ay az", "bx by bz"]
    assert np.argmax([weight for _, weight in words]) == 0


def test_words_in_any_script_are_found(encoder):
    words = [word for word, _ in encoder.explain("Straße, 東京 naïve", encoder.transform(["oak"])[0])]
    assert words[0] == "Straße"
    assert "naïve" in words
