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


@dataclass(frozen=True)
class Format:
    """A file format: how it is read and written, and what it holds.

    `labels_by`: ``"name"`` or ``"id"``; `has_width`: it says how many labels there are; `folder`: it is a
    folder; `endings`: file names that mean it when writing.
    """

    name: str
    summary: str
    read: Callable[[Path, ReadOptions], Dataset]
    write: Callable[[Dataset, Path], None]
    records: Callable[[Path, ReadOptions], Iterator[Record]] | None = None
    labels_by: str = "name"
    has_width: bool = False
    folder: bool = False
    endings: tuple[str, ...] = ()


_ALL = (
    Format(
        "repository",
        "N D L header, then l1,l2 f:v f:v per row",
        repository.read,
        repository.write,
        labels_by="id",
        has_width=True,
    ),
    Format(
        "sparse-files",
        "folder with trn_X_Xf.txt, trn_X_Y.txt, Y.txt, filter_labels_train.txt",
        sparse_files.read,
        sparse_files.write,
        labels_by="id",
        has_width=True,
        folder=True,
    ),
    Format(
        "csr",
        "folder with X.trn.npz and Y.trn.npz (or .npy)",
        csr_files.read,
        csr_files.write,
        labels_by="id",
        has_width=True,
        folder=True,
    ),
    Format(
        "xc-json",
        "trn.json.gz with uid, title, content, target_ind",
        xc_json.read,
        xc_json.write,
        xc_json.records,
        labels_by="id",
        endings=(".json",),
    ),
    Format("pecos", "id,id<TAB>text per line", pecos.read, pecos.write, pecos.records, labels_by="id"),
    Format(
        "fasttext",
        "__label__a text per line",
        fasttext.read,
        fasttext.write,
        fasttext.records,
        endings=(".ft", ".fasttext"),
    ),
    Format(
        "attentionxml",
        "folder with train_texts.txt and train_labels.txt",
        attentionxml.read,
        attentionxml.write,
        attentionxml.records,
        folder=True,
    ),
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
    Format("annif-tsv", "text<TAB><uri> <uri> per line", annif_tsv.read, annif_tsv.write, annif_tsv.records),
    Format(
        "annif-csv",
        "CSV with document_id, text, subject_uris",
        tables.read,
        tables.write_annif_csv,
        tables.records,
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
        folder=True,
    ),
    Format(
        "parquet",
        "Parquet with text, labels, id, group",
        parquet.read,
        parquet.write,
        parquet.records,
        endings=(".parquet",),
    ),
)
FORMATS = {format_.name: format_ for format_ in _ALL}
