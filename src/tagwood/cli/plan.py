"""`tagwood plan`: what training will need, and settings that keep to limits. In: a dataset. Out: a forecast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli.output import JsonFlag, facts_table, print_data, print_json, say
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.data import Dataset
    from tagwood.planning import DataFigures, Forecast, Value
    from tagwood.planning.operating_points import Limits, Point
    from tagwood.recipe import Recipe


# SECTION cli.budget
# The forecast inside `tagwood train`: shown before training, and a refusal where the memory does not suffice.


_WORTH_SAYING = 2.0  # CPU seconds; shorter runs are over before the line is read


def check_budget(
    rows: Dataset, recipe: Recipe, test_fraction: float, allowed: float | None, *, force: bool
) -> Forecast | None:
    """Say what training will need; raise `InputError` if that is more memory than there is or is allowed (bytes).

    Returns None for models that no forecast is made for.
    """
    from tagwood.models.linear_tree import LinearTree
    from tagwood.planning import forecast_training
    from tagwood.planning.operating_points import largest_bytes, show_amount, show_time, used_bytes

    if not isinstance(recipe.tagger().model, LinearTree):
        return None
    found = forecast_training(
        figures_of(rows, recipe, test_fraction), recipe.tagger(), used_bytes=used_bytes()
    )
    if found.cpu_seconds.expected >= _WORTH_SAYING:
        say(
            f"Forecast: {show_amount(found.peak_bytes.expected)} of memory, {show_time(found.cpu_seconds.expected)} "
            f"of CPU time, a model of {show_amount(found.model_bytes.expected)}."
        )
    machine = largest_bytes()
    for limit, whose in ((allowed, "--max-ram allows"), (machine, "this machine has free")):
        if limit is not None and found.peak_bytes.expected > limit and not force:
            raise InputError(
                f"training must fit into the {show_amount(limit)} that {whose}",
                given=f"about {show_amount(found.peak_bytes.expected)}",
                hint=f"tagwood plan DATA --max-ram {limit / 1e6:.0f}MB finds settings; --force tries it anyway.",
            )
    return found


def plan(
    data: Annotated[Path, typer.Argument(help="File or folder with texts and labels, in any known format.")],
    max_ram: Annotated[str | None, typer.Option(help="Most memory for training, such as 4GB.")] = None,
    max_latency: Annotated[
        str | None, typer.Option(help="Longest time for one text from Python, such as 500us.")
    ] = None,
    max_size: Annotated[str | None, typer.Option(help="Largest model folder, such as 50MB.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write the chosen settings as a recipe.")] = None,
    recipe: Annotated[Path | None, typer.Option(help="Settings to begin with, in a TOML file.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="One setting, such as tree.arity=16; repeat it.")
    ] = None,
    vocab: Annotated[Path | None, typer.Option(help="Label table (TSV or CSV).")] = None,
    on_unknown: Annotated[str, typer.Option(help="Labels missing in --vocab: error, add or skip.")] = "error",
    data_format: Annotated[str | None, typer.Option("--format", help="Default: from the content.")] = None,
    docs_limit: Annotated[
        int | None, typer.Option("--docs-limit", "-d", help="Use the first rows only.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad lines out and count them.")] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the recipe if it exists.")] = False,
    json: JsonFlag = False,
) -> None:
    """Forecast memory, time, size, depth and latency of a training run, before anything is trained.

    With limits, the settings that keep to them and lose least precision are chosen.
    """
    from tagwood.cli.train import choose_recipe, read_rows
    from tagwood.data.files import check_target

    limits = read_limits(max_ram, max_latency, max_size)
    begin = choose_recipe(recipe, settings or [], None)
    if write is not None:
        check_target(write, overwrite=force, folder=False)
    rows = read_rows(data, data_format, vocab, on_unknown, skip_bad, docs_limit)
    point = choose(rows, begin, limits)
    if write is not None:
        write_recipe(point.recipe, write, force)
    if json:
        print_json(facts_of(point))
        return
    print_data(facts_table(forecast_lines(point.forecast)))
    changed = ", ".join(point.changes)
    if changed:
        say(f"To keep to the limits: {changed} (may lose about {point.loss:.1f} % of P@5).")
    if write is not None:
        say(f"{write}: use it with tagwood train {data} --recipe {write}")
    elif changed:
        say("Write these settings with --write recipe.toml, or pass each one to train with --set.")


def choose(rows: Dataset, recipe: Recipe, limits: Limits) -> Point:
    """Return the operating point of a dataset."""
    from tagwood.planning import choose_point, forecast_training
    from tagwood.planning.operating_points import used_bytes

    used = used_bytes()
    known: dict[str, DataFigures] = {}

    def predict(changed: Recipe) -> Forecast:
        tagger = changed.tagger()
        key = repr(changed.sections.get("features", {}))
        if key not in known:
            known[key] = figures_of(rows, changed)
        return forecast_training(known[key], tagger, used_bytes=used)

    return choose_point(recipe, limits, predict)


def figures_of(rows: Dataset, recipe: Recipe, test_fraction: float = 0.1) -> DataFigures:
    """Measure a dataset for the features of a recipe."""
    from tagwood._check import check_threads
    from tagwood.planning import measure_figures
    from tagwood.planning.forecast import parts_of

    encoder, model = parts_of(recipe.tagger())
    threads = check_threads(model.threads)
    return measure_figures(rows, encoder, share=1 - test_fraction, threads=threads)


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
    from tagwood.data.files import replace_path

    with replace_path(path, overwrite=force, folder=False, companions=()) as place:
        place.write_text(recipe.to_toml(), encoding="utf-8")


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
