import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tagwood import LabelVocab
from tagwood.service.label_search import LabelNameIndex, LabelNameSearch, edit_distances, fold

NAMES = [
    "Oak",
    "Oak bark",
    "Red oak",
    "Ash (tree)",
    "Bäume",
    "東京都",
    "京都",
    "العربية",
    "naïve Bayes",
    "scipy.signal.find_peaks",
]


def make(names, counts=None, **options):
    vocab = LabelVocab.from_names(names, **options)
    counts = np.arange(len(names), 0, -1) if counts is None else np.array(counts)
    return LabelNameSearch(LabelNameIndex.build(vocab), vocab, counts)


def found(query, text, limit=10):
    return [(one.matched, one.match) for one in query.search(text, limit)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("oak", ("Oak", "exact")),
        ("OAK B", ("Oak bark", "prefix")),
        ("bark", ("Oak bark", "word")),
        ("bark oak", ("Oak bark", "word")),
        ("tree", ("Ash (tree)", "word")),
        ("baum", ("Bäume", "prefix")),
        ("京都", ("京都", "exact")),
        ("京", ("京都", "prefix")),
        ("عرب", ("العربية", "fuzzy")),
        ("naive", ("naïve Bayes", "prefix")),
        ("find pea", ("scipy.signal.find_peaks", "word")),
        ("scipy.signal.find_peaks", ("scipy.signal.find_peaks", "exact")),
        ("scipy.signal.find_pq", ("scipy.signal.find_peaks", "fuzzy")),
        ("naive byaes", ("naïve Bayes", "fuzzy")),
    ],
)
def test_the_best_match_comes_first(text, first):
    assert found(make(NAMES), text)[0] == first


def test_a_word_inside_chinese_is_found():
    assert found(make(NAMES), "京") == [("京都", "prefix"), ("東京都", "word")]


def test_frequent_labels_come_first_among_equals():
    query = make(["oak a", "oak b", "oak c"], [1, 9, 5])
    assert [name for name, _ in found(query, "oak")] == ["oak b", "oak c", "oak a"]
    assert [name for name, _ in found(query, "", 2)] == ["oak b", "oak c"]


def test_an_exact_name_is_found_among_many_frequent_ones():
    query = make(["oak"] + [f"oak {number}" for number in range(500)], [0] + [10] * 500)
    assert found(query, "oak", 3)[0] == ("oak", "exact")


def test_names_of_all_languages_and_uris_are_found():
    query = make(
        ["tree", "sea"],
        uris=["http://x/1", "http://x/2"],
        languages={"de": ["Baum", "Meer"], "fr": ["arbre", ""]},
    )
    assert query.search("arb", 5)[0].label == 0
    assert query.search("meer", 5)[0].label == 1
    assert query.search("http://x/2", 5)[0].label == 1
    assert len({one.label for one in query.search("e", 5)}) == len(query.search("e", 5))


def test_labels_without_names_are_found_by_number():
    vocab = LabelVocab.numbered(100)
    query = LabelNameSearch(LabelNameIndex.build(vocab), vocab, np.zeros(100, dtype=np.int64))
    assert [one.label for one in query.search("42", 5)] == [42]
    assert query.search("oak", 5) == []
    assert len(query.search("", 5)) == 5


@pytest.mark.parametrize("text", ["", " ", "\0", "...", "x" * 500, "\U0001f333", "a" * 119 + "é", "%", "\u0301"])
def test_any_text_may_be_typed(text):
    assert isinstance(make([*NAMES, "+", "\U0001f333"]).search(text, 5), list)


names = st.lists(st.text(alphabet="abc é-", min_size=1, max_size=24), min_size=1, max_size=30, unique=True)


@given(names, st.text(alphabet="abc", min_size=1, max_size=20))
@settings(max_examples=150, deadline=None)
def test_prefix_and_word_matches_are_those_of_a_plain_search(names, typed):
    names = [name for name in names if name.strip()] or ["a"]
    vocab = LabelVocab.from_names(names)
    query = LabelNameSearch(LabelNameIndex.build(vocab), vocab, np.zeros(len(names), dtype=np.int64))
    results = query.search(typed, 1000)
    plain = [fold(name) for name in names]
    starting = {label for label, name in enumerate(plain) if name.startswith(typed)}
    inside = {label for label, name in enumerate(plain) if f" {typed}" in f" {name}"} - starting
    assert {one.label for one in results if one.match in ("exact", "prefix")} == starting
    assert {one.label for one in results if one.match == "word"} == inside


def slow_distance(typed, name):
    """Least number of edits from `typed` to a piece of `name` that begins at a word (optimal string alignment)."""
    best = len(typed)
    starts = [0] + [place + 1 for place, letter in enumerate(name) if letter == " "]
    for start in starts:
        rest = name[start:]
        table = np.zeros((len(typed) + 1, len(rest) + 1), dtype=int)
        table[:, 0], table[0] = range(len(typed) + 1), range(len(rest) + 1)
        for i in range(1, len(typed) + 1):
            for j in range(1, len(rest) + 1):
                same = typed[i - 1] == rest[j - 1]
                table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (not same))
                if i > 1 and j > 1 and typed[i - 1] == rest[j - 2] and typed[i - 2] == rest[j - 1]:
                    table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
        best = min(best, table[-1].min())
    return best


@given(
    st.text(alphabet="abc", min_size=1, max_size=7),
    st.lists(st.text(alphabet="abc ", min_size=1, max_size=10), min_size=1, max_size=5),
)
@settings(max_examples=200, deadline=None)
def test_edit_distances_are_those_of_the_plain_table(typed, names):
    assert edit_distances(typed, names)[0].tolist() == [slow_distance(typed, name) for name in names]


def test_an_index_is_built_once_and_shared(tmp_path, monkeypatch):
    vocab = LabelVocab.from_names(NAMES)
    first = LabelNameIndex.shared(vocab, tmp_path / "labels" / "a")
    monkeypatch.setattr(LabelNameIndex, "build", None)
    again = LabelNameIndex.shared(vocab, tmp_path / "labels" / "a")
    for name in ("blob", "offsets", "labels", "tables", "word_entries", "word_places", "triples"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    assert not again.blob.flags.writeable


def test_old_indexes_are_removed(tmp_path):
    vocab = LabelVocab.from_names(["a"])
    for name in "abcd":
        LabelNameIndex.shared(vocab, tmp_path / "labels" / name)
        time.sleep(0.01)
    kept = sorted(path.name for path in (tmp_path / "labels").iterdir() if path.is_dir())
    assert kept == ["b", "c", "d"]


def test_the_index_is_small():
    names = [f"label number {number} of some words" for number in range(2000)]
    index = LabelNameIndex.build(LabelVocab.from_names(names))
    arrays = (
        index.blob,
        index.offsets,
        index.labels,
        index.tables,
        index.word_entries,
        index.word_places,
        index.triples,
    )
    assert sum(array.nbytes for array in arrays) / 2000 < 110


def test_alternative_names_and_notations_are_found_and_ambiguous_ones_are_no_error():
    query = make(["Oak", "Ash"], alternatives=[["Quercus robur", "582.1"], ["Quercus"]])
    assert query.search("quercus r", 5)[0].matched == "Quercus robur"
    assert query.search("582.1", 1)[0].label == 0
    both = make(["Oak", "Ash"], alternatives=[["tree"], ["tree"]])
    assert {one.label for one in both.search("tree", 5)} == {0, 1}
