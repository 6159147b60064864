"""Read, write and stream datasets in any format: the functions that users call.

In: a path, and optionally the name of a format. Out: a `Dataset`, `Record`s, or files that are written completely or
not at all. What a format cannot store about its labels is in a label table beside the data: ``<file>.labels.tsv``, or
``labels.tsv`` in a folder.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tagwood._check import check_choice
from tagwood.data.dataset import Dataset
from tagwood.data.files import BadLines
from tagwood.data.formats import FORMATS, Format, detect_format
from tagwood.data.formats.detection import TABLE_ENDINGS, ending
from tagwood.data.formats.documents import is_document
from tagwood.data.records import DatasetBuilder, ReadOptions, Record
from tagwood.data.report import FileReport, ReadReport, shown
from tagwood.data.stored_texts import TextWriter
from tagwood.data.vocab import LabelVocab
from tagwood.data.vocab_files import read_vocab, write_vocab
from tagwood.errors import DataError, InputError
from tagwood.storage.folder import find_aside
from tagwood.storage.publish import check_target, replace_path

_WITH_COLUMNS = ("jsonl", "csv", "tsv", "xlsx", "parquet")
Paths = str | Path | Sequence[str | Path]


class SkippedLinesWarning(UserWarning):
    """Bad lines were left out of a dataset."""


def read_dataset(
    path: Paths,
    format: str | None = None,  # noqa: A002  the word users know
    *,
    vocab: LabelVocab | None = None,
    on_unknown: str = "error",
    skip_bad: bool | BadLines = False,
    split: str | None = None,
    groups: str | None = None,
    text_columns: Sequence[str] = (),
    fields: Sequence[str] = (),
    label_column: str | None = None,
    id_column: str | None = None,
    separator: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    report: ReadReport | None = None,
    writer: TextWriter | None = None,
) -> Dataset:
    """Read a dataset in any of the `FORMATS`.

    Parameters
    ----------
    path
        A file (plain or gzip) or, for the formats made of several files, the folder or one of them. Several files with
        texts, or a folder of them, are read one after the other.
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
        similar name. Like `label_column` and `id_column` for JSON lines, CSV, TSV, XLSX and Parquet.
    fields
        Text columns of the data that a model was trained on, where `text_columns` are not given: those that a file does
        not have are empty.
    label_column, id_column
        Columns or fields with the labels and the id of each row; default: ``labels``, ``id`` and similar names.
    separator
        Separator of the labels of a cell; default: ``;`` or ``|``, whichever comes first.
    delimiter
        Delimiter of the columns of CSV; default: a tab, ``;``, ``,`` or ``|``, whichever fits the rows.
    encoding
        Encoding of text files; default: detected.
    report
        Filled with what was used and what was left out.
    writer
        Takes the texts, for data larger than memory: the dataset then reads them from its file, and has no row ids.
    """
    bad = skip_bad if isinstance(skip_bad, BadLines) else BadLines(skip=skip_bad)
    check_choice(on_unknown, "on_unknown", ["error", "add", "skip"])
    options = ReadOptions(
        bad,
        vocab,
        on_unknown,
        encoding,
        separator,
        split,
        groups=groups,
        text_columns=text_columns or fields,
        lenient=not text_columns and bool(fields),
        label_column=label_column,
        id_column=id_column,
        delimiter=delimiter,
        writer=writer,
        report=ReadReport() if report is None else report,
    )
    sources = find_sources(path, format, options)
    dataset = _read_sources(sources, options)
    _finish_report(dataset, options)
    if groups is not None and dataset.groups is None:
        raise DataError(
            f"no row has a group in a field or column {groups!r}",
            path=sources[0].path,
            hint="Check the name; JSON lines, CSV, TSV, XLSX and Parquet can contain groups.",
        )
    if bad.count and skip_bad is True:
        warnings.warn(
            f"{sources[0].path}: left out {bad.count:,} bad lines; the first: {bad.first[0]}",
            SkippedLinesWarning,
            stacklevel=2,
        )
    return dataset


def read_records(
    path: Paths,
    format: str | None = None,  # noqa: A002  the word users know
    *,
    skip_bad: bool | BadLines = False,
    split: str | None = None,
    groups: str | None = None,
    text_columns: Sequence[str] = (),
    fields: Sequence[str] = (),
    label_column: str | None = None,
    id_column: str | None = None,
    separator: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    keep_columns: bool = False,
    report: ReadReport | None = None,
) -> Iterator[Record]:
    """Yield the rows of a text format one by one, for texts that do not fit in memory; labels may be missing.

    Parameters are those of `read_dataset`. Labels are as in the file. With `keep_columns`, each record has all columns
    of its row.
    """
    options = ReadOptions(
        skip_bad if isinstance(skip_bad, BadLines) else BadLines(skip=skip_bad),
        None,
        "error",
        encoding,
        separator,
        split,
        need_labels=False,
        groups=groups,
        text_columns=text_columns or fields,
        lenient=not text_columns and bool(fields),
        label_column=label_column,
        id_column=id_column,
        delimiter=delimiter,
        keep_columns=keep_columns,
        report=ReadReport() if report is None else report,
    )
    return _records(find_sources(path, format, options), options)


class Source(NamedTuple):
    """A file, or a folder that is one dataset, and its format."""

    path: Path
    format: Format


def find_sources(paths: Paths, name: str | None, options: ReadOptions) -> list[Source]:
    """Return the files to read; a folder that is not one dataset stands for the data files in it."""
    _check_options(options)
    given = [Path(paths)] if isinstance(paths, str | Path) else list(map(Path, paths))
    if not given:
        raise InputError("there must be a file or folder to read", given="none")
    if name is not None:
        check_choice(name, "format", FORMATS)
    sources = [source for path in given for source in _expanded(path, name, options)]
    for path, chosen in sources:
        if len(sources) > 1 and chosen.records is None:
            raise DataError(f"the format {chosen.name!r} contains features, which are read alone", path=path)
        _check_columns(options, chosen)
    return sources


def _expanded(path: Path, name: str | None, options: ReadOptions) -> Iterator[Source]:
    if not path.exists():
        kept = find_aside(Path(os.path.realpath(path)))
        hint = f"Writing was interrupted; the older data are in {kept[-1]}: move them back." if kept else None
        raise DataError("there is no such file or folder", path=path, hint=hint)
    if name is not None and (not path.is_dir() or FORMATS[name].folder or name == "xc-json"):
        yield Source(path, FORMATS[name])
        return
    try:
        yield Source(path, FORMATS[detect_format(path, options) if name is None else name])
    except DataError:
        inside = [] if not path.is_dir() else [file for file in sorted(path.iterdir()) if _is_data(file, options)]
        if not inside:
            raise
        for file in inside:
            yield Source(file, FORMATS["txt-key" if is_document(file) else detect_format(file, options)])
        others = [file.name for file in path.iterdir() if file.is_file() and file not in inside]
        if others:
            words = f"files in the folder that were not read: {shown(sorted(others))}."
            options.report.files.append(FileReport(str(path), "folder", warnings=[words]))


def _is_data(path: Path, options: ReadOptions) -> bool:
    """Tell by its name whether a file of a folder has rows, or is a document that needs no labels."""
    if not path.is_file() or path.name.startswith(".") or path.name.endswith("labels.tsv"):
        return False
    return ending(path) in TABLE_ENDINGS or (is_document(path) and not options.need_labels)


def _noted(source: Source, options: ReadOptions) -> ReadOptions:
    """Return the options with an entry of the report for this source."""
    file = FileReport(str(source.path), source.format.name)
    options.report.files.append(file)
    return replace(options, file=file)


def _read_sources(sources: list[Source], options: ReadOptions) -> Dataset:
    if len(sources) == 1:
        path, chosen = sources[0]
        if options.vocab is None and (table := _table_path(path, folder=chosen.folder)).is_file():
            options = replace(options, vocab=read_vocab(table))
        return chosen.read(path, _noted(sources[0], options))
    builder = DatasetBuilder(options, words=any(source.format.labels_by == "word" for source in sources))
    for source in sources:
        noted = _noted(source, options)
        assert source.format.records is not None
        builder.add(source.format.records(source.path, noted), source.path, noted.file)
    return builder.finish()


def _records(sources: list[Source], options: ReadOptions) -> Iterator[Record]:
    streams = []
    for source in sources:
        if source.format.records is None:
            raise DataError(f"the format {source.format.name!r} contains features, not texts", path=source.path)
        streams.append((source, _noted(source, options)))
    return _counted(streams)


def _counted(streams: list[tuple[Source, ReadOptions]]) -> Iterator[Record]:
    for source, options in streams:
        assert source.format.records is not None
        for record in source.format.records(source.path, options):
            options.file.rows += 1
            options.report.rows += 1
            yield record
        options.report.bad_lines = options.bad.count


def _finish_report(dataset: Dataset, options: ReadOptions) -> None:
    report, labels = options.report, dataset.labels
    report.rows, report.bad_lines, report.labels_used = dataset.n_rows, options.bad.count, int(labels.nnz)
    if not report.labels:  # formats with features
        report.labels = report.labels_used + report.labels_filtered
        report.files[-1].rows = dataset.n_rows
        report.rows_without_labels = int((np.diff(labels.indptr) == 0).sum())
    if dataset.vocab.removed is not None:
        report.labels_removed = int(dataset.vocab.removed[labels.indices].sum())


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


def _check_options(options: ReadOptions) -> None:
    if options.split is not None:
        check_choice(options.split, "split", ["train", "test"])
    if options.separator == "":
        raise InputError("separator must have at least one character", given="none")
    mark = options.delimiter
    if mark is not None and mark != "\t" and (len(mark) != 1 or not mark.isprintable() or mark == '"'):
        raise InputError("delimiter must be one character", given=repr(mark), hint="A tab is '\\t'.")
    try:
        "".encode(options.encoding or "utf-8")
    except (LookupError, ValueError) as error:
        hint = "Usual ones: utf-8, utf-16, cp1252, latin-1."
        raise InputError("encoding must be one that Python knows", given=repr(options.encoding), hint=hint) from error


def _check_columns(options: ReadOptions, chosen: Format) -> None:
    names = options.text_columns
    if isinstance(names, str) or not all(isinstance(name, str) and name.strip() for name in names):
        raise InputError("text_columns must be a list of names", given=repr(names))
    named = {
        "text_columns": () if options.lenient else names,
        "label_column": options.label_column,
        "id_column": options.id_column,
    }
    for option, value in named.items():
        if value and chosen.name not in _WITH_COLUMNS:
            verb = "are" if option == "text_columns" else "is"
            raise InputError(
                f"{option} {verb} for the formats {', '.join(_WITH_COLUMNS)}", given=f"the format {chosen.name}"
            )


def _table_path(path: Path, *, folder: bool) -> Path:
    """Return the path of the label table of a data file or folder."""
    if folder:
        return (path.parent if path.is_file() else path) / "labels.tsv"
    return path.with_name(path.name + ".labels.tsv")


def _needs_table(dataset: Dataset, chosen: Format) -> bool:
    """Tell whether reading the data back would give another vocabulary without a label table."""
    vocab, used = dataset.vocab, dataset.labels.indices
    if vocab.id_kind == "integer":
        return np.unique(used).size < len(vocab)
    if vocab.languages or any(part is not None for part in (vocab.uris, vocab.removed, vocab.alternatives)):
        return True
    if chosen.labels_by == "id":
        has_width = "features" in chosen.holds  # matrices know their number of labels
        return vocab.names is not None or not (has_width or used.max(initial=-1) == len(vocab) - 1)
    labels, first = np.unique(used, return_index=True)
    in_order = labels.size == len(vocab) and bool(np.all(np.diff(first) > 0))
    return vocab.names is None or not in_order
