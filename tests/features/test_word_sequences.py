"""Words of texts in order: numbers, unknown and empty texts, storage."""

import numpy as np
import pytest

from tagwood.errors import InputError
from tagwood.features.words import UNKNOWN, WordSequences
from tagwood.storage import State


def test_words_keep_their_order_and_unknown_ones_their_place():
    words = WordSequences.learn(["fir oak oak", "fir ash"], min_count=1)
    numbers = {word: place for place, word in enumerate(words.words(), 2)}
    borders, ids = words.rows(["ash fir, elm ASH", "oak"])
    assert borders.tolist() == [0, 4, 5]
    assert ids.tolist() == [numbers["ash"], numbers["fir"], UNKNOWN, numbers["ash"], numbers["oak"]]
    assert numbers["fir"] == 2  # in most texts


def test_texts_without_words_are_one_unknown_word():
    words = WordSequences.learn(["fir oak"])
    borders, ids = words.rows(["", "fir", " ,. ", "x"])
    assert borders.tolist() == [0, 1, 2, 3, 4]
    assert ids.tolist() == [UNKNOWN, words.words().index("fir") + 2, UNKNOWN, UNKNOWN]


def test_long_texts_are_cut():
    words = WordSequences.learn(["fir oak ash"])
    borders, ids = words.rows(["fir oak ash fir"], longest=2)
    assert borders.tolist() == [0, 2]
    assert ids.size == 2


def test_rare_words_and_words_beyond_the_limit_are_left_out():
    texts = ["fir oak", "fir oak", "fir ash"]
    assert set(WordSequences.learn(texts, 2).words()) == {"fir", "oak"}
    assert WordSequences.learn(texts, 1, most=1).words() == ["fir"]


def test_many_texts_are_joined_from_chunks():
    words = WordSequences.learn(["fir oak"])
    borders, ids = words.rows(["fir", "oak fir", ""] * 6000)
    assert borders.size == 18_001
    assert ids.size == 24_000
    np.testing.assert_array_equal(np.diff(borders).reshape(-1, 3), np.tile([1, 2, 1], (6000, 1)))


def test_no_texts_give_no_rows():
    borders, ids = WordSequences.learn(["fir oak"]).rows([])
    assert borders.tolist() == [0]
    assert ids.size == 0


def test_it_is_stored_and_damage_is_refused():
    words = WordSequences.learn(["fir oak", "öl"])
    again = WordSequences.from_state(words.state())
    assert again.words() == words.words()
    assert again.rows(["Öl oak"])[1].tolist() == words.rows(["Öl oak"])[1].tolist()
    broken = {**words.state().arrays, "slots": np.zeros(3, dtype=np.uint64)}
    with pytest.raises(InputError, match="must fit together"):
        WordSequences.from_state(State("WordSequences", arrays=broken))
