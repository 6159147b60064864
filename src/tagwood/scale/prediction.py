"""Batch prediction: a folder of Parquet, JSON-lines or CSV files to a folder of Parquet files, by Ray Data.

Input files are cut into units: groups of Parquet row groups, ranges of JSON lines, whole CSV files. Every unit becomes
one Parquet file, which is written beside its place and renamed, so a file in the output folder is its own done-marker:
the same command started again tags only the units without one. Names of files sort as their rows do.

Decisions: Ray Data streams the units through a pool of actors; rows are read and written by the actors, a batch at a
time, and never pass through the object store or the driver. Each actor maps the model from its folder, so the processes
of a machine share its memory. Model, options and input of a run have a hash, which is kept in the footer of every
file; files of another run are refused.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tagwood._check import use_threads
from tagwood.data.records import ReadOptions, choose_columns
from tagwood.errors import DataError, InputError, MissingExtraError, StorageError, TagwoodError
from tagwood.ranking import Ranking
from tagwood.scale.cluster import Failure, build_signature, check_signature, load_ray
from tagwood.storage import read_manifest
from tagwood.storage.folder import manifest_bytes
from tagwood.storage.publish import replace_path, write_file
from tagwood.storage.shards import digest
from tagwood.tagger import Tagger
from tagwood.tagger.fitting import CANDIDATES

LABELS, REVIEW = "predicted_labels", "review"  # columns that are added
SUMMARY = "_summary.json"
_RUN = b"tagwood.run"
Filters = tuple[Any, ...]  # labels that may, and may not, be returned, prepared for the model
_ENDINGS = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv"}
_BATCH = 2000
_SAMPLE = 1 << 20  # bytes of JSON lines from which their columns are known


@dataclass(frozen=True)
class BatchRequest:
    """What to predict; parameters are those of `Tagger.tag`, and `text_columns` make the text of a row.

    `unit_rows` and `unit_bytes` are the size of units: Parquet rows and bytes of JSON lines.
    """

    k: int = 5
    promise: str | None = None
    threshold: float | None = None
    restrict: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    language: str | None = None
    text_columns: tuple[str, ...] = ()
    unit_rows: int = 50_000
    unit_bytes: int = 32 << 20


class Unit(NamedTuple):
    """A stretch of one input file: row groups ``begin:end`` of Parquet, bytes of JSON lines, or a whole table."""

    path: str
    kind: str
    begin: int
    end: int
    output: str


class Summary(NamedTuple):
    """What a run did: rows in all files, units in all, and units that an earlier start had done."""

    rows: int
    units: int
    found: int


def predict_folder(model: Path, source: Path, output: Path, request: BatchRequest, progress: Any = None) -> Summary:
    """Tag all rows of the files in a folder, on the cluster that this process is connected to.

    Parameters
    ----------
    model
        Model folder, on storage that all machines share.
    source
        Folder with .parquet, .jsonl, .csv or .tsv files, or one such file.
    output
        Folder of Parquet files with all columns of the input and `predicted_labels` (label, uri, score); absent, empty,
        or with the files of an earlier start of the same run.
    request
        What to predict.
    progress
        Called with the units done and the number of all.
    """
    _, parquet = load_pyarrow()
    units = plan_units(source, request)
    checksum = model_checksum(model)
    sizes = [(unit, Path(unit.path).stat().st_size) for unit in units]
    run = digest(checksum, asdict(request), [list(item) for item in sizes])
    rows = _finished(output, units, run, parquet)
    todo = [unit for unit in units if unit.output not in rows]
    n_found = len(rows)
    if todo:
        output.mkdir(parents=True, exist_ok=True)
        work = Work(str(model.resolve()), checksum, str(output.resolve()), request, run, build_signature())
        for name, count in _tag_units(todo, work):
            rows[name] = count
            if progress is not None:
                progress(len(rows), len(units))
    summary = Summary(sum(rows.values()), len(units), n_found)
    write_file(output / SUMMARY, json.dumps({"run": run, **summary._asdict(), "files": rows}, indent=1) + "\n")
    return summary


def plan_units(source: Path, request: BatchRequest) -> list[Unit]:
    """Return the units of all files, in the order of their names and rows."""
    files = sorted(source.iterdir()) if source.is_dir() else [source] if source.exists() else []
    known = [path for path in files if path.suffix.lower() in _ENDINGS and not path.name.startswith(("_", "."))]
    if not known:
        given = f"{len(files):,} other files" if files else "nothing" if source.is_dir() else "no such path"
        raise InputError(f"{source} must hold .parquet, .jsonl, .csv or .tsv files", given=given)
    units = []
    for path in known:
        kind = _ENDINGS[path.suffix.lower()]
        ranges = list(_ranges(path, kind, request))
        for number, (begin, end) in enumerate(ranges):
            units.append(Unit(str(path.resolve()), kind, begin, end, f"{path.name}.{number:06}.parquet"))
    return units


def _ranges(path: Path, kind: str, request: BatchRequest) -> Iterator[tuple[int, int]]:
    if kind == "parquet":
        _, parquet = load_pyarrow()
        with _readable(path), parquet.ParquetFile(path) as file:
            sizes = [file.metadata.row_group(place).num_rows for place in range(file.metadata.num_row_groups)]
        begin = 0
        for place in range(len(sizes)):
            if begin < place and sum(sizes[begin : place + 1]) > request.unit_rows:
                yield begin, place
                begin = place
        yield begin, len(sizes)
    elif kind == "jsonl":
        size = path.stat().st_size
        yield from ((at, min(at + request.unit_bytes, size)) for at in range(0, max(size, 1), request.unit_bytes))
    else:
        yield 0, path.stat().st_size


def _finished(output: Path, units: Sequence[Unit], run: str, parquet: Any) -> dict[str, int]:
    """Return the rows of files that are done, or refuse a folder with anything else in it."""
    if not output.exists():
        return {}
    if not output.is_dir():
        raise StorageError("a file has this name already; predictions are a folder", path=output)
    wanted, rows = {unit.output for unit in units}, {}
    for path in sorted(output.iterdir()):
        if path.name == SUMMARY or path.name.startswith("."):
            continue
        if path.name not in wanted:
            hint = "Choose another folder; the same model, options and files continue an earlier start."
            raise StorageError("this file is not of the same run", path=path, hint=hint)
        with _readable(path), parquet.ParquetFile(path, page_checksum_verification=True) as file:
            found = (file.schema_arrow.metadata or {}).get(_RUN, b"").decode()
            rows[path.name] = sum(batch.num_rows for batch in file.iter_batches(columns=[LABELS]))
        if found != run:
            hint = "Model, options or input have changed since: choose another folder, or remove these files."
            raise StorageError("this file is of another run", path=path, hint=hint)
    return rows


class Work(NamedTuple):
    """What an actor needs: the model with its checksum, the output folder, the request and the hash of the run."""

    model: str
    checksum: str
    output: str
    request: BatchRequest
    run: str
    signature: str


def _tag_units(units: list[Unit], work: Work) -> Iterator[tuple[str, int]]:
    """Stream units through a pool of actors; yield the name and rows of each file as it is finished."""
    ray = load_ray()
    data = import_module("ray.data")
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    data.DataContext.get_current().enable_progress_bars = False
    cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
    rows = data.from_items([unit._asdict() for unit in units], override_num_blocks=len(units))
    pool = data.ActorPoolStrategy(min_size=1, max_size=min(cpus, len(units)), max_tasks_in_flight_per_actor=2)
    done = rows.map_batches(
        UnitTagger, fn_constructor_args=(work,), batch_size=1, batch_format="numpy", num_cpus=1, compute=pool
    )
    for row in done.iter_rows():
        if row["failure"]:
            raise Failure(*json.loads(row["failure"])).error()
        yield row["output"], int(row["rows"])


class UnitTagger:
    """An actor: maps the model once, then reads, tags and writes one unit after the other."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.failure: Failure | None = None
        try:
            check_signature(work.signature)
            self.tagger = open_model(Path(work.model), work.checksum)
            given = (work.request.restrict, work.request.exclude)
            self.filters = tuple(None if labels is None else self.tagger.label_filter(labels) for labels in given)
        except TagwoodError as error:
            self.failure = Failure.of(error)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Tag one unit; errors are returned, since Ray would start the actor again."""
        unit = Unit(*(batch[name][0] for name in Unit._fields))
        rows, failure = 0, self.failure
        if failure is None:
            try:
                rows = tag_unit(self.tagger, self.filters, Unit(*map(_plain, unit)), self.work)
            except TagwoodError as error:
                failure = Failure.of(error)
        text = "" if failure is None else json.dumps(list(failure))
        return {"output": [str(unit.output)], "rows": [rows], "failure": [text]}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def open_model(folder: Path, checksum: str) -> Tagger:
    """Load a Tagger for one thread; raise `InputError` if the folder is not the one with this checksum."""
    found = model_checksum(folder)
    if found != checksum:
        raise InputError(
            f"all machines must see the same model in {folder}",
            given="another one",
            hint="Put the model on storage that all machines share, or copy it to all of them.",
        )
    tagger = Tagger.load(folder)
    use_threads(tagger, 1)
    return tagger


def model_checksum(folder: Path) -> str:
    """Return a hash of a model's manifest, which has the checksums of all its files."""
    return digest(manifest_bytes(read_manifest(folder)).decode())


