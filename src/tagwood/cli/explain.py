"""`tagwood explain`: why a label was suggested, or why not. In: a model, a text, a label. Out: an explanation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli import common
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.tagger.explanation import Explanation


def explain(
    model: common.ModelArgument,
    text: Annotated[str, typer.Argument(help="The text; - reads it from stdin.")],
    label: Annotated[
        str | None, typer.Option(help="Name, URI or id of the label; the best suggestion by default.")
    ] = None,
    limit: common.LimitOption = 5,
    threshold: common.ThresholdOption = None,
    restrict: common.RestrictOption = None,
    exclude: common.ExcludeOption = None,
    language: common.LanguageOption = None,
    html: Annotated[bool, typer.Option("--html", help="Write an HTML card to stdout.")] = False,
    json: common.JsonFlag = False,
) -> None:
    """Explain why a label was suggested for a text, or at which step it was lost."""
    if json and html:
        raise InputError("--json and --html cannot be combined")
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
    """Load a model and explain a label for a text; `question` holds the other options of `Tagger.tag`."""
    import sys

    tagger = common.load_tagger(model)
    text = common.readable(sys.stdin.read() if text == "-" else text)
    if label is not None:
        return tagger.explain(text, label, **question)
    tags = tagger.tag_one(text, k=1, restrict=question["restrict"], exclude=question["exclude"])
    if not tags:
        raise InputError("without --label there must be a suggestion to explain", given="none for this text")
    return tagger.explain(text, tags[0].label, **question)
