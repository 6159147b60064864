"""Text kernels against their Python twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import text as reference

from tagwood import _kernels
from tagwood.features.base import char_tables, packed_chunks
from tagwood.features.words import WordBags

# Chosen so that every rule of the tokenizer is met often, and anything at all now and then.
ODD = "aAbZ_19 \t.-éÉßİǅΣςñ東京かなガｶﾞ々ไทยที่มကြម្រ한국\u1100\u1161"
ODD += "ﬁ①…´½\u0301\u0307\u200b\u200d\u00ad\ufeff\ud800😀𝐀𠀀\0"
texts = st.lists(
    st.text(st.one_of(st.sampled_from(ODD), st.characters()), max_size=40)
    | st.text(st.sampled_from("ab é"), max_size=200)
    | st.text(st.sampled_from("word"), min_size=10, max_size=70),
    min_size=1,
    max_size=6,
)
lengths = st.sampled_from(
    [(1, 2, 0, 0, 0), (1, 1, 0, 0, 0), (2, 3, 0, 0, 0), (0, 0, 2, 4, 0), (1, 2, 3, 5, 0), (1, 2, 1, 3, 9)]
)
folded = st.booleans()


def pack(rows, fold):
    (chunk,) = packed_chunks(rows, char_tables(fold).folds)
    return (*chunk, *char_tables(fold))


def assert_same(native, twin):
    native, twin = (value if isinstance(value, tuple) else (value,) for value in (native, twin))
    for left, right in zip(native, twin, strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


@given(texts)
def test_complex_rows_equals_its_twin(rows):
    (chunk,) = packed_chunks(rows, np.empty(0, dtype=np.uint32))
    folds = char_tables(True).folds
    assert_same(_kernels.complex_rows(*chunk, folds), reference.complex_rows(*chunk, folds))


@given(texts, folded, lengths, st.integers(1, 3))
def test_count_terms_equals_its_twin(rows, fold, n, threads):
    arrays = pack(rows, fold)
    assert_same(_kernels.count_terms(*arrays, n, threads), reference.count_terms(*arrays, n, threads))


@given(texts, texts, lengths)
def test_merged_counts_are_those_of_all_texts_together(left, right, n):
    parts = [_kernels.count_terms(*pack(rows, True), n, 1) for rows in (left, right)]
    merged = _kernels.merge_counts(*parts[0], *parts[1])
    assert_same(merged, reference.merge_counts(*parts[0], *parts[1]))
    assert_same(merged, _kernels.count_terms(*pack(left + right, True), n, 1))


@given(st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 40), max_size=60))
def test_build_vocabulary_equals_its_twin(keys):
    array = np.array(sorted(keys), dtype=np.uint64)
    assert_same(_kernels.build_vocabulary(array), reference.build_vocabulary(array))


@settings(deadline=None)
@given(texts, folded, lengths.filter(lambda n: n[4] == 0), st.integers(1, 3), st.data())
def test_spell_terms_and_tfidf_rows_equal_their_twins(rows, fold, n, threads, data):
    arrays = pack(rows, fold)
    keys, _ = _kernels.count_terms(*arrays, n, 1)
    keys = keys[: data.draw(st.integers(0, keys.size))]
    slots = _kernels.build_vocabulary(keys)
    known = np.array(data.draw(st.lists(st.integers(0, 1), min_size=keys.size, max_size=keys.size)), dtype=np.uint8)
    args = (*arrays, n, slots, known, ord("~"), threads)
    assert_same(_kernels.spell_terms(*args), reference.spell_terms(*args))
    idf = np.linspace(1, 3, keys.size, dtype=np.float32)
    for sublinear in (False, True):
        args = (*arrays, n, slots, idf, sublinear, threads)
        indptr, indices, values = _kernels.tfidf_rows(*args)
        twin = reference.tfidf_rows(*args)
        assert_same((indptr, indices), twin[:2])
        np.testing.assert_allclose(values, twin[2], rtol=1e-6)


@given(texts)
def test_hashed_rows_equal_their_twin_and_leave_out_features_of_idf_zero(rows):
    arrays = pack(rows, True)
    idf = np.tile(np.array([0, 1.5], dtype=np.float32), 128)
    args = (*arrays, (1, 2, 0, 0, 8), np.empty(0, dtype=np.uint64), idf, True, 1)
    indptr, indices, values = _kernels.tfidf_rows(*args)
    twin = reference.tfidf_rows(*args)
    assert_same((indptr, indices), twin[:2])
    np.testing.assert_allclose(values, twin[2], rtol=1e-6)
    assert np.all(indices % 2 == 1)


def test_long_rows_are_sorted_and_counted_like_short_ones():
    rng = np.random.default_rng(0)
    words = [" ".join(f"w{i}" for i in rng.zipf(1.3, 3000) % 5000) for _ in range(3)]
    arrays = pack([*words, "x" * 1000 + " " + "y" * 17], True)
    keys, _ = _kernels.count_terms(*arrays, (1, 2, 0, 0, 0), 1)
    assert_same((keys,), reference.count_terms(*arrays, (1, 2, 0, 0, 0), 1)[:1])
    args = (
        *arrays,
        (1, 2, 0, 0, 0),
        _kernels.build_vocabulary(keys),
        np.ones(keys.size, dtype=np.float32),
        True,
        1,
    )
    native, twin = _kernels.tfidf_rows(*args), reference.tfidf_rows(*args)
    assert_same(native[:2], twin[:2])
    np.testing.assert_allclose(native[2], twin[2], rtol=1e-6)


@pytest.mark.parametrize("bad", [b"\xff", b"ab\xc3", b"\xe6\x9d", b"\xf8\x80\x80\x80", b"ok \x80 ok"])
def test_malformed_utf8_is_survived(bad):
    arrays = (np.frombuffer(bad, dtype=np.uint8), np.array([0, len(bad)]), *char_tables(True))
    keys, counts = _kernels.count_terms(*arrays, (1, 2, 2, 3, 0), 1)
    assert keys.size == counts.size


def test_a_damaged_vocabulary_neither_hangs_nor_reads_elsewhere():
    arrays = pack(["several words that are not there"], True)
    full = np.full(8, 2**64 - 1, dtype=np.uint64)
    indptr, _, _ = _kernels.tfidf_rows(*arrays, (1, 2, 0, 0, 0), full, np.ones(2, dtype=np.float32), True, 1)
    assert indptr.tolist() == [0, 0]


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


BAG_WORDS = st.sampled_from(["fir", "oak", "Tree", "é", "öl", "森", "林", "x", "--", "fir,oak"])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(BAG_WORDS, max_size=8).map(" ".join), min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from([1, 3]),
)
def test_bags_are_those_of_the_twin(texts, longest, min_count, counts_unknown, threads):
    known = [*texts, "fir oak tree", "oak fir tree"]
    bags = WordBags.learn(known, min_count=min_count, longest=longest, bits=8)
    tables = char_tables(True)
    (chunk,) = packed_chunks([*texts, "unknown words"], tables.folds)
    tail = bags.slots, bags.n_words, bags.buckets, bags.longest, bags.n_features, counts_unknown
    found = _kernels.bag_rows(*chunk, *tables, *tail, threads)
    wanted = reference.bag_rows(*chunk, *tables, *tail, 1)
    for one, two in zip(found[:2], wanted[:2], strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(found[2], wanted[2], rtol=1e-6)
