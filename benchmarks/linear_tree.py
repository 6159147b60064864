"""`LinearTree` beside libpecos, omikuji and napkinxc: ``python -m benchmarks.linear_tree``.

In: the sets of ../shared/data that are there (others are skipped by name) and synthetic ones. Out: a table
per set in docs/benchmarks/linear_tree.md and .json. Every tool has an environment of its own, made on first
use, and every training and every way to predict a process of its own. Stopped runs go on where they were.
``--scaling`` measures instead how tagwood grows with rows and labels.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.growth import measure_growth
from benchmarks.linear_tree_page import problem_lines, write_page
from benchmarks.peers import TOOLS
from benchmarks.problems import CACHE, ROOT, Problem, amazon_problems, real_problems
from benchmarks.runs import Runner

OUTPUT = ROOT / "docs" / "benchmarks"
SMALL = ("cooking-stackexchange", "bibtex")  # measured only when named


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", metavar="NAME", help="problems; default: all but two small ones")
    parser.add_argument("--tools", nargs="+", choices=[t.name for t in TOOLS], help="default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="of the synthetic problems, above 0 to 1")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=240, help="longest time for one step; default 240")
    parser.add_argument("--fresh", action="store_true", help="measure again what was measured before")
    parser.add_argument("--keep-models", action="store_true", help="leave models in .cache/bench/models")
    parser.add_argument("--quick", action="store_true", help="2,000 rows of each set, to try it out")
    parser.add_argument("--report", action="store_true", help="only write the page from what was measured")
    parser.add_argument("--scaling", action="store_true", help="how tagwood grows with rows and labels")
    return parser.parse_args()


def known_problems(scale: float, quick: bool) -> dict[str, Problem]:
    """Return all problems by name; synthetic ones have the same names at every scale."""
    found = {p.name: p for p in real_problems()}
    found |= {p.name: q for p, q in zip(amazon_problems(), amazon_problems(scale), strict=True)}
    return {name: p.quick() if quick else p for name, p in found.items()}


def choose(problems: dict[str, Problem], names: list[str] | None) -> list[Problem]:
    """Return the problems asked for that can be measured here, and say which cannot."""
    unknown = set(names or ()) - set(problems)
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(problems)}")
    chosen = [problems[n] for n in names or problems if names or n not in SMALL]
    for problem in chosen:
        if problem.missing():
            print(f"skipped: {problem.name} ({problem.missing()})")
    return [p for p in chosen if not p.missing()]


def collect(runner: Runner, problem: Problem) -> dict[str, Any] | None:
    """Return all that was measured on a problem, by any tool; None if nothing was."""
    rows = [row for tool in TOOLS for row in runner.stored(tool, problem)]
    if not rows:
        return None
    about = {"propensity": problem.propensity, "features": problem.words}
    return {"problem": problem.name, **problem.prepare(repository_file=False), **about, "rows": rows}


def main() -> None:
    arguments = parse_arguments()
    runner = Runner(arguments.threads, arguments.fresh, arguments.keep_models, arguments.minutes)
    output = CACHE / "quick" if arguments.quick else OUTPUT
    if arguments.scaling:
        measure_growth(runner, 1 / 64 if arguments.quick else arguments.scale, output)
        return
    problems = known_problems(arguments.scale, arguments.quick)
    tools = [t for t in TOOLS if not arguments.tools or t.name in arguments.tools]
    for problem in [] if arguments.report else choose(problems, arguments.data):
        for tool in tools:
            runner.run(tool, problem)
        print("\n".join(problem_lines(collect(runner, problem) or {})) + "\n", flush=True)
    results = [found for problem in problems.values() if (found := collect(runner, problem))]
    write_page(results, arguments.threads, output)
    print(f"written: {(output / 'linear_tree.md').relative_to(ROOT)}")


if __name__ == "__main__":
    main()
