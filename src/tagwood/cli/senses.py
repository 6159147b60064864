"""`tagwood senses`: labels that live in leaves far apart. In: a model folder. Out: labels, most different first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli import common

if TYPE_CHECKING:
    from tagwood.tagger.senses import Different


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
        common.print_data(senses_table(found))
    else:
        common.say("Every label is in one leaf. Train with --set tree.copies=2 to allow several.")


def senses_table(found: list[Different]) -> Any:
    """Return the labels as a table."""
    from rich.table import Table
    from rich.text import Text

    table = Table("difference", "texts", "leaves", "label", box=None, pad_edge=False)
    for one in found:
        leaves = ", ".join(map(str, one.leaves))
        table.add_row(f"{one.difference:.2f}", f"{one.rows:,}", leaves, Text(one.name))
    return table
