"""`tagwood tune`: search for better settings, or for the fastest label tree.

In: a dataset, ranges, a time limit. Out: a recipe for `train`; with ``--tree`` a table of λ, JSON and charts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli import common
from tagwood.cli.reading import (
    DataArgument,
    Paths,
    Reading,
    labelled_rows,
    need_texts,
    read_rows,
    say_report,
    with_reading,
)
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.models.linear_tree.trials import SweepPoint, TreeSweep
    from tagwood.recipe import Recipe
    from tagwood.tagger import Tagger
    from tagwood.tuning import Tuned

_INTERRUPTED = 130
_SWEEP_FILES = ("sweep.json", "pareto.html", "pareto.png")
_PANEL: dict[str, Any] = {"rich_help_panel": "With --tree"}

TreeFlag = Annotated[bool, typer.Option("--tree", help="Find the fastest label tree without loss of P@5.", **_PANEL)]
LamOption = Annotated[
    list[float] | None,
    typer.Option("--lam", help="Value of lambda to try, 0 to 2 (repeatable); the paper's grid by default.", **_PANEL),
]
SeedsOption = Annotated[int, typer.Option(help="Trees per lambda; more make P@5 more certain.", **_PANEL)]
LossOption = Annotated[float, typer.Option(help="Points of P@5 that may be lost for speed.", **_PANEL)]
LatencyFlag = Annotated[
    bool, typer.Option("--latency/--no-latency", help="Measure time, or only count classifiers.", **_PANEL)
]
ForceFlag = Annotated[bool, typer.Option("--force", "-f", help="Replace existing results.", **_PANEL)]
# Heading -> measure and how it is shown.
_COLUMNS = {
    "P@1": ("P@1", 100, ".2f"),
    "P@3": ("P@3", 100, ".2f"),
    "P@5": ("P@5", 100, ".2f"),
    "depth@1": ("depth@1", 1, ".2f"),
    "@3": ("depth@3", 1, ".2f"),
    "@5": ("depth@5", 1, ".2f"),
    "nodes": ("exact_nodes_5", 1, ".1f"),
    "beam": ("beam_nodes_5", 1, ".1f"),
    "outputs": ("exact_outputs_5", 1, ".0f"),
    "p50": ("exact_p50_5", 1, ".1f"),
    "p99": ("exact_p99_5", 1, ".1f"),
    "beam p50": ("beam_p50_5", 1, ".1f"),
    "beam p99": ("beam_p99_5", 1, ".1f"),
}


@with_reading
def tune(
    data: DataArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-O", help="Folder for the results. A search continues in the folder it started in."),
    ] = None,
    minutes: Annotated[float, typer.Option(help="Time limit of this call.")] = 10.0,
    trials: Annotated[int | None, typer.Option(help="Stop after this many trials.")] = None,
    metric: Annotated[
        str, typer.Option("--metric", "-m", help="Metric to optimise, such as P@5, nDCG@5, PSP@5, micro-F1.")
    ] = "P@5",
    ranges: Annotated[
        Path | None,
        typer.Option(help="TOML file with the settings to vary; ranges.toml in the folder shows the default."),
    ] = None,
    recipe: common.RecipeOption = None,
    settings: common.SetOption = None,
    holdout: Annotated[
        float | None, typer.Option(help="Share of the rows to measure on; 0.2 by default, 0.15 with --tree.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search and of the choice of held-out rows.")] = 0,
    vocab: common.VocabOption = None,
    on_unknown: common.UnknownOption = "error",
    data_format: common.FormatOption = None,
    docs_limit: common.DocsLimitOption = None,
    limit: Annotated[int, typer.Option("--limit", "-l", help="Number of best trials to show.")] = 10,
    jobs: common.JobsOption = None,
    cluster: common.ClusterOption = None,
    tree: TreeFlag = False,
    lams: LamOption = None,
    seeds: SeedsOption = 3,
    loss: LossOption = 0.3,
    latency: LatencyFlag = True,
    force: ForceFlag = False,
    json: common.JsonFlag = False,
    *,
    reading: Reading,
) -> None:
    """Search for better settings on rows held out from the training data.

    The best recipe is written to FOLDER/best.toml, for: tagwood train DATA --recipe FOLDER/best.toml. Ctrl-C keeps all
    finished trials, and the same command continues the search. With --cluster, trials are tasks of Ray, eight at once.

    With --tree, label trees are compared instead, from lambda=0 (similar labels together) towards 2 (frequent labels
    near the root). Recommended is the lambda with the lowest latency of exact search for five labels among those that
    surely lose less than 0.3 points of P@5 against lambda=0. The table shows for each lambda: P@k in percent, expected
    depth@k, nodes that a search for five labels evaluates (exact, and beam of 10), classifiers of exact search,
    microseconds per row (median and 99th percentile, exact and beam), and the gain in P@5 over lambda=0 with its 95 %
    interval over rows and seeds. Latency should be measured on an idle machine.
    """
    chosen = common.choose_recipe(recipe, settings, jobs if tree else None)
    tagger = chosen.tagger()
    if tree:
        from tagwood.models.linear_tree.trials import SweepPlan

        options: dict[str, Any] = {"lams": tuple(lams)} if lams else {}
        options |= {} if holdout is None else {"holdout": holdout}
        plan = SweepPlan(seeds=seeds, loss=loss / 100, latency=latency, **options)
        tune_tree(data, reading, output, tagger, plan, data_format, docs_limit, force=force, json=json)
        return
    if output is None:
        raise InputError("a search needs a folder for its trials", hint="Name it with --output FOLDER.")
    read: list[Any] = [data, reading, data_format, vocab, on_unknown, docs_limit]
    limits: dict[str, Any] = {"metric": metric, "minutes": minutes, "max_trials": trials, "seed": seed}
    limits |= {"holdout": 0.2 if holdout is None else holdout, "threads": jobs}
    from tagwood.cli.train import training_runner

    with training_runner(cluster, None, jobs) as runner:
        found, interrupted = search_settings(read, output, chosen, ranges, limits | {"runner": runner})
    report(found, output, limit, json)
    if interrupted:
        common.say("Interrupted; all finished trials are kept. The same command continues the search.")
        raise typer.Exit(_INTERRUPTED)


def search_settings(
    read: list[Any], folder: Path, recipe: Recipe, ranges: Path | None, limits: dict[str, Any]
) -> tuple[Tuned, bool]:
    """Run a search; return its trials, and whether Ctrl-C ended it."""
    from tagwood import tuning

    limits["ranges"] = None if ranges is None else tuning.read_ranges(ranges)
    rows, report = read_rows(*read)
    need_texts(rows, read[0][0])
    say_report(report, brief=True)
    seen: list[Tuned] = []
    try:
        with common.stages("Tuning") as advance:
            found = tuning.tune(rows, folder, recipe=recipe, progress=advance, each=seen.append, **limits)
        return found, False
    except KeyboardInterrupt:
        if not seen or not seen[-1].trials:
            raise
        return seen[-1], True


def report(found: Tuned, folder: Path, limit: int, json: bool) -> None:
    """Show the best trials, as a table or as JSON."""
    if json:
        common.print_json(
            {
                "metric": found.metric,
                "held_out_rows": found.held_out,
                "finished_trials": len(found.trials),
                "failed_trials": len(found.failures),
                "recipe": str(folder / "best.toml"),
                "best": [trial._asdict() for trial in found.trials[:limit]],
            }
        )
        return
    common.print_data(trial_table(found, limit))
    for number, reason in list(found.failures.items())[:3]:
        common.say(f"trial {number} failed: {reason}")
    common.say(f"{folder / 'best.toml'}: the best of {len(found.trials):,} trials on {found.held_out:,} held-out rows")


def trial_table(found: Tuned, limit: int) -> Any:
    """Return the best trials as a table."""
    rows = []
    for trial in found.trials[:limit]:
        settings = [f"{name.partition('.')[2]} {_cell(value)}" for name, value in trial.settings.items()]
        figures = str(trial.number), f"{trial.value:.4f}", f"{trial.seconds:.1f}"
        rows.append([*figures, ", ".join(settings) or "as given"])
    numbers = dict.fromkeys(["trial", found.metric, "seconds"], common.NUMBER)
    return common.make_table({**numbers, "settings": common.TEXT}, rows)


def _cell(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, list) else common.show(value)


def tune_tree(
    data: Paths,
    reading: Reading,
    output: Path | None,
    tagger: Tagger,
    plan: Any,
    data_format: str | None,
    docs_limit: int | None,
    *,
    force: bool,
    json: bool,
) -> None:
    """Compare label trees along λ on features, or on texts as the recipe encodes them; show and write the results."""
    from tagwood._sparse import normalize_rows
    from tagwood.models.linear_tree.trials import sweep_trees

    plan.check()
    if output is not None:
        check_output(output, force=force)
    rows = labelled_rows(reading.read(data, data_format)[0], data[0], docs_limit)
    encoder: Any = tagger.encoder
    X = encoder.fit_transform(rows.texts) if rows.features is None else normalize_rows(rows.features)
    with common.stages("Trees") as advance:
        sweep = sweep_trees(tagger.model, X, rows.labels, plan, progress=advance)
    if output is not None:
        write_sweep(sweep, output, data[0].name)
    if json:
        common.print_json(sweep.to_dict())
        return
    typer.echo(sweep_lines(sweep))
    common.say(verdict(sweep))


def check_output(folder: Path, *, force: bool) -> None:
    """Raise `InputError` if a result would be overwritten."""
    there = [name for name in _SWEEP_FILES if (folder / name).exists()]
    if there and not force:
        words = f"{folder} must not hold an earlier result"
        raise InputError(words, given=", ".join(there), hint="Replace it with --force.")


def write_sweep(sweep: TreeSweep, folder: Path, name: str) -> None:
    """Write the sweep as JSON and its charts as HTML and PNG."""
    import json

    from tagwood.plots import charts_html, charts_png, sweep_charts
    from tagwood.storage.publish import replace_path

    text = json.dumps(sweep.to_dict(), indent=2, ensure_ascii=False)
    charts = sweep_charts(sweep)
    page = charts_html(charts, f"Label trees for {name}", verdict(sweep))
    with replace_path(folder, overwrite=True, folder=True, companions=_SWEEP_FILES) as place:
        place.mkdir()
        for file, content in zip(_SWEEP_FILES, (f"{text}\n".encode(), page.encode(), charts_png(charts)), strict=True):
            (place / file).write_bytes(content)


def sweep_lines(sweep: TreeSweep) -> str:
    """Return the measures of each λ as aligned lines: * is recommended, + is on the Pareto front."""
    shown = {head: how for head, how in _COLUMNS.items() if how[0] in sweep.points[0].measures}
    front = sweep.front()
    rows = [["", "λ", *shown, "P@5 gain"]]
    for point in sweep.points:
        sign = "*" if point.lam == sweep.lam else "+" if point.lam in front else ""
        cells = [format(scale * point.measures[name], form) for name, scale, form in shown.values()]
        rows.append([sign, f"{point.lam:.3g}", *cells, _gain(point) if point.lam else ""])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _gain(point: SweepPoint) -> str:
    return f"{100 * point.gain:+.2f} ({100 * point.gain_low:+.2f} to {100 * point.gain_high:+.2f})"


def verdict(sweep: TreeSweep) -> str:
    """Return the recommendation in a sentence."""
    what = "median latency" if sweep.cost.startswith("exact_p50") else "evaluated classifiers"
    best = sweep.point(sweep.lam)
    if best.lam == 0:
        return f"λ=0, the balanced tree: no other λ saves {what} of exact search at no loss of P@5."
    return (
        f"λ={best.lam:.3g}: {what} of exact search {-100 * sweep.saving(sweep.cost):+.0f} %, expected depth@1 "
        f"{-100 * sweep.saving('depth@1'):+.0f} %, P@5 {_gain(best)} against λ=0. "
        f"Use it with: tagwood train --set tree.lam={best.lam:.3g}"
    )
