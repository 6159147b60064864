"""Folding by table equals folding by Python, and words are what a reader takes for words."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagwood.features.base import COMPLEX, IGNORED, MARK, char_tables, fold_text
from tagwood.features.tfidf import TfidfEncoder


def words(text, **options):
    return sorted(TfidfEncoder(ngrams=(1, 1), min_df=1, threads=1, **options).fit([text]).feature_names())


def fold_by_table(text):
    folds = char_tables(True).folds
    entries = [int(folds[ord(c)]) for c in text]
    return "".join(chr(e & 0xFFFF) + (chr(e >> 16) if e >> 16 else "") for e in entries)


simple = st.characters(max_codepoint=0xFFFF).filter(lambda c: char_tables(True).folds[ord(c)] != COMPLEX)


@given(st.text(simple | st.sampled_from("aAéÉßΣﬁǆ…東한")))
def test_folding_character_by_character_gives_the_same_words(text):
    # Runs of signs may differ (an ellipsis becomes one space), what stands between them may not.
    def cut(folded):
        return "".join(c if char_tables(True).classes[ord(c)] else " " for c in folded).split()

    assert cut(fold_by_table(text)) == cut(fold_text(text))


def test_every_combining_mark_is_known_and_left_to_python():
    classes, folds = char_tables(True)
    codes = range(len(classes))
    marks = [c for c in codes if unicodedata.category(chr(c))[0] == "M" or unicodedata.combining(chr(c))]
    assert np.isin(classes[marks], (MARK, IGNORED)).all()
    assert (folds[[c for c in marks if c < len(folds)]] == COMPLEX).all()


@given(st.text())
def test_folding_twice_changes_nothing(text):
    folded = fold_text(text)
    assert fold_text(folded) == folded


@pytest.mark.parametrize(
    "text, expected",
    [
        ("The C compiler, v2_0!", ["compiler", "the", "v2_0"]),
        ("STRASSE Straße", ["strasse"]),
        ("ﬁr ﬁr FIR ＦＩＲ", ["fir"]),
        ("cafe\u0301 CAFÉ", ["café"]),
        ("हिन्दी", ["हिन्दी"]),
        ("co\u00adop\u200derate", ["cooperate"]),
        ("東京タワー2号", ["タ", "ワ", "ー", "京", "号", "東"]),
        ("ปีใหม่", sorted(["ปี", "ใ", "ห", "ม่"])),
        ("한국어 문서", ["문서", "한국어"]),
        ("Ελλάς ΕΛΛΆΣ", ["ελλάσ"]),
    ],
)
def test_words(text, expected):
    assert words(text) == sorted(expected)


def test_ngrams_of_unspaced_characters_are_spelled_without_spaces():
    names = TfidfEncoder(min_df=1).fit(["東京 tower"]).feature_names()
    assert sorted(names) == sorted(["東", "京", "tower", "東京", "京 tower"])


def test_lone_surrogates_and_nul_separate_words():
    assert words("ab\ud800cd\0ef") == ["ab", "cd", "ef"]
