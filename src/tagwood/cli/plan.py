"""`tagwood plan`: what training will need, and settings within limits. In: a dataset. Out: a forecast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tagwood.cli import common
from tagwood.cli.reading import DataArgument, Reading, need_texts, read_rows, say_report, with_reading
from tagwood.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

    from tagwood.data import Dataset
    from tagwood.planning import Forecast, Speed, Value
    from tagwood.planning.disk import DiskNeeds
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
    time: Annotated[str | None, typer.Option(help="Time limit of training, such as 10m.")] = None,
    write: Annotated[Path | None, typer.Option(help="File to write the chosen settings to, as a recipe.")] = None,
    recipe: common.RecipeOption = None,
    settings: common.SetOption = None,
    vocab: common.VocabOption = None,
    on_unknown: common.UnknownOption = "error",
    data_format: common.FormatOption = None,
    docs_limit: common.DocsLimitOption = None,
    probe: Annotated[
        bool | None,
        typer.Option(help="Measure this machine's speed anew, or take that of the constants; default: measure once."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the recipe file if it exists.")] = False,
    json: common.JsonFlag = False,
    *,
    reading: Reading,
) -> None:
    """Forecast memory, time, model size, depth and latency of each quality before training.

    The first call takes up to ten seconds longer to measure how fast this machine is.

    With limits, the highest quality within them is chosen; if there is none, settings of a smaller tree that lose the
    least precision. With --max-ram, also whether tagwood train --max-ram --work-dir would train in memory or from
    files, and what that needs.
    """
    from tagwood.storage.publish import check_target

    limits = read_limits(max_ram, max_latency, max_size, time)
    start = common.choose_recipe(recipe, settings, None)
    start.tagger()  # checks the settings before data are read
    if write is not None:
        check_target(write, overwrite=force, folder=False)
    rows, report = read_rows(data, reading, data_format, vocab, on_unknown, docs_limit)
    need_texts(rows, data[0])
    say_report(report, brief=True)
    speed = find_speed(probe)
    way = None if limits.peak_bytes is None else find_way(rows, start, limits.peak_bytes, speed.factor)
    try:
        known, point = choose(rows, start, limits, speed.factor)
    except InputError:
        if way is None or way.way != "files":
            raise
        limits = type(limits)()  # memory is no limit there
        known, point = choose(rows, start.override(["model.quality=fast"]), limits, speed.factor)
    if write is not None:
        write_recipe(point.recipe, write, force)
    if json:
        facts = {"train": None if way is None else way._asdict(), "speed": speed._asdict()}
        common.print_json(facts_of(point, known) | facts)
        return
    common.print_data(forecast_table(known, point))
    common.say(speed_line(speed))
    if way is not None:
        common.say(way.sentence(max_ram or ""))
    chosen = point.recipe.tagger().effective_quality
    changed = ", ".join(point.changes)
    if changed:
        common.say(f"To stay within the limits: {changed} (may lose about {point.loss:.1f} % of P@5).")
    elif limits != type(limits)():
        common.say(f"Within the limits: quality {chosen}.")
    if write is not None:
        common.say(f"{write}: use it with tagwood train {data[0]} --recipe {write}")
    elif changed:
        common.say("Write these settings with --write recipe.toml, or pass each one to train with --set.")


def find_speed(probe: bool | None) -> Speed:
    """Return the speed of this machine: stored or measured (None), measured (True), or of the constants (False)."""
    from tagwood.planning import Speed, machine_speed

    return Speed(1.0, "constants") if probe is False else machine_speed(again=bool(probe))


def speed_line(speed: Speed) -> str:
    """Return in words where the times come from."""
    if speed.source == "constants":
        return "Times are those of the machine that the constants were measured on."
    how = "measured now" if speed.source == "measured" else "measured earlier; --probe measures it again"
    return f"Times are for this machine: {speed.factor:.2f} times the CPU time of the constants ({how})."


class Way(NamedTuple):
    """How tagwood train --max-ram --work-dir would train: in "memory", from "files", or not at all ("refused").

    `memory_bytes` is what that needs, for "refused" at least; `disk_bytes` and `cpu_seconds` are those of "files".
    """

    way: str
    memory_bytes: float
    disk_bytes: float = 0.0
    cpu_seconds: float = 0.0
    reason: str = ""

    def sentence(self, limit: str) -> str:
        """Return the way in words."""
        from tagwood._check import show_amount, show_time

        memory = f"about {show_amount(self.memory_bytes)} of memory"
        if self.way == "memory":
            return f"train --max-ram {limit} trains in memory: {memory}."
        if self.way == "refused":
            return f"train --max-ram {limit} --work-dir DIR is refused: {self.reason}"
        return (
            f"train --max-ram {limit} --work-dir DIR trains quality fast from files: at least {memory}, "
            f"{show_amount(self.disk_bytes)} of disk, about {show_time(self.cpu_seconds)} of CPU time."
        )


def find_way(rows: Dataset, recipe: Recipe, limit: float, speed: float = 1.0) -> Way:
    """Return how a training within a memory limit (bytes) goes."""
    from tagwood._check import show_amount
    from tagwood.planning.forecast import used_bytes
    from tagwood.planning.qualities import predictor

    in_memory = predictor(rows)(recipe).peak_bytes.expected
    if in_memory <= limit:
        return Way("memory", in_memory)
    try:
        _, needs = disk_way(rows, recipe, used_bytes() - text_bytes(rows), in_memory)
    except InputError as error:
        return Way("refused", in_memory, reason=str(error))
    costs = (needs.least_bytes, needs.disk_bytes, speed * needs.cpu_seconds)
    if needs.least_bytes > limit:
        return Way("refused", *costs, f"it needs at least {show_amount(needs.least_bytes)} of memory.")
    return Way("files", *costs)


def text_bytes(rows: Dataset) -> float:
    """Return the memory of the texts of rows, in memory or not."""
    from tagwood.data.stored_texts import StoredTexts

    texts = rows.texts or ()
    n_bytes = texts.n_bytes if isinstance(texts, StoredTexts) else sum(map(len, texts))
    return 1.2 * n_bytes + 60 * len(texts)


def choose(rows: Dataset, recipe: Recipe, limits: Limits, speed: float = 1.0) -> tuple[dict[str, Forecast], Point]:
    """Return the forecast of each quality, and the operating point: that of the recipe, if there are no limits."""
    from tagwood.planning import Limits
    from tagwood.planning.operating_points import Point
    from tagwood.planning.qualities import choose_quality, predictor
    from tagwood.tagger.quality import QUALITIES

    predict = predictor(rows, speed=speed)
    known = {quality: predict(recipe.override([f"model.quality={quality}"])) for quality in QUALITIES}
    own = recipe.tagger().effective_quality
    if limits == Limits():
        return known, Point(recipe, (), 0.0, known[own])
    named = "quality" in recipe.sections.get("model", {}) or own == "fast"
    return known, choose_quality(recipe, limits, predict, own if named else QUALITIES[-1])


def disk_way(rows: Dataset, recipe: Recipe, used: float, in_memory: float | None = None) -> tuple[Recipe, DiskNeeds]:
    """Return the recipe with quality fast, and what training it from files needs.

    `used` are the bytes of a process that has read labels only. `InputError` for what is trained in memory only.
    """
    from tagwood._check import check_threads, show_amount
    from tagwood.planning import figures_for, forecast_training
    from tagwood.planning.disk import disk_needs, has_disk_way
    from tagwood.planning.forecast import parts_of

    named = recipe.sections.get("model", {}).get("quality")
    fast = recipe.override(["model.quality=fast"]) if named is None else recipe
    tagger = fast.tagger()
    if not has_disk_way(tagger):
        what = f"quality {named}" if named not in (None, "fast") else "this model"
        needed = "" if in_memory is None else f" (about {show_amount(in_memory)})"
        raise InputError(
            f"{what} must be trained with all features in memory{needed}",
            given="a smaller limit",
            hint="Allow more, or use --quality fast, a linear tree on TF-IDF features, which is trained from files.",
        )
    figures, threads = figures_for(rows, tagger), check_threads(parts_of(tagger)[1].threads)
    forecast = forecast_training(figures, tagger, used_bytes=used)
    return fast, disk_needs(figures, tagger, forecast, used, threads)


def read_limits(max_ram: str | None, max_latency: str | None, max_size: str | None, time: str | None) -> Limits:
    """Return the limits that options name."""
    from tagwood._check import BYTES, SECONDS, parse_quantity
    from tagwood.planning import Limits

    return Limits(
        None if max_ram is None else parse_quantity(max_ram, "--max-ram", BYTES, "mb"),
        None if max_latency is None else parse_quantity(max_latency, "--max-latency", SECONDS, "ms"),
        None if max_size is None else parse_quantity(max_size, "--max-size", BYTES, "mb"),
        None if time is None else parse_quantity(time, "--time", SECONDS, "s"),
    )


def write_recipe(recipe: Recipe, path: Path, force: bool) -> None:
    """Write a recipe file, whole or not at all."""
    from tagwood.storage.publish import write_file

    write_file(path, recipe.to_toml(), overwrite=force)


def forecast_table(known: Mapping[str, Forecast], point: Point) -> RenderableType:
    """Return the forecasts of all qualities and, where settings were changed, of the chosen ones."""
    shown = dict(known) if not point.changes else {**known, "chosen": point.forecast}
    columns = [forecast_lines(found) for found in shown.values()]
    rows = ((name, *(column[name] for column in columns)) for name in columns[0])
    return common.make_table({"": {"style": "bold", "no_wrap": True}, **{name: {} for name in shown}}, rows)


def forecast_lines(found: Forecast) -> dict[str, str]:
    """Return a forecast as names and values for a table."""
    from tagwood._check import check_threads, show_amount, show_time

    threads = check_threads(None)
    return {
        "peak memory": _with_band(found.peak_bytes, show_amount),
        "training CPU": _with_band(found.cpu_seconds, show_time),
        f"training, {threads} cores": show_time(found.cpu_seconds.expected / threads),
        "model size": _with_band(found.model_bytes, show_amount),
        "features": f"{found.n_features:,}",
        "label tree": f"{found.n_nodes:,} nodes, depth {found.depth}",
        "one text": _with_band(found.latency_seconds, show_time),
        "one of many": f"{_with_band(found.batch_seconds, show_time)} CPU",
    }


def facts_of(point: Point, known: Mapping[str, Forecast]) -> dict[str, Any]:
    """Return an operating point and the forecasts of all qualities as JSON."""
    found = point.forecast
    tree = {"depth": found.depth, "nodes": found.n_nodes, "features": found.n_features}
    return {
        **_ranges(found),
        **tree,
        "quality": point.recipe.tagger().effective_quality,
        "qualities": {name: _ranges(one) for name, one in known.items()},
        "changes": list(point.changes),
        "percent_lost": point.loss,
        "recipe": point.recipe.to_toml(),
    }


def _ranges(found: Forecast) -> dict[str, dict[str, float]]:
    values = ("peak_bytes", "cpu_seconds", "model_bytes", "latency_seconds", "batch_seconds")
    return {name: _range(getattr(found, name)) for name in values}


def _range(value: Value) -> dict[str, float]:
    return {"expected": value.expected, "low": value.low, "high": value.high}


def _with_band(value: Value, show: Any) -> str:
    return f"{show(value.expected)} ({show(value.low)} to {show(value.high)})"
