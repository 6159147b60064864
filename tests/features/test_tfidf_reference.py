"""TfidfEncoder against scikit-learn's TfidfVectorizer: the same numbers to 1e-6, in another order."""

import gzip
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from tagwood.features.base import IGNORED, MARK, UNSPACED, WORD, char_tables, fold_text
from tagwood.features.tfidf import TfidfEncoder

SHARED = Path(__file__).parents[3] / "shared" / "data"


def tokens(text):
    """The words of a text by a regular expression over character classes, for scikit-learn."""
    classes = char_tables(True).classes
    kinds = [int(classes[ord(c)]) if ord(c) < classes.size else 0 for c in fold_text(text)]
    kept = [(c, k) for c, k in zip(fold_text(text), kinds, strict=True) if k != IGNORED]
    letters = {WORD: "w", UNSPACED: "u", MARK: "m"}
    shape = "".join(letters.get(k, " ") for _, k in kept)
    chars = "".join(c for c, _ in kept)
    return [chars[m.start() : m.end()] for m in re.finditer("um*|[wm][wm]+", shape)]


def assert_equal(ours, names, theirs, their_names):
    """Compare two feature matrices by the names of their columns."""
    assert sorted(names) == sorted(their_names)
    place = {name: column for column, name in enumerate(their_names)}
    reordered = theirs.tocsc()[:, [place[name] for name in names]].tocsr()
    difference = abs(ours.astype(np.float64) - reordered)
    assert difference.nnz == 0 or difference.data.max() < 1e-6


def zipf_texts(n, rng):
    words = [f"word{i}" for i in range(300)]
    return [" ".join(words[i % 300] for i in rng.zipf(1.3, rng.integers(0, 60))) for _ in range(n)]


@pytest.mark.parametrize("ngrams, min_df, max_df, sublinear", [
    ((1, 2), 2, 1.0, True),
    ((1, 1), 1, 1.0, False),
    ((1, 3), 3, 0.5, True),
    ((2, 2), 0.02, 40, False),
])  # fmt: skip
def test_equals_scikit_learn_on_ascii(ngrams, min_df, max_df, sublinear):
    rng = np.random.default_rng(1)
    train, test = zipf_texts(200, rng), zipf_texts(80, rng)
    theirs = TfidfVectorizer(ngram_range=ngrams, min_df=min_df, max_df=max_df, sublinear_tf=sublinear).fit(train)
    ours = TfidfEncoder(ngrams, min_df=min_df, max_df=max_df, sublinear_tf=sublinear).fit(train)
    names = theirs.get_feature_names_out()
    assert_equal(ours.transform(test), ours.feature_names(), theirs.transform(test), names)
    assert_equal(ours.fit_transform(train), ours.feature_names(), theirs.transform(train), names)


european = st.text(st.sampled_from("aábcčdeéèfgğhiíłnñoöøsšuüvzž ,.-'0_\t"), max_size=60)


@given(st.lists(european, min_size=1, max_size=8))
def test_equals_scikit_learn_on_european_letters(train):
    theirs = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    assume(any(theirs.build_analyzer()(text) for text in train))
    theirs.fit(train)
    ours = TfidfEncoder(min_df=1, threads=1).fit(train)
    assert_equal(ours.transform(train), ours.feature_names(), theirs.transform(train), theirs.get_feature_names_out())


@settings(deadline=None)
@given(st.lists(st.text(st.characters() | st.sampled_from("aé東京ที\u0301\u00ad ")), min_size=1, max_size=8))
def test_equals_scikit_learn_with_our_words_on_any_text(train):
    assume(any(tokens(text) for text in train))
    theirs = TfidfVectorizer(
        ngram_range=(1, 2), sublinear_tf=True, tokenizer=tokens, token_pattern=None, lowercase=False
    )
    theirs.fit(train)
    ours = TfidfEncoder(min_df=1, threads=1).fit(train)
    # Two unspaced characters side by side are spelled without the space; put it back for the comparison.
    names = [" ".join(tokens(name)) for name in ours.feature_names()]
    assert_equal(ours.transform(train), names, theirs.transform(train), theirs.get_feature_names_out())


@given(st.lists(european, min_size=1, max_size=5), st.sampled_from([(1, 1), (2, 4), (3, 5)]))
def test_character_ngrams_equal_scikit_learns_inside_words(train, lengths):
    assume(any(tokens(text) for text in train))
    theirs = TfidfVectorizer(
        analyzer="char_wb",
        ngram_range=lengths,
        sublinear_tf=True,
        preprocessor=lambda text: " ".join(tokens(text)),
    ).fit(train)
    ours = TfidfEncoder(analyzer="char", char_ngrams=lengths, min_df=1, threads=1).fit(train)
    assert_equal(ours.transform(train), ours.feature_names(), theirs.transform(train), theirs.get_feature_names_out())


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="the real datasets are not in ../shared/data")
@pytest.mark.parametrize("name, n", [("eurlex57k", 400), ("yso-titles", 3000), ("tibkat-gnd-en", 600)])
def test_equals_scikit_learn_on_real_texts(name, n):
    with gzip.open(SHARED / name / "test.jsonl.gz", "rt") as lines:
        texts = [json.loads(line)["text"] for line in itertools.islice(lines, n)]
    # Combining marks and unspaced scripts are cut otherwise on purpose; hardly a text has them.
    texts = [text for text in texts if tokens(text) == re.findall(r"\b\w\w+\b", fold_text(text))]
    assert len(texts) > 0.99 * n
    theirs = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, preprocessor=fold_text)
    theirs.fit(texts)
    ours = TfidfEncoder().fit(texts)
    assert_equal(ours.transform(texts), ours.feature_names(), theirs.transform(texts), theirs.get_feature_names_out())
