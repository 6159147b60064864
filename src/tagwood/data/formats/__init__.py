"""The file formats by name.

In: a path. Out: a `Format`: the functions that read and write it, and what it can contain. `FORMATS` is the one list
that reading, writing, the command line and the tests use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tagwood.data.dataset import Dataset
from tagwood.data.formats import csr_files, documents, json_lines, sparse_text, spreadsheets, tables, text_lines
from tagwood.data.formats.detection import detect_format
from tagwood.data.records import ReadOptions, Record, build_dataset

__all__ = ["FORMATS", "Format", "detect_format"]


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
    Format("xlsx", spreadsheets.write, spreadsheets.records, labels_by="word", endings=(".xlsx",)),
    Format("parquet", tables.write_parquet, tables.parquet_records, endings=(".parquet",)),
    Format("annif-tsv", text_lines.write_annif, text_lines.annif_records, holds=("texts",), labels_by="word"),
    Format("annif-csv", tables.write_annif_csv, tables.records, holds=("texts", "ids"), labels_by="word"),
    Format("annif-jsonl", json_lines.write_annif, json_lines.records),
    Format(
        "txt-key",
        documents.write_documents,
        documents.document_records,
        holds=("texts", "ids"),
        folder=True,
    ),
)
FORMATS = {chosen.name: chosen for chosen in _FORMATS}
"""Every format by its name."""
