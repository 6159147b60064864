"""Texts to tag, as `predict` reads them: a text, a file, standard input. In: what the user named. Out: `Document`s.

Rows come one by one, so that nothing holds a whole file; only tables and Parquet from standard input are kept in a
temporary file first.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

from tagwood.errors import DataError, InputError

BATCH = 1000
_LINE_ENDINGS = ("", ".txt", ".lst")
_TABLE_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_FILE_ENDINGS = (*_TABLE_ENDINGS, ".txt", ".lst", ".json", ".gz")


class Document(NamedTuple):
    """A text and the name it goes by, if it has one."""

    text: str
    id: str = ""


def read_documents(source: str, data_format: str | None) -> Iterator[Document]:
    """Yield the texts of a source: ``-`` is stdin, an existing file is read, anything else is a text.

    `data_format` is that of a file or of stdin; ``"lines"`` is a text per line.
    """
    if source == "-":
        if data_format in (None, "lines"):
            return _lines(sys.stdin, "standard input")
        return _spooled(data_format or "")
    if not is_path(source):
        return iter([Document(source)])
    path = Path(source)
    if data_format == "lines" or (data_format is None and path.is_file() and _ending(path) in _LINE_ENDINGS):
        return _plain_file(path)
    return _records(path, data_format or _guess_format(path))


def is_path(source: str) -> bool:
    """Say whether a source is a file or folder; what looks like the name of a data file must be one."""
    try:
        if Path(source).exists():
            return True
    except (OSError, ValueError):  # too long or odd for a path: a text
        return False
    if source.lower().endswith(_FILE_ENDINGS) and not any(mark.isspace() for mark in source):
        raise InputError(
            f"there is no file {source}", hint="A text with such an ending goes through stdin (-)."
        )
    return False


def in_batches(documents: Iterable[Document], size: int = BATCH) -> Iterator[list[Document]]:
    """Yield lists of up to `size` documents."""
    documents = iter(documents)
    while batch := list(islice(documents, size)):
        yield batch


def _guess_format(path: Path) -> str:
    """Return the format by content; tables without labels, which content cannot tell, by their names."""
    from tagwood.data.detection import detect_format

    try:
        return detect_format(path)
    except DataError:
        found = _TABLE_ENDINGS.get(_ending(path))
        if found is None or not path.is_file():
            raise
        return found


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _records(path: Path, data_format: str) -> Iterator[Document]:
    from tagwood.data import read_records

    for record in read_records(path, data_format):
        yield Document(record.text, record.id)


def _spooled(data_format: str) -> Iterator[Document]:
    """Yield the rows of a table on standard input, from a copy: Parquet has its directory at the end."""
    from tagwood._check import check_choice
    from tagwood.data.catalogue import FORMATS

    known = [name for name, found in FORMATS.items() if found.records is not None and not found.folder]
    check_choice(data_format, "--format of standard input", ["lines", *known])
    with tempfile.TemporaryDirectory(prefix="tagwood-") as folder:
        path = Path(folder) / "standard input"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield from _records(path, data_format)
        except DataError as error:
            raise DataError(error.reason, path=path.name, line=error.line, hint=error.hint) from error


def _plain_file(path: Path) -> Iterator[Document]:
    from tagwood.data.files import BadLines, decoded_lines

    for _, line in decoded_lines(path, BadLines(skip=False)):
        if line.strip():
            yield Document(line)


def _lines(file: IO[str], name: str) -> Iterator[Document]:
    """Yield a text for each line; a line that is a JSON object gives its text and id."""
    from tagwood.data.fields import ID, pick
    from tagwood.data.formats.json_lines import parse_object, text_of
    from tagwood.data.records import is_valid_text

    try:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\r\n")
            if not line.strip():
                continue
            if not is_valid_text(line):
                raise DataError("is not UTF-8 text", path=name, line=number)
            if not line.lstrip().startswith("{"):
                yield Document(line)
                continue
            try:
                content = parse_object(line)
                key = pick(content, ID)
                yield Document(text_of(content), "" if key is None else str(content[key]))
            except DataError as error:
                raise DataError(error.reason, path=name, line=number, hint=error.hint) from error
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 text ({error.reason})", path=name) from error
