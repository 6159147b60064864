"""`tagwood train`: from a file of texts and labels to a model folder. In: a dataset, a recipe. Out: a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tagwood.cli.output import JsonFlag, print_data, print_json, say, show_bytes, stages
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.data import Dataset, LabelVocab
    from tagwood.metrics import Report
    from tagwood.recipe import Recipe
    from tagwood.tagger import Tagger


# SECTION cli.grouped
# Rows whose labels are known per group, as commands read them. In: a file, a column, a table. Out: a `Dataset`.


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
    from tagwood.tagger.fitting import training_data

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


_WORTH_MEASURING = 20  # fewer rows would only give a chance result
MEASURES = ["P@1", "P@3", "P@5", "nDCG@5", "R@10"]


def train(
    data: Annotated[Path, typer.Argument(help="File or folder with texts and labels, in any known format.")],
    output: Annotated[Path, typer.Option("--output", "-O", help="Model folder to write.")],
    recipe: Annotated[Path | None, typer.Option(help="Settings in a TOML file.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Kind of model: linear-tree (default), softmax-tree; with tagwood[neural] also prime, prime-lite, "
            "dual-encoder, ngame, otseq2set, seq2seq, mlc2seq, sgm."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="One setting, such as tree.arity=16; repeat it.")
    ] = None,
    tree: Annotated[
        str | None, typer.Option(help="auto: choose the shape of the label tree by trials; see tune-tree.")
    ] = None,
    test_fraction: Annotated[
        float,
        typer.Option(
            help="Share of the rows kept from training to measure the model, if 20 or more; 0: none."
        ),
    ] = 0.1,
    vocab: Annotated[Path | None, typer.Option(help="Label table (TSV or CSV).")] = None,
    on_unknown: Annotated[str, typer.Option(help="Labels missing in --vocab: error, add or skip.")] = "error",
    groups: GroupsOption = None,
    group_labels: GroupLabelsOption = None,
    corrections: Annotated[
        Path | None, typer.Option(help="Corrected labels of grouped rows, as tagwood serve stores them.")
    ] = None,
    data_format: Annotated[str | None, typer.Option("--format", help="Default: from the content.")] = None,
    docs_limit: Annotated[
        int | None, typer.Option("--docs-limit", "-d", help="Use the first rows only.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; default all cores.")] = None,
    max_ram: Annotated[
        str | None, typer.Option(help="Most memory, such as 4GB; default: what this machine has free.")
    ] = None,
    notes: Annotated[str | None, typer.Option(help="Words for the model's passport.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad lines out and count them.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", "-f", help="Replace a model that is there; train whatever the forecast says."
        ),
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Train a model on texts and their labels.

    What will not fit into memory by the forecast (see tagwood plan) is refused before it begins. The folder appears
    when the model is complete, or not at all.
    """
    from tagwood._check import check_float
    from tagwood.cli.plan import check_budget, read_limits
    from tagwood.storage.publish import check_replaceable

    named = {"model.kind": model, "tree.tree": tree}
    changes = [f"{key}={value}" for key, value in named.items() if value is not None]
    chosen = choose_recipe(recipe, [*(settings or []), *changes], jobs)
    check_replaceable(output, overwrite=force)
    check_float(test_fraction, "--test-fraction", low=0.0, high=0.9)
    allowed = read_limits(max_ram, None, None).peak_bytes
    rows = read_rows(data, data_format, vocab, on_unknown, skip_bad, docs_limit, groups, group_labels)
    if corrections is not None:
        rows = with_corrections(rows, corrections)
    check_budget(rows, chosen, test_fraction, allowed, force=force)
    with stages("Training") as advance:
        trained = train_tagger(rows, chosen, test_fraction, advance)
    folder = trained.tagger.save(output, notes=notes, overwrite=force)
    facts = summarise(trained, folder)
    if json:
        print_json(facts)
        return
    say(
        f"{folder}: {facts['rows']:,} rows, {facts['labels']:,} labels, "
        f"{facts['seconds']:.1f} s, {show_bytes(facts['bytes'])}"
    )
    if trained.report is None:
        say("All rows were used; to measure the model: tagwood eval MODEL DATA, with data it has not seen.")
    else:
        print_data(f"Measured on {trained.test_rows:,} rows kept from training: {one_line(trained.report)}")


