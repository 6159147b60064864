"""Rows whose labels are known per group, as commands read them. In: a file, a column, a table. Out: a `Dataset`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.data import Dataset, LabelVocab

GroupsOption = Annotated[
    str | None, typer.Option("--groups", help="Column with the group of each row; default: group.")
]
GroupLabelsOption = Annotated[
    Path | None,
    typer.Option("--group-labels", help="Labels of each group: group<TAB>label<TAB>..., or JSON lines."),
]


def read_group_rows(
    data: Path, table: Path, data_format: str | None, groups: str | None, vocab: LabelVocab | None
) -> Dataset:
    """Read rows without labels of their own, and give each the labels of its group from a table."""
    from tagwood.data import read_records
    from tagwood.groups import read_group_labels
    from tagwood.tagger.training_data import training_data

    labels = read_group_labels(table)
    rows = list(read_records(data, data_format, groups=groups))
    missing = labels.keys() - {row.group for row in rows}
    if missing:
        raise InputError(
            f"every group of {table} must have rows in {data}",
            given=f"{len(missing):,} without, such as {min(missing)!r}",
            hint="Name the column with the groups: --groups COLUMN.",
        )
    found = training_data(
        [row.text for row in rows],
        [labels.get(row.group, []) for row in rows],
        [row.group for row in rows],
        vocab,
    )
    if not any(row.id for row in rows):
        return found
    from dataclasses import replace

    return replace(found, ids=[row.id for row in rows])
