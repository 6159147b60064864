"""`tagwood predict` (also `suggest`): labels for texts. In: a model, a text, file or stdin. Out: labels and scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli.output import JsonFlag, print_data, print_json, progress, readable, say
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.tagger import Tagger, Tags


def predict(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    source: Annotated[
        str, typer.Argument(metavar="[TEXT|FILE|-]", help="A text, a file of texts, or - for stdin.")
    ] = "-",
    limit: Annotated[int, typer.Option("--limit", "-l", help="Most labels per text.")] = 5,
    threshold: Annotated[float | None, typer.Option("--threshold", "-t", help="Least score.")] = None,
    promise: Annotated[
        str | None, typer.Option(help="Instead of a limit: precision>=0.9, recall>=0.8 or f1.")
    ] = None,
    sets: Annotated[
        bool, typer.Option("--sets", help="Instead of a limit: the model's own rule (see tune-threshold).")
    ] = False,
    restrict: Annotated[list[str] | None, typer.Option(help="Only this label; repeat it.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Not this label; repeat it.")] = None,
    language: Annotated[str | None, typer.Option("--language", "-L", help="Of the label names.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-O", help="File to write: .jsonl, .csv, .tsv, .parquet; - is stdout."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Format to write; default: by the name, jsonl on stdout.")
    ] = None,
    data_format: Annotated[
        str | None,
        typer.Option("--format", help="Of FILE or stdin; default: from the content, lines on stdin."),
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; default all cores.")] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the output if it exists.")] = False,
    json: JsonFlag = False,
) -> None:
    """Suggest labels for a text, for each line of stdin, or for each row of a file.

    Files are read and written in batches, and an output file appears when it is complete, or not at all.
    """
    from tagwood.cli.documents import is_path

    if sets and promise is not None:
        raise InputError("--sets and --promise exclude each other")
    options: dict[str, Any] = {
        "k": limit,
        "threshold": threshold,
        "promise": promise,
        "restrict": restrict,
        "exclude": exclude,
        "language": language,
    }
    single = output is None and to is None and source != "-" and not is_path(source)
    tagger = load_tagger(model, jobs)
    if sets:
        options["promise"] = tagger.sets.rule
    if single:
        _answer(tagger, source, options, json)
        return
    done = tag_documents(tagger, source, data_format, output, to, force, options)
    if output is not None and str(output) != "-":
        say(f"{output}: {done:,} texts")


def load_tagger(folder: Path, jobs: int | None = None) -> Tagger:
    """Load a model folder that holds a Tagger."""
    from tagwood._check import check_threads
    from tagwood.tagger import Tagger

    tagger = Tagger.load(folder)
    if jobs is not None:
        for part in (tagger.encoder_, tagger.model_):
            part.set_params(threads=check_threads(jobs))  # type: ignore[union-attr]
    return tagger


def tag_documents(
    tagger: Tagger,
    source: str,
    data_format: str | None,
    output: Path | None,
    to: str | None,
    force: bool,
    options: dict[str, Any],
) -> int:
    """Tag all texts of a source, batch by batch, and return their number."""
    from tagwood.cli.batches import open_writer
    from tagwood.cli.documents import in_batches, read_documents

    done = 0
    with open_writer(output, overwrite=force, to=to) as write, progress("Tagging") as advance:
        for batch in in_batches(read_documents(source, data_format)):
            write(batch, tagger.tag([document.text for document in batch], **options))
            done += len(batch)
            advance(done, None)
    return done


def _answer(tagger: Tagger, text: str, options: dict[str, Any], json: bool) -> None:
    from tagwood.cli.batches import as_dict
    from tagwood.cli.documents import Document

    text = readable(text)
    tags = tagger.tag_one(text, **options)
    if json:
        print_json(as_dict(Document(text), tags))
        return
    if tags:
        print_data(tag_table(tags))
    else:
        say("No label fits." if options["threshold"] is None else "No label reaches the threshold.")
    if tags.review:
        say("! The promise cannot be kept for this text; a person should look at it.")


def tag_table(tags: Tags) -> Any:
    """Return labels and scores as a table."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", style="dim")
    table.add_column(overflow="fold")
    for tag in tags:
        table.add_row(f"{tag.score:.3f}", Text(tag.name))
    return table
