"""The file formats by name, and how a format is recognised by its content.

In: a path. Out: a `Format`: the functions that read and write it, and what it can contain. `FORMATS` is the one list
that reading, writing, the command line and the tests use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tagwood.data.dataset import Dataset
from tagwood.data.files import read_start, reading_errors
from tagwood.data.formats import csr_files, json_lines, sparse_text, tables, text_lines
from tagwood.data.records import BODY, LABELS, TITLE, ReadOptions, Record, build_dataset, pick
from tagwood.errors import DataError

_SAMPLE_LINES = 50
_THREE_COUNTS = re.compile(r"\s*\d+\s+\d+\s+\d+\s*")
_TWO_COUNTS = re.compile(r"\s*\d+\s+\d+\s*")
_SPARSE_ROW = re.compile(r"\s*(\d+(,\d+)*)?(\s+\d+:\S+)*\s*")
_PAIRS = re.compile(r"\s*(\d+:\S+\s*)*")
_PECOS_ROW = re.compile(r"\s*(\d+(,\d+)*)?\s*\t.*", re.DOTALL)
_URIS = re.compile(r"(<[^<>\s]+>|[a-z][a-z0-9+.-]*:[^\s]+)?(\s+(<[^<>\s]+>|[a-z][a-z0-9+.-]*:[^\s]+))*\s*")


@dataclass(frozen=True)
class Format:
    """A file format."""

    name: str
    write: Callable[[Dataset, Path], None]  # function of dataset and path
    # Function of path and options that yields the rows one by one, for formats with texts
    records: Callable[[Path, ReadOptions], Iterator[Record]] | None = None
    # Function of path and options that returns the dataset; default: the dataset is built from `records`
    read_whole: Callable[[Path, ReadOptions], Dataset] | None = None
    # Which of texts, features, groups and ids it can contain
    holds: tuple[str, ...] = ("texts", "groups", "ids")
    # How labels are written: by ``"name"``, ``"word"`` (a name with ``_`` for spaces) or ``"id"``
    labels_by: str = "name"
    # folder, files: whether it is a folder, and the fixed names of its files
    folder: bool = False
    files: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()  # file names that select this format when writing

    def read(self, path: Path, options: ReadOptions) -> Dataset:
        """Read a dataset."""
        if self.read_whole is not None:
            return self.read_whole(path, options)
        assert self.records is not None
        return build_dataset(self.records(path, options), path, options, words=self.labels_by == "word")


_FORMATS = (
    Format(
        "repository",
        sparse_text.write_repository,
        read_whole=sparse_text.read_repository,
        holds=("features",),
        labels_by="id",
    ),
    Format(
        "sparse-files",
        sparse_text.write_split_files,
        read_whole=sparse_text.read_split_files,
        holds=("features",),
        labels_by="id",
        folder=True,
        files=("trn_X_Xf.txt", "trn_X_Y.txt", "Y.txt", "Yf.txt", "filter_labels_train.txt"),
    ),
    Format(
        "csr",
        csr_files.write,
        read_whole=csr_files.read,
        holds=("features", "texts"),
        labels_by="id",
        folder=True,
        files=("X.trn.npz", "X.trn.npy", "X.trn.txt", "Y.trn.npz", "Y.trn.npy", "labels.txt"),
    ),
    Format(
        "xc-json",
        json_lines.write_xc,
        json_lines.xc_records,
        read_whole=json_lines.read_xc,
        labels_by="id",
        endings=(".json",),
    ),
    Format("pecos", text_lines.write_pecos, text_lines.pecos_records, holds=("texts",), labels_by="id"),
    Format(
        "fasttext",
        text_lines.write_fasttext,
        text_lines.fasttext_records,
        holds=("texts",),
        labels_by="word",
        endings=(".ft", ".fasttext"),
    ),
    Format(
        "attentionxml",
        text_lines.write_attentionxml,
        text_lines.attentionxml_records,
        read_whole=text_lines.read_attentionxml,
        holds=("texts",),
        labels_by="word",
        folder=True,
        files=("train_texts.txt", "train_labels.txt"),
    ),
    Format("jsonl", json_lines.write, json_lines.records, endings=(".jsonl", ".ndjson")),
    Format("csv", partial(tables.write, delimiter=","), tables.records, labels_by="word", endings=(".csv",)),
    Format("tsv", partial(tables.write, delimiter="\t"), tables.records, labels_by="word", endings=(".tsv",)),
    Format("parquet", tables.write_parquet, tables.parquet_records, endings=(".parquet",)),
    Format("annif-tsv", text_lines.write_annif, text_lines.annif_records, holds=("texts",), labels_by="word"),
    Format("annif-csv", tables.write_annif_csv, tables.records, holds=("texts", "ids"), labels_by="word"),
    Format("annif-jsonl", json_lines.write_annif, json_lines.records),
    Format(
        "txt-key",
        text_lines.write_documents,
        text_lines.document_records,
        holds=("texts", "ids"),
        folder=True,
    ),
)
FORMATS = {chosen.name: chosen for chosen in _FORMATS}
"""Every format by its name."""


def detect_format(path: str | Path) -> str:
    """Return the name of the format of a file or folder by its content, and by names only where that cannot decide."""
    path = Path(path)
    if path.is_dir():
        return _detect_folder(path)
    start = read_start(path)
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith((b"PK\x03\x04", b"\x93NUMPY")):
        return "csr"
    lines = _sample(start)
    found = _detect_text(path, lines)
    if found is None:
        shown = repr(lines[0][:60]) if lines else "nothing"
        raise _undecided(path, f"its content fits no known format (first of {len(lines)} lines: {shown})")
    return found


def _detect_folder(path: Path) -> str:
    with reading_errors(path):
        names = sorted(file.name.removesuffix(".gz") for file in path.iterdir())
    has = set(names)
    if any(re.fullmatch(r"[XY]\.(trn|tst)\.np[yz]", name) for name in names):
        return "csr"
    if has & {"trn_X_Y.txt", "tst_X_Y.txt"}:
        return "sparse-files"
    if {"train_texts.txt", "train_labels.txt"} <= has or {"test_texts.txt", "test_labels.txt"} <= has:
        return "attentionxml"
    if has & {"trn.json", "tst.json"}:
        return "xc-json"
    stems = {name.removesuffix(".txt") for name in names if name.endswith(".txt")}
    if any(stem + end in has for stem in stems for end in (".key", ".tsv")):
        return "txt-key"
    shown = ", ".join(names[:8]) or "no files"
    raise _undecided(path, f"the folder contains no known dataset ({shown}{', ...' if len(names) > 8 else ''})")


def _detect_text(path: Path, lines: list[str]) -> str | None:
    if not lines:
        return None
    first, rest = lines[0], lines[1:]
    if _THREE_COUNTS.fullmatch(first) and all(map(_SPARSE_ROW.fullmatch, rest[:5])):
        return "repository"
    if _TWO_COUNTS.fullmatch(first) and all(map(_PAIRS.fullmatch, rest[:5])):
        return "sparse-files"
    if first.lstrip().startswith("{"):
        return "xc-json" if '"target_ind"' in first else "jsonl"
    name = path.name.removesuffix(".gz")
    if re.fullmatch(r"(train|test)_(texts|labels)\.txt", name):
        return "attentionxml"
    if sum(line.startswith("__label__") for line in lines) * 2 > len(lines):
        return "fasttext"
    return _detect_table(lines)


def _detect_table(lines: list[str]) -> str | None:
    filled = [line for line in lines if line.strip()]
    first = lines[0]
    for separator, name in (("\t", "tsv"), (",", "csv")):
        cells = [cell.strip().strip('"') for cell in first.split(separator)]
        if len(cells) > 1 and pick(cells, LABELS) and (pick(cells, BODY) or pick(cells, TITLE)):
            return name
    if not all("\t" in line for line in filled):
        return None
    if all(map(_PECOS_ROW.fullmatch, filled)):
        return "pecos"
    if all(_URIS.fullmatch(line.split("\t", 1)[1]) for line in filled):
        return "annif-tsv"
    return None


def _sample(start: bytes) -> list[str]:
    """Return the first complete lines of a file's start."""
    lines = start.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").split("\n")
    if len(lines) > 1 and (len(start) >= 1 << 16 or not lines[-1]):
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines[:_SAMPLE_LINES]]
    return lines if any(line.strip() for line in lines) else []


def _undecided(path: Path, reason: str) -> DataError:
    return DataError(
        reason, path=path, hint="Name the format: format='...' in Python, --format or --from in the shell."
    )