def tag_unit(tagger: Tagger, filters: Filters, unit: Unit, work: Work) -> int:
    """Read, tag and write one unit; return its rows."""
    _, parquet = load_pyarrow()
    path, n_rows, writer = Path(unit.path), 0, None
    with replace_path(Path(work.output) / unit.output, overwrite=True, folder=False, companions=()) as place:
        try:
            for table in _tables(path, unit, work.request):
                tagged = tag_table(tagger, filters, table, path, work)
                if writer is None:
                    writer = parquet.ParquetWriter(place, tagged.schema, write_page_checksum=True)
                writer.write_table(tagged)
                n_rows += tagged.num_rows
        finally:
            if writer is not None:
                writer.close()
    return n_rows


def tag_table(tagger: Tagger, filters: Filters, table: Any, path: Path, work: Work) -> Any:
    """Return an Arrow table with its predicted labels."""
    arrow, _ = load_pyarrow()
    request = work.request
    taken = {LABELS, REVIEW} & set(table.column_names)
    if taken:
        raise DataError(f"has a column '{min(taken)}' already, which predictions are written to", path=path)
    columns = request.text_columns or tagger.fields_
    options = ReadOptions(need_labels=False, text_columns=columns, lenient=not request.text_columns and bool(columns))
    try:
        used = choose_columns(table.column_names, options).text
        rows = table.select(used).to_pylist()
        texts = [options.text_of(row) or "" for row in rows]
    except DataError as error:
        raise DataError(error.reason, path=path, hint=error.hint) from error
    ranking, review = rank_texts(tagger, filters, texts, request)
    table = table.append_column(LABELS, _label_column(tagger, ranking, request.language))
    if review is not None:
        table = table.append_column(REVIEW, arrow.array(review))
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _RUN: work.run.encode()})


