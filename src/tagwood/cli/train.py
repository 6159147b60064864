"""`tagwood train`: from a file of texts and labels to a model folder. In: a dataset, a recipe. Out: a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tagwood.cli import common
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.data import Dataset
    from tagwood.metrics import Report
    from tagwood.tagger import Tagger

MEASURES = ["P@1", "P@3", "P@5", "nDCG@5", "R@10"]
_LEAST_TEST_ROWS = 20  # measures of fewer rows would be mere chance
_SHOWN_SECONDS = 2.0  # CPU time from which the forecast is shown; shorter runs finish before it is read


def train(
    data: common.DataArgument,
    output: Annotated[Path, typer.Option("--output", "-O", help="Model folder to write.")],
    recipe: common.RecipeOption = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Kind of model: linear-tree (default), softmax-tree, neighbours, centroids, name-matcher; "
            "with tagwood[neural] also prime, prime-lite, "
            "dual-encoder, ngame, otseq2set, seq2seq, mlc2seq, sgm; or a kind that another package registers."
        ),
    ] = None,
    settings: common.SetOption = None,
    tree: Annotated[
        str | None,
        typer.Option(
            help="Builder of the label tree: interpolated (default), auto (chooses lambda by trials, see "
            "tagwood tune --tree), or one that another package registers."
        ),
    ] = None,
    test_fraction: Annotated[
        float,
        typer.Option(help="Share of the rows held out to measure the model, if 20 or more; 0 for none."),
    ] = 0.1,
    vocab: common.VocabOption = None,
    on_unknown: common.UnknownOption = "error",
    groups: common.GroupsOption = None,
    group_labels: common.GroupLabelsOption = None,
    corrections: Annotated[
        Path | None, typer.Option(help="Corrected labels of grouped rows, as stored by tagwood serve.")
    ] = None,
    data_format: common.FormatOption = None,
    docs_limit: common.DocsLimitOption = None,
    jobs: common.JobsOption = None,
    max_ram: Annotated[
        str | None, typer.Option(help="Memory limit, such as 4GB; the free memory by default.")
    ] = None,
    notes: Annotated[str | None, typer.Option(help="Notes to store with the model.")] = None,
    skip_bad: common.SkipBadOption = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", "-f", help="Replace an existing model, and train even if memory may not suffice."
        ),
    ] = False,
    json: common.JsonFlag = False,
) -> None:
    """Train a model on texts and their labels.

    Training that would not fit into memory according to the forecast (see tagwood plan) is refused before it starts.
    The model folder appears when it is complete, or not at all.
    """
    from tagwood._check import check_float
    from tagwood.storage.publish import check_replaceable

    named = {"model.kind": model, "tree.tree": tree}
    changes = [f"{key}={value}" for key, value in named.items() if value is not None]
    tagger = common.choose_recipe(recipe, [*(settings or []), *changes], jobs).tagger()
    check_replaceable(output, overwrite=force)
    check_float(test_fraction, "--test-fraction", low=0.0, high=0.9)
    allowed = None if max_ram is None else _memory_limit(max_ram)
    rows = common.read_rows(data, data_format, vocab, on_unknown, skip_bad, docs_limit, groups, group_labels)
    if corrections is not None:
        rows = _with_corrections(rows, corrections)
    check_budget(rows, tagger, test_fraction, allowed, force=force)
    with common.stages("Training") as advance:
        trained = train_tagger(rows, tagger, test_fraction, advance)
    folder = tagger.save(output, notes=notes, overwrite=force)
    facts = summarise(trained, folder)
    if json:
        common.print_json(facts)
        return
    common.say(
        f"{folder}: {facts['rows']:,} rows, {facts['labels']:,} labels, "
        f"{facts['seconds']:.1f} s, {common.show_bytes(facts['bytes'])}"
    )
    if trained.report is None:
        common.say(
            "All rows were used; to measure the model: tagwood eval MODEL DATA, with data it has not seen."
        )
    else:
        common.print_data(f"Measured on {trained.test_rows:,} held-out rows: {one_line(trained.report)}")


class Trained(NamedTuple):
    """A fitted Tagger and its measures on held-out rows."""

    tagger: Tagger
    rows: int
    test_rows: int
    report: Report | None


def check_budget(
    rows: Dataset, tagger: Tagger, test_fraction: float, allowed: float | None, *, force: bool
) -> None:
    """Show what training will need; raise `InputError` if that is more memory than is free or allowed (bytes).

    Only linear trees on TF-IDF features have a forecast; other models are trained without one.
    """
    from tagwood.planning.forecast import (
        figures_for,
        forecast_training,
        has_forecast,
        largest_bytes,
        used_bytes,
    )

    if not has_forecast(tagger):
        return
    figures = figures_for(rows, tagger, share=1 - test_fraction)
    found = forecast_training(figures, tagger, used_bytes=used_bytes())
    peak = found.peak_bytes.expected
    if found.cpu_seconds.expected >= _SHOWN_SECONDS:
        from tagwood.planning.operating_points import show_amount, show_time

        common.say(
            f"Forecast: {show_amount(peak)} of memory, {show_time(found.cpu_seconds.expected)} "
            f"of CPU time, a model of {show_amount(found.model_bytes.expected)}."
        )
    for limit, whose in ((allowed, "--max-ram allows"), (largest_bytes(), "this machine has free")):
        if limit is not None and peak > limit and not force:
            from tagwood.planning.operating_points import show_amount

            raise InputError(
                f"training must fit into the {show_amount(limit)} that {whose}",
                given=f"about {show_amount(peak)}",
                hint=f"tagwood plan DATA --max-ram {limit / 1e6:.0f}MB finds settings; --force trains anyway.",
            )


def train_tagger(rows: Dataset, tagger: Tagger, test_fraction: float, progress: Any = None) -> Trained:
    """Fit a Tagger on a share of the rows and measure it on the rest."""
    from tagwood.metrics import evaluate

    if round(test_fraction * rows.n_rows) < _LEAST_TEST_ROWS or rows.groups is not None:
        test_fraction = 0.0  # where labels are known for groups only, the labels of rows cannot be checked
    fitted, kept = rows.split(test_fraction, seed=tagger.seed)
    tagger.fit(fitted, progress=progress)
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


def _memory_limit(text: str) -> float:
    from tagwood.planning.operating_points import BYTES, parse_quantity

    return parse_quantity(text, "--max-ram", BYTES, "mb")


def _with_corrections(rows: Dataset, path: Path) -> Dataset:
    """Put corrected labels into grouped rows, and report how many found their row."""
    from tagwood.groups.corrections import apply_corrections, read_corrections

    found = read_corrections(path)
    corrected, used = apply_corrections(rows, found)
    common.say(f"{path}: {used:,} of {len(found):,} corrections used")
    return corrected
