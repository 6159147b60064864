"""Parquet: columns for text, labels (a list of names or ids, or a cell as in tables), id and group.

In: one file, read in batches. Out: a `Dataset` with texts. Needs the extra ``parquet``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tagwood.data.dataset import Dataset
from tagwood.data.formats.json_lines import labels_of
from tagwood.data.formats.tables import LabelCells
from tagwood.data.records import BODY, ID, LABELS, TITLE, ReadOptions, Record, join_text, need_texts, pick
from tagwood.errors import DataError, MissingExtraError

_BATCH = 4096


def records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of a file; `Record.line` is the row, counted from 1."""
    _, parquet = _pyarrow()
    try:
        with parquet.ParquetFile(path) as file:
            header = file.schema_arrow.names
            wanted = _columns(path, header, options)
            row, cells = 0, LabelCells(options.separator)
            for batch in file.iter_batches(batch_size=_BATCH, columns=wanted):
                for content in batch.to_pylist():
                    row += 1
                    try:
                        yield _record(content, row, cells, options)
                    except DataError as error:
                        options.bad.report(DataError(error.reason, path=path, line=row))
    except DataError:
        raise
    except Exception as error:  # Arrow raises a dozen kinds for damaged files
        raise DataError(f"is not a readable Parquet file ({str(error)[:100]})", path=path) from error


def write(dataset: Dataset, path: Path) -> None:
    """Write a file; labels are a list of names."""
    arrow, parquet = _pyarrow()
    texts = need_texts(dataset, "Parquet")
    keys = dataset.vocab.keys()
    columns = {
        "id": dataset.ids,
        "group": dataset.groups,
        "text": texts,
        "labels": [[keys[label] for label in row] for row in dataset.label_lists()],
    }
    types = {"labels": arrow.list_(arrow.string())}
    table = {
        name: arrow.array(column, type=types.get(name, arrow.string()))
        for name, column in columns.items()
        if column is not None
    }
    parquet.write_table(arrow.table(table), path)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("Parquet", extra="parquet") from error
    return arrow, parquet


def _columns(path: Path, header: list[str], options: ReadOptions) -> list[str]:
    shown = ", ".join(map(repr, header[:12])) or "none"
    if join_text(dict.fromkeys(header, "")) is None:
        raise DataError(f"no column for text or title among {shown}", path=path)
    if options.need_labels and pick(header, LABELS) is None:
        raise DataError(f"no column for labels among {shown}", path=path)
    roles = (*TITLE, *BODY, *LABELS, *ID, *options.group_role)
    # Other columns, for example vectors, may be large.
    return [name for name in header if pick([name], roles) is not None]


def _record(content: dict[str, Any], row: int, cells: LabelCells, options: ReadOptions) -> Record:
    label_column, id_column = pick(content, LABELS), pick(content, ID)
    group_column = pick(content, options.group_role)
    value = content[label_column] if label_column is not None else None
    return Record(
        join_text(content) or "",
        cells.parse(value) if isinstance(value, str) else labels_of(value),
        _name(content, id_column),
        _name(content, group_column),
        row,
    )


def _name(content: dict[str, Any], column: str | None) -> str:
    value = None if column is None else content[column]
    return "" if value is None else str(value)
