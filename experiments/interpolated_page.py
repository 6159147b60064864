"""Results of the experiments with interpolated trees as JSON, Markdown and SVG. In: rows. Out: docs/experiments."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tagwood.plots import Chart, Mark, chart_svg

OUT = Path(__file__).parent.parent / "docs" / "experiments"
PAGE, RESULTS = OUT / "interpolated_trees.md", OUT / "interpolated_trees.json"
KEY = ("part", "data", "arity", "max_leaf_size", "variant", "tree", "lam_prime")  # rows with the same are one
LATENCY_KEY = ("part", "data", "arity", "max_leaf_size")
CURVE = {
    "λ": "lam", "P@1": "P@1", "±": "P@1_spread", "P@3": "P@3", "P@5": "P@5", "depth@1": "depth@1",
    "depth@3": "depth@3", "depth@5": "depth@5", "nodes, k=1": "exact_nodes_1", "nodes, k=5": "exact_nodes_5",
    "P@1, beam of 10": "beam_P@1",
}  # fmt: skip
LATENCY = {
    "set": "data", "arity": "arity", "leaf": "max_leaf_size", "λ": "lam", "P@1, λ=0": "base_P@1", "P@1": "new_P@1",
    "gain": "P@1_gain", "from": "P@1_gain_low", "to": "P@1_gain_high", "depth@1, λ=0": "base_depth@1",
    "depth@1": "new_depth@1", "exact p50, λ=0": "base_exact_p50", "exact p50": "new_exact_p50",
    "exact p99, λ=0": "base_exact_p99", "exact p99": "new_exact_p99",
    "beam p50, λ=0": "base_beam_p50", "beam p50": "new_beam_p50", "depth saved": "depth_saving",
    "time saved": "time_saving", "all four hold": "shown",
}  # fmt: skip
BUILD = {"λ": "lam", "seconds": "seconds", "balanced": "balanced_seconds", "ratio": "ratio"}
SYNTHETIC = {
    "λ": "lam",
    "expected depth": "depth@1",
    "deepest leaf": "deepest",
    "leaves": "leaves",
    "likeness in leaves": "near",
}


def store(row: dict[str, Any]) -> None:
    """Put a row in the place of an earlier one of the same part."""
    rows = [other for other in load() if _key(other) != _key(row)]
    OUT.mkdir(parents=True, exist_ok=True)
    facts = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    text = json.dumps({**facts, "rows": [*rows, row]}, indent=1, ensure_ascii=False)
    RESULTS.write_text(text + "\n", encoding="utf-8")


def load() -> list[dict[str, Any]]:
    """Return the rows measured so far."""
    if not RESULTS.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    return rows


def write_page() -> None:
    """Write tables and plots into the page below its marker."""
    rows = load()
    parts = list(_latency([row for row in rows if row["part"] in ("latency", "build")]))
    if covers := [row for row in rows if row["part"] == "figure1"]:
        parts.extend(_figure1(covers))
    for data in dict.fromkeys(row["data"] for row in rows if row["part"] in ("figure3", "figure4")):
        parts.append(f"### {data}")
        parts.extend(_figures(data, [row for row in rows if row["data"] == data]))
    if trees := [row for row in rows if row["part"] == "synthetic"]:
        parts.append(f"### Synthetic: {trees[0]['data']}\n\nBinary trees, leaves of up to 100 labels.")
        parts.append(table(trees, SYNTHETIC))
    head, marker, _ = PAGE.read_text(encoding="utf-8").partition("<!-- results -->")
    PAGE.write_text(f"{head}{marker}\n\n" + "\n\n".join(parts) + "\n", encoding="utf-8")


def table(rows: list[dict[str, Any]], columns: dict[str, str]) -> str:
    """Return rows as a Markdown table; columns that no row has are left out."""
    shown = {head: key for head, key in columns.items() if any(key in row for row in rows)}
    lines = ["| " + " | ".join(shown) + " |", "|" + "---|" * len(shown)]
    for row in rows:
        lines.append("| " + " | ".join(_cell(key, row.get(key, "")) for key in shown.values()) + " |")
    return "\n".join(lines)


def _cell(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key.endswith("saving") and value != "":
        return f"{100 * value:.0f} %"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Of a λ that was chosen only the shape counts, of one on a grid its value too."""
    names = LATENCY_KEY if row["part"] == "latency" else (*KEY, "lam")
    return tuple(row.get(name) for name in names)


def _latency(rows: list[dict[str, Any]]) -> Iterator[str]:
    if times := [row for row in rows if row["part"] == "latency"]:
        yield "### Depth and time"
        yield table(times, LATENCY)
    if builds := [row for row in rows if row["part"] == "build"]:
        yield f"### Time to build a tree, {builds[0]['data']}"
        yield table(builds, BUILD)


def _figure1(rows: list[dict[str, Any]]) -> Iterator[str]:
    curves = {
        row["data"]: [Mark(100 * point["labels"], 100 * point["rows"]) for point in row["points"]]
        for row in rows
    }
    chart = Chart("", "most frequent labels, %", "rows with one of them, %", curves)
    (OUT / "interpolated_trees_figure1.svg").write_text(chart_svg(chart), encoding="utf-8")
    yield "### Figure 1: how few labels cover the rows"
    yield "![Share of rows covered by the most frequent labels](interpolated_trees_figure1.svg)"
    half = [(row, next(p for p in row["points"] if p["rows"] == 0.5)) for row in rows]
    lines = [f"| {row['data']} | {100 * point['labels']:.2g} % |" for row, point in half]
    yield "\n".join(["| set | labels that cover half of the rows |", "|---|---|", *lines])


def _figures(data: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    points = [row for row in rows if row["part"] == "figure3"]
    for arity, leaf in dict.fromkeys((row["arity"], row.get("max_leaf_size", 100)) for row in points):
        mine = [row for row in points if (row["arity"], row.get("max_leaf_size", 100)) == (arity, leaf)]
        variants = list(dict.fromkeys(row["variant"] for row in mine))
        nodes = "binary trees" if arity == 2 else f"nodes of up to {arity} children"
        yield f"Figures 2 and 3, {nodes}, leaves of up to {leaf} labels, {mine[0]['seeds']} seed(s):"
        for k in (1, 3) if len(variants) > 1 else (1,):
            curves = {v: _curve([row for row in mine if row["variant"] == v], k) for v in variants}
            yield _picture(f"{data}_{arity}_{leaf}_P{k}", f"P@{k} against depth@{k} on {data}", k, curves)
        for variant in variants:
            yield f"`{variant}`\n\n{table([row for row in mine if row['variant'] == variant], CURVE)}"
    if codes := [row for row in rows if row["part"] == "figure4"]:
        curves = {
            name: _curve([row for row in codes if row["tree"] == name], 1)
            for name in ("interpolated", "Huffman", "Fano")
        }
        yield "Figure 4, one label a leaf:"
        yield _picture(f"{data}_coding", f"Coding and interpolated trees on {data}", 1, curves)
        yield table(codes, {"tree": "tree", **CURVE})


def _curve(rows: list[dict[str, Any]], k: int) -> list[Mark]:
    return [
        Mark(row[f"depth@{k}"], row[f"P@{k}"], f"{row['lam']:.2g}" if row["lam"] >= 0 else "") for row in rows
    ]


def _picture(name: str, words: str, k: int, curves: dict[str, list[Mark]]) -> str:
    chart = Chart("", f"expected depth@{k}", f"P@{k}, %", curves)
    (OUT / f"interpolated_trees_{name}.svg").write_text(chart_svg(chart), encoding="utf-8")
    return f"![{words}](interpolated_trees_{name}.svg)"
