"""`LinearTree` beside libpecos, omikuji and napkinxc: ``python -m benchmarks.linear_tree``.

In: the sets of ../shared/data that are present (others are skipped by name) and synthetic ones. Out: linear_tree.md and
.json with a table per set. Every tool has its own environment, made on first use; every training and every way to
predict runs in its own process. An interrupted run continues where it stopped. ``--scaling`` measures instead how
tagwood grows with rows and labels, ``--seeds N`` how much precision differs between N seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from benchmarks import peers
from benchmarks.linear_tree.growth import measure_growth
from benchmarks.linear_tree.seeds import measure_seeds
from benchmarks.peers import TOOLS
from benchmarks.problems import Problem, amazon_problems, odd_problems, real_problems
from benchmarks.report import Page, machine, machine_line, number, table
from benchmarks.runs import MEASURES, Runner

PAGE = Page("benchmarks", "linear_tree")
SMALL = ("cooking-stackexchange", "bibtex", "delicious")  # measured only when named
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


def parse_arguments() -> argparse.Namespace:
    parser = PAGE.parser(__doc__, keeps=True)
    parser.add_argument("--data", nargs="+", metavar="NAME", help="problems; default: all but three small ones")
    parser.add_argument("--tools", nargs="+", choices=[t.name for t in TOOLS], help="default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="of the synthetic problems, above 0 to 1")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=240, help="time limit of a step; default 240")
    parser.add_argument("--keep-models", action="store_true", help="leave models in .cache/bench/models")
    parser.add_argument("--quick", action="store_true", help="2,000 rows of each set, to try it out")
    parser.add_argument("--report", action="store_true", help="only write the page from earlier results")
    parser.add_argument("--scaling", action="store_true", help="how tagwood grows with rows and labels")
    parser.add_argument("--seeds", type=int, metavar="N", help="precision over N seeds, 2 or more")
    return parser.parse_args()


def known_problems(scale: float, quick: bool) -> dict[str, Problem]:
    """Return all problems by name; synthetic ones have the same names at every scale."""
    found = {p.name: p for p in real_problems()}
    for made in (odd_problems, amazon_problems):
        found |= {p.name: q for p, q in zip(made(), made(scale), strict=True)}
    return {name: p.quick() if quick else p for name, p in found.items()}


def choose(problems: dict[str, Problem], names: list[str] | None) -> list[Problem]:
    """Return the chosen problems whose data are present; print the names of the others."""
    unknown = set(names or ()) - set(problems)
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(problems)}")
    chosen = [problems[n] for n in names or problems if names or n not in SMALL]
    for problem in chosen:
        if problem.missing():
            print(f"skipped: {problem.name} ({problem.missing()})")
    return [p for p in chosen if not p.missing()]


def collect(runner: Runner, problem: Problem) -> dict[str, Any] | None:
    """Return all results on a problem, of any tool; None if there are none."""
    rows = [row for tool in TOOLS for row in runner.stored(tool, problem)]
    if not rows:
        return None
    about = {"propensity": problem.propensity, "features": problem.words}
    return {"problem": problem.name, **problem.prepare(repository_file=False), **about, "rows": rows}


def joined(runner: Runner, problems: dict[str, Problem], earlier: dict[str, Any]) -> dict[str, Any]:
    """Return the results on all problems, those of the page on problems that were not measured on this machine."""
    here = {name: found for name, problem in problems.items() if (found := collect(runner, problem))}
    known = {result["problem"]: result for result in earlier["results"]} | here
    results = [known.pop(name) for name in problems if name in known]
    measured = {row["tool"] for result in here.values() for row in result["rows"]}
    adapters = {tool.adapter for tool in TOOLS if tool.name in measured}
    versions = {peers.DISTRIBUTIONS[adapter]: peers.version(adapter) for adapter in sorted(adapters)}
    names = {row["tool"] for result in results for row in result["rows"]}
    return {
        "versions": earlier["versions"] | versions,
        "settings": {tool.title: tool.settings for tool in TOOLS if tool.name in names},
        "results": [*results, *known.values()],
    }


def page_blocks(content: dict[str, Any]) -> Iterator[str]:
    """Yield facts about the runs, then a table per problem."""
    versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    yield f"{machine_line(content['machine'])} Versions: {versions}."
    settings = content["settings"].items()
    yield "\n".join(f"* {title}: {_in_words(given)}" for title, given in settings)
    for result in content["results"]:
        yield from problem_blocks(result)


def problem_blocks(result: dict[str, Any]) -> Iterator[str]:
    """Yield the part of the page about one problem."""
    rows = result["rows"]
    yield f"## {result['problem']}"
    yield (
        f"{result['n_train']:,} × {result['n_features']:,} ({result['features_per_row']:.0f} per row), "
        f"{result['n_labels']:,} labels ({result['labels_per_row']:.1f} per row), {result['n_test']:,} test "
        f"rows. Features: {result['features']}. Propensities: {result['propensity']}."
    )
    header = ["tool", *COLUMNS.values()]
    yield table(header, [[row["title"], *(_figure(row, column) for column in COLUMNS)] for row in rows])
    yield from _remarks(rows)


def _remarks(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield from (f"{row['title']}: {row['failed']}." for row in rows if "failed" in row)
    nodes = [f"{row['title']} {row['nodes_per_row']:.1f}" for row in rows if "nodes_per_row" in row]
    if nodes:
        yield f"Nodes evaluated per row: {'; '.join(nodes)}."
    steps = [(row.get(f"{step}_wall", 0), row.get(f"{step}_others", 0)) for row in rows for step in ("train", "batch")]
    busy = max((others for wall, others in steps if wall > LONG_ENOUGH), default=0)
    if busy > QUIET:
        yield f"Other processes used up to {busy:.1f} cores meanwhile: repeat this on a quiet machine."
    days = sorted({row["measured"][:10] for row in rows if "measured" in row})
    if days:
        yield f"Measured {' to '.join(dict.fromkeys([days[0], days[-1]]))}."


def _figure(row: dict[str, Any], column: str) -> str:
    if column not in row:
        return ""
    return f"{row[column]:.2f}" if column in MEASURES else number(row[column])


def _in_words(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "defaults"


def main() -> None:
    arguments = parse_arguments()
    runner = Runner(arguments.threads, arguments.fresh, arguments.keep_models, arguments.minutes)
    if arguments.scaling:
        measure_growth(runner, 1 / 64 if arguments.quick else arguments.scale, arguments.out)
        return
    problems = known_problems(arguments.scale, arguments.quick)
    if arguments.seeds:
        real = {n: p for n, p in problems.items() if p.source and n not in SMALL}
        measure_seeds(runner, choose(real, arguments.data), arguments.seeds, arguments.out)
        return
    tools = [t for t in TOOLS if not arguments.tools or t.name in arguments.tools]
    for problem in [] if arguments.report else choose(problems, arguments.data):
        for tool in tools:
            runner.run(tool, problem)
        print("\n\n".join(problem_blocks(collect(runner, problem) or {"rows": []})) + "\n", flush=True)
    content = joined(runner, problems, PAGE.load(arguments.out, {"versions": {}, "results": []}))
    content = {"machine": machine(), "threads": arguments.threads, **content}
    PAGE.save(arguments.out, content)
    PAGE.write(arguments.out, page_blocks(content))


if __name__ == "__main__":
    main()
