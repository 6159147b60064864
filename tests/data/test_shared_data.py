"""The real datasets are read with the counts that their page gives."""

from pathlib import Path

import pytest

from tagwood.data import detect_format, read_dataset, read_vocab

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.exists(), reason="needs the real datasets in ../shared/data"),
]


@pytest.mark.parametrize(("split", "n_rows"), [("train", 4_880), ("test", 2_515)])
def test_bibtex_arrays(split, n_rows):
    data = read_dataset(SHARED / "bibtex", split=split)
    assert (data.n_rows, data.n_labels, data.features.shape[1]) == (n_rows, 159, 1_836)
    assert data.vocab.name(0) == "TAG_2005"


def test_cooking_json_lines():
    assert detect_format(SHARED / "cooking-stackexchange" / "train.jsonl.gz") == "jsonl"
    train = read_dataset(SHARED / "cooking-stackexchange" / "train.jsonl.gz")
    test = read_dataset(SHARED / "cooking-stackexchange" / "test.jsonl.gz", vocab=train.vocab, on_unknown="add")
    assert (train.n_rows, test.n_rows, test.n_labels) == (12_404, 3_000, 736)


def test_tate_rows_with_its_label_table():
    vocab = read_vocab(SHARED / "tate-subjects" / "labels.tsv.gz")
    data = read_dataset(SHARED / "tate-subjects" / "test.jsonl.gz", vocab=vocab)
    assert (data.n_rows, data.vocab.name(vocab.id("13"))) == (9_239, "architecture")
