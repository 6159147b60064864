"""Spreadsheets: the first sheet of an ``.xlsx`` file, read as a table with a header row. Needs the extra ``files``.

In: one file. Out: a `Record` per row, with the columns and label cells of `tables`, and files. Formulas count with the
values that were stored with them.
"""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tagwood.data.dataset import Dataset
from tagwood.data.files import reading_errors
from tagwood.data.formats.tables import label_cells, table_records
from tagwood.data.records import ReadOptions, Record, need_texts
from tagwood.data.report import shown
from tagwood.errors import DataError, InputError, MissingExtraError

_MAX_ROWS = 1 << 20  # of Excel
_MAX_CELL = 32_767  # characters, of Excel
_MAX_BYTES = 1 << 32  # of the unpacked sheets


def is_spreadsheet(path: Path) -> bool:
    """Tell whether a zip archive is a spreadsheet rather than NumPy arrays."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return False


def records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of the first sheet; `Record.line` is the row of the sheet."""
    return table_records(path, _rows(path, options), options)


def write(dataset: Dataset, path: Path) -> None:
    """Write a workbook with one sheet: ``id``, ``group``, ``text`` and ``labels``."""
    openpyxl = _openpyxl()
    texts = need_texts(dataset, "a spreadsheet")
    if dataset.n_rows >= _MAX_ROWS or any(len(text) > _MAX_CELL for text in texts):
        limits = f"{_MAX_ROWS:,} rows and {_MAX_CELL:,} characters in a cell"
        raise InputError(f"a spreadsheet has at most {limits}", hint="Write .csv or .parquet.")
    columns = {"id": dataset.ids, "group": dataset.groups, "text": texts, "labels": label_cells(dataset)}
    table = {name: column for name, column in columns.items() if column is not None}
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("rows")
    try:
        sheet.append(list(table))
        for row in zip(*table.values(), strict=True):
            sheet.append([_text_cell(sheet, value) for value in row])
    except openpyxl.utils.exceptions.IllegalCharacterError as error:
        raise InputError("a spreadsheet cannot hold control characters", hint="Write .csv or .parquet.") from error
    packed = io.BytesIO()  # a zip file that cannot be completed on a full disk prints an error of its own
    book.save(packed)
    path.write_bytes(packed.getvalue())


def _text_cell(sheet: Any, value: str) -> Any:
    """Return a cell that is text even if it looks like a formula."""
    from openpyxl.cell import WriteOnlyCell

    cell = WriteOnlyCell(sheet, value)
    cell.data_type = "s"
    return cell


def _rows(path: Path, options: ReadOptions) -> Iterator[tuple[int, list[str]]]:
    openpyxl = _openpyxl()
    with reading_errors(path), path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                size = sum(part.file_size for part in archive.infolist())
            if size > _MAX_BYTES:
                raise DataError(f"unpacks to more than {_MAX_BYTES:,} bytes", path=path, hint="Save it as CSV.")
            # From the open file: openpyxl refuses names with other endings.
            yield from _sheet_rows(openpyxl.load_workbook(file, read_only=True, data_only=True), options)
        except (DataError, OSError):
            raise
        except Exception as error:  # openpyxl and its XML parser raise a dozen kinds for damaged files
            raise DataError(f"is not a readable spreadsheet ({str(error)[:100]})", path=path) from error


def _sheet_rows(book: Any, options: ReadOptions) -> Iterator[tuple[int, list[str]]]:
    sheets = book.worksheets
    if not sheets:
        return
    sheet, others = sheets[0], [sheet.title for sheet in sheets[1:]]
    if others:
        words = f"only the first sheet, {sheet.title!r}, is read; there are also {shown(map(repr, others))}."
        options.file.warnings.append(words)
    sheet.reset_dimensions()  # the declared size may be wrong
    width = 0
    for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
        if number > _MAX_ROWS:
            raise DataError(f"has more than {_MAX_ROWS:,} rows")
        cells = [_string(value) for value in values]
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            continue
        if not width:
            width = len(cells)
        yield number, cells + [""] * (width - len(cells))


def _string(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
    return str(value)


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtraError("reading and writing .xlsx", extra="files") from error
    return openpyxl
