"""The tables of the quality benchmark. In: the results of all steps. Out: blocks of Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.quality.data import SETS
from benchmarks.report import machine_line, number, table

COLUMNS = {
    "P@1": "P@1",
    "P@5": "P@5",
    "nDCG@5": "nDCG@5",
    "nDCG@20": "nDCG@20",
    "R@10": "R@10",
    "PSP@5": "PSP@5",
    "F1@5": "example-F1@5",
    "micro-F1": "micro-F1",
}
QUALITIES = ("fast", "balanced", "best")
Row = dict[str, Any]


def page_blocks(content: dict[str, Any]) -> Iterator[str]:
    """Yield the page."""
    versions = ", ".join(f"{name} {text}" for name, text in content["versions"].items())
    yield f"{machine_line(content['machine'])} {versions}."
    measured = [(name, rows) for name in SETS if (rows := _largest(content["qualities"], name))]
    if measured:
        yield from _quality_blocks(measured)
    if content["unseen"]:
        yield "## Labels never seen in training"
        yield _unseen_table(content["unseen"])
    for row in content["annif"]:
        yield from _annif_blocks(row, content["qualities"])


def _largest(rows: list[Row], name: str) -> list[Row]:
    """Return the rows of a set in the largest size that was measured."""
    own = [row for row in rows if row["set"] == name]
    limit = max(own, key=lambda row: row["n_train"])["limit"] if own else 0
    return [row for row in own if row["limit"] == limit]


def _quality_blocks(measured: Sequence[tuple[str, list[Row]]]) -> Iterator[str]:
    yield "## Fast, balanced and best"
    yield table(["", *COLUMNS, "seeds"], [line for name, rows in measured for line in _quality_lines(name, rows)])
    yield "## Cost"
    header = [
        "",
        "rows",
        "labels",
        "training CPU s",
        "disk MB",
        "rows per CPU s",
        "one text p50 ms",
        "its CPU ms",
    ]
    yield table(header, [line for name, rows in measured for line in _cost_lines(name, rows)])
    yield "## Members of balanced, first seed"
    ranked = {title: key for title, key in COLUMNS.items() if key != "micro-F1"}
    header = ["", *ranked, "lost without it", "training CPU s"]
    lines = [
        [
            f"{SETS[name].title}: {member['name']}",
            *(f"{member[key]:.1f}" if key in member else "" for key in ranked.values()),
            f"{member['lost']:.2f}" if member["used"] else f"left out ({member['lost']:.2f})",
            number(member["train_cpu"]),
        ]
        for name, rows in measured
        for member in rows[0].get("balanced", {}).get("members", ())
    ]
    yield table(header, lines)


def _quality_lines(name: str, rows: list[Row]) -> Iterator[list[str]]:
    for quality in QUALITIES:
        found = [row[quality] for row in rows if quality in row]
        if not found:
            continue
        means = [float(np.mean([one[key] for one in found])) for key in COLUMNS.values()]
        yield [f"{SETS[name].title}: {quality}", *(f"{mean:.1f}" for mean in means), str(len(found))]
        if "gain" in found[0]:
            pairs = [np.mean([one["gain"][key] for one in found], axis=0) for key in COLUMNS.values()]
            yield ["&nbsp; over fast", *(f"{gain:+.1f} ± {half:.1f}" for gain, half in pairs), ""]


def _cost_lines(name: str, rows: list[Row]) -> Iterator[list[str]]:
    for quality in QUALITIES:
        found = [row[quality] for row in rows if quality in row]
        if found:
            keys = ("train_cpu", "disk_mb", "rows_per_cpu_s", "p50_ms", "p50_cpu_ms")
            means = [float(np.median([one[key] for one in found if key in one])) for key in keys]
            sizes = [f"{rows[0][key]:,}" for key in ("n_train", "n_labels")]
            yield [f"{SETS[name].title}: {quality}", *sizes, *map(number, means)]


def _unseen_table(rows: list[Row]) -> str:
    changes = ["seen P@1", "after", "seen R@10", "after"]
    order = list(SETS)
    return table(
        ["", "new labels", "rows", "R@10 of new labels", *changes],
        [
            [
                f"{SETS[row['set']].title}: {quality}",
                f"{row['labels']:,}",
                f"{row['rows']:,}",
                f"{row[quality]['R@10']:.1f}",
                *(f"{row[quality][when][name]:.1f}" for name in ("P@1", "R@10") for when in ("before", "after")),
            ]
            for row in sorted(rows, key=lambda row: order.index(row["set"]))
            for quality in ("fast", "balanced")
        ],
    )


def _annif_blocks(row: Row, qualities: list[Row]) -> Iterator[str]:
    yield f"## Beside Annif on TIBKAT, {row['n_train']:,} rows"
    yield (
        f"{row['n_train']:,} training rows, of which Annif uses {row['n_tuning']:,} to tune its ensemble "
        f"(weights found: {row['sources']}); {row['n_test']:,} held-out rows."
    )
    key = ("tibkat", row["seed"], row["limit"])
    same = next((one for one in qualities if (one["set"], one["seed"], one["limit"]) == key), {})
    ours = [{"title": f"tagwood, {name}", **same[name]} for name in QUALITIES if name in same]
    measures = {title: name for title, name in COLUMNS.items() if name in row["rows"][0]}
    yield table(
        ["", *measures, "training CPU s", "rows per CPU s", "one text p50 ms"],
        [
            [
                one["title"],
                *(f"{one[name]:.1f}" for name in measures.values()),
                *(number(one[name]) for name in ("train_cpu", "rows_per_cpu_s", "p50_ms")),
            ]
            for one in [*row["rows"], *ours]
        ],
    )
