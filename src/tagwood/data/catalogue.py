"""The file formats by name: how each is read and written, and what it can hold.

In: nothing. Out: `FORMATS`, the one list that reading, writing, the command line and the tests go by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tagwood.data.dataset import Dataset
from tagwood.data.formats import (
    annif_tsv,
    attentionxml,
    csr_files,
    fasttext,
    json_lines,
    parquet,
    pecos,
    repository,
    sparse_files,
    tables,
    txt_key,
    xc_json,
)
from tagwood.data.records import ReadOptions, Record

_TEXT = ("texts", "groups", "ids")


@dataclass(frozen=True)
class Format:
    """A file format: how it is read and written, and what it holds.

    Parameters
    ----------
    name, summary
        As users name it, and one line about it.
    read, write
        Functions of path and options, and of dataset and path.
    records
        Function that yields the rows one by one, for formats with texts.
    holds
        Which of texts, features, groups and ids it can hold.
    labels_by
        ``"name"`` or ``"id"``.
    has_width
        Whether it says how many labels there are.
    folder, files
        Whether it is a folder, and the fixed names of its files.
    endings
        File names that mean this format when writing.
    """

    name: str
    summary: str
    read: Callable[[Path, ReadOptions], Dataset]
    write: Callable[[Dataset, Path], None]
    records: Callable[[Path, ReadOptions], Iterator[Record]] | None = None
    holds: tuple[str, ...] = _TEXT
    labels_by: str = "name"
    has_width: bool = False
    folder: bool = False
    files: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()


_MATRICES = (
    Format(
        "repository",
        "N D L header, then l1,l2 f:v f:v per row",
        repository.read,
        repository.write,
        holds=("features",),
        labels_by="id",
        has_width=True,
    ),
    Format(
        "sparse-files",
        "folder with trn_X_Xf.txt, trn_X_Y.txt, Y.txt, filter_labels_train.txt",
        sparse_files.read,
        sparse_files.write,
        holds=("features",),
        labels_by="id",
        has_width=True,
        folder=True,
        files=("trn_X_Xf.txt", "trn_X_Y.txt", "Y.txt", "Yf.txt", "filter_labels_train.txt"),
    ),
    Format(
        "csr",
        "folder with X.trn.npz and Y.trn.npz (or .npy)",
        csr_files.read,
        csr_files.write,
        holds=("features", "texts"),
        labels_by="id",
        has_width=True,
        folder=True,
        files=("X.trn.npz", "X.trn.npy", "X.trn.txt", "Y.trn.npz", "Y.trn.npy", "labels.txt"),
    ),
)
_LINES = (
    Format(
        "xc-json",
        "trn.json.gz with uid, title, content, target_ind",
        xc_json.read,
        xc_json.write,
        xc_json.records,
        labels_by="id",
        endings=(".json",),
    ),
    Format(
        "pecos",
        "id,id<TAB>text per line",
        pecos.read,
        pecos.write,
        pecos.records,
        holds=("texts",),
        labels_by="id",
    ),
    Format(
        "fasttext",
        "__label__a text per line",
        fasttext.read,
        fasttext.write,
        fasttext.records,
        holds=("texts",),
        endings=(".ft", ".fasttext"),
    ),
    Format(
        "attentionxml",
        "folder with train_texts.txt and train_labels.txt",
        attentionxml.read,
        attentionxml.write,
        attentionxml.records,
        holds=("texts",),
        folder=True,
        files=("train_texts.txt", "train_labels.txt"),
    ),
)
_TABLES = (
    Format(
        "jsonl",
        "JSON lines with text, labels, id, group",
        json_lines.read,
        json_lines.write,
        json_lines.records,
        endings=(".jsonl", ".ndjson"),
    ),
    Format("csv", "CSV with a header", tables.read, tables.write_csv, tables.records, endings=(".csv",)),
    Format("tsv", "TSV with a header", tables.read, tables.write_tsv, tables.records, endings=(".tsv",)),
    Format(
        "parquet",
        "Parquet with text, labels, id, group",
        parquet.read,
        parquet.write,
        parquet.records,
        endings=(".parquet",),
    ),
)
_ANNIF = (
    Format(
        "annif-tsv",
        "text<TAB><uri> <uri> per line",
        annif_tsv.read,
        annif_tsv.write,
        annif_tsv.records,
        holds=("texts",),
    ),
    Format(
        "annif-csv",
        "CSV with document_id, text, subject_uris",
        tables.read,
        tables.write_annif_csv,
        tables.records,
        holds=("texts", "ids"),
    ),
    Format(
        "annif-jsonl",
        "JSON lines with document_id, text, subjects",
        json_lines.read,
        json_lines.write_annif,
        json_lines.records,
    ),
    Format(
        "txt-key",
        "folder of .txt with .key or .tsv files",
        txt_key.read,
        txt_key.write,
        txt_key.records,
        holds=("texts", "ids"),
        folder=True,
    ),
)
FORMATS = {chosen.name: chosen for chosen in (*_MATRICES, *_LINES, *_TABLES, *_ANNIF)}
"""Every format by its name."""
