"""The kernel that turns texts into word numbers, against its twin."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import words as reference

from tagwood import _kernels
from tagwood.features.base import char_tables, packed_chunks
from tagwood.features.words import WordBags

WORDS = ["fir", "oak", "x", "Öl", "東京", "e\u0301te", "pine-tree", "42", "", "\u00ad", "ﬁr"]
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=12).map(" ".join)


@settings(deadline=None, max_examples=80)
@given(st.lists(TEXTS, max_size=150), st.integers(1, 8), st.integers(1, 3))
def test_words_have_the_numbers_the_twin_gives_them(texts, longest, threads):
    known = WordBags.learn(["fir oak oak", "öl 東京 42"], longest=1)
    tables = char_tables(True)
    for chunk in packed_chunks(texts, tables.folds):
        arguments = (*chunk, *tables, known.slots, known.n_words, longest)
        found, wanted = _kernels.word_rows(*arguments, threads), reference.word_rows(*arguments, 1)
        for array, twin in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(array, twin)
            assert array.dtype == twin.dtype


def test_no_texts_give_no_rows():
    known = WordBags.learn(["fir"], longest=1)
    empty = np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    indptr, ids = _kernels.word_rows(*empty, *char_tables(True), known.slots, known.n_words, 5, 1)
    assert indptr.tolist() == [0]
    assert ids.size == 0
