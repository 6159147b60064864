"""Time from the shell to an answer: ``python -m benchmarks.cold_start``.

In: the docstrings of this Python, on which a model of each quality is trained. Every figure is of whole processes, with
a warm file cache and compiled modules; the fastest and the median of some calls that take turns.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import Page, machine, machine_line, number, table
from tagwood import Tagger, demo

PAGE = Page("benchmarks", "cold_start")
TEXT = "read a table of numbers from a text file"
QUALITIES = ("fast", "balanced")


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--calls", type=int, default=30)
    arguments = parser.parse_args()
    train, _ = demo.build(demo.CORE_PACKAGES)
    with tempfile.TemporaryDirectory(prefix="tagwood-cold-start-") as folder:
        for quality in QUALITIES:
            Tagger(quality=quality).fit(train).save(Path(folder) / quality)
        results = measure(commands(folder), arguments.calls)
    content = {"machine": machine(), "rows": train.n_rows, "labels": train.n_labels, "results": results}
    PAGE.save(arguments.out, content)
    PAGE.write(arguments.out, page_blocks(content))


def commands(folder: str) -> dict[str, list[str]]:
    """Return what is measured, by its name."""
    python, tagwood = sys.executable, str(Path(sys.executable).parent / "tagwood")
    found = {
        "python, nothing": [python, "-c", "pass"],
        "import numpy": [python, "-c", "import numpy"],
        "import tagwood": [python, "-c", "import tagwood"],
        "from tagwood import Tagger": [python, "-c", "from tagwood import Tagger"],
        "tagwood --help": [tagwood, "--help"],
    }
    for quality in QUALITIES:
        found[f"tagwood predict, {quality}"] = [tagwood, "predict", f"{folder}/{quality}", TEXT]
    return found


def measure(calls: dict[str, list[str]], n: int) -> list[dict[str, Any]]:
    """Return wall and CPU seconds of commands that take turns; the first turn warms caches and is not counted."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(n + 1):
        for name, command in calls.items():
            before, start = cpu_of_children(), time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=True)
            turns[name].append((time.perf_counter() - start, cpu_of_children() - before))
    rows = []
    for name, turn in turns.items():
        wall, cpu = zip(*turn[1:], strict=True)
        rows.append({"call": name, "wall": min(wall), "median wall": median(wall), "cpu": min(cpu)})
    return rows


def cpu_of_children() -> float:
    """Return the CPU seconds of the processes that have ended, user and system."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def page_blocks(content: dict[str, Any]) -> list[str]:
    rows = [
        [one["call"], *(number(1000 * one[name]) for name in ("wall", "median wall", "cpu"))]
        for one in content["results"]
    ]
    return [
        machine_line(content["machine"]),
        f"Models of {content['rows']:,} rows and {content['labels']:,} labels.",
        table(["call", "wall ms, fastest", "median", "CPU ms, fastest"], rows),
    ]


if __name__ == "__main__":
    main()