def rank_texts(tagger: Tagger, filters: Filters, texts: list[str], request: BatchRequest) -> tuple[Ranking, Any]:
    """Return what `Tagger.tag` would name, as a ranking, and which rows need review where there is a promise."""
    review = None
    k = request.k if request.promise is None else CANDIDATES
    ranking = tagger.rank(texts, k, restrict=filters[0], exclude=filters[1])
    if request.promise is not None:
        ranking, review = tagger.cut(ranking, request.promise)
    return (ranking if request.threshold is None else ranking.above(request.threshold)), review


def _label_column(tagger: Tagger, ranking: Ranking, language: str | None) -> Any:
    arrow, _ = load_pyarrow()
    used, place = np.unique(ranking.labels, return_inverse=True)
    names = arrow.array([tagger.vocab_.name(int(label), language) for label in used], arrow.string())
    uris = arrow.array([tagger.vocab_.uri(int(label)) or None for label in used], arrow.string())
    items = [
        names.take(arrow.array(place)),
        uris.take(arrow.array(place)),
        arrow.array(ranking.scores, arrow.float32()),
    ]
    labels = arrow.StructArray.from_arrays(items, ["label", "uri", "score"])
    return arrow.ListArray.from_arrays(arrow.array(ranking.indptr.astype(np.int32)), labels)


def _tables(path: Path, unit: Unit, request: BatchRequest) -> Iterator[Any]:
    """Yield the rows of a unit as Arrow tables; a file without rows gives one empty table."""
    arrow, parquet = load_pyarrow()
    with _readable(path):
        if unit.kind == "parquet":
            with parquet.ParquetFile(path) as file:
                groups = list(range(unit.begin, unit.end))
                empty = True
                for batch in file.iter_batches(batch_size=_BATCH, row_groups=groups):
                    empty = False
                    yield arrow.Table.from_batches([batch])
                if empty:
                    yield file.schema_arrow.empty_table()
            return
        if unit.kind == "jsonl":
            yield from _in_batches(_json_table(path, unit))
            return
        yield from _csv_tables(path, "," if unit.kind == "csv" else "\t")


def _json_table(path: Path, unit: Unit) -> Any:
    """Return the lines that begin in a range of bytes; types of columns are those of the first lines of the file."""
    from pyarrow import json as arrow_json

    with path.open("rb") as file:
        sample = file.read(_SAMPLE)
        sample = sample[: sample.rfind(b"\n") + 1] or sample
        file.seek(max(unit.begin - 1, 0))
        if unit.begin:
            file.readline()  # the end of a line that another unit has
        begin = file.tell()
        file.seek(max(unit.end - 1, 0))
        file.readline()
        end = file.tell()
        file.seek(begin)
        raw = file.read(max(0, end - begin))
    schema = arrow_json.read_json(io.BytesIO(sample)).schema
    if not raw.strip():
        return schema.empty_table()
    how = arrow_json.ParseOptions(explicit_schema=schema)
    return arrow_json.read_json(io.BytesIO(raw), parse_options=how)


def _csv_tables(path: Path, delimiter: str) -> Iterator[Any]:
    """Yield a table in batches; all cells are texts, so that ids keep their zeros."""
    arrow, _ = load_pyarrow()
    from pyarrow import csv as arrow_csv

    how = arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    with arrow_csv.open_csv(path, parse_options=how) as file:
        names = file.schema.names
    types = arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, arrow.string()), strings_can_be_null=False)
    with arrow_csv.open_csv(path, parse_options=how, convert_options=types) as file:
        for batch in file:
            yield from _in_batches(arrow.Table.from_batches([batch]))


def _in_batches(table: Any) -> Iterator[Any]:
    for begin in range(0, max(table.num_rows, 1), _BATCH):
        yield table.slice(begin, _BATCH)


def load_pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("batch prediction", extra="scale") from error
    return arrow, parquet


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors of pyarrow into one sentence with the name of the file."""
    arrow, _ = load_pyarrow()
    try:
        yield
    except (arrow.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise DataError(f"cannot be read ({reason})", path=path) from error
