"""`tagwood predict` (also `suggest`): labels for texts.

In: a model, and a text, a file or stdin. Out: labels and scores on stdout or in a file (JSON lines, CSV, TSV, Parquet).
Rows are read, tagged and written in batches, so that memory does not grow with the file; only tables and Parquet on
standard input are copied to a temporary file first.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tagwood._check import check_choice
from tagwood.cli import common
from tagwood.errors import DataError, InputError, MissingExtraError

if TYPE_CHECKING:
    from tagwood.tagger import Tagger, Tags

BATCH = 1000
FORMATS = ("jsonl", "csv", "tsv", "parquet")
_HEADER = ("id", "text", "labels", "uris", "scores", "review")
_LINE_ENDINGS = ("", ".txt", ".lst")
_TABLE_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_FILE_ENDINGS = (*_TABLE_ENDINGS, ".txt", ".lst", ".json", ".gz")


def predict(
    model: common.ModelArgument,
    source: Annotated[
        str, typer.Argument(metavar="TEXT|FILE|-", help="A text, a file of texts, or - for stdin.")
    ] = "-",
    limit: common.LimitOption = 5,
    threshold: common.ThresholdOption = None,
    promise: Annotated[
        str | None,
        typer.Option(help="Return sets with a guarantee instead: precision>=0.9, recall>=0.8 or f1."),
    ] = None,
    sets: Annotated[
        bool,
        typer.Option("--sets", help="Return sets by the rule of the model instead (see tune-threshold)."),
    ] = False,
    restrict: common.RestrictOption = None,
    exclude: common.ExcludeOption = None,
    language: common.LanguageOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-O", help="File to write: .jsonl, .csv, .tsv or .parquet; - for stdout."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Output format; from the file name by default, jsonl on stdout."),
    ] = None,
    data_format: Annotated[
        str | None,
        typer.Option("--format", help="Format of FILE or stdin; detected by default, lines on stdin."),
    ] = None,
    text_columns: common.TextColumnsOption = None,
    cluster: common.ClusterOption = None,
    jobs: common.JobsOption = None,
    force: common.ForceFlag = False,
    json: common.JsonFlag = False,
) -> None:
    """Suggest labels for a text, for each line of stdin, or for each row of a file.

    Files are read and written in batches. An output file appears when it is complete, or not at all. With --cluster, a
    folder of Parquet, JSON-lines or CSV files becomes a folder of Parquet files; the same command started again tags
    only what is missing.
    """
    if sets and promise is not None:
        raise InputError("--sets and --promise cannot be combined")
    options: dict[str, Any] = {"k": limit, "threshold": threshold, "promise": promise, "language": language}
    if cluster is not None:
        if sets:
            options["promise"] = common.load_tagger(model).sets.rule
        options |= {"restrict": restrict, "exclude": exclude, "text_columns": text_columns}
        _predict_folder(model, source, output, cluster, jobs, options, json)
        return
    single = output is None and to is None and source != "-" and not is_path(source)
    tagger = common.load_tagger(model, jobs)
    options |= common.filters(tagger, restrict, exclude)
    if sets:
        options["promise"] = tagger.sets.rule
    if single:
        _answer(tagger, source, options, json)
        return
    done = 0
    with open_writer(output, overwrite=force, to=to) as write, common.progress("Tagging") as advance:
        documents = read_documents(source, data_format, common.column_names(text_columns))
        while batch := list(islice(documents, BATCH)):
            write(batch, tagger.tag([document.text for document in batch], **options))
            done += len(batch)
            advance(done, None)
    if output is not None and str(output) != "-":
        common.say(f"{output}: {done:,} texts")


def _predict_folder(
    model: Path, source: str, output: Path | None, cluster: str, jobs: int | None, options: dict[str, Any], json: bool
) -> None:
    """Tag the files of a folder on a cluster."""
    from tagwood.scale import BatchRequest, connect, predict_folder

    if output is None or str(output) == "-":
        raise InputError("--cluster needs a folder for the predictions", hint="Name one with --output.")
    options["text_columns"] = common.column_names(options["text_columns"])
    given: dict[str, Any] = {name: tuple(item) if isinstance(item, list) else item for name, item in options.items()}
    request = BatchRequest(**given)
    with connect(cluster, jobs), common.progress("Tagging") as advance:
        found = predict_folder(model, Path(source), output, request, advance)
    if json:
        common.print_json(found._asdict())
    else:
        common.say(f"{output}: {found.rows:,} rows in {found.units:,} files, {found.found:,} of them found finished")


def _answer(tagger: Tagger, text: str, options: dict[str, Any], json: bool) -> None:
    text = common.readable(text)
    tags = tagger.tag_one(text, **options)
    if json:
        common.print_json(as_dict(Document(text), tags))
        return
    if tags:
        columns = {"score": {"justify": "right", "style": "dim"}, "label": common.TEXT}
        rows = ((f"{tag.score:.3f}", tag.name) for tag in tags)
        common.print_data(common.make_table(columns, rows, header=False))
    else:
        common.say("No label fits." if options["threshold"] is None else "No label reaches the threshold.")
    if tags.review:
        common.say("! The promise cannot be kept for this text; it needs manual review.")


class Document(NamedTuple):
    """A text and its id, if it has one."""

    text: str
    id: str = ""


def read_documents(source: str, data_format: str | None, text_columns: Sequence[str] = ()) -> Iterator[Document]:
    """Yield the texts of a source: ``-`` is stdin, an existing file is read, anything else is a text.

    `data_format` is that of a file or of stdin; ``"lines"`` is a text per line. `text_columns` make the text of a row.
    """
    if source == "-":
        if data_format in (None, "lines"):
            return _lines(sys.stdin, "standard input")
        return _spooled(data_format or "", text_columns)
    if not is_path(source):
        return iter([Document(source)])
    path = Path(source)
    if data_format == "lines" or (data_format is None and path.is_file() and _ending(path) in _LINE_ENDINGS):
        return _plain_file(path)
    return _records(path, data_format or _guess_format(path), text_columns)


def is_path(source: str) -> bool:
    """Return whether a source is a file or folder; what looks like the name of a data file must exist."""
    try:
        if Path(source).exists():
            return True
    except (OSError, ValueError):  # too long or odd for a path: a text
        return False
    if source.lower().endswith(_FILE_ENDINGS) and not any(mark.isspace() for mark in source):
        raise InputError(f"there is no file {source}", hint="A text with such an ending goes through stdin (-).")
    return False


def _guess_format(path: Path) -> str:
    """Return the format by content, or by name for tables without labels, which content cannot tell."""
    from tagwood.data import detect_format

    try:
        return detect_format(path)
    except DataError:
        found = _TABLE_ENDINGS.get(_ending(path))
        if found is None or not path.is_file():
            raise
        return found


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _records(path: Path, data_format: str, text_columns: Sequence[str]) -> Iterator[Document]:
    from tagwood.data import read_records

    for record in read_records(path, data_format, text_columns=text_columns):
        yield Document(record.text, record.id)


def _spooled(data_format: str, text_columns: Sequence[str]) -> Iterator[Document]:
    """Yield the rows of a table on standard input, from a copy: Parquet has its directory at the end."""
    from tagwood.data import FORMATS as KNOWN

    known = [name for name, found in KNOWN.items() if found.records is not None and not found.folder]
    check_choice(data_format, "--format of standard input", ["lines", *known])
    with tempfile.TemporaryDirectory(prefix="tagwood-") as folder:
        path = Path(folder) / "standard input"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield from _records(path, data_format, text_columns)
        except DataError as error:
            raise DataError(error.reason, path=path.name, line=error.line, hint=error.hint) from error


def _plain_file(path: Path) -> Iterator[Document]:
    from tagwood.data.files import BadLines, decoded_lines

    for _, line in decoded_lines(path, BadLines(skip=False)):
        if line.strip():
            yield Document(line)


def _lines(file: IO[str], name: str) -> Iterator[Document]:
    """Yield a text for each line; a line that is a JSON object gives its text and id."""
    from tagwood.data.formats.json_lines import parse_object, text_of
    from tagwood.data.records import ID, is_valid_text, pick

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
    from tagwood.storage.publish import replace_path

    kind = output_format(path, to)
    with replace_path(path, overwrite=overwrite) as place:
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
        raise InputError("Parquet is already compressed; its name must not end in .gz", given=path.name)
    return kind


def as_dict(document: Document, tags: Tags) -> dict[str, Any]:
    """Return a text and its labels as JSON; `tagwood eval` reads these lines as predictions."""
    head = {"id": document.id} if document.id else {}
    labels = [{"label": tag.name, **({"uri": tag.uri} if tag.uri else {}), "score": _short(tag.score)} for tag in tags]
    return {**head, "text": document.text, "labels": labels, **({"review": True} if tags.review else {})}


def _text_writer(file: IO[str], kind: str) -> Write:
    if kind == "jsonl":
        return lambda documents, tags: file.writelines(
            json.dumps(found, ensure_ascii=False) + "\n" for found in map(as_dict, documents, tags)
        )
    table = csv.writer(file, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
    table.writerow(_HEADER)
    return lambda documents, tags: table.writerows(map(_cells, documents, tags))


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
    unclear = any(";" in name or "|" in name or name.startswith("[") or name.strip() != name for name in names)
    return json.dumps(names, ensure_ascii=False) if unclear else ";".join(names)


def _binary_stdout() -> IO[bytes]:
    if sys.stdout.isatty():
        raise InputError("Parquet cannot be written to a terminal", hint="Name a file with --output, or use a pipe.")
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
            rows = [{"id": "", "review": False, **found} for found in map(as_dict, documents, tags)]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))

        yield write


def _short(score: float) -> float:
    return float(f"{score:.6g}")
