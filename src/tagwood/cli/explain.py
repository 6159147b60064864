"""`tagwood explain`: why a label was suggested, or why not. In: a model, a text, a label. Out: an explanation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli.output import JsonFlag, readable
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.tagger.explanation import Explanation


def explain(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    text: Annotated[str, typer.Argument(help="The text; - reads it from stdin.")],
    label: Annotated[
        str | None, typer.Option(help="Name or URI of the label; default: the first one suggested.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", help="Labels that are suggested per text.")] = 5,
    threshold: Annotated[float | None, typer.Option("--threshold", "-t", help="Least score.")] = None,
    restrict: Annotated[list[str] | None, typer.Option(help="Only this label; repeat it.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Not this label; repeat it.")] = None,
    language: Annotated[str | None, typer.Option("--language", "-L", help="Of the label names.")] = None,
    html: Annotated[bool, typer.Option("--html", help="Write a card of HTML to stdout.")] = False,
    json: JsonFlag = False,
) -> None:
    """Say why a label was suggested for a text, or where it was lost."""
    if json and html:
        raise InputError("--json and --html exclude each other")
    question: dict[str, Any] = {
        "k": limit,
        "threshold": threshold,
        "restrict": restrict,
        "exclude": exclude,
        "language": language,
    }
    found = explain_text(model, text, label, question)
    typer.echo(found.to_json() if json else found.to_html() if html else found.to_text())


def explain_text(model: Path, text: str, label: str | None, question: dict[str, Any]) -> Explanation:
    """Load a model and explain a label for a text; `question` holds the options of `Tagger.tag` besides."""
    import sys

    from tagwood.cli.predict import load_tagger

    tagger = load_tagger(model)
    text = readable(sys.stdin.read() if text == "-" else text)
    if label is not None:
        return tagger.explain(text, label, **question)
    tags = tagger.tag_one(text, k=1, restrict=question["restrict"], exclude=question["exclude"])
    if not tags:
        raise InputError("without --label there must be a suggestion to explain", given="none for this text")
    return tagger.explain(text, tags[0].label, **question)
