"""Tags to files, a batch at a time: JSON lines, CSV, TSV, Parquet. In: `Document`s and their tags. Out: a file, stdout.

A file appears when it is complete, or not at all; nothing holds a whole file.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tagwood._check import check_choice
from tagwood.cli.documents import Document
from tagwood.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from tagwood.tagger import Tags

FORMATS = ("jsonl", "csv", "tsv", "parquet")
_HEADER = ("id", "text", "labels", "uris", "scores", "review")

Write = Callable[[list[Document], "list[Tags]"], None]


@contextmanager
def open_writer(path: Path | None, *, overwrite: bool, to: str | None = None) -> Iterator[Write]:
    """Yield a function that writes batches to a file, or to stdout if `path` is None or ``-``.

    `to` is the format; default: what the file's name means, and JSON lines on stdout.
    """
    if path is None or str(path) == "-":
        kind = "jsonl" if to is None else check_choice(to, "--to", FORMATS)
        if kind == "parquet":
            with _parquet_writer(_binary_stdout()) as write:
                yield write
        else:
            yield _text_writer(sys.stdout, kind)
        return
    from tagwood.data.files import open_for_writing
    from tagwood.data.writing import replace_path

    kind = output_format(path, to)
    with replace_path(path, overwrite=overwrite, folder=False, companions=()) as place:
        if kind == "parquet":
            with _parquet_writer(place) as write:
                yield write
        else:
            with open_for_writing(place) as file:
                yield _text_writer(file, kind)


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
        raise InputError("Parquet is packed already; its name must not end in .gz", given=path.name)
    return kind


def as_dict(document: Document, tags: Tags) -> dict[str, Any]:
    """Return a text and its labels as JSON; `tagwood eval` reads these lines as predictions."""
    head = {"id": document.id} if document.id else {}
    labels = [
        {"label": tag.name, **({"uri": tag.uri} if tag.uri else {}), "score": _short(tag.score)}
        for tag in tags
    ]
    return {**head, "text": document.text, "labels": labels, **({"review": True} if tags.review else {})}


def _text_writer(file: IO[str], kind: str) -> Write:
    if kind == "jsonl":
        return lambda documents, tags: _write_jsonl(file, documents, tags)
    table = csv.writer(file, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
    table.writerow(_HEADER)
    return lambda documents, tags: table.writerows(map(_cells, documents, tags))


def _write_jsonl(file: IO[str], documents: list[Document], tags: list[Tags]) -> None:
    for document, found in zip(documents, tags, strict=True):
        file.write(json.dumps(as_dict(document, found), ensure_ascii=False) + "\n")


def _cells(document: Document, tags: Tags) -> list[str]:
    return [
        document.id,
        # The two bytes of \r\n inside a cell would be read as one line break.
        document.text.replace("\r\n", "\n").replace("\r", "\n"),
        _joined([tag.name for tag in tags]),
        _joined([tag.uri or "" for tag in tags]),
        ";".join(str(_short(tag.score)) for tag in tags),
        "yes" if tags.review else "",
    ]


def _joined(names: list[str]) -> str:
    """Return names in one cell: with semicolons, or as a JSON list where that could be misread."""
    unclear = any(
        ";" in name or "|" in name or name.startswith("[") or name.strip() != name for name in names
    )
    return json.dumps(names, ensure_ascii=False) if unclear else ";".join(names)


def _binary_stdout() -> IO[bytes]:
    if sys.stdout.isatty():
        raise InputError("Parquet is not for the screen", hint="Name a file with --output, or use a pipe.")
    return sys.stdout.buffer


@contextmanager
def _parquet_writer(place: Path | IO[bytes]) -> Iterator[Write]:
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


def _short(score: float) -> float:
    return float(f"{score:.6g}")
