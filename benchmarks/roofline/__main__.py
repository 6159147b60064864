"""How close the kernels come to what the machine can do: ``python -m benchmarks.roofline``.

In: sets of ../shared/data, some of their training rows. Out: roofline.md, .json and .svg: for training and search, the
multiply-adds and bytes that the algorithm needs, the shortest time in which one core of this machine could do that, and
the time measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.quality.data import SETS, Split
from benchmarks.report import Page, machine, machine_line, number, table
from benchmarks.roofline.counts import LINE, SweepCounter, Work, index_work, search_work
from tagwood import LinearTree, TfidfEncoder
from tagwood._sparse import check_features, csr_parts
from tagwood.models.centroids import QUERY_FEATURES, Centroids
from tagwood.models.ensemble.fusion import Boosted
from tagwood.models.neighbours import Neighbours
from tagwood.models.row_index import largest_features
from tagwood.plots import Chart, Mark, chart_svg

PAGE = Page("benchmarks", "roofline")
DEFAULT_SETS = ("eurlex57k", "tibkat", "yso")
K, WIDTH, NEAREST, SAMPLE = 5, 10, 50, 200
TABLES = (1 << 18, 1 << 22, 1 << 24, 1 << 27)  # bytes


def shortest(work: Callable[[], object], seconds: float = 0.5) -> float:
    """Return the shortest CPU time of several runs."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def measure_machine() -> dict[str, Any]:
    """Return multiply-adds per second, bytes per second, and random cache lines per second by size of the table."""
    rng = np.random.default_rng(0)
    a = rng.random((1024, 1024), dtype=np.float32)
    source, target = np.ones(1 << 25, dtype=np.float64), np.empty(1 << 25, dtype=np.float64)
    lines = {}
    for size in TABLES:
        values, places = np.ones(size // 8), rng.integers(0, size // LINE, 1 << 20) * (LINE // 8)
        out = np.empty(places.size)
        lines[size] = places.size / shortest(lambda: np.take(values, places, out=out, mode="wrap"))  # noqa: B023
    with threadpool_limits(1):
        multiply_adds = a.size * a.shape[0] / shortest(lambda: a @ a)
    return {
        "multiply_adds": multiply_adds,
        "bytes": 2 * source.nbytes / shortest(lambda: np.copyto(target, source)),
        "lines": lines,
    }


def least_seconds(work: Work, limits: dict[str, Any]) -> tuple[float, str]:
    """Return the shortest time of some work, and what sets it."""
    sizes = sorted(limits["lines"])
    rate = limits["lines"][min((size for size in sizes if size >= work.table), default=sizes[-1])]
    times = {
        "arithmetic": work.multiply_adds / limits["multiply_adds"],
        "reading in order": work.streamed / limits["bytes"],
        "reading at random": work.lines / rate,
    }
    name = max(times, key=lambda one: times[one])
    return times[name], name


def steps_of(split: Split) -> Iterator[tuple[str, Work, float, float]]:
    """Yield the steps of training and search: name, work, CPU seconds, and how many rows both are for."""
    encoder = TfidfEncoder()
    encoder.fit(split.texts)
    X, held = (check_features(encoder.transform(texts)) for texts in (split.texts, split.test_texts))
    tree = LinearTree(threads=1)
    with SweepCounter() as counter:
        tree.fit(X, split.Y)
    cpu = shortest(lambda: tree.fit(X, split.Y), 0.0)
    n = X.shape[0]
    yield "tree, training", counter.work(), cpu, n
    weights, rows = tree.trees_[0], csr_parts(held)
    work, nodes = search_work(weights, held[:SAMPLE], K, WIDTH)
    effort = float(tree.search_effort(held[:SAMPLE], K, beam_width=WIDTH, search="beam")[0].mean())
    if abs(nodes - effort) > 0.15 * effort:
        raise SystemExit(f"the count of visited nodes is wrong: {nodes:.1f} per row, the search reports {effort:.1f}")
    yield "tree, search", work * held.shape[0], shortest(lambda: tree.rank(rows, K)), held.shape[0]
    nearest, means = Neighbours(threads=1).fit(X, split.Y), Centroids(threads=1).fit(X, split.Y)
    for title, model, most in (
        ("nearest rows", nearest, nearest.max_features),
        ("centroids", means, QUERY_FEATURES),
    ):
        [index] = model.segments_
        queries = largest_features(rows, most, 1)
        cpu = shortest(lambda: index.nearest(queries, NEAREST))  # noqa: B023
        yield title, index_work(index, queries.to_scipy()) * held.shape[0], cpu, held.shape[0]
    yield fusion_step()


def fusion_step(n: int = 20_000) -> tuple[str, Work, float, float]:
    """Return the step of 100 boosted trees over the candidates of several members."""
    rng = np.random.default_rng(0)
    features = rng.random((n, 15), dtype=np.float32)
    fusion = Boosted.fit(features, features[:, 0] + rng.random(n) > 1)
    tests = int((fusion.feature >= 0).sum())
    return "fusion, per candidate", Work(tests * n, 60.0 * n, 0, 0), shortest(lambda: fusion.logits(features)), n


def page_blocks(content: dict[str, Any]) -> Iterator[str]:
    """Yield what the machine can do, then a table per set."""
    limits = content["limits"]
    yield machine_line(content["machine"])
    lines = ", ".join(f"{int(size) >> 10:,} KB {number(rate / 1e6)}" for size, rate in limits["lines"].items())
    yield (
        f"One core: {number(limits['multiply_adds'] / 1e9)} billion multiply-adds per second (matrix product), "
        f"{number(limits['bytes'] / 1e9)} GB per second (copy), and of random cache lines, in millions per second by "
        f"size of the table: {lines}."
    )
    yield "![Multiply-adds per second by multiply-adds per byte](roofline.svg)"
    header = ["step", "multiply-adds", "bytes", "random lines", "set by", "least µs", "measured µs", "share"]
    for name, steps in content["sets"].items():
        yield f"## {name}\n\nPer row; fusion per candidate."
        yield table(header, [_row(step) for step in steps])


def _row(step: dict[str, Any]) -> list[str]:
    figures = [number(step[name]) for name in ("multiply_adds", "streamed", "lines")]
    times = [number(1e6 * step[name]) for name in ("least", "seconds")]
    return [step["name"], *figures, step["by"], *times, f"{100 * step['least'] / step['seconds']:.0f} %"]


def draw(content: dict[str, Any]) -> str:
    """Return the roofline: what the machine allows, and where the steps are."""
    limits, points = content["limits"], []
    for steps in content["sets"].values():
        for step in steps:
            read = step["streamed"] + LINE * step["lines"]
            intensity, speed = step["multiply_adds"] / read, step["multiply_adds"] / step["seconds"] / 1e9
            points.append((step["name"].partition(",")[0] + step["name"].partition(",")[2], Mark(intensity, speed)))
    reach = np.geomspace(min(mark.x for _, mark in points) / 2, max(mark.x for _, mark in points) * 2, 20)
    roof = [Mark(float(x), min(limits["multiply_adds"], float(x) * limits["bytes"]) / 1e9) for x in reach]
    curves: dict[str, list[Mark]] = {"the machine, reading in order": roof}
    for name, mark in points:
        curves.setdefault(name, []).append(mark)
    title = "One core: what it allows and what the kernels reach"
    return chart_svg(Chart(title, "multiply-adds per byte", "billion multiply-adds per second", curves, log=True))


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=DEFAULT_SETS)
    parser.add_argument("--rows", type=int, default=15_000, help="of each set; default 15,000")
    args = parser.parse_args()
    content: dict[str, Any] = {"machine": machine(), "limits": measure_machine(), "sets": {}}
    for name in args.sets:
        if not SETS[name].path.exists():
            print(f"skipped: {name} is not in ../shared/data")
            continue
        steps = []
        for title, work, seconds, n in steps_of(SETS[name].split(0, args.rows)):
            least, by = least_seconds(work, content["limits"])
            own = (work * (1 / n))._asdict()
            steps.append({"name": title, **own, "least": least / n, "seconds": seconds / n, "by": by})
        content["sets"][SETS[name].title] = steps
    PAGE.save(args.out, content)
    (args.out / "roofline.svg").write_text(draw(content), encoding="utf-8")
    PAGE.write(args.out, page_blocks(content))


if __name__ == "__main__":
    main()
