"""`tagwood impute`: which row of a group each label of the group belongs to. In: texts in groups. Out: JSON lines.

Each line has the text, its group as ``from_group`` and its labels. The file can be reviewed and corrected, then trained
on as it is, or passed in part to ``tagwood train --corrections``.
"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli import common
from tagwood.cli.reading import DataArgument, Reading, need_texts, read_rows, say_report, with_reading
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.data import Dataset
    from tagwood.groups import Imputed
    from tagwood.tagger import Tagger


@with_reading
def impute(
    data: DataArgument,
    output: Annotated[Path, typer.Option("--output", "-O", help="File to write; .gz compresses it.")],
    groups: common.GroupsOption = None,
    group_labels: common.GroupLabelsOption = None,
    recipe: common.RecipeOption = None,
    settings: common.SetOption = None,
    margin: Annotated[
        float,
        typer.Option(help="A label is certain for a row if the cosines of the others are lower by this share."),
    ] = 0.2,
    doubtful_first: Annotated[
        bool, typer.Option("--doubtful-first", help="Write groups with the least certain labels first.")
    ] = False,
    vocab: common.VocabOption = None,
    on_unknown: common.UnknownOption = "error",
    data_format: common.FormatOption = None,
    jobs: common.JobsOption = None,
    force: common.ForceFlag = False,
    json: common.JsonFlag = False,
    *,
    reading: Reading,
) -> None:
    """Assign the labels of groups to single rows, for review.

    Training with groups does the same internally; use this command to review or correct the result first.
    """
    from tagwood._check import check_float
    from tagwood.storage.publish import check_target

    check_float(margin, "--margin", low=0.0, high=1.0)
    tagger = common.choose_recipe(recipe, settings, jobs).tagger()
    check_target(output, overwrite=force, folder=False)
    rows, report = read_rows(data, reading, data_format, vocab, on_unknown, None, groups, group_labels)
    need_texts(rows, data[0])
    say_report(report, brief=True)
    if rows.groups is None:
        hint = "Name the column: --groups COLUMN."
        raise InputError(f"{data[0]} must have groups", given="no column named group", hint=hint)
    with common.stages("Imputing") as advance:
        found = impute_texts(rows, tagger, margin, jobs, advance)
    facts = write_review(rows, found, output, doubtful_first=doubtful_first, force=force)
    if json:
        common.print_json(facts | {"reading": report.to_dict()})
    else:
        common.say(
            f"{output}: {facts['labels']:,} labels on {facts['rows']:,} rows in {facts['groups']:,} groups, "
            f"{facts['unsure']:,} uncertain (confidence below 0.9)"
        )


def impute_texts(rows: Dataset, tagger: Tagger, margin: float, threads: int | None, advance: Any) -> Imputed:
    """Impute with the encoder and the group settings of a Tagger."""
    from tagwood.groups import GroupedLabels, keep_closest
    from tagwood.models.linear_tree import LinearTree
    from tagwood.tagger.fitting import default_encoder
    from tagwood.tagger.group_learning import choose_rule, impute_rows

    advance("features", 0.0)
    texts = list(rows.texts or ())
    X = (tagger.encoder or default_encoder(LinearTree())).fit(texts).transform(texts)
    advance("labels of rows", 0.5)
    grouped = GroupedLabels.from_rows(list(rows.groups or ()), rows.labels)
    rule, _ = choose_rule(X, grouped, tagger.groups, seed=tagger.seed, threads=threads)
    return keep_closest(impute_rows(X, grouped, rule, margin=margin, threads=threads), grouped)


def write_review(rows: Dataset, found: Imputed, output: Path, *, doubtful_first: bool, force: bool) -> dict[str, Any]:
    """Write one JSON object per row and return the facts."""
    from tagwood.data.files import open_for_writing
    from tagwood.storage.publish import replace_path

    order = _doubtful_first(rows, found) if doubtful_first else list(range(rows.n_rows))
    with replace_path(output, overwrite=force) as place, open_for_writing(place) as file:
        for row in order:
            file.write(json_module.dumps(_line(rows, found, row), ensure_ascii=False) + "\n")
    return {
        "output": str(output),
        "rows": rows.n_rows,
        "groups": len(set(rows.groups or ()) - {""}),
        "labels": int(found.labels.nnz),
        "unsure": int((found.weights.data < 0.9).sum()),
    }


def _line(rows: Dataset, found: Imputed, row: int) -> dict[str, Any]:
    begin, end = found.labels.indptr[row], found.labels.indptr[row + 1]
    labels = []
    for at in range(begin, end):
        label = int(found.labels.indices[at])
        uri = rows.vocab.uri(label)
        labels.append(
            {
                "label": rows.vocab.name(label),
                **({"uri": uri} if uri else {}),
                "confidence": round(float(found.weights.data[at]), 4),
                "similarity": round(float(found.similarity.data[at]), 4),
            }
        )
    group = (rows.groups or [""] * rows.n_rows)[row]
    head = {"id": rows.ids[row]} if rows.ids is not None else {}
    return {**head, "from_group": group, "text": (rows.texts or ())[row], "labels": labels}


def _doubtful_first(rows: Dataset, found: Imputed) -> list[int]:
    """Return the rows, ordered by the mean confidence of their groups, lowest first."""
    import numpy as np

    codes, names = rows.group_codes()
    codes = np.where(codes < 0, len(names), codes)  # rows without a group are certain and come last
    entry_codes = np.repeat(codes, np.diff(found.labels.indptr))
    counts = np.bincount(entry_codes, minlength=len(names) + 1)
    means = np.bincount(entry_codes, found.weights.data, minlength=len(names) + 1) / np.maximum(counts, 1)
    means[counts == 0] = 1.0
    means[len(names)] = 2.0
    order: list[int] = np.lexsort((np.arange(rows.n_rows), codes, means[codes])).tolist()
    return order
