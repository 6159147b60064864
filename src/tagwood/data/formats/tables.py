"""Tables: CSV, TSV and Parquet with columns for text, labels, id and group.

In: one file; its delimiter is the one that gives all rows as many cells as the header. Out: a `Record` per row, and
files. Columns are those of the options, or named as in `records`. The labels of a row are in one cell: a JSON list, or
names separated by ``;`` or ``|`` (the first of the two in the file); in a column ``subject_uris``, as in Annif's CSV,
URIs separated by spaces; in Parquet also a list. Parquet needs its extra.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from tagwood.data.dataset import Dataset
from tagwood.data.files import MAX_LINE, decoded_lines, open_for_writing
from tagwood.data.formats.json_lines import labels_of
from tagwood.data.formats.text_lines import bracketed_uris, parse_uris
from tagwood.data.records import (
    ROLES,
    Columns,
    Named,
    ReadOptions,
    Record,
    choose_columns,
    is_valid_text,
    need_texts,
)
from tagwood.data.vocab_files import clean_uri
from tagwood.errors import DataError, MissingExtraError

DELIMITERS = ("\t", ";", ",", "|")
_BATCH = 4096
_SEPARATORS = (";", "|")
_SAMPLE = 50  # lines
_HEADER_HINT = "The first line must name the columns."


def records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of a file."""
    return table_records(path, _rows(path, options), options)


