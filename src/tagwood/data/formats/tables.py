"""Tables: CSV, TSV and Parquet with columns for text, labels, id and group, named as in `records`.

In: one file; commas or tabs, whichever the header has. Out: a `Record` per row, and files. The labels of a row are in
one cell: a JSON list, or names separated by ``;`` or ``|`` (the first of the two in the file); in a column
``subject_uris``, as in Annif's CSV, URIs separated by spaces; in Parquet also a list. Parquet needs its extra.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tagwood.data.dataset import Dataset
from tagwood.data.files import MAX_LINE, BadLines, decoded_lines, open_for_writing
from tagwood.data.formats.json_lines import labels_of
from tagwood.data.formats.text_lines import bracketed_uris, parse_uris
from tagwood.data.records import (
    BODY,
    ID,
    LABELS,
    TITLE,
    Named,
    ReadOptions,
    Record,
    is_valid_text,
    join_text,
    need_texts,
    pick,
)
from tagwood.errors import DataError, MissingExtraError

_BATCH = 4096
_SEPARATORS = (";", "|")


def records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of a file."""
    rows = _rows(path, options)
    _, header = next(rows, (0, []))
    _check_header(path, header, options, line=1)
    cells_of = LabelCells(options.separator)
    label_column = pick(header, LABELS)
    id_column, group_column = pick(header, ID), pick(header, options.group_role)
    for line, cells in rows:
        try:
            if len(cells) != len(header):
                raise DataError(f"the header has {len(header)} columns, this row {len(cells)}")
            content = dict(zip(header, cells, strict=True))
            cell = content[label_column] if label_column is not None else ""
            uris = label_column is not None and label_column.strip().lower() == "subject_uris"
            labels = parse_uris(cell) if uris else cells_of.parse(cell)
            text = join_text(content, options.text_columns) or ""
        except DataError as error:
            options.bad.report(DataError(error.reason, path=path, line=line))
            continue
        yield Record(
            text,
            labels,
            content[id_column] if id_column is not None else "",
            content[group_column] if group_column is not None else "",
            line,
        )


def write(dataset: Dataset, path: Path, delimiter: str) -> None:
    """Write a CSV or TSV file."""
    keys = dataset.vocab.keys()
    plain = not any(mark in key for key in keys for mark in _SEPARATORS)
    plain = plain and all(key.strip() == key and not key.startswith("[") for key in keys)
    rows = ([keys[label] for label in row] for row in dataset.label_lists())
    cells = [";".join(row) if plain else json.dumps(row, ensure_ascii=False) for row in rows]
    _write_columns(dataset, path, delimiter, {"id": dataset.ids, "group": dataset.groups, "labels": cells})


def write_annif_csv(dataset: Dataset, path: Path) -> None:
    """Write a CSV file as Annif reads it: ``document_id``, ``text``, ``subject_uris``."""
    uris = bracketed_uris(dataset.vocab)
    cells = [" ".join(uris[label] for label in row) for row in dataset.label_lists()]
    _write_columns(dataset, path, ",", {"document_id": dataset.ids, "subject_uris": cells})


class LabelCells:
    """Splits the cells of a label column; the first separator found is used for the whole column.

    Examples
    --------
    >>> cells = LabelCells()
    >>> cells.parse("ash; oak"), cells.parse("yes|no"), cells.parse('["a;b"]'), cells.parse("")
    (['ash', 'oak'], ['yes|no'], ['a;b'], [])
    """

    def __init__(self, separator: str | None = None) -> None:
        self._separator = separator

    def parse(self, cell: str) -> list[int | str | Named]:
        """Return the labels of a cell."""
        cell = cell.strip()
        if cell.startswith("["):
            try:
                content = json.loads(cell)
            except (ValueError, RecursionError):
                content = None
            if isinstance(content, list):
                if not is_valid_text(json.dumps(content, ensure_ascii=False)):
                    raise DataError("contains half of a surrogate pair, which is not valid text")
                return labels_of(content)
        if self._separator is None:
            self._separator = next((mark for mark in _SEPARATORS if mark in cell), None)
        parts = [cell] if self._separator is None else cell.split(self._separator)
        return [name for part in parts if (name := part.strip())]


