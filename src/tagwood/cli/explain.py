"""`tagwood explain`: why a label was suggested, or why not. In: a model, a text, a label. Out: an explanation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tagwood.cli.output import JsonFlag
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.tagger.cards import Explanation


def explain(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    text: Annotated[str, typer.Argument(help="The text; - reads it from stdin.")],
    label: Annotated[
        str | None, typer.Option(help="Name or URI of the label; default: the first one suggested.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", help="Labels that are suggested per text.")] = 5,
    threshold: Annotated[float | None, typer.Option("--threshold", "-t", help="Least score.")] = None,
    language: Annotated[str | None, typer.Option("--language", "-L", help="Of the label names.")] = None,
    html: Annotated[bool, typer.Option("--html", help="Write a card of HTML to stdout.")] = False,
    json: JsonFlag = False,
) -> None:
    """Say why a label was suggested for a text, or where it was lost."""
    if json and html:
        raise InputError("--json and --html exclude each other")
    found = explain_text(model, text, label, limit, threshold, language)
    typer.echo(found.to_json() if json else found.to_html() if html else found.to_text())


def explain_text(
    model: Path, text: str, label: str | None, limit: int, threshold: float | None, language: str | None
) -> Explanation:
    """Load a model and explain a label for a text."""
    import sys

    from tagwood.cli.predict import load_tagger

    tagger = load_tagger(model)
    if text == "-":
        text = sys.stdin.read()
    if label is not None:
        return tagger.explain(text, label, k=limit, threshold=threshold, language=language)
    tags = tagger.tag_one(text, k=1)
    if not tags:
        raise InputError("without --label there must be a suggestion to explain", given="none for this text")
    return tagger.explain(text, tags[0].label, k=limit, threshold=threshold, language=language)