class Trained(NamedTuple):
    """A fitted Tagger and how it does on rows it has not seen."""

    tagger: Tagger
    rows: int
    test_rows: int
    report: Report | None


def choose_recipe(path: Path | None, settings: list[str], jobs: int | None) -> Recipe:
    """Return the recipe of a file with changes; it is checked before data are read."""
    from tagwood.recipe import Recipe, read_recipe

    recipe = Recipe() if path is None else read_recipe(path)
    changes = [*settings, *([] if jobs is None else [f"model.threads={jobs}"])]
    recipe = recipe.override(changes)
    recipe.tagger()
    return recipe


def read_rows(
    data: Path,
    data_format: str | None,
    vocab: Path | None,
    on_unknown: str,
    skip_bad: bool,
    docs_limit: int | None,
    groups: str | None = None,
    group_labels: Path | None = None,
) -> Dataset:
    """Read a dataset that must have texts and labels; labels of groups may come from a table."""
    from tagwood.data import read_dataset, read_vocab

    table = None if vocab is None else read_vocab(vocab)
    if group_labels is not None:
        rows = read_group_rows(data, group_labels, data_format, groups, table)
    else:
        rows = read_dataset(
            data, data_format, vocab=table, on_unknown=on_unknown, skip_bad=skip_bad, groups=groups
        )
    if rows.texts is None:
        raise InputError(
            f"{data} must hold texts",
            given="features only",
            hint="Fit tagwood.LinearTree on the features in Python, or train on the texts.",
        )
    if docs_limit is not None:
        rows = rows.rows(list(range(min(docs_limit, rows.n_rows))))
    if rows.labels.nnz == 0:
        raise InputError(f"{data} must hold labels", given="none", hint="Look at it with: tagwood check")
    return rows


def with_corrections(rows: Dataset, path: Path) -> Dataset:
    """Put corrected labels into grouped rows, and say how many found their row."""
    from tagwood.groups.corrections import apply_corrections, read_corrections

    found = read_corrections(path)
    mended, used = apply_corrections(rows, found)
    say(f"{path}: {used:,} of {len(found):,} corrections used")
    return mended


def train_tagger(rows: Dataset, recipe: Recipe, test_fraction: float, progress: Any = None) -> Trained:
    """Fit a Tagger on a share of the rows and measure it on the rest."""
    from tagwood._check import check_float
    from tagwood.metrics import evaluate

    check_float(test_fraction, "--test-fraction", low=0.0, high=0.9)
    tagger = recipe.tagger()
    if round(test_fraction * rows.n_rows) < _WORTH_MEASURING or rows.groups is not None:
        test_fraction = 0.0  # where labels are known for groups only, the truth about rows is not known
    fitted, kept = rows.split(test_fraction, seed=tagger.seed)
    tagger.fit(fitted.texts or (), fitted.labels, fitted.groups, vocab=rows.vocab, progress=progress)
    report = None
    if kept.labels.nnz:
        report = evaluate(kept.labels, tagger.rank(kept.texts or (), k=10), metrics=MEASURES)
    return Trained(tagger, fitted.n_rows, kept.n_rows, report)


def summarise(trained: Trained, folder: Path) -> dict[str, Any]:
    """Return the facts of a training run."""
    return {
        "model": str(folder),
        "rows": trained.rows,
        "labels": len(trained.tagger.vocab_),
        "seconds": trained.tagger.training_seconds_,
        "bytes": sum(file.stat().st_size for file in folder.iterdir()),
        "calibrated": trained.tagger.probabilities_ is not None,
        "test_rows": trained.test_rows,
        "metrics": None if trained.report is None else trained.report.to_dict(),
    }


def one_line(report: Report) -> str:
    """Return the measures of a report in one line, in percent."""
    return ", ".join(f"{name} {100 * report[name]:.1f}" for name in MEASURES) + " %"
