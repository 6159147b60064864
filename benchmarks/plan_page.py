"""The page of `benchmarks.plan`. In: measured runs with the ratios of their forecasts. Out: Markdown."""

from __future__ import annotations

from typing import Any

from benchmarks.tables import machine_line, markdown_table, number
from tagwood.planning.forecast import Coefficients

_INTRO = """# Forecasts of `tagwood plan`

`python -m benchmarks.plan` makes this page and the constants that `tagwood plan` and `tagwood train` forecast with.
Every run is a whole training run as `tagwood train` does it (features, label tree, classifiers, calibration, second
training on all rows, measuring, saving) in a process of its own, with two threads. The forecast sees a sample of the
texts and the labels only. Columns "÷" are forecast over measurement: 1 is right, 2 is twice too much.

The terms follow from the algorithm; only their constants are fitted. Their form was chosen while looking at all sets
but bibtex and delicious (published as features; their names make the texts), which were only forecast.


* n-grams: texts × different n-grams of a text, and features to spell;
* label features: pairs of row and label × features of a row;
* label tree: features of the labels × generations of splits;
* classifiers: visits of rows at nodes × outputs × (features of a row + 15) × ln(1 + rows of the label);
* memory: a constant, features (8 bytes each), label features and weights;
* weights: different features of the labels' rows × exp(-c × threshold × √(features of a row));
* latency: a constant per tree, n-grams of a text, features of a text × nodes that a beam opens.
"""


def to_markdown(content: dict[str, Any], known: Coefficients) -> str:
    """Return the page."""
    runs = content["runs"]
    checks = [run for run in runs if run["role"] == "check"]
    fits = [run for run in runs if run["role"] == "fit"]
    bands = ", ".join(f"{name} {band:.2f}" for name, band in known.bands.items())
    lines = [
        _INTRO,
        machine_line(content["machine"]),
        "",
        "## Sets that were not used to fit",
        "",
        *_table(checks),
        "",
        "## Sets that the constants were fitted to",
        "",
        *_table(fits),
        "",
        f"Nine of ten runs lay within these factors, each forecast with constants from other sets: {bands}.",
        "`plan` shows them.",
        "",
        "## What the settings do that `plan` changes",
        "",
        "20,000 rows of the training part; P@5 is measured on a tenth of these rows, kept from training.",
        "",
        *_knobs(content["knobs"]),
        "",
    ]
    return "\n".join(lines)


def _table(runs: list[dict[str, Any]]) -> list[str]:
    header = ["set", "rows", "labels", "peak MB", "÷", "CPU s", "÷", "model MB", "÷", "one text µs", "÷"]
    header += ["one of many µs", "÷", "depth", "forecast took CPU s"]
    rows = []
    for run in runs:
        found, ratio = run["measured"], run["ratios"]
        rows.append(
            [
                run["title"],
                f"{run['rows']:,}",
                f"{run['labels']:,}",
                number(found["peak"] / 1e6),
                f"{ratio['memory']:.2f}",
                number(found["cpu_total"]),
                f"{ratio['cpu']:.2f}",
                number(found["size"] / 1e6),
                f"{ratio['size']:.2f}",
                number(1e6 * found["latency"]),
                f"{ratio['latency']:.2f}",
                number(1e6 * found["batch"]),
                f"{ratio['batch']:.2f}",
                f"{found['depth']}"
                if found["depth"] == run["figures"]["depth"]
                else f"{found['depth']} (wrong)",
                number(found["plan_cpu"]),
            ]
        )
    return markdown_table(header, rows)


def _knobs(runs: list[dict[str, Any]]) -> list[str]:
    if not runs:
        return ["The sets are not here."]
    header = [
        "set and setting",
        "P@1",
        "P@5",
        "peak MB",
        "÷",
        "CPU s",
        "÷",
        "model MB",
        "÷",
        "one text µs",
        "÷",
    ]
    rows = []
    for run in runs:
        found, ratio = run["measured"], run["ratios"]
        rows.append(
            [
                run["title"].replace(", 20,000 rows", ""),
                f"{found['P@1']:.1f}",
                f"{found['P@5']:.1f}",
                number(found["peak"] / 1e6),
                f"{ratio['memory']:.2f}",
                number(found["cpu_total"]),
                f"{ratio['cpu']:.2f}",
                number(found["size"] / 1e6),
                f"{ratio['size']:.2f}",
                number(1e6 * found["latency"]),
                f"{ratio['latency']:.2f}",
            ]
        )
    return markdown_table(header, rows)
