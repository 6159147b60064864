"""`tagwood senses`: labels that live in leaves far apart. In: a model folder. Out: labels, most different first."""

from __future__ import annotations

from typing import Annotated

import typer

from tagwood.cli import common


def senses(
    model: common.ModelArgument,
    limit: Annotated[int, typer.Option("--limit", "-l", help="Number of labels to list.")] = 20,
    least_rows: Annotated[int, typer.Option(help="Skip labels with fewer training texts.")] = 5,
    language: common.LanguageOption = None,
    json: common.JsonFlag = False,
) -> None:
    """List the labels whose meanings differ most, as far as the model separates them.

    Show one label in detail with: tagwood show MODEL --label NAME.
    """
    found = common.load_tagger(model).most_different(limit, least_rows=least_rows, language=language)
    if json:
        common.print_json({"model": str(model), "labels": found})
    elif found:
        rows = ((f"{one.difference:.2f}", f"{one.rows:,}", ", ".join(map(str, one.leaves)), one.name) for one in found)
        common.print_data(common.make_table({"difference": {}, "texts": {}, "leaves": {}, "label": {}}, rows))
    else:
        common.say("Every label is in one leaf. Train with --set tree.copies=2 to allow several.")
