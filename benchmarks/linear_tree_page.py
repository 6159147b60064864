"""The page of ``benchmarks.linear_tree``: a table of figures and one of ratios per problem.

In: results as `Runner.stored` gives them, with the sizes of their problems. Out: linear_tree.md and
linear_tree.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.peers import BASELINE, TOOLS
from benchmarks.runs import MEASURES
from benchmarks.tables import machine, machine_line, markdown_table, number

COLUMNS = {
    "train_cpu": "train CPU s",
    "train_wall": "wall s",
    "train_peak_mb": "peak MB",
    **{name: name for name in MEASURES},
    "rows_per_cpu_s": "rows per CPU s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "disk_mb": "disk MB",
    "load_ms": "load ms",
}
QUIET = 0.1  # cores
LONG_ENOUGH = 1.0  # seconds, to tell what other processes did

INTRODUCTION = """\
`python -m benchmarks.linear_tree` makes this page. All tools get the same matrices and {threads} threads;
single rows are asked with one thread. Training (label features, clustering, all layers) is counted in CPU
seconds of all threads after the data is read; peak is the highest resident memory beyond that data. A batch
is all test rows, best of up to five passes. Single rows are asked from Python, in the form the tool takes,
about 1,000 of them. Disk and load are of the folder that is loaded; memory-mapped models read their weights
later, when they are asked. P and PSP are in percent, from one code for all tools, over the labels seen in
training. PECOS, Omikuji and tagwood search with a beam of 10 unless said otherwise, napkinXC exactly.

tagwood's defaults (`arity`, `rare_label_weight` and its rule for hubs, `tolerance`) were chosen while looking at the
test rows of the real sets below, the peers' were not: its precision here is a little flattered, and differences of 0.2
points are within what another tree seed changes. On rows held out of training the rule for `rare_label_weight` proved
right afterwards: against `rare_label_weight=0`, P@1 and PSP@1 rose from 32.0 and 25.6 to 32.4 and 26.4 on yso-titles
(two seeds) and from 78.7 and 21.4 to 79.3 and 23.9 on tate-subjects (three). The ensemble with copies was chosen among
four on held-out rows of debian-depends and tate-subjects. A tool keeps its figures until it is measured again, so rows
may come from different runs.
"""


def write_page(results: list[dict[str, Any]], threads: int, output: Path) -> None:
    """Write the page and its JSON."""
    facts = machine()
    names = {row["tool"] for result in results for row in result["rows"]}
    tools = [tool for tool in TOOLS if tool.name in names]
    versions = {peers.DISTRIBUTIONS[a]: peers.version(a) for a in dict.fromkeys(t.adapter for t in tools)}
    settings = {tool.title: tool.settings for tool in tools}
    content = {"machine": facts, "versions": versions, "threads": threads, "settings": settings}
    output.mkdir(parents=True, exist_ok=True)
    (output / "linear_tree.json").write_text(json.dumps({**content, "results": results}, indent=2) + "\n")
    stated = ", ".join(f"{name} {version}" for name, version in versions.items())
    commits = sorted(
        {r["commit"] for x in results for r in x["rows"] if r["tool"] == "tagwood" and "commit" in r}
    )
    lines = ["# Linear label trees", "", INTRODUCTION.format(threads=threads), machine_line(facts)]
    lines += [
        f"Versions: {stated}; tagwood at commit {', '.join(commits)}." if commits else f"Versions: {stated}."
    ]
    lines += ["", *(f"* {title}: {_in_words(given)}" for title, given in settings.items())]
    for result in results:
        lines += ["", *problem_lines(result)]
    (output / "linear_tree.md").write_text("\n".join(lines) + "\n")


def problem_lines(result: dict[str, Any]) -> list[str]:
    """Return the part of the page about one problem."""
    if not result:
        return []
    rows = result["rows"]
    about = (
        f"{result['n_train']:,} × {result['n_features']:,} ({result['features_per_row']:.0f} per row), "
        f"{result['n_labels']:,} labels ({result['labels_per_row']:.1f} per row), {result['n_test']:,} test "
        f"rows. Features: {result['features']}. Propensities: {result['propensity']}."
    )
    cells = [[row["title"], *(_figure(row, column) for column in COLUMNS)] for row in rows]
    lines = [f"## {result['problem']}", "", about, "", *markdown_table(["tool", *COLUMNS.values()], cells)]
    base = next((row for row in rows if row["tool"] == BASELINE and not row["mode"]), None)
    if base is not None and "failed" not in base:
        lines += ["", f"As multiples of {base['title']}; P and PSP as differences in points:", ""]
        cells = [[row["title"], *(_ratio(row, base, column) for column in COLUMNS)] for row in rows]
        lines += markdown_table(["tool", *COLUMNS.values()], cells)
    return lines + _remarks(rows)


def _remarks(rows: list[dict[str, Any]]) -> list[str]:
    said = [f"{row['title']}: {row['failed']}." for row in rows if "failed" in row]
    nodes = [f"{row['title']} {row['nodes_per_row']:.1f}" for row in rows if "nodes_per_row" in row]
    if nodes:
        said.append(f"Nodes evaluated per row: {'; '.join(nodes)}.")
    steps = [
        (row.get(f"{step}_wall", 0), row.get(f"{step}_others", 0))
        for row in rows
        for step in ("train", "batch")
    ]
    busy = max((others for wall, others in steps if wall > LONG_ENOUGH), default=0)
    if busy > QUIET:
        said.append(
            f"Other processes used up to {busy:.1f} cores meanwhile: measure again on a quiet machine."
        )
    days = sorted({row["measured"][:10] for row in rows if "measured" in row})
    if days:
        said.append(f"Measured {' to '.join(dict.fromkeys([days[0], days[-1]]))}.")
    return ["", *(line for text in said for line in (text, ""))][:-1] if said else []


def _figure(row: dict[str, Any], column: str) -> str:
    if column not in row:
        return ""
    return f"{row[column]:.2f}" if column in MEASURES else number(row[column])


def _ratio(row: dict[str, Any], base: dict[str, Any], column: str) -> str:
    if column not in row or not base[column]:
        return ""
    if column in MEASURES:
        return f"{row[column] - base[column]:+.2f}"
    return f"{row[column] / base[column]:.2f}"


def _in_words(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "defaults"
