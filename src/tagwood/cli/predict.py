"""`tagwood predict` (also `suggest`): labels for texts.

In: a model, and a text, files, folders or stdin. Out: labels and scores on stdout or in a file (JSON lines, CSV, TSV,
Parquet), after all columns of the input. Rows are read, tagged and written in batches, so that memory does not grow
with the file; only tables and Parquet on standard input are copied to a temporary file first.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from tagwood._check import check_choice
from tagwood.cli import common
from tagwood.cli.reading import Reading, say_report, say_skipped, test_split, with_reading
from tagwood.cli.writing import Document, as_dict, open_writer
from tagwood.errors import DataError, InputError

if TYPE_CHECKING:
    from tagwood.tagger import Tagger

BATCH = 1000
_LINE_ENDINGS = ("", ".lst")
_FILE_ENDINGS = (
    ".csv",
    ".tsv",
    ".jsonl",
    ".ndjson",
    ".parquet",
    ".xlsx",
    ".txt",
    ".md",
    ".pdf",
    ".lst",
    ".json",
    ".gz",
)


@with_reading
def predict(
    model: common.ModelArgument,
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT|FILE|-", help="A text, files or folders of texts, or - for stdin."),
    ] = None,
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
    restrict_file: common.RestrictFileOption = None,
    restrict_branch: common.RestrictBranchOption = None,
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
    cluster: common.ClusterOption = None,
    words: Annotated[
        int | None,
        typer.Option(min=0, help="Words to read of each document; twice the median of the training texts, 0 for all."),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Read .txt and .md files line by line, not as one document each.")
    ] = False,
    jobs: common.JobsOption = None,
    force: common.ForceFlag = False,
    json: common.JsonFlag = False,
    *,
    reading: Reading,
) -> None:
    """Suggest labels for a text, for each line of stdin, for each row of files, or for each document.

    Each .txt, .md or .pdf file is one document, unless --lines is given. All columns of the input are in the output.
    Of a folder with a training and a test split the test split is read, as eval does.
    Files are read and written in batches. An output file appears when it is complete, or not at all.
    With --cluster, a folder of Parquet, JSON-lines or CSV files becomes a folder of Parquet files; the same command
    started again tags only what is missing.
    """
    if sets and promise is not None:
        raise InputError("--sets and --promise cannot be combined")
    options: dict[str, Any] = {"k": limit, "threshold": threshold, "promise": promise, "language": language}
    given = sources or ["-"]
    _check_sources(given)
    if cluster is not None:
        if restrict_file is not None or restrict_branch is not None:
            raise InputError("--restrict-file and --restrict-branch cannot be combined with --cluster")
        if sets:
            options["promise"] = common.load_tagger(model).sets.rule
        options |= {"restrict": restrict, "exclude": exclude, "text_columns": reading.text_columns}
        _predict_folder(model, given[0], output, cluster, jobs, options, json)
        return
    single = output is None and to is None and given != ["-"] and not is_path(given[0])
    if kind_of(model) == "FeatureTagger":
        predict_features(model, given, reading, data_format, limit, output, jobs, overwrite=force)
        return
    tagger = common.load_tagger(model, jobs)
    reading = reading.for_model(tagger)
    options |= common.filters(tagger, restrict, exclude, restrict_file, restrict_branch)
    if sets:
        options["promise"] = tagger.sets.rule
    if single:
        _answer(tagger, given[0], options, json)
        return
    done = 0
    cut = 2 * (tagger.words_per_text_ or 0) if words is None else words
    found = Sources(given, "lines" if lines else data_format, reading, max_words=cut)
    with open_writer(output, overwrite=force, to=to) as write, common.progress("Tagging") as advance:
        documents = found.documents()
        while batch := list(islice(documents, BATCH)):
            write(batch, tagger.tag([document.text for document in batch], **options))
            done += len(batch)
            advance(done, None)
    say_report(found.report, brief=True)
    say_skipped(reading)
    if found.n_cut:
        common.say(f"{found.n_cut:,} documents were read up to word {cut:,}; --words changes that.")
    if write.dropped:
        from tagwood.data.report import shown

        common.say(f"! Fields that are no columns of the output and were left out: {shown(write.dropped)}.")
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


def _check_sources(given: Sequence[str]) -> None:
    """Raise `InputError` unless several sources are files or folders."""
    for source in given if len(given) > 1 else ():
        if source == "-" or not is_path(source):
            raise InputError(
                "several sources must be files or folders", given=repr(source), hint="Put quotes around a text."
            )


def _answer(tagger: Tagger, text: str, options: dict[str, Any], json: bool) -> None:
    text = common.readable(text)
    tags = tagger.tag_one(text, **options)
    if json:
        common.print_json(as_dict(Document(text), tags))
        return
    for tag in tags:
        typer.echo(f"{typer.style(f'{tag.score:.3f}', dim=True)}  {tag.name}")
    if not tags:
        common.say("No label fits." if options["threshold"] is None else "No label reaches the threshold.")
    if tags.review:
        common.say("! The promise cannot be kept for this text; it needs manual review.")


class Sources:
    """Texts from stdin, or from files and folders; `report` says how they were read."""

    def __init__(
        self,
        given: Sequence[str],
        data_format: str | None = None,
        reading: Reading = Reading(),  # noqa: B008 (frozen)
        max_words: int = 0,
    ) -> None:
        from tagwood.data import ReadReport

        self.n_cut = 0
        self._max_words = max_words
        self._given = given
        self._format = data_format
        self._reading = reading
        self.report = ReadReport()

    def documents(self) -> Iterator[Document]:
        """Yield the texts: ``-`` is stdin, existing files are read, anything else is a text."""
        for source in self._given:
            yield from self._documents(source)

    def _documents(self, source: str) -> Iterator[Document]:
        if source == "-":
            return self._lines(sys.stdin, "standard input") if self._format in (None, "lines") else self._spooled()
        if not is_path(source):
            return iter([Document(source)])
        path, known = Path(source), self._format
        if known == "lines" or (known is None and path.is_file() and _ending(path) in _LINE_ENDINGS):
            return self._line_files(path)
        return self._records(path, "txt-key" if known is None and path.is_file() and is_document(path) else known)

    def _records(self, path: Path, data_format: str | None) -> Iterator[Document]:
        options = {"keep_columns": True, "report": self.report, "split": test_split(path)}
        for record in self._reading.records(path, data_format, **options):
            of_file = record.columns is not None and record.columns.keys() == {"id", "file"}
            yield Document(self._cut(record.text) if of_file else record.text, record.id, record.columns)

    def _cut(self, text: str) -> str:
        """Return the beginning of a document, in about the length of the texts that the model was trained on.

        On held-out rows of EURLEX57K with at least 1,500 words, a model of texts of 100 words reaches an nDCG@5 of 55.1
        with the first 200 words, 48.5 with all, and at most 52.0 with parts whose scores are merged; one of whole texts
        (a median of 432 words) reaches 54.6 with the first 1,000 words, 54.0 with all and 54.7 with parts.
        """
        end = 0
        for number, word in enumerate(re.finditer(r"\S+", text), 1):
            if number == self._max_words:
                end = word.end()
            elif end:
                self.n_cut += 1
                return text[:end]
        return text

    def _line_files(self, path: Path) -> Iterator[Document]:
        """Yield the lines of a file, or of the documents in a folder."""
        from tagwood.data.files import decoded_lines
        from tagwood.data.records import ReadOptions

        files = sorted(filter(is_document, path.iterdir())) if path.is_dir() else [path]
        for file in files:
            encoding = ReadOptions(encoding=self._reading.encoding).encoding_of(file)
            for _, line in decoded_lines(file, self._reading.bad, encoding):
                if line.strip():
                    yield Document(line)

    def _lines(self, file: IO[str], name: str) -> Iterator[Document]:
        """Yield a text for each line; a line that is a JSON object gives its text and id."""
        from tagwood.data.formats.json_lines import parse_object, text_of
        from tagwood.data.records import ID, is_valid_text, pick

        options = self._reading.row_options()
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
                    yield Document(text_of(content, options), "" if key is None else str(content[key]), content)
                except DataError as error:
                    raise DataError(error.reason, path=name, line=number, hint=error.hint) from error
        except UnicodeDecodeError as error:
            raise DataError(f"is not UTF-8 text ({error.reason})", path=name) from error

    def _spooled(self) -> Iterator[Document]:
        """Yield the rows of a table on standard input, from a copy: Parquet has its directory at the end."""
        from tagwood.data import FORMATS as KNOWN

        known = [name for name, found in KNOWN.items() if found.records is not None and not found.folder]
        check_choice(self._format, "--format of standard input", ["lines", *known])
        with tempfile.TemporaryDirectory(prefix="tagwood-") as folder:
            path = Path(folder) / "standard input"
            with path.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            try:
                yield from self._records(path, self._format)
            except DataError as error:
                raise DataError(error.reason, path=path.name, line=error.line, hint=error.hint) from error
            finally:
                for one in self.report.files:
                    one.path = path.name


def is_path(source: str) -> bool:
    """Return whether a source is a file or folder; what looks like the name of a data file must exist."""
    try:
        if source and Path(source).exists():  # an empty text is not the current folder
            return True
    except (OSError, ValueError):  # too long or odd for a path: a text
        return False
    if source.lower().endswith(_FILE_ENDINGS) and not any(mark.isspace() for mark in source):
        raise InputError(f"there is no file {source}", hint="A text with such an ending goes through stdin (-).")
    return False


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def is_document(path: Path) -> bool:
    """Tell by its name whether a file is one document."""
    from tagwood.data.formats.documents import is_document as named_so

    return named_so(path)


def kind_of(model: Path) -> str:
    """Return the kind of a stored model; only the manifest is read."""
    from tagwood.storage import read_manifest

    return read_manifest(model).model.kind


def predict_features(
    model: Path,
    given: Sequence[str],
    reading: Reading,
    data_format: str | None,
    limit: int,
    output: Path | None,
    jobs: int | None,
    *,
    overwrite: bool,
) -> None:
    """Rank labels for rows of features and write the rankings, as JSON lines or a matrix of scores (.npz)."""
    from tagwood.cli.models import load_ranker
    from tagwood.data.formats.csr_files import load_matrix
    from tagwood.data.predictions import write_ranking
    from tagwood.storage.publish import replace_path

    if output is None or output.name.endswith((".csv", ".tsv", ".parquet")):
        hint = "Name the file with --output: .jsonl, or .npz for a matrix of scores."
        raise InputError("labels of features are written as rankings", hint=hint)
    found = load_ranker(model, jobs).features
    assert found is not None
    path = Path(given[0])
    if len(given) > 1 or not path.exists():
        raise InputError("a model of features reads one file or folder", given=" ".join(given)[:80])
    if path.suffix in (".npz", ".npy"):
        matrix = load_matrix(path)
    else:
        matrix = reading.read(path, data_format, split=test_split(path))[0].features
    if matrix is None:
        raise InputError("the model ranks features", given="texts")
    ranking = found.rank(matrix, limit)
    with replace_path(output, overwrite=overwrite) as place:
        write_ranking(ranking, place, found.vocab_)
    common.say(f"{output}: {ranking.n_rows:,} rows{' of the test split' if test_split(path) else ''}")
