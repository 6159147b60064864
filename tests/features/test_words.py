"""Bags and sequences of words: which words are kept, the rows of a text, storage."""

import numpy as np
import pytest

from tagwood.errors import InputError
from tagwood.features.words import UNKNOWN, WordBags, WordSequences
from tagwood.storage import State

TEXTS = ["Fir trees, fir wood", "fir and oak", "oak trees", "zebra"]


def test_words_and_n_grams_are_kept_by_the_number_of_their_texts():
    texts = [*TEXTS, "an oak and a fir and oak"]
    bags = WordBags.learn(texts, 2, bits=16)
    assert bags.n_words == 4  # and, fir, oak, trees; fir occurs twice in one text
    assert bags.n_features == 1 + 4 + 2  # fir and, and oak
    assert np.count_nonzero(bags.buckets >= 0) == 2
    alone = WordBags.learn(TEXTS, min_count=1, longest=1)
    assert (alone.n_words, alone.n_features, alone.buckets.size) == (6, 7, 0)


def test_rows_sum_to_one_and_unknown_words_do_not_count():
    bags = WordBags.learn(TEXTS, min_count=1, bits=16)
    rows = bags.rows(["oak", "", "oak oak unknown", "FIR wood"])
    sizes = np.diff(rows.indptr)
    np.testing.assert_allclose(np.add.reduceat(rows.data, rows.indptr[:-1]), 1.0, rtol=1e-6)
    assert sizes.tolist() == [2, 1, 2, 4]
    assert rows.data[3:5].tolist() == pytest.approx([1 / 3, 2 / 3])
    assert np.all(rows.indices[rows.indptr[:-1]] == 0)


def test_frequent_features_come_first():
    bags = WordBags.learn(["elm"] * 2 + ["oak"] * 5 + ["ash"] * 3, min_count=1)
    firsts = [int(bags.rows([word]).indices[1]) for word in ("oak", "ash", "elm")]
    assert firsts == [1, 2, 3]


def test_threads_and_chunks_do_not_matter():
    texts = [f"word{i % 7} and word{i % 5}" for i in range(300)]
    bags = WordBags.learn(texts)
    one, two = bags.rows(texts, threads=1), bags.rows(texts, threads=3)
    for name in ("indptr", "indices", "data"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
    again = WordBags.learn(texts, threads=3)
    assert again.slots.tobytes() == bags.slots.tobytes()
    assert again.buckets.tobytes() == bags.buckets.tobytes()


def test_a_stored_table_is_restored():
    bags = WordBags.learn(TEXTS)
    again = WordBags.from_state(bags.state())
    assert again.rows(TEXTS).data.tobytes() == bags.rows(TEXTS).data.tobytes()


def test_texts_without_frequent_words_are_refused():
    with pytest.raises(InputError, match=r"at least one word must occur in 3 texts or more.*Lower min_count"):
        WordBags.learn(TEXTS, min_count=3)


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
