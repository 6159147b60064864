"""Tables and charts of the experiments with interpolated trees. In: result rows. Out: blocks of Markdown, SVG files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.report import Page, columns_table, replace_row, table
from tagwood.plots import Chart, Mark, chart_svg

PAGE = Page("experiments", "interpolated_trees")
KEY = ("part", "data", "arity", "max_leaf_size", "variant", "tree", "lam_prime")  # rows with the same are one
LATENCY_KEY = ("part", "data", "arity", "max_leaf_size")
CURVE = {
    "λ": "lam", "P@1": "P@1", "gain": "P@1_gain", "from": "P@1_gain_low", "to": "P@1_gain_high", "P@3": "P@3",
    "P@5": "P@5", "depth@1": "depth@1", "depth@3": "depth@3", "depth@5": "depth@5", "nodes, k=1": "exact_nodes_1",
    "nodes, k=5": "exact_nodes_5", "classifiers, k=1": "exact_outputs_1", "k=5": "exact_outputs_5",
    "P@1, beam of 10": "beam_P@1",
}  # fmt: skip
LATENCY = {
    "set": "data", "arity": "arity", "leaf": "max_leaf_size", "λ": "lam", "P@5, λ=0": "base_P@5", "P@5": "new_P@5",
    "gain": "P@5_gain", "from": "P@5_gain_low", "to": "P@5_gain_high", "depth@1, λ=0": "base_depth@1",
    "depth@1": "new_depth@1", "exact, k=1": "exact_1", "k=5": "exact_5", "k=10": "exact_10", "beam, k=1": "beam_1",
    "k=5 ": "beam_5", "k=10 ": "beam_10", "exact to beam of λ=0, k=5": "exact_to_beam_5", "from text, k=5": "text_5",
    "k=10  ": "text_10",
}  # fmt: skip
BUILD = {"λ": "lam", "seconds": "seconds", "balanced": "balanced_seconds", "ratio": "ratio"}
SYNTHETIC = {
    "λ": "lam",
    "expected depth": "depth@1",
    "deepest leaf": "deepest",
    "leaves": "leaves",
    "likeness in leaves": "near",
}


def page_blocks(content: dict[str, Any], out: Path) -> Iterator[str]:
    """Yield tables and charts; charts are written to `out`."""
    rows = content["rows"]
    yield from _latency([row for row in rows if row["part"] in ("latency", "build")])
    if covers := [row for row in rows if row["part"] == "figure1"]:
        yield from _figure1(covers, out)
    for data in dict.fromkeys(row["data"] for row in rows if row["part"] in ("figure3", "figure4")):
        yield f"### {data}"
        yield from _figures(data, [row for row in rows if row["data"] == data], out)
    if trees := [row for row in rows if row["part"] == "synthetic"]:
        yield f"### Synthetic: {trees[0]['data']}"
        yield "Binary trees, leaves of up to 100 labels."
        yield columns_table(trees, SYNTHETIC, ".4g")


def add_row(rows: list[dict[str, Any]], row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows with `row` in the place of an earlier one; a λ that was chosen is not part of its key."""
    return replace_row(rows, row, LATENCY_KEY if row["part"] == "latency" else (*KEY, "lam"))


def _latency(rows: list[dict[str, Any]]) -> Iterator[str]:
    if times := [row for row in rows if row["part"] == "latency"]:
        yield "### Depth and time"
        yield (
            "Times are medians over single test rows, as ratios to λ=0 in the same search; λ=0 alone: no other λ was "
            "accepted on held-out rows."
        )
        yield columns_table(times, LATENCY, ".3g")
    if builds := [row for row in rows if row["part"] == "build"]:
        yield f"### Time to build a tree, {builds[0]['data']}"
        yield columns_table(builds, BUILD, ".4g")


def _figure1(rows: list[dict[str, Any]], out: Path) -> Iterator[str]:
    curves = {
        row["data"]: [Mark(100 * point["labels"], 100 * point["rows"]) for point in row["points"]] for row in rows
    }
    chart = Chart("", "most frequent labels, %", "rows with one of them, %", curves)
    (out / "interpolated_trees_figure1.svg").write_text(chart_svg(chart), encoding="utf-8")
    yield "### Figure 1: how few labels cover the rows"
    yield "![Share of rows covered by the most frequent labels](interpolated_trees_figure1.svg)"
    half = [(row, next(p for p in row["points"] if p["rows"] == 0.5)) for row in rows]
    lines = [[row["data"], f"{100 * point['labels']:.2g} %"] for row, point in half]
    yield table(["set", "labels that cover half of the rows"], lines)


def _figures(data: str, rows: list[dict[str, Any]], out: Path) -> Iterator[str]:
    points = [row for row in rows if row["part"] == "figure3"]
    for arity, leaf in dict.fromkeys((row["arity"], row.get("max_leaf_size", 100)) for row in points):
        mine = [row for row in points if (row["arity"], row.get("max_leaf_size", 100)) == (arity, leaf)]
        variants = list(dict.fromkeys(row["variant"] for row in mine))
        nodes = "binary trees" if arity == 2 else f"nodes of up to {arity} children"
        yield (
            f"Figures 2 and 3, {nodes}, leaves of up to {leaf} labels, {mine[0]['seeds']} seed(s); *gain*: of P@1 over "
            "λ=0, with its 95 % interval over rows and seeds:"
        )
        for k in (1, 3) if len(variants) > 1 else (1,):
            curves = {v: _curve([row for row in mine if row["variant"] == v], k) for v in variants}
            yield _picture(f"{data}_{arity}_{leaf}_P{k}", f"P@{k} against depth@{k} on {data}", k, curves, out)
        for variant in variants:
            yield f"`{variant}`\n\n{columns_table([row for row in mine if row['variant'] == variant], CURVE, '.4g')}"
    if codes := [row for row in rows if row["part"] == "figure4"]:
        curves = {
            name: _curve([row for row in codes if row["tree"] == name], 1)
            for name in ("interpolated", "Huffman", "Fano")
        }
        yield "Figure 4, one label a leaf:"
        yield _picture(f"{data}_coding", f"Coding and interpolated trees on {data}", 1, curves, out)
        yield columns_table(codes, {"tree": "tree", **CURVE}, ".4g")


def _curve(rows: list[dict[str, Any]], k: int) -> list[Mark]:
    return [Mark(row[f"depth@{k}"], row[f"P@{k}"], f"{row['lam']:.2g}" if row["lam"] >= 0 else "") for row in rows]


def _picture(name: str, words: str, k: int, curves: dict[str, list[Mark]], out: Path) -> str:
    chart = Chart("", f"expected depth@{k}", f"P@{k}, %", curves)
    (out / f"interpolated_trees_{name}.svg").write_text(chart_svg(chart), encoding="utf-8")
    return f"![{words}](interpolated_trees_{name}.svg)"
