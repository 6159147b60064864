"""`tagwood tune-tree`: which λ makes the label tree fastest at no loss. In: training data. Out: table, JSON, charts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli.output import JsonFlag, print_json, say, stages
from tagwood.errors import InputError

if TYPE_CHECKING:
    from scipy import sparse

    from tagwood.data import Dataset
    from tagwood.models.linear_tree.trials import SweepPoint, TreeSweep
    from tagwood.recipe import Recipe

# Heading -> measure and how it is shown.
_COLUMNS = {
    "P@1": ("P@1", 100, ".2f"),
    "P@3": ("P@3", 100, ".2f"),
    "P@5": ("P@5", 100, ".2f"),
    "depth@1": ("depth@1", 1, ".2f"),
    "@3": ("depth@3", 1, ".2f"),
    "@5": ("depth@5", 1, ".2f"),
    "nodes": ("exact_nodes_1", 1, ".1f"),
    "beam": ("beam_nodes_1", 1, ".1f"),
    "p50": ("exact_p50_1", 1, ".1f"),
    "p99": ("exact_p99_1", 1, ".1f"),
    "beam p50": ("beam_p50_1", 1, ".1f"),
    "beam p99": ("beam_p99_1", 1, ".1f"),
}


def tune_tree(
    data: Annotated[
        Path, typer.Argument(help="Training data: texts or features with labels, in any format.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-O", help="Folder for sweep.json, pareto.html and pareto.png."),
    ] = None,
    recipe: Annotated[Path | None, typer.Option(help="Settings in a TOML file.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="One setting, such as tree.arity=16; repeat it.")
    ] = None,
    lams: Annotated[
        list[float] | None, typer.Option("--lam", help="A λ to try; repeat it. Default: the paper's grid.")
    ] = None,
    holdout: Annotated[
        float, typer.Option(help="Share of the rows kept from training to measure on.")
    ] = 0.15,
    seeds: Annotated[int, typer.Option(help="Trees per λ; more make P@1 surer.")] = 1,
    loss: Annotated[float, typer.Option(help="Points of P@1 that may be lost for speed.")] = 0.0,
    latency: Annotated[
        bool, typer.Option("--latency/--no-latency", help="Take times, or only count nodes.")
    ] = True,
    data_format: Annotated[str | None, typer.Option("--format", help="Default: from the content.")] = None,
    docs_limit: Annotated[
        int | None, typer.Option("--docs-limit", "-d", help="Use the first rows only.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; default all cores.")] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace files that are there.")] = False,
    json: JsonFlag = False,
) -> None:
    """Try label trees from λ=0 (like labels together) towards 2 (frequent labels near the root).

    Part of the rows is kept from training to measure on. Recommended is the λ with the lowest latency of exact search
    among those whose P@1 is not below that of λ=0. The table shows, per λ: P@k in percent, expected depth@k, nodes that
    a search for one label evaluates (exact, beam of 10) and microseconds per row (median and 99th percentile, exact and
    beam), and the gain in P@1 over λ=0 with its 95 % interval. Times want a quiet machine.
    """
    from tagwood.cli.train import choose_recipe
    from tagwood.models.linear_tree.trials import SweepPlan, sweep_trees

    chosen = choose_recipe(recipe, settings or [], jobs)
    options: dict[str, Any] = {"lams": tuple(lams)} if lams else {}
    plan = SweepPlan(holdout=holdout, seeds=seeds, loss=loss / 100, latency=latency, **options)
    plan.check()
    if output is not None:
        check_output(output, force=force)
    X, Y = read_problem(data, data_format, docs_limit, chosen)
    with stages("Trees") as advance:
        sweep = sweep_trees(chosen.tagger().model, X, Y, plan, progress=advance)
    if output is not None:
        write_sweep(sweep, output, data.name)
    if json:
        print_json(sweep.to_dict())
        return
    typer.echo(sweep_lines(sweep))
    say(verdict(sweep))


def read_problem(
    path: Path, data_format: str | None, docs_limit: int | None, recipe: Recipe
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return features and labels of a dataset; texts are encoded as the recipe says."""
    import numpy as np

    from tagwood._sparse import normalize_rows
    from tagwood.data import read_dataset

    rows: Dataset = read_dataset(path, data_format)
    if docs_limit is not None:
        rows = rows.rows(np.arange(min(docs_limit, rows.n_rows)))
    if rows.labels.nnz == 0:
        raise InputError(f"{path} must hold labels", given="none", hint="Look at it with: tagwood check")
    if rows.features is not None:
        return normalize_rows(rows.features), rows.labels
    encoder: Any = recipe.tagger().encoder
    return encoder.fit_transform(list(rows.texts or ())), rows.labels


def check_output(folder: Path, *, force: bool) -> None:
    """Raise `InputError` where a result would be written over."""
    there = [name for name in ("sweep.json", "pareto.html", "pareto.png") if (folder / name).exists()]
    if there and not force:
        raise InputError(
            f"{folder} must not hold an earlier result", given=", ".join(there), hint="--force replaces it."
        )


def write_sweep(sweep: TreeSweep, folder: Path, name: str) -> None:
    """Write the sweep as JSON and its charts as HTML and PNG."""
    import json

    from tagwood.plots import charts_html, charts_png, sweep_charts

    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(sweep.to_dict(), indent=2, ensure_ascii=False)
    (folder / "sweep.json").write_text(f"{text}\n", encoding="utf-8")
    charts = sweep_charts(sweep)
    page = charts_html(charts, f"Label trees for {name}", verdict(sweep))
    (folder / "pareto.html").write_text(page, encoding="utf-8")
    (folder / "pareto.png").write_bytes(charts_png(charts))


def sweep_lines(sweep: TreeSweep) -> str:
    """Return the measures of each λ as aligned lines: * is recommended, + lies on the Pareto front."""
    shown = {head: how for head, how in _COLUMNS.items() if how[0] in sweep.points[0].measures}
    front = sweep.front()
    rows = [["", "λ", *shown, "P@1 gain"]]
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
    what = "median latency" if sweep.cost.startswith("exact_p50") else "evaluated nodes"
    best = sweep.point(sweep.lam)
    if best.lam == 0:
        return f"λ=0, the balanced tree: no other λ saves {what} of exact search at no loss of P@1."
    return (
        f"λ={best.lam:.3g}: {what} of exact search {-100 * sweep.saving(sweep.cost):+.0f} %, expected depth@1 "
        f"{-100 * sweep.saving('depth@1'):+.0f} %, P@1 {_gain(best)} against λ=0. "
        f"Use it with: tagwood train --set tree.lam={best.lam:.3g}"
    )
