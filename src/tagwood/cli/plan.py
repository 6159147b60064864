"""`tagwood plan`: what training will need, and settings within limits. In: a dataset. Out: a forecast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli import common
from tagwood.cli.reading import DataArgument, Reading, need_texts, read_rows, say_report, with_reading

if TYPE_CHECKING:
    from tagwood.data import Dataset
    from tagwood.planning import DataFigures, Forecast, Value
    from tagwood.planning.operating_points import Limits, Point
    from tagwood.recipe import Recipe


@with_reading
def plan(
    data: DataArgument,
    max_ram: Annotated[str | None, typer.Option(help="Memory limit of training, such as 4GB.")] = None,
    max_latency: Annotated[
        str | None, typer.Option(help="Time limit for tagging one text from Python, such as 500us.")
    ] = None,
    max_size: Annotated[str | None, typer.Option(help="Size limit of the model folder, such as 50MB.")] = None,
    write: Annotated[Path | None, typer.Option(help="File to write the chosen settings to, as a recipe.")] = None,
    recipe: common.RecipeOption = None,
    settings: common.SetOption = None,
    vocab: common.VocabOption = None,
    on_unknown: common.UnknownOption = "error",
    data_format: common.FormatOption = None,
    docs_limit: common.DocsLimitOption = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the recipe file if it exists.")] = False,
    json: common.JsonFlag = False,
    *,
    reading: Reading,
) -> None:
    """Forecast memory, time, model size, depth and latency before training.

    With limits, the settings within them that lose the least precision are chosen.
    """
    from tagwood.storage.publish import check_target

    limits = read_limits(max_ram, max_latency, max_size)
    start = common.choose_recipe(recipe, settings, None)
    start.tagger()  # checks the settings before data are read
    if write is not None:
        check_target(write, overwrite=force, folder=False)
    rows, report = read_rows(data, reading, data_format, vocab, on_unknown, docs_limit)
    need_texts(rows, data[0])
    say_report(report, brief=True)
    point = choose(rows, start, limits)
    if write is not None:
        write_recipe(point.recipe, write, force)
    if json:
        common.print_json(facts_of(point))
        return
    common.print_data(common.facts_table(forecast_lines(point.forecast)))
    changed = ", ".join(point.changes)
    if changed:
        common.say(f"To stay within the limits: {changed} (may lose about {point.loss:.1f} % of P@5).")
    if write is not None:
        common.say(f"{write}: use it with tagwood train {data[0]} --recipe {write}")
    elif changed:
        common.say("Write these settings with --write recipe.toml, or pass each one to train with --set.")


def choose(rows: Dataset, recipe: Recipe, limits: Limits) -> Point:
    """Return the operating point of a dataset."""
    from tagwood.planning import choose_point, forecast_training
    from tagwood.planning.forecast import figures_for, used_bytes

    used = used_bytes()
    known: dict[str, DataFigures] = {}

    def predict(changed: Recipe) -> Forecast:
        tagger = changed.tagger()
        key = repr(changed.sections.get("features", {}))
        if key not in known:
            known[key] = figures_for(rows, tagger)
        return forecast_training(known[key], tagger, used_bytes=used)

    return choose_point(recipe, limits, predict)


def read_limits(max_ram: str | None, max_latency: str | None, max_size: str | None) -> Limits:
    """Return the limits that options name."""
    from tagwood.planning import Limits
    from tagwood.planning.operating_points import BYTES, SECONDS, parse_quantity

    return Limits(
        None if max_ram is None else parse_quantity(max_ram, "--max-ram", BYTES, "mb"),
        None if max_latency is None else parse_quantity(max_latency, "--max-latency", SECONDS, "ms"),
        None if max_size is None else parse_quantity(max_size, "--max-size", BYTES, "mb"),
    )


def write_recipe(recipe: Recipe, path: Path, force: bool) -> None:
    """Write a recipe file, whole or not at all."""
    from tagwood.storage.publish import write_file

    write_file(path, recipe.to_toml(), overwrite=force)


def forecast_lines(found: Forecast) -> dict[str, object]:
    """Return a forecast as names and values for a table."""
    from tagwood._check import check_threads
    from tagwood.planning.operating_points import show_amount, show_time

    threads = check_threads(None)
    wall = found.cpu_seconds.expected / threads
    return {
        "peak memory": _with_band(found.peak_bytes, show_amount),
        "training CPU": f"{_with_band(found.cpu_seconds, show_time)}; about {show_time(wall)} on {threads} cores",
        "model size": _with_band(found.model_bytes, show_amount),
        "features": found.n_features,
        "label tree": f"{found.n_nodes:,} nodes, depth {found.depth}",
        "one text": _with_band(found.latency_seconds, show_time),
        "one of many": f"{_with_band(found.batch_seconds, show_time)} CPU",
    }


def facts_of(point: Point) -> dict[str, Any]:
    """Return an operating point as JSON."""
    found = point.forecast
    values = ("peak_bytes", "cpu_seconds", "model_bytes", "latency_seconds", "batch_seconds")
    ranges = {name: _range(getattr(found, name)) for name in values}
    tree = {"depth": found.depth, "nodes": found.n_nodes, "features": found.n_features}
    return {
        **ranges,
        **tree,
        "changes": list(point.changes),
        "percent_lost": point.loss,
        "recipe": point.recipe.to_toml(),
    }


def _range(value: Value) -> dict[str, float]:
    return {"expected": value.expected, "low": value.low, "high": value.high}


def _with_band(value: Value, show: Any) -> str:
    return f"{show(value.expected)} ({show(value.low)} to {show(value.high)})"