def _rows(path: Path, options: ReadOptions) -> Iterator[tuple[int, list[str]]]:
    """Yield (line where the row begins, cells)."""
    # The default limit of 128 KiB is below the length of many documents; the csv module has only a global setting.
    if csv.field_size_limit() < MAX_LINE:
        csv.field_size_limit(MAX_LINE)
    lines = decoded_lines(path, BadLines(skip=False), options.encoding)
    first = next(lines, None)
    if first is None:
        return
    delimiter = "\t" if "\t" in first[1] else ","
    try:
        yield first[0], next(csv.reader([first[1]], delimiter=delimiter), [])
    except csv.Error as error:
        raise DataError(f"is not the header of a table ({error})", path=path, line=1) from error
    reader = csv.reader((line + "\n" for _, line in lines), delimiter=delimiter)
    while True:
        begin = reader.line_num + 2
        try:
            cells = next(reader, None)
        except csv.Error as error:
            options.bad.report(DataError(f"is not a row of a table ({error})", path=path, line=begin))
            continue
        if cells is None:
            return
        if cells:
            yield begin, cells


def parquet_records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of a Parquet file; `Record.line` is the row, counted from 1."""
    _, parquet = _pyarrow()
    try:
        with parquet.ParquetFile(path) as file:
            header = file.schema_arrow.names
            _check_header(path, header, options)
            roles = (*TITLE, *BODY, *LABELS, *ID, *options.group_role)
            roles += tuple(name.lower().strip() for name in options.text_columns)
            # Other columns, for example vectors, may be large.
            wanted = [name for name in header if pick([name], roles) is not None]
            row, cells = 0, LabelCells(options.separator)
            for batch in file.iter_batches(batch_size=_BATCH, columns=wanted):
                for content in batch.to_pylist():
                    row += 1
                    try:
                        yield _parquet_record(content, row, cells, options)
                    except DataError as error:
                        options.bad.report(DataError(error.reason, path=path, line=row))
    except DataError:
        raise
    except Exception as error:  # Arrow raises a dozen kinds for damaged files
        raise DataError(f"is not a readable Parquet file ({str(error)[:100]})", path=path) from error


def write_parquet(dataset: Dataset, path: Path) -> None:
    """Write a Parquet file; labels are a list of names."""
    arrow, parquet = _pyarrow()
    texts = need_texts(dataset, "Parquet")
    keys = dataset.vocab.keys()
    labels = [[keys[label] for label in row] for row in dataset.label_lists()]
    columns = {"id": dataset.ids, "group": dataset.groups, "text": texts}
    table = {name: arrow.array(column, arrow.string()) for name, column in columns.items() if column is not None}
    table["labels"] = arrow.array(labels, arrow.list_(arrow.string()))
    parquet.write_table(arrow.table(table), path)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("Parquet", extra="parquet") from error
    return arrow, parquet


def _parquet_record(content: dict[str, Any], row: int, cells: LabelCells, options: ReadOptions) -> Record:
    def value_of(role: tuple[str, ...]) -> Any:
        column = pick(content, role)
        return None if column is None else content[column]

    value, name, group = map(value_of, (LABELS, ID, options.group_role))
    labels = cells.parse(value) if isinstance(value, str) else labels_of(value)
    text = join_text(content, options.text_columns) or ""
    return Record(text, labels, "" if name is None else str(name), "" if group is None else str(group), row)


def _check_header(path: Path, header: list[str], options: ReadOptions, line: int | None = None) -> None:
    shown = ", ".join(map(repr, header[:12])) or "nothing"
    problem, hint = None, None
    missing = [name for name in options.text_columns if pick(header, (name.lower().strip(),)) is None]
    if missing:
        problem = f"no column {', '.join(map(repr, missing))} among {shown}"
    elif join_text(dict.fromkeys(header, ""), options.text_columns) is None:
        problem = f"no column for text or title among {shown}"
        hint = None if line is None else "The first line must name the columns."
    elif options.need_labels and pick(header, LABELS) is None:
        problem, hint = f"no column for labels among {shown}", f"Name it one of {', '.join(LABELS)}."
    elif len(set(header)) < len(header):
        problem = "the header has the same column twice"
    if problem is not None:
        raise DataError(problem, path=path, line=line, hint=hint)


def _write_columns(dataset: Dataset, path: Path, delimiter: str, columns: dict[str, Any]) -> None:
    # Line ends inside quoted cells are kept, but \r\n would be read as \n.
    texts = [text.replace("\r\n", "\n").replace("\r", "\n") for text in need_texts(dataset, "a table")]
    table = {name: column for name, column in ({"text": texts} | columns).items() if column is not None}
    with open_for_writing(path) as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
