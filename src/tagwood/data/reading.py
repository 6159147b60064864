"""Read, write and stream datasets in any format: the functions that users call.

In: a path, and optionally the name of a format. Out: a `Dataset`, `Record`s, or files that are written completely or
not at all. What a format cannot store about its labels is in a label table beside the data: ``<file>.labels.tsv``, or
``labels.tsv`` in a folder.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tagwood._check import check_choice
from tagwood.data.dataset import Dataset
from tagwood.data.files import BadLines
from tagwood.data.formats import FORMATS, Format, detect_format
from tagwood.data.records import ReadOptions, Record
from tagwood.data.vocab import LabelVocab
from tagwood.data.vocab_files import read_vocab, write_vocab
from tagwood.errors import DataError, InputError
from tagwood.storage.folder import find_aside
from tagwood.storage.publish import check_target, replace_path

_WITH_COLUMNS = ("jsonl", "csv", "tsv", "parquet")


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
    text_columns: Sequence[str] = (),
    separator: str | None = None,
    encoding: str = "utf-8",
) -> Dataset:
    """Read a dataset in any of the `FORMATS`.

    Parameters
    ----------
    path
        A file (plain or gzip) or, for the formats made of several files, the folder or one of them.
    format
        Name of the format; default: detected from the content.
    vocab
        The label table; ids are its rows. Default: the table that `write_dataset` wrote beside the data; without one,
        ids as in the file, or names numbered in order of first appearance.
    on_unknown
        Labels that are not in `vocab`: ``"error"``, ``"add"`` them after the others, or ``"skip"`` them.
    skip_bad
        False: the first bad line raises `DataError`. True: bad lines are left out and counted in a
        `SkippedLinesWarning`. A `BadLines` value: they are left out and counted there, without a warning.
    split
        ``"train"`` or ``"test"`` for a folder with both; default: the training split.
    groups
        Name of the column or field with the group of each row; default: ``group`` and similar names.
    text_columns
        Columns or fields that make the text, the title first; default: a title, if there is one, and ``text`` or a
        similar name. Only for JSON lines, CSV, TSV and Parquet.
    separator
        Separator of the labels of a cell in CSV and TSV; default: ``;`` or ``|``, whichever comes first.
    encoding
        Encoding of text files.
    """
    path = Path(path)
    chosen = _choose(path, format)
    check_choice(on_unknown, "on_unknown", ["error", "add", "skip"])
    _check_options(split, separator, encoding)
    if vocab is None and (table := _table_path(path, folder=chosen.folder)).is_file():
        vocab = read_vocab(table)
    bad = skip_bad if isinstance(skip_bad, BadLines) else BadLines(skip=skip_bad)
    columns = _check_columns(text_columns, chosen)
    options = ReadOptions(bad, vocab, on_unknown, encoding, separator, split, groups=groups, text_columns=columns)
    dataset = chosen.read(path, options)
    if groups is not None and dataset.groups is None:
        raise DataError(
            f"no row has a group in a field or column {groups!r}",
            path=path,
            hint="Check the name; JSON lines, CSV, TSV and Parquet can contain groups.",
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
    text_columns: Sequence[str] = (),
    separator: str | None = None,
    encoding: str = "utf-8",
) -> Iterator[Record]:
    """Yield the rows of a text format one by one, for texts that do not fit in memory; labels may be missing.

    Parameters are those of `read_dataset`. Labels are as in the file.
    """
    path = Path(path)
    chosen = _choose(path, format)
    if chosen.records is None:
        raise DataError(f"the format {chosen.name!r} contains features, not texts", path=path)
    _check_options(split, separator, encoding)
    bad = skip_bad if isinstance(skip_bad, BadLines) else BadLines(skip=skip_bad)
    columns = _check_columns(text_columns, chosen)
    options = ReadOptions(
        bad, None, "error", encoding, separator, split, need_labels=False, groups=groups, text_columns=columns
    )
    return chosen.records(path, options)


def write_dataset(
    dataset: Dataset,
    path: str | Path,
    format: str | None = None,  # noqa: A002  the word users know
    *,
    overwrite: bool = False,
) -> None:
    """Write a dataset; the file appears when it is complete, or not at all.

    The format is `format`, or follows from the name (``.jsonl``, ``.csv``, ``.tsv``, ``.parquet``, ...; a further
    ``.gz`` compresses the file). A label table is written beside the data if the format needs one. An existing `path`
    (without `overwrite`) and a format that cannot contain this dataset raise `InputError`.
    """
    path = Path(path)
    chosen = target_format(path, format)
    check_overwrite(path, chosen, overwrite=overwrite)
    companions = (_table_path(path, folder=chosen.folder).name, *chosen.files)
    with replace_path(path, overwrite=overwrite, folder=chosen.folder, companions=companions) as target:
        chosen.write(dataset, target)
        if _needs_table(dataset, chosen):
            write_vocab(dataset.vocab, _table_path(target, folder=chosen.folder))


def target_format(path: str | Path, format: str | None = None) -> Format:  # noqa: A002  the word users know
    """Return the format to write: the named one, or the one that the ending of `path` selects."""
    if format is not None:
        return FORMATS[check_choice(format, "format", FORMATS)]
    path = Path(path)
    name = path.name.removesuffix(".gz")
    for chosen in FORMATS.values():
        if chosen.endings and name.endswith(chosen.endings):
            return chosen
    raise InputError(
        f"the name {path.name!r} does not determine a format to write",
        hint=f"Name it (format=..., --to): {', '.join(FORMATS)}.",
    )


def check_overwrite(path: Path, chosen: Format, *, overwrite: bool) -> None:
    """Raise `InputError` if `path` must not be written in this format."""
    check_target(path, overwrite=overwrite, folder=chosen.folder)
    if chosen.folder and not chosen.files and path.exists() and any(path.iterdir()):
        raise InputError(
            f"{path} is not empty, and its old documents would mix with the new ones",
            hint="Write to a new folder.",
        )


def _choose(path: Path, name: str | None) -> Format:
    if not path.exists():
        kept = find_aside(Path(os.path.realpath(path)))
        hint = f"Writing was interrupted; the older data are in {kept[-1]}: move them back." if kept else None
        raise DataError("there is no such file or folder", path=path, hint=hint)
    return FORMATS[detect_format(path) if name is None else check_choice(name, "format", FORMATS)]


def _check_options(split: str | None, separator: str | None, encoding: str) -> None:
    if split is not None:
        check_choice(split, "split", ["train", "test"])
    if separator == "":
        raise InputError("separator must have at least one character", given="none")
    try:
        "".encode(encoding)
    except LookupError as error:
        raise InputError("encoding must be one that Python knows", given=repr(encoding)) from error


def _check_columns(names: Sequence[str], chosen: Format) -> Sequence[str]:
    if isinstance(names, str) or not all(isinstance(name, str) and name.strip() for name in names):
        raise InputError("text_columns must be a list of names", given=repr(names))
    if names and chosen.name not in _WITH_COLUMNS:
        raise InputError(
            f"text_columns are for the formats {', '.join(_WITH_COLUMNS)}", given=f"the format {chosen.name}"
        )
    return names


def _table_path(path: Path, *, folder: bool) -> Path:
    """Return the path of the label table of a data file or folder."""
    if folder:
        return (path.parent if path.is_file() else path) / "labels.tsv"
    return path.with_name(path.name + ".labels.tsv")


def _needs_table(dataset: Dataset, chosen: Format) -> bool:
    """Tell whether reading the data back would give another vocabulary without a label table."""
    vocab, used = dataset.vocab, dataset.labels.indices
    if vocab.languages or any(part is not None for part in (vocab.uris, vocab.removed, vocab.alternatives)):
        return True
    if chosen.labels_by == "id":
        has_width = "features" in chosen.holds  # matrices know their number of labels
        return vocab.names is not None or not (has_width or used.max(initial=-1) == len(vocab) - 1)
    labels, first = np.unique(used, return_index=True)
    in_order = labels.size == len(vocab) and bool(np.all(np.diff(first) > 0))
    return vocab.names is None or not in_order
