"""Read, write and stream datasets in any format: the functions that users call.

In: a path, and a format name or none. Out: a `Dataset`, `Record`s, or files written whole or not at all.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tagwood._check import check_choice
from tagwood.data.dataset import Dataset
from tagwood.data.files import BadLines, check_target, read_start, reading_errors, replace_path
from tagwood.data.formats import (
    annif_tsv,
    attentionxml,
    csr_files,
    fasttext,
    json_lines,
    parquet,
    pecos,
    sparse_files,
    sparse_text,
    tables,
    txt_key,
    xc_json,
)
from tagwood.data.records import BODY, LABELS, TITLE, ReadOptions, Record, pick
from tagwood.data.vocab import LabelVocab
from tagwood.data.vocab_files import read_vocab, write_vocab
from tagwood.errors import DataError, InputError

# SECTION data.catalogue
# The file formats by name: how each is read and written, and what it can hold.
#
# In: nothing. Out: `FORMATS`, the one list that reading, writing, the command line and the tests go by.


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
        sparse_text.read,
        sparse_text.write,
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


# SECTION data.detection
# Which format a file or folder has, by what is inside.
#
# In: a path. Out: the name of a format, or a `DataError` that says what was looked at. The rules are tried in
# order; names decide only where contents cannot.


_SAMPLE_LINES = 50
_THREE_COUNTS = re.compile(r"\s*\d+\s+\d+\s+\d+\s*")
_TWO_COUNTS = re.compile(r"\s*\d+\s+\d+\s*")
_SPARSE_ROW = re.compile(r"\s*(\d+(,\d+)*)?(\s+\d+:\S+)*\s*")
_PAIRS = re.compile(r"\s*(\d+:\S+\s*)*")
_PECOS_ROW = re.compile(r"\s*(\d+(,\d+)*)?\s*\t.*", re.DOTALL)
_URIS = re.compile(r"(<[^<>\s]+>|[a-z][a-z0-9+.-]*:[^\s]+)?(\s+(<[^<>\s]+>|[a-z][a-z0-9+.-]*:[^\s]+))*\s*")


def detect_format(path: str | Path) -> str:
    """Return the name of the format of a file or folder.

    Raises
    ------
    DataError
        If the contents fit no format; the message says what was found and how to name the format.
    """
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
        raise _undecided(
            path, f"its content fits no known format (the first of {len(lines)} lines read is {shown})"
        )
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
    raise _undecided(
        path, f"the folder holds no dataset that is known ({shown}{', ...' if len(names) > 8 else ''})"
    )


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


# SECTION data.label_table
# The label table beside a data file: what the file itself cannot say about its labels.
#
# In: a dataset and the path it is written to. Out: ``<file>.labels.tsv`` or ``<folder>/labels.tsv``, and back.


def table_path(path: Path, *, folder: bool) -> Path:
    """Return where the label table of a data file or folder is."""
    if folder:
        return (path.parent if path.is_file() else path) / "labels.tsv"
    return path.with_name(path.name + ".labels.tsv")


def read_beside(path: Path, *, folder: bool) -> LabelVocab | None:
    """Return the label table beside a data file, or None."""
    table = table_path(path, folder=folder)
    return read_vocab(table) if table.is_file() else None


def write_beside(vocab: LabelVocab, path: Path, *, folder: bool) -> None:
    """Write the label table of the data at `path`."""
    write_vocab(vocab, table_path(path, folder=folder))


def is_needed(dataset: Dataset, *, labels_by: str, has_width: bool) -> bool:
    """Say whether reading the data back would not give the same vocabulary without a table."""
    vocab = dataset.vocab
    if vocab.uris is not None or vocab.languages or vocab.removed is not None:
        return True
    if labels_by == "id":
        return not (vocab.names is None and (has_width or _last_label(dataset) == len(vocab) - 1))
    return vocab.names is None or not _in_order_of_appearance(dataset)


def _last_label(dataset: Dataset) -> int:
    return int(dataset.labels.indices.max(initial=-1))


def _in_order_of_appearance(dataset: Dataset) -> bool:
    labels, first = np.unique(dataset.labels.indices, return_index=True)
    return labels.size == len(dataset.vocab) and bool(np.all(np.diff(first) > 0))


class SkippedLinesWarning(UserWarning):
    """Bad lines were left out of a dataset."""


def read_dataset(
    path: str | Path,
    format: str | None = None,  # noqa: A002  the word users know
    *,
    vocab: LabelVocab | None = None,
    on_unknown: str = "error",
    skip_bad: bool | BadLines = False,
    split: str | None = None,
    groups: str | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
) -> Dataset:
    """Read a dataset in any of the `FORMATS`.

    Parameters
    ----------
    path
        A file (plain or gzip) or, for the formats made of several files, the folder or one of them.
    format
        Name of the format; default: found from the content.
    vocab
        The label table; ids are its rows. Default: the table ``<file>.labels.tsv`` (``labels.tsv`` in a
        folder) that `write_dataset` put beside the data, else ids as they stand, or in order of first
        appearance for names.
    on_unknown
        Labels that are not in `vocab`: ``"error"``, ``"add"`` them behind the others, or ``"skip"`` them.
    skip_bad
        False: the first bad line raises `DataError`. True: bad lines are left out, and a
        `SkippedLinesWarning` says how many. A `BadLines` value: left out and counted there, without a
        warning.
    split
        ``"train"`` or ``"test"`` for a folder that holds both; default: the training split.
    groups
        Name of the column or field with the group of each row; default: one named ``group``, if there is one.
    separator
        What stands between the labels of a cell in CSV and TSV; default: ``;`` or ``|``, whichever comes
        first.
    encoding
        Of text files.

    Raises
    ------
    DataError
        With file, line and reason.
    """
    path = Path(path)
    chosen = _choose(path, format)
    bad = skip_bad if isinstance(skip_bad, BadLines) else BadLines(skip=skip_bad)
    options = _options(bad, on_unknown, encoding, separator, split)
    if vocab is None:
        vocab = read_beside(path, folder=chosen.folder)
    dataset = chosen.read(path, replace(options, vocab=vocab, groups=groups))
    if groups is not None and dataset.groups is None:
        raise DataError(
            f"no row has a group in a field or column {groups!r}",
            path=path,
            hint="Check the name; JSON lines, CSV, TSV and Parquet can hold groups.",
        )
    if bad.count and skip_bad is True:
        warnings.warn(
            f"{path}: left out {bad.count:,} bad lines; the first: {bad.first[0]}",
            SkippedLinesWarning,
            stacklevel=2,
        )
    return dataset


def read_records(
    path: str | Path,
    format: str | None = None,  # noqa: A002  the word users know
    *,
    skip_bad: bool | BadLines = False,
    split: str | None = None,
    groups: str | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
) -> Iterator[Record]:
    """Yield the rows of a text format one by one, for texts that do not fit in memory; labels may be missing.

    Parameters are those of `read_dataset`. Labels are as they stand in the file.
    """
    path = Path(path)
    chosen = _choose(path, format)
    if chosen.records is None:
        raise DataError(f"the format {chosen.name!r} holds features, not texts", path=path)
    bad = skip_bad if isinstance(skip_bad, BadLines) else BadLines(skip=skip_bad)
    options = _options(bad, "error", encoding, separator, split)
    return chosen.records(path, replace(options, need_labels=False, groups=groups))


def write_dataset(
    dataset: Dataset,
    path: str | Path,
    format: str | None = None,  # noqa: A002  the word users know
    *,
    overwrite: bool = False,
) -> None:
    """Write a dataset; the file appears when it is complete, or not at all.

    The format comes from `format` or from the name (``.jsonl``, ``.csv``, ``.tsv``, ``.parquet``, ...;
    ``.gz`` behind it packs the file). What the format cannot say about the labels goes to a table beside the
    data: ``<file>.labels.tsv``, or ``labels.tsv`` in a folder.

    Raises
    ------
    InputError
        If `path` exists and `overwrite` is False, or if the format cannot hold this dataset.
    """
    path = Path(path)
    chosen = target_format(path, format)
    check_overwrite(path, chosen, overwrite=overwrite)
    companions = (table_path(path, folder=chosen.folder).name, *chosen.files)
    with replace_path(path, overwrite=overwrite, folder=chosen.folder, companions=companions) as target:
        chosen.write(dataset, target)
        if is_needed(dataset, labels_by=chosen.labels_by, has_width=chosen.has_width):
            write_beside(dataset.vocab, target, folder=chosen.folder)


def target_format(path: str | Path, format: str | None = None) -> Format:  # noqa: A002  the word users know
    """Return the format to write: the named one, or the one that the ending of `path` means."""
    if format is not None:
        return FORMATS[check_choice(format, "format", FORMATS)]
    path = Path(path)
    name = path.name.removesuffix(".gz")
    for chosen in FORMATS.values():
        if chosen.endings and name.endswith(chosen.endings):
            return chosen
    raise InputError(
        f"the name {path.name!r} does not say which format to write",
        hint=f"Name it (format=..., --to): {', '.join(FORMATS)}.",
    )


def check_overwrite(path: Path, chosen: Format, *, overwrite: bool) -> None:
    """Raise `InputError` if `path` must not be written in this format."""
    check_target(path, overwrite=overwrite, folder=chosen.folder)
    if chosen.folder and not chosen.files and path.exists() and any(path.iterdir()):
        raise InputError(
            f"{path} has files already, and old documents would stay among the new ones",
            hint="Write to a new folder.",
        )


def _choose(path: Path, name: str | None) -> Format:
    if not path.exists():
        raise DataError("there is no such file or folder", path=path)
    return FORMATS[detect_format(path) if name is None else check_choice(name, "format", FORMATS)]


def _options(
    bad: BadLines, on_unknown: str, encoding: str, separator: str | None, split: str | None
) -> ReadOptions:
    check_choice(on_unknown, "on_unknown", ["error", "add", "skip"])
    if split is not None:
        check_choice(split, "split", ["train", "test"])
    try:
        "".encode(encoding)
    except LookupError as error:
        raise InputError("encoding must be one that Python knows", given=repr(encoding)) from error
    if separator == "":
        raise InputError("separator must have at least one character", given="none")
    return ReadOptions(bad, None, on_unknown, encoding, separator, split)
