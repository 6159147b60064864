"""Behaviour of TfidfEncoder: order of features, limits, hashing, threads, state, single texts, misuse."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from tagwood.errors import InputError, NotFittedError
from tagwood.features import base as texts_module
from tagwood.features.base import Encoder
from tagwood.features.tfidf import TfidfEncoder
from tagwood.storage import load, save

TREES = ["Fir trees", "fir and oak", "the oak", "", "a fir, a fir: FIR"]


def corpus(n, seed=0):
    rng = np.random.default_rng(seed)
    words = np.array([f"w{i}é" if i % 7 == 0 else f"w{i}" for i in range(400)])
    return [" ".join(words[rng.zipf(1.4, rng.integers(0, 80)) % 400]) for _ in range(n)]


def assert_same_bits(left, right):
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


def test_features_are_numbered_by_falling_document_frequency():
    encoder = TfidfEncoder(ngrams=(1, 1), min_df=1).fit(TREES)
    names = encoder.feature_names()
    assert names[:2] == ["fir", "oak"]
    assert [encoder.feature_name(feature) for feature in range(len(names))] == names
    assert np.all(np.diff(encoder.state().arrays["idf"]) >= 0)


def test_max_features_keeps_a_prefix_of_the_features():
    whole, cut = TfidfEncoder().fit(corpus(300)), TfidfEncoder(max_features=50).fit(corpus(300))
    assert cut.feature_names() == whole.feature_names()[:50]


def test_rows_have_norm_one_rising_columns_and_int32_indices():
    X = TfidfEncoder().fit(corpus(300)).transform(corpus(100, seed=1))
    assert isinstance(X, sparse.csr_array)
    assert X.dtype == np.float32
    assert X.indices.dtype == np.int32
    norms = np.sqrt(X.multiply(X).sum(axis=1))
    np.testing.assert_allclose(norms[np.diff(X.indptr) > 0], 1, rtol=1e-6)
    assert all(np.all(np.diff(X.indices[a:b]) > 0) for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True))


def test_empty_and_unknown_texts_give_empty_rows():
    encoder = TfidfEncoder(min_df=1).fit(TREES)
    assert np.diff(encoder.transform(["", "xylem", "fir"]).indptr).tolist() == [0, 0, 1]
    assert encoder.transform([]).shape == (0, encoder.n_features)


def test_fit_transform_equals_fit_then_transform():
    for options in ({}, {"hash_bits": 12}, {"analyzer": "word+char"}):
        one, two = TfidfEncoder(**options), TfidfEncoder(**options)
        assert_same_bits(one.fit_transform(corpus(200)), two.fit(corpus(200)).transform(corpus(200)))


@pytest.mark.parametrize("options", [{}, {"analyzer": "word+char"}, {"hash_bits": 14}])
def test_threads_do_not_change_a_bit(options):
    train = corpus(500)
    one, *others = [TfidfEncoder(threads=n, **options).fit(train) for n in (1, 2, 3)]
    for other in others:
        for name, array in one.state().arrays.items():
            np.testing.assert_array_equal(array, other.state().arrays[name])
        assert_same_bits(one.transform(train), other.transform(train))


def test_chunks_do_not_change_a_bit(monkeypatch):
    train = corpus(300)
    whole = TfidfEncoder().fit(train)
    monkeypatch.setattr(texts_module, "_MAX_ROWS", 70)
    monkeypatch.setattr(texts_module, "_MAX_CHARS", 2000)
    pieces = TfidfEncoder().fit(train)
    assert pieces.feature_names() == whole.feature_names()
    assert_same_bits(pieces.transform(train), whole.transform(train))
    assert_same_bits(TfidfEncoder().fit_transform(train), whole.transform(train))


def test_batch_equals_text_by_text():
    encoder = TfidfEncoder().fit(corpus(300))
    batch = encoder.transform(corpus(40, seed=2))
    rows = [encoder.transform([text]) for text in corpus(40, seed=2)]
    assert_same_bits(batch, sparse.csr_array(sparse.vstack(rows, format="csr")))


def test_hashing_without_collisions_equals_a_vocabulary():
    train = corpus(60)
    names = TfidfEncoder(ngrams=(1, 1)).fit(train)
    hashed = TfidfEncoder(ngrams=(1, 1), hash_bits=26).fit(iter(train))
    left, right = names.transform(train), hashed.transform(train)
    np.testing.assert_array_equal(left.indptr, right.indptr)
    for a, b in zip(left.indptr[:-1], left.indptr[1:], strict=True):
        np.testing.assert_allclose(np.sort(left.data[a:b]), np.sort(right.data[a:b]), rtol=1e-6)


def test_character_ngrams_stand_beside_words_with_a_mark():
    names = TfidfEncoder(ngrams=(1, 1), analyzer="word+char", char_ngrams=(3, 3), min_df=1).fit(["fir"]).feature_names()
    assert sorted(names) == sorted(["fir", "~ fi", "~fir", "~ir "])


def test_state_round_trip_through_a_model_folder(tmp_path):
    for place, options in enumerate(({"analyzer": "word+char", "max_df": 0.9}, {"hash_bits": 12, "threads": 1})):
        encoder = TfidfEncoder(**options).fit(corpus(200))
        save(encoder, tmp_path / str(place))
        again = load(tmp_path / str(place))
        assert again.get_params() == encoder.get_params()
        assert_same_bits(again.transform(corpus(50, seed=3)), encoder.transform(corpus(50, seed=3)))
        if "hash_bits" not in options:
            assert again.feature_names() == encoder.feature_names()


def test_follows_the_estimator_contract():
    encoder = TfidfEncoder(ngrams=(1, 1), min_df=3)
    assert clone(encoder).get_params() == encoder.get_params()
    assert repr(encoder) == "TfidfEncoder(ngrams=(1, 1), min_df=3)"
    assert isinstance(encoder.fit(corpus(50)), Encoder)
    before = encoder.transform(corpus(5))
    encoder.set_params(sublinear_tf=False, ngrams=(1, 3))
    assert_same_bits(encoder.transform(corpus(5)), before)
    with pytest.raises(InputError, match="Did you mean 'min_df'"):
        encoder.set_params(min_fd=1)


def test_takes_lists_arrays_and_generators():
    expected = TfidfEncoder(min_df=1).fit(TREES).transform(TREES)
    for texts in (tuple(TREES), np.array(TREES), np.array(TREES, dtype=object), (t for t in TREES)):
        encoder = TfidfEncoder(min_df=1).fit(texts)
        assert_same_bits(encoder.transform(TREES), expected)
        assert_same_bits(encoder.transform(iter(TREES)), expected)


@pytest.mark.parametrize("bad, message", [
    (["a", None], r"texts must contain str only; got NoneType at position 1. Replace missing texts by ''"),
    ([b"a", "é"], r"got bytes at position 0"),
    (["é", 3.5], r"got float at position 1"),
    ("one text", r"texts must be a list of texts; got one text. Wrap it: \[text\]."),
    (7, r"texts must be a list of texts; got int"),
    (np.array([["a"]]), r"texts must be a flat array; got 2 dimensions"),
])  # fmt: skip
def test_wrong_texts_are_named(bad, message):
    with pytest.raises(InputError, match=message):
        TfidfEncoder(min_df=1).fit(bad)
    with pytest.raises(InputError, match=message):
        TfidfEncoder(min_df=1).fit(TREES).transform(bad)


@pytest.mark.parametrize("options, message", [
    ({"ngrams": (2, 1)}, "the highest of ngrams must be a whole number from 2 to 20; got 1"),
    ({"ngrams": 2}, r"ngrams must be a pair \(lowest, highest\); got 2"),
    ({"analyzer": "words"}, "Did you mean 'word'"),
    ({"min_df": 0}, "min_df must be a whole number of at least 1; got 0"),
    ({"min_df": 1.5}, "min_df must be a number from 0.0 to 1.0; got 1.5"),
    ({"max_features": 0}, "max_features must be a whole number of at least 1"),
    ({"hash_bits": 40}, "hash_bits must be a whole number from 8 to 28; got 40"),
    ({"threads": 0}, "threads must be"),
])  # fmt: skip
def test_wrong_parameters_are_named_at_fit(options, message):
    with pytest.raises(InputError, match=message):
        TfidfEncoder(**options).fit(TREES)


def test_limits_that_leave_nothing_say_so():
    with pytest.raises(InputError, match=r"occur in 9 to 5 of the 5 texts.*Lower min_df"):
        TfidfEncoder(min_df=9).fit(TREES)
    with pytest.raises(InputError, match="check that the texts are not empty"):
        TfidfEncoder(min_df=1).fit(["", "a b c"])
    with pytest.raises(InputError, match="at least one text"):
        TfidfEncoder().fit([])


def test_use_before_fit_and_names_of_hashed_features_are_refused():
    with pytest.raises(NotFittedError, match=r"Call fit\(texts\)"):
        TfidfEncoder().transform(["a"])
    with pytest.raises(InputError, match="Fit with hash_bits=None"):
        TfidfEncoder(hash_bits=8, min_df=1).fit(TREES).feature_names()


def test_titles_count_as_often_as_given():
    texts = ["On oaks\nashes and elms", "oaks", "elms\n", "\nashes and oaks and elms"]
    repeated = [
        "On oaks\nOn oaks\nOn oaks\nashes and elms",
        "oaks",
        "elms\n",
        "\n\n\nashes and oaks and elms",
    ]
    weighted = TfidfEncoder(ngrams=(1, 1), min_df=1, field_weights=(3, 1), threads=1)
    plain = TfidfEncoder(ngrams=(1, 1), min_df=1, threads=1)
    expected = plain.fit(repeated).transform(repeated).toarray()
    assert np.array_equal(weighted.fit(iter(texts)).transform(texts).toarray(), expected)
    assert np.array_equal(weighted.fit_transform(texts).toarray(), expected)
    again = TfidfEncoder.from_state(weighted.state())
    assert np.array_equal(again.transform(iter(texts)).toarray(), expected)
    for wrong in ([0, 1], [11, 1], [1.5, 1], "two", 2, []):
        with pytest.raises(InputError, match="field_weights must be"):
            TfidfEncoder(field_weights=wrong).fit(texts)


def test_every_field_counts_as_often_as_given_and_old_models_keep_the_weight_of_their_title():
    texts = ["On oaks\nelm, ash\nAshes.\nAnd elms", "oaks\nelms", "\n\nashes"]
    repeated = ["On oaks\nelm, ash\nelm, ash\nelm, ash\nAshes.\nAnd elms", "oaks\nelms", "\n\nashes"]
    weighted = TfidfEncoder(ngrams=(1, 1), min_df=1, field_weights=(1, 3, 1), threads=1)
    plain = TfidfEncoder(ngrams=(1, 1), min_df=1, threads=1)
    assert np.array_equal(weighted.fit_transform(texts).toarray(), plain.fit_transform(repeated).toarray())
    state = TfidfEncoder(min_df=1).fit(texts).state()
    params = {name: value for name, value in state.params.items() if name != "field_weights"}
    old = TfidfEncoder.from_state(replace(state, params={**params, "title_weight": 3}))
    assert old.field_weights == (3, 1)
