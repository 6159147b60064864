"""Predictions as files: JSON lines, CSV, TSV and Parquet, with all columns of the input before the labels.

In: batches of texts with their tags. Out: a file that appears when it is complete, or stdout.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tagwood._check import check_choice
from tagwood.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from tagwood.tagger import Tags

FORMATS = ("jsonl", "csv", "tsv", "parquet")
_RESULTS = ("labels", "uris", "scores", "review")  # columns of the output that are not of the input


class Document(NamedTuple):
    """A text, its id, if it has one, and the columns of its row, if it is a row of a table."""

    text: str
    id: str = ""
    columns: Mapping[str, Any] | None = None

    def passed(self, *, table: bool) -> dict[str, Any]:
        """Return what the output repeats of the input; a `table` has an id in every row."""
        if self.columns is None:
            return {"id": self.id, "text": self.text} if table or self.id else {"text": self.text}
        return {f"input_{name}" if name in _RESULTS else name: value for name, value in self.columns.items()}


class Writer:
    """Writes batches of texts with their labels; `dropped` are fields of rows that the output has no column for."""

    def __init__(self) -> None:
        self.dropped: dict[str, None] = {}
        self._columns: list[str] | None = None

    def __call__(self, documents: list[Document], tags: list[Tags]) -> None:
        """Write a batch."""
        raise NotImplementedError

    def finish(self) -> None:
        """Write what a file without rows must have."""

    def columns_of(self, rows: list[dict[str, Any]]) -> list[str]:
        """Return the columns of the output: those of the first batch."""
        if self._columns is None:
            self._columns = list(dict.fromkeys(name for row in rows for name in row)) or ["id", "text"]
        known = set(self._columns)
        self.dropped |= dict.fromkeys(name for row in rows for name in row if name not in known)
        return self._columns


@contextmanager
def open_writer(path: Path | None, *, overwrite: bool, to: str | None = None) -> Iterator[Writer]:
    """Yield a `Writer` to a file, or to stdout if `path` is None or ``-``.

    `to` is the format; default: what the file's name means, and JSON lines on stdout.
    """
    if path is None or str(path) == "-":
        kind = "jsonl" if to is None else check_choice(to, "--to", FORMATS)
        with _writer(_binary_stdout() if kind == "parquet" else sys.stdout, kind) as write:
            yield write
        return
    from tagwood.data.files import open_for_writing
    from tagwood.storage.publish import replace_path

    kind = output_format(path, to)
    with replace_path(path, overwrite=overwrite) as place:
        if kind == "parquet":
            with _writer(place, kind) as write:
                yield write
        else:
            with open_for_writing(place) as file, _writer(file, kind) as write:
                yield write


@contextmanager
def _writer(place: Any, kind: str) -> Iterator[Writer]:
    writer: Writer
    match kind:
        case "jsonl":
            writer = _LineWriter(place)
        case "parquet":
            writer = _ParquetWriter(place)
        case _:
            writer = _TableWriter(place, "\t" if kind == "tsv" else ",")
    yield writer
    writer.finish()


def output_format(path: Path, to: str | None = None) -> str:
    """Return the format to write: the named one, or the one that a file's name means."""
    name = path.name.lower()
    ending = name.removesuffix(".gz").rpartition(".")[2]
    ending = "jsonl" if ending in ("ndjson", "json") else ending
    if to is None and ending not in FORMATS:
        raise InputError(
            "the output's name must end in .jsonl, .csv, .tsv or .parquet",
            given=path.name,
            hint="Or name the format with --to, or use '-'.",
        )
    kind = ending if to is None else check_choice(to, "--to", FORMATS)
    if kind == "parquet" and name.endswith(".gz"):
        raise InputError("Parquet is already compressed; its name must not end in .gz", given=path.name)
    return kind


def as_dict(document: Document, tags: Tags, *, table: bool = False) -> dict[str, Any]:
    """Return a text and its labels as JSON; `tagwood eval` reads these lines as predictions."""
    labels = [{"label": tag.name, **({"uri": tag.uri} if tag.uri else {}), "score": _short(tag.score)} for tag in tags]
    return {**document.passed(table=table), "labels": labels, **({"review": True} if tags.review else {})}


class _LineWriter(Writer):
    def __init__(self, file: IO[str]) -> None:
        super().__init__()
        self._file = file

    def __call__(self, documents: list[Document], tags: list[Tags]) -> None:
        found = map(as_dict, documents, tags)
        self._file.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in found)


class _TableWriter(Writer):
    def __init__(self, file: IO[str], delimiter: str) -> None:
        super().__init__()
        self._table = csv.writer(file, delimiter=delimiter, lineterminator="\n")

    def __call__(self, documents: list[Document], tags: list[Tags]) -> None:
        rows = [document.passed(table=True) for document in documents]
        first = self._columns is None
        columns = self.columns_of(rows)
        if first:
            self._table.writerow([*columns, *_RESULTS])
        for row, found in zip(rows, tags, strict=True):
            self._table.writerow([*(_cell(row.get(name)) for name in columns), *_result_cells(found)])

    def finish(self) -> None:
        if self._columns is None:
            self._table.writerow([*self.columns_of([]), *_RESULTS])


def _cell(value: Any) -> str:
    """Return a value in one cell; numbers and lists are JSON."""
    if value is None:
        return ""
    text = _plain(value)
    # The two bytes of \r\n inside a cell would be read as one line break.
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _result_cells(tags: Tags) -> list[str]:
    return [
        _joined([tag.name for tag in tags]),
        _joined([tag.uri or "" for tag in tags]),
        ";".join(str(_short(tag.score)) for tag in tags),
        "yes" if tags.review else "",
    ]


def _joined(names: list[str]) -> str:
    """Return names in one cell: with semicolons, or as a JSON list where that could be misread."""
    unclear = any(";" in name or "|" in name or name.startswith("[") or name.strip() != name for name in names)
    return json.dumps(names, ensure_ascii=False) if unclear else ";".join(names)


def _binary_stdout() -> IO[bytes]:
    if sys.stdout.isatty():
        raise InputError("Parquet cannot be written to a terminal", hint="Name a file with --output, or use a pipe.")
    return sys.stdout.buffer


class _ParquetWriter(Writer):
    """Columns of the input are strings: rows of JSON lines may have values of any type."""

    def __init__(self, place: Path | IO[bytes]) -> None:
        super().__init__()
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingExtraError("writing Parquet", extra="parquet") from error
        self._arrow, self._parquet, self._place = pa, pq, place
        self._writer: Any = None

    def __call__(self, documents: list[Document], tags: list[Tags]) -> None:
        passed = [document.passed(table=True) for document in documents]
        columns = self.columns_of(passed)
        rows = []
        for row, found in zip(passed, tags, strict=True):
            cells = {name: None if row.get(name) is None else _plain(row[name]) for name in columns}
            rows.append(cells | {"labels": as_dict(Document(""), found)["labels"], "review": found.review})
        writer = self._open(columns)
        writer.write_table(self._arrow.Table.from_pylist(rows, schema=writer.schema))

    def finish(self) -> None:
        self._open(self.columns_of([])).close()

    def _open(self, columns: list[str]) -> Any:
        if self._writer is None:
            pa = self._arrow
            label = pa.struct([("label", pa.string()), ("uri", pa.string()), ("score", pa.float32())])
            fields = [*((name, pa.string()) for name in columns), ("labels", pa.list_(label)), ("review", pa.bool_())]
            self._writer = self._parquet.ParquetWriter(self._place, pa.schema(fields))
        return self._writer


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _short(score: float) -> float:
    return float(f"{score:.6g}")
