"""`tagwood explain`: why a label was suggested, or why not. In: a model, a text, a label. Out: an explanation."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tagwood.cli import common
from tagwood.errors import InputError


def explain(
    model: common.ModelArgument,
    text: Annotated[str, typer.Argument(help="The text; - reads it from stdin.")],
    label: Annotated[
        str | None, typer.Option(help="Name, URI or id of the label; the best suggestion by default.")
    ] = None,
    limit: common.LimitOption = 5,
    threshold: common.ThresholdOption = None,
    restrict: common.RestrictOption = None,
    restrict_file: common.RestrictFileOption = None,
    restrict_branch: common.RestrictBranchOption = None,
    exclude: common.ExcludeOption = None,
    language: common.LanguageOption = None,
    html: Annotated[bool, typer.Option("--html", help="Write an HTML card to stdout.")] = False,
    json: common.JsonFlag = False,
) -> None:
    """Explain why a label was suggested for a text, or at which step it was lost."""
    if json and html:
        raise InputError("--json and --html cannot be combined")
    tagger = common.load_tagger(model)
    text = common.readable(sys.stdin.read() if text == "-" else text)
    among = common.filters(tagger, restrict, exclude, restrict_file, restrict_branch)
    wanted: Any = label
    if wanted is None:
        tags = tagger.tag_one(text, k=1, **among)
        if not tags:
            raise InputError("without --label there must be a suggestion to explain", given="none for this text")
        wanted = tags[0].label
    found = tagger.explain(text, wanted, k=limit, threshold=threshold, language=language, **among)
    typer.echo(found.to_json() if json else found.to_html() if html else found.to_text())
