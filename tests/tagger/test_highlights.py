"""Pieces of a text with the weights of an explanation's words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagwood.features.tfidf import TfidfEncoder
from tagwood.tagger.explanation import segment_text


def marked(text, words):
    return {text: weight for text, weight in segment_text(text, words) if weight is not None}


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("東京の図書館", [("図書", 1.0)], {"図": 0.5, "書": 0.5}),
        ("図書館 catalog", [("館 catalog", 1.0)], {"館": 0.5, "catalog": 0.5}),
        ("ภาษา", [("ษา", 1.0)], {"ษ": 0.5, "า": 0.5}),
        ("Élan vital", [("élan", 2.0)], {"Élan": 2.0}),
        ("ＳＱＬ joins", [("sql joins", 1.0)], {"ＳＱＬ": 0.5, "joins": 0.5}),
        ("no match", [("other", 1.0)], {}),
        ("", [("a", 1.0)], {}),
    ],
)
def test_words_are_found_as_the_encoder_sees_them(text, words, found):
    assert marked(text, words) == found


def test_every_word_and_pair_of_a_text_is_found_again():
    texts = ["東京都の図書館 catalog", "สวัสดี ภาษาไทย", "Straße, e\u0301lan; naïve—ÖL 3,5"]
    names = TfidfEncoder(min_df=1).fit(texts).feature_names()
    for name in names:
        assert any(marked(text, [(name, 1.0)]) for text in texts), name


@given(st.text(max_size=40), st.lists(st.text(max_size=6), max_size=4))
def test_the_pieces_make_up_the_text(text, words):
    assert "".join(piece.text for piece in segment_text(text, [(word, 1.0) for word in words])) == text
