"""The label table: ids that stay, names in languages, lookups, growth, arrays and files."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagwood.data import LabelVocab, read_vocab, write_vocab
from tagwood.data.vocab import StringTable
from tagwood.errors import DataError, InputError

names = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), unique=True, max_size=8)


@pytest.fixture
def trees():
    return LabelVocab.from_names(
        ["ash", "oak", "elm"],
        uris=["http://e.org/a", "", "http://e.org/e"],
        languages={"de": ["Esche", "Eiche", ""]},
    )


def test_names_fall_back_from_language_to_name_to_uri_to_id():
    vocab = LabelVocab.from_names(["ash", ""], uris=["", "urn:2"], languages={"de": ["Esche", ""]})
    assert [vocab.name(0, "de"), vocab.name(0, "fi"), vocab.name(1, "de")] == ["Esche", "ash", "urn:2"]
    assert LabelVocab.numbered(3).name(2) == "2"


def test_labels_are_found_by_uri_and_name(trees):
    assert [trees.find(key) for key in ("ash", "http://e.org/e", "Esche", "Eibe", "")] == [0, 2, 0, None, None]
    assert trees.uri(1) is None
    with pytest.raises(InputError, match=r"must be in the vocabulary; got 'yew'. It has 3 labels."):
        trees.id("yew")


def test_ids_outside_the_table_are_refused(trees):
    with pytest.raises(InputError, match="from 0 to 2; got 3"):
        trees.name(3)


def test_adding_keeps_every_id_and_leaves_the_old_table_alone(trees):
    grown = trees.remove([0]).add(["yew"], uris=["urn:y"], languages={"de": ["Eibe"], "fi": ["marjakuusi"]})
    assert [grown.id(name) for name in ("ash", "oak", "elm", "yew")] == [0, 1, 2, 3]
    assert (grown.name(3, "fi"), grown.name(0, "fi"), grown.uri(3), grown.uri(0)) == (
        "marjakuusi",
        "ash",
        "urn:y",
        "http://e.org/a",
    )
    assert grown.removed_mask().tolist() == [True, False, False, False]
    assert (len(trees), trees.find("yew"), trees.removed_mask().any()) == (3, None, False)


def test_adding_to_a_numbered_table_keeps_the_numbers():
    grown = LabelVocab.numbered(2).add(["yew"])
    assert [grown.name(label) for label in range(3)] == ["0", "1", "yew"]


@pytest.mark.parametrize("new", [["ash"], ["yew", "yew"], [""], ["http://e.org/a"]])
def test_labels_that_could_not_be_told_apart_are_refused(trees, new):
    with pytest.raises(InputError, match="of its own"):
        trees.add(new)


def test_a_removed_name_can_be_used_again_under_a_new_id(trees):
    again = trees.remove([0]).add(["ash"])
    assert (again.id("ash"), len(again)) == (3, 4)


def test_homonyms_need_uris_and_are_found_by_them_only():
    with pytest.raises(InputError, match="needs a name or URI of its own"):
        LabelVocab.from_names(["bank", "bank"])
    vocab = LabelVocab.from_names(["bank", "bank"], uris=["urn:1", "urn:2"])
    assert vocab.keys() == ["urn:1", "urn:2"]
    with pytest.raises(InputError, match="'bank' is ambiguous"):
        vocab.find("bank")


@given(labels=names)
def test_keys_lead_back_to_their_labels(labels):
    vocab = LabelVocab.from_names(labels)
    keys = vocab.keys()
    assert [vocab.find(key) for key in keys] == list(range(len(labels)))


def test_words_have_no_spaces_and_lead_back():
    vocab = LabelVocab.from_names(["machine learning", "a_b", "c"])
    assert vocab.words() == ["machine_learning", "a_b", "c"]
    assert [vocab.find_word(word) for word in vocab.words()] == [0, 1, 2]
    with pytest.raises(InputError, match="differ by more than spaces"):
        LabelVocab.from_names(["a b", "a_b"]).words()


def test_columns_of_different_length_are_refused():
    with pytest.raises(InputError, match="2 labels must have as many entries in 'URIs'; got 1"):
        LabelVocab.from_names(["a", "b"], uris=["u"])


def test_numbered_tables_cost_nothing_and_find_canonical_numbers():
    vocab = LabelVocab.numbered(2_000_000_000)
    assert (vocab.name(1_999_999_999), vocab.find("12"), vocab.find("012"), vocab.find("2000000000")) == (
        "1999999999",
        12,
        None,
        None,
    )


@given(labels=names, with_uris=st.booleans(), removed=st.booleans())
def test_arrays_bring_the_table_back(labels, with_uris, removed):
    uris = [f"urn:{i}" for i in range(len(labels))] if with_uris else None
    vocab = LabelVocab.from_names(labels, uris=uris, languages={"de": [name[::-1] for name in labels]})
    if removed and labels:
        vocab = vocab.remove([0])
    arrays = vocab.to_arrays()
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    assert LabelVocab.from_arrays(arrays) == vocab


def test_numbered_tables_survive_arrays():
    assert LabelVocab.from_arrays(LabelVocab.numbered(7).to_arrays()) == LabelVocab.numbered(7)


def test_damaged_arrays_are_refused():
    arrays = LabelVocab.from_names(["a", "b"]).to_arrays()
    with pytest.raises(InputError, match="offsets"):
        LabelVocab.from_arrays(arrays | {"names.offsets": np.array([0, 5, 2])})
    with pytest.raises(InputError, match="must contain its 'size'"):
        LabelVocab.from_arrays({})


@pytest.mark.parametrize("name", ["labels.tsv", "labels.csv", "labels.tsv.gz", "labels.csv.gz"])
def test_files_bring_the_table_back(name, tmp_path):
    vocab = LabelVocab.from_names(
        ["a,b", 'say "x"', "two\nlines", "tab\there", "plain"],
        uris=["urn:1", "", "urn:3", "", ""],
        languages={"de": ["A", "", "", "", "Ebene"]},
    ).remove([4])
    write_vocab(vocab, tmp_path / name)
    assert read_vocab(tmp_path / name) == vocab


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("ash\noak\n", [("ash", None), ("oak", None)]),
        (
            "<http://e.org/1>\tash\n<http://e.org/2>\toak\n",
            [("ash", "http://e.org/1"), ("oak", "http://e.org/2")],
        ),
        ('p1\t"quoted" name\textra\n', [('"quoted" name', "p1")]),
        ("id\tname\np1\tash\n", [("ash", "p1")]),
        ("id\tname\n0\tash\n", [("ash", None)]),
        ("uri\tlabel_en\tlabel_fi\nurn:1\tash\tsaarni\n", [("ash", "urn:1")]),
        ("\ufeffname\nash\n", [("ash", None)]),
    ],
)
def test_tables_of_other_tools_are_understood(content, expected, tmp_path):
    (tmp_path / "labels.tsv").write_text(content, encoding="utf-8")
    vocab = read_vocab(tmp_path / "labels.tsv")
    assert [(vocab.name(label), vocab.uri(label)) for label in range(len(vocab))] == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name\turi\nash\n", "line 2: the header has 2 columns, this line 1"),
        ("ash\noak\tx\n", "line 2: this line has a key and a name"),
        ("name\nash\nash\n", "needs a name or URI of its own"),
        ("id\turi\tname\n5\tu\tash\n", "must count the rows from 0"),
        ("name\tname\nash\tx\n", "the same column twice"),
    ],
)
def test_broken_tables_are_named(content, message, tmp_path):
    (tmp_path / "labels.tsv").write_text(content)
    with pytest.raises(DataError, match=message):
        read_vocab(tmp_path / "labels.tsv")


def test_labels_have_all_their_names():
    vocab = LabelVocab.from_names(
        ["ash", "oak"], languages={"de": ["Esche", ""]}, alternatives=[["Fraxinus", " Fraxinus ", "ash"], []]
    )
    assert vocab.label_names() == [["ash", "Esche", "Fraxinus"], ["oak"]]
    grown = vocab.add(["elm"], alternatives=[["Ulmus", "wych  elm"]])
    assert grown.label_names(2) == [["elm", "Ulmus", "wych elm"]]
    assert vocab.add(["elm"]).label_names(1) == [["oak"], ["elm"]]
    assert LabelVocab.from_arrays(grown.to_arrays()) == grown != vocab.add(["elm"])
    assert LabelVocab.numbered(2).label_names() == [[], []]


def test_alternative_names_are_read_from_and_written_to_tables(tmp_path):
    path = tmp_path / "labels.tsv"
    path.write_text("uri\tlabel_en\talt_en\talt_de\tnotation\nu:1\tsea\tocean|deep\tMeer\t551.46\nu:2\toak\t\t\t\n")
    vocab = read_vocab(path)
    assert vocab.label_names() == [["sea", "ocean", "deep", "Meer", "551.46"], ["oak"]]
    write_vocab(vocab, tmp_path / "again.csv")
    assert read_vocab(tmp_path / "again.csv").label_names() == vocab.label_names()


def test_labels_are_found_under_every_name_and_ambiguous_ones_are_named():
    vocab = LabelVocab.from_names(
        ["ash", "oak", "Esche"],
        uris=["urn:a", "urn:o", "urn:e"],
        languages={"de": ["Esche", "Eiche", ""]},
        alternatives=[["582.1", "tree"], ["tree", "Quercus"], []],
    )
    assert [vocab.find(key) for key in ("Eiche", "582.1", "Quercus", "Esche")] == [1, 0, 1, 2]  # main names first
    assert vocab.find_many(["Quercus", "elm", "urn:a"]).tolist() == [1, -1, 0]
    for find in (vocab.find, lambda key: vocab.find_many([key, "ash"])):
        with pytest.raises(InputError, match="'tree' is ambiguous: 'ash <urn:a>', 'oak <urn:o>'"):
            find("tree")
    assert vocab.find_all("tree") == [0, 1]
    assert vocab.remove([0]).find("tree") == 1  # labels in use go before removed ones
    assert vocab.add(["tree"]).find("tree") == 3  # another label's alternative name is free


def test_details_are_kept_and_branches_are_found():
    vocab = LabelVocab.from_names(["plants", "trees", "oak", "sea"], uris=["p", "t", "o", "s"])
    with pytest.raises(InputError, match="branches need a vocabulary with broader labels"):
        vocab.below([0])
    rows = {"broader": ["t", "p", "t\nnot here", ""], "notation": ["58", "", "", ""]}  # plants and trees are a cycle
    vocab = replace(vocab, details={what: StringTable.from_strings(cells) for what, cells in rows.items()})
    assert vocab.below([1]).tolist() == [0, 1, 2]
    assert vocab.below([3]).tolist() == [3]
    assert vocab.detail(2, "broader") == ["t", "not here"]
    assert vocab.detail(3, "broader") == vocab.detail(0, "replaced_by") == []
    grown = vocab.add(["fir"], uris=["f"], details={"broader": ["t"], "replaced_by": ["o"]})
    assert grown.below([1]).tolist() == [0, 1, 2, 4]
    assert LabelVocab.from_arrays(grown.to_arrays()) == grown != vocab
    with pytest.raises(InputError, match="details must be one of"):
        replace(vocab, details={"narrower": StringTable.from_strings(["", "", "", ""])})


def test_tuples_are_found_by_their_json_with_any_spaces_and_escapes():
    vocab = LabelVocab.of_ids([("s1", 42), ("Bäume", 7)])
    texts = ['["s1", 42]', '["s1",42]', ' ["s1",42]', json.dumps(("Bäume", 7)), '["s1", 43]', '["s1"', "[" * 2000]
    assert vocab.find_many(texts).tolist() == [0, 0, -1, 1, -1, -1, -1]
    assert [vocab.find(text) for text in texts] == [0, 0, None, 1, None, None, None]


def test_names_and_rows_are_found_in_one_list():
    vocab = LabelVocab.from_names(["oak", "ash", "elm"])
    assert vocab.find_many(["elm", 1, "yew", 7, "oak", 0, 2**70]).tolist() == [2, 1, -1, -1, 0, 0, -1]
