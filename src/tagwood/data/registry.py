"""Read, write and stream datasets in any format: the functions that users call.

In: a path, and a format name or none. Out: a `Dataset`, `Record`s, or files written whole or not at all.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tagwood._check import check_choice
from tagwood.data import label_table
from tagwood.data.catalogue import FORMATS, Format
from tagwood.data.dataset import Dataset
from tagwood.data.detection import detect_format
from tagwood.data.files import BadLines
from tagwood.data.records import ReadOptions, Record
from tagwood.data.vocab import LabelVocab
from tagwood.data.writing import check_target, replace_path
from tagwood.errors import DataError, InputError


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
        vocab = label_table.read_beside(path, folder=chosen.folder)
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
    companions = (label_table.table_path(path, folder=chosen.folder).name, *chosen.files)
    with replace_path(path, overwrite=overwrite, folder=chosen.folder, companions=companions) as target:
        chosen.write(dataset, target)
        if label_table.is_needed(dataset, labels_by=chosen.labels_by, has_width=chosen.has_width):
            label_table.write_beside(dataset.vocab, target, folder=chosen.folder)


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
