"""How time and memory of `LinearTree` grow with rows and labels: ``python -m benchmarks.linear_tree --scaling``.

In: sizes. Out: linear_tree_scaling.md, .json and .svg with log-log slopes: 1 is linear, 0 constant. Three
series of problems with the statistics of Amazon-670K: rows and labels together, rows alone, labels alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import synthetic
from benchmarks.peers import TOOLS
from benchmarks.problems import Problem, synthetic_problem
from benchmarks.report import Page, machine, machine_line, number, table
from benchmarks.runs import Runner
from tagwood.plots import Chart, Mark, chart_svg

PAGE = Page("benchmarks", "linear_tree_scaling")
ROWS, LABELS, FEATURES, TEST_ROWS = 490_449, 670_091, 135_909, 20_000
JOINT = (1 / 64, 1 / 16, 1 / 4, 1, 3)  # 10,000 to 2,000,000 labels
ALONE = (1 / 64, 1 / 16, 1 / 4, 1)
FIXED = (1 / 64, 1 / 4)  # labels while rows grow alone, rows while labels grow alone
# Series -> shares of all rows and of all labels
SERIES = {
    "rows and labels": [(step, step) for step in JOINT],
    "rows": [(step, FIXED[0]) for step in ALONE],
    "labels": [(FIXED[1], step) for step in ALONE],
}
FIGURES = {
    "train_cpu": "train CPU s",
    "train_peak_mb": "peak MB",
    "disk_mb": "disk MB",
    "cpu_us_per_row": "batch CPU µs per row",
    "p50_ms": "p50 ms",
    "load_ms": "load ms",
    "P@1": "P@1",
}


def measure_growth(runner: Runner, scale: float, out: Path) -> None:
    """Measure all series and write the page; `scale` multiplies all sizes."""
    tool = next(t for t in TOOLS if t.name == "tagwood")
    tool = replace(tool, modes={"beam": tool.modes["beam"]})
    content: dict[str, Any] = {"machine": machine(), "scale": scale, "series": {}}
    for name, steps in SERIES.items():
        points = []
        for row_share, label_share in steps:
            problem = _problem(
                round(ROWS * scale * row_share),
                round(LABELS * scale * label_share),
                max(1000, round(FEATURES * scale**0.5)),
            )
            [found] = runner.run(tool, problem)
            if "failed" in found:
                raise SystemExit(f"{problem.name}: {found['failed']}")
            found["cpu_us_per_row"] = 1e6 / found["rows_per_cpu_s"]
            points.append({**problem.prepare(repository_file=False), **{f: found[f] for f in FIGURES}})
        sizes = [p["n_train" if name == "rows" else "n_labels"] for p in points]
        slopes = {f: slope(sizes, [p[f] for p in points]) for f in FIGURES if f != "P@1"}
        content["series"][name] = {"points": points, "slopes": slopes}
    PAGE.save(out, content)
    (out / f"{PAGE.name}.svg").write_text(growth_chart(content), encoding="utf-8")
    PAGE.write(out, page_blocks(content))


def growth_chart(content: dict[str, Any]) -> str:
    """Return the figure of rows and labels growing together, with the slopes as names."""
    series = content["series"]["rows and labels"]
    drawn = {
        "train_cpu": "training, CPU s",
        "train_peak_mb": "memory, MB",
        "disk_mb": "disk, MB",
        "p50_ms": "one row, ms",
    }
    curves = {
        f"{title}: n^{series['slopes'][name]:.2f}": [Mark(p["n_labels"], p[name]) for p in series["points"]]
        for name, title in drawn.items()
    }
    return chart_svg(Chart("Growth of the linear tree", "labels, and as many rows", "", curves, log=True))


def slope(sizes: list[int], values: list[float]) -> float:
    """Return the slope of log(values) over log(sizes) by least squares.

    Examples
    --------
    >>> round(slope([1, 2, 4], [3.0, 6.0, 12.0]), 3)
    1.0
    """
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-9)), 1)[0])


def _problem(n_rows: int, n_labels: int, n_features: int) -> Problem:
    def make() -> synthetic.Problem:
        return synthetic.power_law(
            n_rows, TEST_ROWS, n_labels, n_features, labels_per_row=5.45, nnz_per_row=76.0, seed=0
        )

    return synthetic_problem(f"growth-{n_rows}-{n_labels}-{n_features}", make, "synthetic")


def page_blocks(content: dict[str, Any]) -> Iterator[str]:
    """Yield a table per series, with the slopes in its last row."""
    yield machine_line(content["machine"])
    yield f"![Time, memory and disk by size]({PAGE.name}.svg)"
    for name, series in content["series"].items():
        cells = [
            [f"{p['n_train']:,}", f"{p['n_labels']:,}", *(number(p[f]) for f in FIGURES)] for p in series["points"]
        ]
        slopes = [f"{series['slopes'][f]:.2f}" if f in series["slopes"] else "" for f in FIGURES]
        yield f"## {name.capitalize()} grow"
        yield table(["rows", "labels", *FIGURES.values()], [*cells, ["**slope**", "", *slopes]])