def table_records(path: Path, rows: Iterator[tuple[int, list[str]]], options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of a table, given as (line, cells) with the header first."""
    _, first = next(rows, (1, []))
    header = [cell.strip() or f"column {number}" for number, cell in enumerate(first, 1)]
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise DataError(f"the header has the column {twice!r} twice", path=path, line=1, hint="Rename one of them.")
    columns = checked_columns(path, header, options, line=1)
    parser = LabelCells(options.separator)
    uris = columns.labels is not None and columns.labels.lower() == "subject_uris" and options.separator is None
    for line, cells in rows:
        try:
            if len(cells) != len(header):
                hint = "Name the delimiter (--delimiter) if the columns are wrong, or use --skip-bad."
                raise DataError(f"the header has {len(header)} columns, this row {len(cells)}", hint=hint)
            content = dict(zip(header, cells, strict=True))
            if not any(map(str.strip, cells)):
                options.file.blank_rows += 1
                continue
            cell = content[columns.labels] if columns.labels is not None else ""
            labels = parse_uris(cell) if uris else parser.parse(cell)
        except DataError as error:
            options.bad.report(DataError(error.reason, path=path, line=line, hint=error.hint))
            continue
        yield _record(content, columns, labels, line, options)
    options.file.label_separator = " " if uris else parser.separator or ""
    options.file.warnings.extend(parser.doubts())


def _record(
    content: dict[str, Any], columns: Columns, labels: Sequence[int | str | Named], line: int, options: ReadOptions
) -> Record:
    def cell(name: str | None) -> str:
        value = None if name is None else content[name]
        return "" if value is None else str(value)

    text = options.text_of(content) or ""
    kept = content if options.keep_columns else None
    return Record(text, labels, cell(columns.id), cell(columns.group), line, kept)


def checked_columns(path: Path, header: Sequence[str], options: ReadOptions, line: int | None = None) -> Columns:
    """Return the columns of a table; errors name the file."""
    try:
        return choose_columns(header, options, None if line is None else _HEADER_HINT)
    except DataError as error:
        raise DataError(error.reason, path=path, line=line, hint=error.hint) from error


def write(dataset: Dataset, path: Path, delimiter: str) -> None:
    """Write a CSV or TSV file."""
    columns = {"id": dataset.ids, "group": dataset.groups, "labels": label_cells(dataset)}
    _write_columns(dataset, path, delimiter, columns)


def label_cells(dataset: Dataset) -> list[str]:
    """Return the labels of each row as a cell that `LabelCells` reads back."""
    keys = dataset.vocab.keys()
    plain = not any(mark in key for key in keys for mark in _SEPARATORS)
    plain = plain and all(key.strip() == key and not key.startswith(("[", "<")) for key in keys)
    rows = ([keys[label] for label in row] for row in dataset.label_lists())
    return [";".join(row) if plain else json.dumps(row, ensure_ascii=False) for row in rows]


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
        self.separator = separator
        self._cells = self._with_commas = 0

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
        if self.separator is None:
            self.separator = next((mark for mark in _SEPARATORS if mark in cell), None)
        self._cells += bool(cell)
        self._with_commas += "," in cell
        parts = [cell] if self.separator is None else cell.split(self.separator)
        return [_label(name) for part in parts if (name := part.strip())]

    def doubts(self) -> Iterator[str]:
        """Yield a warning if labels seem to be separated by something else."""
        if self.separator is None and self._with_commas and self._with_commas * 3 >= self._cells:
            yield (
                f"{self._with_commas:,} of {self._cells:,} label cells have commas and are read as one label each. "
                "If commas separate labels, use --label-separator ','."
            )


def _label(name: str) -> str | Named:
    """Return a label; ``<uri>`` is a URI."""
    uri = clean_uri(name) if name.startswith("<") and name.endswith(">") else ""
    return Named(uri, "") if uri else name


class Sniffed(NamedTuple):
    """The most likely delimiter of a table, its header, and how many of its columns have a known name."""

    delimiter: str
    header: list[str]
    n_known: int


def sniff_table(lines: Sequence[str], options: ReadOptions) -> Sniffed | None:
    """Return the delimiter with the most known columns, most rows as wide as the header, and most columns.

    None if there is only one column, whatever the delimiter.
    """
    names = (*options.text_columns, options.label_column, options.id_column, options.groups)
    chosen = {name.lower().strip() for name in names if name is not None}
    chosen |= set(ROLES) if options.lenient else set()
    found: list[tuple[tuple[float, ...], Sniffed]] = []
    for mark in DELIMITERS if options.delimiter is None else (options.delimiter,):
        try:
            rows = list(csv.reader((line + "\n" for line in lines), delimiter=mark))
        except csv.Error:
            continue
        header = rows[0] if rows else []
        if len(header) < 2:
            continue
        body = [row for row in rows[1:-1] or rows[1:] if row]  # the sample may end in the middle of the last row
        share = sum(len(row) == len(header) for row in body) / max(len(body), 1)
        known = sum(cell.lower().strip() in (chosen or ROLES) for cell in header)
        found.append(((float(known), share, float(len(header))), Sniffed(mark, header, known)))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _rows(path: Path, options: ReadOptions) -> Iterator[tuple[int, list[str]]]:
    """Yield (line where the row begins, cells)."""
    # The default limit of 128 KiB is below the length of many documents; the csv module has only a global setting.
    if csv.field_size_limit() < MAX_LINE:
        csv.field_size_limit(MAX_LINE)
    lines = decoded_lines(path, options.bad, options.encoding_of(path))
    sample = list(islice(lines, _SAMPLE))
    declared = sample[0][1].strip().removeprefix("sep=") if sample and sample[0][1].startswith("sep=") else ""
    skipped = int(len(declared) == 1)  # Excel's first line "sep=;"
    sniffed = sniff_table([line for _, line in sample[skipped:]], options)
    delimiter = options.delimiter or declared or (sniffed.delimiter if sniffed is not None else ",")
    options.file.delimiter = delimiter
    reader = csv.reader((line + "\n" for _, line in chain(sample[skipped:], lines)), delimiter=delimiter)
    while True:
        begin = reader.line_num + 1 + skipped
        try:
            cells = next(reader, None)
        except csv.Error as error:
            problem = DataError(f"is not a row of a table ({error})", path=path, line=begin)
            if begin == 1 + skipped:
                raise problem from error
            options.bad.report(problem)
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
            columns = checked_columns(path, header, options)
            used = {*columns.text, columns.labels, columns.id, columns.group}
            # Other columns, for example vectors, may be large.
            wanted = [name for name in header if options.keep_columns or name in used]
            row, cells = 0, LabelCells(options.separator)
            for batch in file.iter_batches(batch_size=_BATCH, columns=wanted):
                for content in batch.to_pylist():
                    row += 1
                    try:
                        value = None if columns.labels is None else content[columns.labels]
                        labels = cells.parse(value) if isinstance(value, str) else labels_of(value)
                        yield _record(content, columns, labels, row, options)
                    except DataError as error:
                        options.bad.report(DataError(error.reason, path=path, line=row))
            options.file.label_separator = cells.separator or ""
            options.file.warnings.extend(cells.doubts())
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


def _write_columns(dataset: Dataset, path: Path, delimiter: str, columns: dict[str, Any]) -> None:
    # Line ends inside quoted cells are kept, but \r\n would be read as \n.
    texts = [text.replace("\r\n", "\n").replace("\r", "\n") for text in need_texts(dataset, "a table")]
    table = {name: column for name, column in ({"text": texts} | columns).items() if column is not None}
    with open_for_writing(path) as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
