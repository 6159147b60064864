"""How commands read data: the options that all of them share, and what is said about the files.

In: paths and options. Out: a `Dataset`, and a report of what was used and left out, on stderr or in the JSON.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli import common
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.data import BadLines, Dataset, LabelVocab, ReadReport, Record
    from tagwood.data.records import ReadOptions
    from tagwood.tagger import Tagger

Paths = Sequence[Path]
DataArgument = Annotated[
    list[Path],
    typer.Argument(metavar="DATA", help="Files or folders with texts and labels, in any supported format."),
]
_PANEL: dict[str, Any] = {"rich_help_panel": "How files are read"}
_OPTIONS: dict[str, tuple[Any, Any]] = {
    "text_columns": (
        Annotated[
            str | None,
            typer.Option(
                "--text-columns",
                help="Columns that make the text, separated by commas, the title first, such as title,abstract.",
                **_PANEL,
            ),
        ],
        None,
    ),
    "label_column": (
        Annotated[str | None, typer.Option("--label-column", help="Column with the labels of a row.", **_PANEL)],
        None,
    ),
    "label_separator": (
        Annotated[
            str | None,
            typer.Option("--label-separator", help="What separates the labels in a cell, such as ';'.", **_PANEL),
        ],
        None,
    ),
    "id_column": (
        Annotated[str | None, typer.Option("--id-column", help="Column with the id of a row.", **_PANEL)],
        None,
    ),
    "delimiter": (
        Annotated[
            str | None,
            typer.Option("--delimiter", help="What separates columns, such as ';' or tab; detected.", **_PANEL),
        ],
        None,
    ),
    "encoding": (
        Annotated[
            str | None,
            typer.Option("--encoding", help="Encoding of text files, such as cp1252; detected.", **_PANEL),
        ],
        None,
    ),
    "skip_bad": (
        Annotated[bool, typer.Option("--skip-bad", help="Skip lines that cannot be read, and count them.", **_PANEL)],
        False,
    ),
}


@dataclasses.dataclass(frozen=True)
class Reading:
    """The options about files of one call of a command."""

    text_columns: str | None = None
    label_column: str | None = None
    label_separator: str | None = None
    id_column: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    skip_bad: bool = False
    fields: tuple[str, ...] = ()

    def for_model(self, tagger: Tagger) -> Reading:
        """Return the options to read data for a model: texts are made of its fields where columns are not named."""
        return dataclasses.replace(self, fields=tagger.fields_)

    @cached_property
    def bad(self) -> BadLines:
        """The bad lines of all files that were read."""
        from tagwood.data import BadLines

        return BadLines(skip=self.skip_bad)

    def read(self, paths: Path | Paths, data_format: str | None, **options: Any) -> tuple[Dataset, ReadReport]:
        """Read a dataset; `options` are further ones of `read_dataset`."""
        from tagwood.data import ReadReport, read_dataset

        report = ReadReport()
        before = self.bad.count
        rows = read_dataset(_one_or_many(paths), data_format, report=report, **self._columns(), **options)
        report.bad_lines = self.bad.count - before
        return rows, report

    def records(self, paths: Path | Paths, data_format: str | None, **options: Any) -> Iterator[Record]:
        """Yield rows one by one; `options` are further ones of `read_records`."""
        from tagwood.data import read_records

        return read_records(_one_or_many(paths), data_format, **self._columns(), **options)

    def row_options(self) -> ReadOptions:
        """Return how the text of a single JSON object is found."""
        from tagwood.data.records import ReadOptions

        named = common.column_names(self.text_columns)
        return ReadOptions(
            need_labels=False, text_columns=named or self.fields, lenient=not named and bool(self.fields)
        )

    def _columns(self) -> dict[str, Any]:
        return {
            "text_columns": common.column_names(self.text_columns),
            "fields": self.fields,
            "label_column": self.label_column,
            "id_column": self.id_column,
            "separator": _mark(self.label_separator),
            "delimiter": _mark(self.delimiter),
            "encoding": self.encoding,
            "skip_bad": self.bad,
        }


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the shared options about files, in place of its parameter `reading`."""
    signature = inspect.signature(command, eval_str=True)
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in _OPTIONS.items()
    ]
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in signature.parameters.values()
        if parameter.name != "reading"
    ]

    @wraps(command)
    def run(**values: Any) -> None:
        chosen = Reading(**{name: values.pop(name) for name in _OPTIONS})
        command(**values, reading=chosen)

    at = next((i for i, parameter in enumerate(own) if parameter.name == "json"), len(own))
    parameters = [*own[:at], *shared, *own[at:]]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _one_or_many(paths: Path | Paths) -> Path | Paths:
    return paths[0] if not isinstance(paths, Path) and len(paths) == 1 else paths


