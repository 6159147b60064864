"""How much of a difference in precision is chance: ``python -m benchmarks.linear_tree --seeds 3``.

In: the real sets of the benchmark. Out: linear_tree_seeds.md and .json with P@k and PSP@k of PECOS and tagwood, each
with several seeds of its label tree. Nothing is timed, so the machine may be busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.peers import TOOLS, Tool
from benchmarks.problems import Problem
from benchmarks.report import Page, table
from benchmarks.runs import MEASURES, Runner

PAGE = Page("benchmarks", "linear_tree_seeds")
COMPARED = ("pecos", "tagwood")


def measure_seeds(runner: Runner, problems: Sequence[Problem], seeds: int, out: Path) -> None:
    """Measure both tools with several seeds and write the page."""
    tools = [tool for tool in TOOLS if tool.name in COMPARED]
    results = {
        problem.name: {
            tool.title: [runner.run(seeded(tool, seed), problem)[0] for seed in range(seeds)] for tool in tools
        }
        for problem in problems
    }
    PAGE.save(out, results)
    PAGE.write(out, page_blocks(results))


def seeded(tool: Tool, seed: int) -> Tool:
    """Return the tool with another seed and its first way to predict."""
    mode = next(iter(tool.modes))
    return replace(
        tool,
        name=f"{tool.name}-seed-{seed}",
        settings={**tool.settings, "seed": seed},
        modes={mode: tool.modes[mode]},
    )


def page_blocks(results: dict[str, dict[str, list[dict[str, Any]]]]) -> Iterator[str]:
    """Yield a table per problem."""
    for name, found in results.items():
        values = {tool: {m: [row[m] for row in rows] for m in MEASURES} for tool, rows in found.items()}
        cells = [[tool, *(f"{mean(v[m]):.2f} ({stdev(v[m]):.2f})" for m in MEASURES)] for tool, v in values.items()]
        base, ours = values.values()
        gaps = [mean(ours[m]) - mean(base[m]) for m in MEASURES]
        errors = [((stdev(ours[m]) ** 2 + stdev(base[m]) ** 2) / len(base[m])) ** 0.5 for m in MEASURES]
        gains = [f"{gap:+.2f} ({error:.2f})" for gap, error in zip(gaps, errors, strict=True)]
        yield f"## {name}"
        yield table(["tool", *MEASURES], [*cells, ["difference", *gains]])
