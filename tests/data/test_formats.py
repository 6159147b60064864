"""Every format restores the same dataset, as far as it can contain it, and is described in the docs."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tagwood.data import (
    FORMATS,
    Dataset,
    LabelVocab,
    detect_format,
    read_dataset,
    read_records,
    write_dataset,
)
from tagwood.data import records as fields
from tagwood.errors import InputError

# What each format cannot hold: the comparison leaves exactly this out.
NO_TEXTS = {"repository", "sparse-files"}
NO_FEATURES = set(FORMATS) - {"repository", "sparse-files", "csr"}
NO_IDS = {"repository", "sparse-files", "csr", "pecos", "fasttext", "attentionxml", "annif-tsv"}
NO_GROUPS = NO_IDS | {"annif-csv", "txt-key"}
ONE_LINE = {"csr", "pecos", "fasttext", "attentionxml", "annif-tsv"}  # line breaks in texts become spaces
SINGLE_FILES = [name for name, chosen in FORMATS.items() if not chosen.folder]

TEXTS = [
    'Ash trees\nand their diseases, "quoted"; a|b',
    "  leading spaces, trailing too  ",
    "Umlaute: Bäume, 木, 🌳",
    "",
    "tab\there, and a comma,",
    "no labels here",
]
LABELS = [[3, 1], [0], [4, 1, 3], [0], [3], []]  # label 2 never appears, and the order is not that of the ids


def make_dataset(vocab=None):
    features = sparse.csr_array(
        np.array(
            [
                [0.1, 0, 1e-30, 0],
                [0, -2.5, 0, 0],
                [3.4e38, 0, 0, 1 / 3],
                [0, 0, 0, 7],
                [0, 0, 0, 0],
                [1, 1, 1, 1],
            ],
            dtype=np.float32,
        )
    )
    return Dataset(
        LABELS,
        vocab or LabelVocab.from_names(["oak tree", "ash", "elm", "fungi; moulds", "12"]),
        texts=TEXTS,
        features=features,
        groups=["box 1", "box 1", "", "box 2", "box 2", "box,3"],
        ids=["a1", "a2", "b1", "b2", "c", "d"],
    )


def same(a, b):
    return (
        a.shape == b.shape
        and np.array_equal(a.indptr, b.indptr)
        and np.array_equal(a.indices, b.indices)
        and np.array_equal(a.data, b.data)
        and a.data.dtype == b.data.dtype
    )


def check_equal(name, before, after):
    assert same(before.labels, after.labels)
    assert after.vocab == before.vocab
    if name in NO_FEATURES:
        assert after.features is None
    else:
        assert same(before.features, after.features)
    texts = None if name in NO_TEXTS else list(before.texts)
    if name in ONE_LINE:
        texts = [" ".join(text.split("\n")).replace("\t", " ") for text in texts]
    assert after.texts == texts
    assert after.ids == (None if name in NO_IDS else before.ids)
    assert after.groups == (None if name in NO_GROUPS else before.groups)


@pytest.mark.parametrize("name", FORMATS)
def test_round_trip_is_identical_in_what_the_format_holds(name, tmp_path):
    before = make_dataset()
    write_dataset(before, tmp_path / "data", name)
    check_equal(name, before, read_dataset(tmp_path / "data", name))


@pytest.mark.parametrize("name", FORMATS)
def test_round_trip_keeps_uris_languages_homonyms_and_removed_labels(name, tmp_path):
    vocab = LabelVocab.from_names(
        ["bank", "bank", "rare name", "", "x"],
        uris=["http://e.org/1", "http://e.org/2", "", "http://e.org/4", "http://e.org/5"],
        languages={"de": ["Bank", "Ufer", "", "", ""]},
    ).remove([2])
    before = make_dataset(vocab)
    write_dataset(before, tmp_path / "data", name)
    check_equal(name, before, read_dataset(tmp_path / "data", name))


@pytest.mark.parametrize("name", FORMATS)
def test_the_content_alone_tells_the_format(name, tmp_path):
    write_dataset(make_dataset(), tmp_path / "data", name)
    found = detect_format(tmp_path / "data")
    family = {"annif-csv": "csv", "annif-jsonl": "jsonl"}  # the same readers

    assert found == family.get(name, name)


@pytest.mark.parametrize("name", [name for name in SINGLE_FILES if name not in ("parquet", "xlsx")])
def test_gzip_is_written_by_name_and_read_by_content(name, tmp_path):
    before = make_dataset()
    write_dataset(before, tmp_path / "data.gz", name)
    assert (tmp_path / "data.gz").read_bytes()[:2] == b"\x1f\x8b"
    check_equal(name, before, read_dataset(tmp_path / "data.gz"))
    write_dataset(before, tmp_path / "again.gz", name)
    assert (tmp_path / "again.gz").read_bytes() == (tmp_path / "data.gz").read_bytes()
    plain = tmp_path / "plain"
    plain.write_bytes(gzip.decompress((tmp_path / "data.gz").read_bytes()))
    (tmp_path / "data.gz.labels.tsv").rename(tmp_path / "plain.labels.tsv")
    check_equal(name, before, read_dataset(plain))


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_dataset_comes_back_empty(name, tmp_path):
    empty = make_dataset().rows([])
    write_dataset(empty, tmp_path / "data", name)
    after = read_dataset(tmp_path / "data", name)
    assert (after.n_rows, after.n_labels) == (0, 5)


@pytest.mark.parametrize("name", [name for name, chosen in FORMATS.items() if chosen.records])
def test_streaming_gives_the_same_texts_and_groups(name, tmp_path):
    before = make_dataset()
    write_dataset(before, tmp_path / "data", name)
    whole = read_dataset(tmp_path / "data", name)
    records = list(read_records(tmp_path / "data", name))
    assert [record.text for record in records] == whole.texts
    assert [len(record.labels) for record in records] == np.diff(whole.labels.indptr).tolist()
    if whole.groups is not None:
        assert [record.group for record in records] == whole.groups


@pytest.mark.parametrize("name", sorted(NO_TEXTS))
def test_feature_formats_cannot_be_streamed(name, tmp_path):
    write_dataset(make_dataset(), tmp_path / "data", name)
    with pytest.raises(InputError, match="contains features, not texts"):
        read_records(tmp_path / "data", name)


def test_no_label_table_is_written_where_the_file_says_it_all(tmp_path):
    plain = Dataset([[0], [1, 2]], LabelVocab.from_names(["a", "b", "c"]), texts=["x", "y"])
    write_dataset(plain, tmp_path / "data.jsonl")
    assert [file.name for file in tmp_path.iterdir()] == ["data.jsonl"]
    assert read_dataset(tmp_path / "data.jsonl").vocab == plain.vocab


@pytest.mark.parametrize("name", FORMATS)
def test_an_existing_target_is_kept_unless_told_otherwise(name, tmp_path):
    first, second = make_dataset(), make_dataset().rows([0, 1, 2, 3])
    write_dataset(first, tmp_path / "data", name)
    with pytest.raises(InputError, match="exists already"):
        write_dataset(second, tmp_path / "data", name)
    assert read_dataset(tmp_path / "data", name).n_rows == 6
    if name != "txt-key":
        write_dataset(second, tmp_path / "data", name, overwrite=True)
        assert read_dataset(tmp_path / "data", name).n_rows == 4


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    bad = Dataset([[0]], LabelVocab.from_names(["a"]), texts=["has __label__x inside"])
    with pytest.raises(InputError, match="__label__"):
        write_dataset(bad, tmp_path / "data.ft")
    assert list(tmp_path.iterdir()) == []


PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "data-formats.md"


@pytest.mark.parametrize("word", [*FORMATS, *fields.TITLE, *fields.BODY, *fields.LABELS, *fields.ID, *fields.GROUP])
def test_the_docs_page_names_every_format_and_field(word):
    assert f"`{word}`" in PAGE.read_text(encoding="utf-8")