def _mark(text: str | None) -> str | None:
    r"""Return a delimiter as typed in a shell.

    Examples
    --------
    >>> _mark("tab"), _mark("\\t"), _mark(";")
    ('\t', '\t', ';')
    """
    return "\t" if text in ("tab", "\\t") else text


def say_report(report: ReadReport, *, brief: bool = False) -> None:
    """Write to stderr how files were read, what was left out, and what is doubtful; `brief`: only if there is any."""
    warnings = list(report.warnings())
    for line in report.lines() if not brief or warnings or report.bad_lines else ():
        common.say(line)
    for warning in warnings:
        common.say(f"! {warning}")


def say_skipped(reading: Reading) -> None:
    """Write the first bad lines that were skipped to stderr."""
    for error in reading.bad.first:
        common.say(f"! skipped: {error}")


def read_rows(
    data: Paths,
    reading: Reading,
    data_format: str | None,
    vocab: Path | None,
    on_unknown: str,
    docs_limit: int | None,
    groups: str | None = None,
    group_labels: Path | None = None,
    files: Path | None = None,
) -> tuple[Dataset, ReadReport]:
    """Read a dataset that must have labels; labels of groups may come from another file.

    With `files`, texts are written to that folder as they are read, and are not in memory.
    """
    from tagwood.data import read_vocab
    from tagwood.data.stored_texts import TextWriter

    table = None if vocab is None else read_vocab(vocab)
    if group_labels is not None:
        rows, report = _read_group_rows(data, reading, group_labels, data_format, groups, table)
    else:
        writer = None if files is None else TextWriter(files)
        options: dict[str, Any] = {"on_unknown": on_unknown, "groups": groups, "writer": writer}
        rows, report = reading.read(data, data_format, vocab=table, **options)
    return labelled_rows(rows, data[0], docs_limit), report


def need_texts(rows: Dataset, data: Path, hint: str = "Train on the texts.") -> Dataset:
    """Return the rows, or raise `InputError` if they have features only."""
    if rows.texts is None:
        raise InputError(f"{data} must hold texts", given="features only", hint=hint)
    return rows


def read_truth(tagger: Tagger, data: Paths, data_format: str | None, reading: Reading) -> tuple[Dataset, ReadReport]:
    """Read texts to measure a model on; labels that it does not know are added to the table and count as missed."""
    rows, report = reading.for_model(tagger).read(data, data_format, vocab=tagger.vocab_, on_unknown="add")
    return need_texts(rows, data[0]), report


def test_split(path: Path) -> str | None:
    """Return ``"test"`` for a folder that has a test split: `eval` measures it, `predict` labels it. Otherwise None."""
    marks = (".tst.", "tst_X_", "tst.json", "test_texts")
    named = path.is_dir() and any(mark in file.name for file in path.iterdir() for mark in marks)
    return "test" if named else None


def first_rows(rows: Dataset, limit: int | None) -> Dataset:
    """Return the first rows of a dataset, or all."""
    return rows if limit is None else rows.rows(list(range(min(limit, rows.n_rows))))


def labelled_rows(rows: Dataset, data: Path, limit: int | None) -> Dataset:
    """Return the first rows of a dataset, or all; they must have labels."""
    first = first_rows(rows, limit)
    if first.labels.nnz == 0:
        raise InputError(f"{data} must hold labels", given="none", hint="Look at it with: tagwood check")
    return first


def _read_group_rows(
    data: Paths,
    reading: Reading,
    table: Path,
    data_format: str | None,
    groups: str | None,
    vocab: LabelVocab | None,
) -> tuple[Dataset, ReadReport]:
    """Read rows without labels of their own, and give each the labels of its group."""
    from tagwood.data import ReadReport
    from tagwood.groups import read_group_labels
    from tagwood.tagger.fitting import training_data

    labels, report = read_group_labels(table), ReadReport()
    rows = list(reading.records(data, data_format, groups=groups, report=report))
    missing = labels.keys() - {row.group for row in rows}
    if missing:
        raise InputError(
            f"every group of {table} must have rows in {data[0]}",
            given=f"{len(missing):,} without, such as {min(missing)!r}",
            hint="Name the column with the groups: --groups COLUMN.",
        )
    names = [row.group for row in rows]
    found = training_data([row.text for row in rows], [labels.get(name, []) for name in names], names, vocab)
    report.labels = report.labels_used = int(found.labels.nnz)
    if not any(row.id for row in rows):
        return found, report
    return dataclasses.replace(found, ids=[row.id for row in rows]), report
