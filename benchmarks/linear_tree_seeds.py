"""How much of a difference in precision is chance: ``python -m benchmarks.linear_tree_seeds``.

In: the real sets of ``benchmarks.linear_tree``. Out: docs/benchmarks/linear_tree_seeds.md and .json with P@k and PSP@k
of PECOS and tagwood, each with several seeds of its label tree: the means, their difference, and how far the seeds of
one tool lie apart. Nothing is timed, so the machine may be busy.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

from benchmarks.linear_tree import OUTPUT, SMALL, choose, known_problems
from benchmarks.peers import TOOLS, Tool
from benchmarks.problems import Problem
from benchmarks.runs import MEASURES, Runner
from benchmarks.tables import markdown_table

COMPARED = ("pecos", "tagwood")

INTRODUCTION = """\
`python -m benchmarks.linear_tree_seeds` makes this page: the settings of `benchmarks.linear_tree`, with {n} seeds of
the label tree for each tool. The first two lines are means over the seeds, in brackets the standard deviation of one
seed; the third is their difference, in brackets its standard error.
"""


def seeded(tool: Tool, seed: int) -> Tool:
    """Return the tool with another seed, asked in one way only."""
    mode = next(iter(tool.modes))
    return replace(
        tool,
        name=f"{tool.name}-seed-{seed}",
        settings={**tool.settings, "seed": seed},
        modes={mode: tool.modes[mode]},
    )


def measure(runner: Runner, problem: Problem, seeds: int) -> dict[str, list[dict[str, Any]]]:
    """Return the figures of each tool, one dict per seed."""
    tools = [tool for tool in TOOLS if tool.name in COMPARED]
    return {t.title: [runner.run(seeded(t, seed), problem)[0] for seed in range(seeds)] for t in tools}


def problem_lines(name: str, found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return the part of the page about one problem."""
    values = {tool: {m: [row[m] for row in rows] for m in MEASURES} for tool, rows in found.items()}
    cells = [
        [tool, *(f"{mean(v[m]):.2f} ({stdev(v[m]):.2f})" for m in MEASURES)] for tool, v in values.items()
    ]
    base, ours = values.values()
    gaps = [mean(ours[m]) - mean(base[m]) for m in MEASURES]
    errors = [((stdev(ours[m]) ** 2 + stdev(base[m]) ** 2) / len(base[m])) ** 0.5 for m in MEASURES]
    cells.append(
        ["difference", *(f"{gap:+.2f} ({error:.2f})" for gap, error in zip(gaps, errors, strict=True))]
    )
    return [f"## {name}", "", *markdown_table(["tool", *MEASURES], cells)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", nargs="+", metavar="NAME", help="problems; default: the real ones but the small"
    )
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each tool, 2 or more")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    problems = {n: p for n, p in known_problems(1.0, False).items() if p.source and n not in SMALL}
    runner = Runner(arguments.threads)
    results = {p.name: measure(runner, p, arguments.seeds) for p in choose(problems, arguments.data)}
    lines = ["# Precision over several seeds", "", INTRODUCTION.format(n=arguments.seeds).rstrip()]
    for name, found in results.items():
        lines += ["", *problem_lines(name, found)]
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / "linear_tree_seeds.md").write_text("\n".join(lines) + "\n")
    (OUTPUT / "linear_tree_seeds.json").write_text(json.dumps(results, indent=2) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
