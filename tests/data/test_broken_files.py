"""Whatever bytes a file holds, a reader returns a `Dataset` or raises a `DataError` that names the file."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tagwood.data import FORMATS, BadLines, Dataset, LabelVocab, detect_format, read_dataset, write_dataset
from tagwood.data.vocab_files import read_vocab
from tagwood.errors import DataError

quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@cache
def good_files(name):
    """The files of a small good dataset: relative path -> bytes. The label table is left out."""
    data = Dataset(
        [[3, 1], [0], [4, 1], [0, 2], []],
        LabelVocab.from_names(["oak tree", "ash", "elm", "moss;", "12"]),
        texts=["one\ntwo", "three", "", "four, five", "Bäume 🌳"],
        features=np.array([[0.5, 0, 1], [0, 2, 0], [0, 0, 0], [1e-9, 0, 3], [1, 1, 1]], dtype=np.float32),
        groups=["a", "a", "b", "", "b"],
    )
    with tempfile.TemporaryDirectory() as folder:
        write_dataset(data, Path(folder) / "data", name)
        files = [file for file in sorted(Path(folder).rglob("*")) if file.is_file()]
        contents = {str(file.relative_to(folder)): file.read_bytes() for file in files}
    return {path: content for path, content in contents.items() if not path.endswith("labels.tsv")}


@st.composite
def mutations(draw, name):
    """The good files with one of them cut, overwritten, repeated or extended at some places."""
    files = dict(good_files(name))
    path = draw(st.sampled_from(sorted(files)))
    content = bytearray(files[path])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        piece = draw(st.one_of(st.binary(max_size=8), st.sampled_from(PIECES)))
        kind = draw(st.sampled_from(["insert", "overwrite", "cut", "truncate", "repeat"]))
        length = draw(st.integers(0, 20))
        if kind == "insert":
            content[at:at] = piece
        elif kind == "overwrite":
            content[at : at + len(piece)] = piece
        elif kind == "cut":
            del content[at : at + length]
        elif kind == "truncate":
            del content[at:]
        else:
            content[at:at] = content[at : at + length]
    files[path] = bytes(content)
    return files


PIECES = [
    *(
        b"\n",
        b"\r\n",
        b"\r",
        b"\t",
        b" ",
        b",",
        b":",
        b'"',
        b"[",
        b"{",
        b"}",
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
    ),
    *(b"-1", b"99999999999", b"1e400", b"nan", b"inf", b"null", b"true", b"1.5", b"\\ud800", b"__label__"),
    *(b"<>", b"[" * 40, b"9" * 5000, b"2147483647", b"18446744073709551615"),
]


def outcome(action):
    """Return (result, None) or (None, the DataError); anything else escapes and fails the test."""
    try:
        return action(), None
    except DataError as error:
        return None, error


def read_both_ways(path, name):
    """Read strictly and leniently; nothing but a Dataset or a DataError with the path may come out."""
    for bad in (BadLines(skip=False), BadLines(skip=True)):
        data, error = outcome(lambda bad=bad: read_dataset(path, name, skip_bad=bad))
        if error is not None:
            assert path.name in str(error)
        else:
            assert isinstance(data, Dataset)
            assert data.labels.shape == (data.n_rows, len(data.vocab))
            assert len(data.fingerprint()) == 64


@pytest.mark.parametrize("name", FORMATS)
def test_mutated_files_give_a_dataset_or_a_named_error(name):
    @quick
    @given(files=mutations(name))
    def run(files):
        with tempfile.TemporaryDirectory() as folder:
            for path, content in files.items():
                (Path(folder) / path).parent.mkdir(exist_ok=True)
                (Path(folder) / path).write_bytes(content)
            read_both_ways(Path(folder) / "data", name)

    run()


@pytest.mark.parametrize("name", FORMATS)
def test_arbitrary_bytes_give_a_dataset_or_a_named_error(name):
    @quick
    @given(content=st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(PIECES)).map(b"".join)))
    def run(content):
        with tempfile.TemporaryDirectory() as folder:
            for path in good_files(name):
                (Path(folder) / path).parent.mkdir(exist_ok=True)
                (Path(folder) / path).write_bytes(content)
            read_both_ways(Path(folder) / "data", name)

    run()


@quick
@given(content=st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(PIECES)).map(b"".join)))
def test_detection_of_arbitrary_bytes_names_a_format_or_an_error(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        path.write_bytes(content)
        name, error = outcome(lambda: detect_format(path))
        assert name in FORMATS or any(word in str(error) for word in ("--format", "gzip", "is empty", ".xls"))


@quick
@given(content=st.one_of(st.binary(max_size=200), st.lists(st.sampled_from([*PIECES, b"name", b"id"])).map(b"".join)))
def test_arbitrary_label_tables_give_a_vocabulary_or_a_named_error(content):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("labels.tsv", "labels.csv"):
            path = Path(folder) / name
            path.write_bytes(content)
            vocab, error = outcome(lambda path=path: read_vocab(path))
            assert isinstance(vocab, LabelVocab) or name in str(error)


@pytest.mark.parametrize("size", range(0, 60, 5))
def test_a_gzip_file_cut_short_is_named(size, tmp_path):
    data = Dataset([[0]] * 50, LabelVocab.from_names(["a"]), texts=[f"text {i}" for i in range(50)])
    write_dataset(data, tmp_path / "data.jsonl.gz")
    content = (tmp_path / "data.jsonl.gz").read_bytes()
    (tmp_path / "data.jsonl.gz").write_bytes(content[: len(content) - 60 + size])
    with pytest.raises(DataError, match=r"data\.jsonl\.gz.*gzip data are damaged"):
        read_dataset(tmp_path / "data.jsonl.gz", "jsonl")
