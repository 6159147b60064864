"""Texts to tag, in and out, a batch at a time: files, stdin and plain arguments; JSON lines, CSV, TSV, Parquet.

In: what the user named. Out: `Document`s in batches, and a writer for their tags. Nothing holds a whole file.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tagwood.errors import DataError, InputError, MissingExtraError

if TYPE_CHECKING:
    from tagwood.tagger import Tags

BATCH = 1000
FORMATS = ("jsonl", "csv", "tsv", "parquet")


class Document(NamedTuple):
    """A text and the name it goes by, if it has one."""

    text: str
    id: str = ""


Write = Callable[[list[Document], "list[Tags]"], None]


def read_documents(source: str, data_format: str | None) -> Iterator[Document]:
    """Yield the texts of a source: ``-`` is stdin, an existing file is read, anything else is a text."""
    if source == "-":
        return _lines(sys.stdin, "standard input")
    path = Path(source)
    try:
        is_file = path.exists()
    except (OSError, ValueError):  # too long or odd for a path: a text
        is_file = False
    if not is_file:
        return iter([Document(source)])
    if path.is_file() and data_format in (None, "lines") and path.suffix in ("", ".txt", ".lst"):
        return _plain_file(path)
    return _records(path, data_format)


def in_batches(documents: Iterable[Document], size: int = BATCH) -> Iterator[list[Document]]:
    """Yield lists of up to `size` documents."""
    documents = iter(documents)
    while batch := list(islice(documents, size)):
        yield batch


@contextmanager
def open_writer(path: Path | None, *, overwrite: bool) -> Iterator[Write]:
    """Yield a function that writes batches; None is stdout in JSON lines. A file appears when it is complete."""
    if path is None or str(path) == "-":
        yield lambda documents, tags: _write_jsonl(sys.stdout, documents, tags)
        return
    from tagwood.data.files import open_for_writing
    from tagwood.data.writing import replace_path

    kind = output_format(path)
    with replace_path(path, overwrite=overwrite, folder=False, companions=()) as place:
        if kind == "parquet":
            with _parquet_writer(place) as write:
                yield write
            return
        with open_for_writing(place) as file:
            if kind == "jsonl":
                yield lambda documents, tags: _write_jsonl(file, documents, tags)
                return
            table = csv.writer(file, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
            table.writerow(["id", "text", "labels", "uris", "scores", "review"])
            yield lambda documents, tags: table.writerows(map(_cells, documents, tags))


def output_format(path: Path) -> str:
    """Return the format that a file's name means, or raise `InputError`."""
    ending = path.name.removesuffix(".gz").rpartition(".")[2].lower()
    ending = "jsonl" if ending in ("ndjson", "json") else ending
    if ending not in FORMATS:
        raise InputError(
            "the output's name must end in .jsonl, .csv, .tsv or .parquet",
            given=path.name,
            hint="Or use '-'.",
        )
    return ending


def as_dict(document: Document, tags: Tags) -> dict[str, Any]:
    """Return a text and its labels as JSON; `tagwood eval` reads these lines as predictions."""
    head = {"id": document.id} if document.id else {}
    labels = [
        {"label": tag.name, **({"uri": tag.uri} if tag.uri else {}), "score": _short(tag.score)}
        for tag in tags
    ]
    return {**head, "text": document.text, "labels": labels, **({"review": True} if tags.review else {})}


def _write_jsonl(file: IO[str], documents: list[Document], tags: list[Tags]) -> None:
    for document, found in zip(documents, tags, strict=True):
        file.write(json.dumps(as_dict(document, found), ensure_ascii=False) + "\n")


def _cells(document: Document, tags: Tags) -> list[str]:
    return [
        document.id,
        document.text,
        ";".join(tag.name for tag in tags),
        ";".join(tag.uri or "" for tag in tags),
        ";".join(str(_short(tag.score)) for tag in tags),
        "yes" if tags.review else "",
    ]


@contextmanager
def _parquet_writer(place: Path) -> Iterator[Write]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("writing Parquet", extra="parquet") from error
    label = pa.struct([("label", pa.string()), ("uri", pa.string()), ("score", pa.float32())])
    schema = pa.schema(
        [("id", pa.string()), ("text", pa.string()), ("labels", pa.list_(label)), ("review", pa.bool_())]
    )
    with pq.ParquetWriter(place, schema) as writer:

        def write(documents: list[Document], tags: list[Tags]) -> None:
            rows = [
                {"id": "", "review": False, **as_dict(*pair)} for pair in zip(documents, tags, strict=True)
            ]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))

        yield write


def _records(path: Path, data_format: str | None) -> Iterator[Document]:
    from tagwood.data import read_records

    for record in read_records(path, data_format):
        yield Document(record.text, record.id)


def _plain_file(path: Path) -> Iterator[Document]:
    from tagwood.data.files import BadLines, decoded_lines

    for _, line in decoded_lines(path, BadLines(skip=False)):
        if line.strip():
            yield Document(line)


def _lines(file: IO[str], name: str) -> Iterator[Document]:
    """Yield a text for each line; a line that is a JSON object gives its text and id."""
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
                yield Document(text_of(content), str(content.get("id", "")))
            except DataError as error:
                raise DataError(error.reason, path=name, line=number, hint=error.hint) from error
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 text ({error.reason})", path=name) from error


def _short(score: float) -> float:
    return float(f"{score:.6g}")
