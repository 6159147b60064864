"""What the benchmark of the service found, and its page. In: reports of wrk. Out: service.md and .json."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers import version
from benchmarks.problems import ROOT
from benchmarks.tables import machine, machine_line, markdown_table, number

PAGE = ROOT / "docs" / "benchmarks" / "service"
K = 5
_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


class Prepared(NamedTuple):
    """tagwood's model, the rows that Annif is trained on, and texts to ask about."""

    model: Path
    names: list[str]
    rows: Sequence[str]
    labels: list[list[int]]
    texts: list[str]


@dataclass(frozen=True)
class Load:
    """What wrk measured."""

    title: str
    connections: int
    seconds: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    requests: int
    errors: int


def read_wrk(said: str, title: str, connections: int, seconds: int) -> Load:
    r"""Read wrk's report.

    Examples
    --------
    >>> report = "50%  1.50ms\n 99%  20.00us\n 300 requests in 3.00s\nRequests/sec: 100.00"
    >>> load = read_wrk(report, "x", 1, 3)
    >>> load.requests_per_second, load.p50_ms, load.p99_ms, load.requests, load.errors
    (100.0, 1.5, 0.02, 300, 0)
    """

    def percentile(share: int) -> float:
        found = re.search(rf"{share}%\s+([\d.]+)(us|ms|s|m)\b", said)
        return float(found[1]) * _UNITS[found[2]] if found else float("nan")

    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", said)
    errors = (int(bad[1]) if bad else 0) + (sum(map(int, broken.groups())) if broken else 0)
    rate, count = re.search(r"Requests/sec:\s+([\d.]+)", said), re.search(r"(\d+) requests in", said)
    assert rate is not None
    assert count is not None
    return Load(
        title, connections, seconds, float(rate[1]), percentile(50), percentile(99), int(count[1]), errors
    )


def write_page(
    rows: list[Load],
    memory: list[dict[str, float]],
    long_load: Load | None,
    options: argparse.Namespace,
    data: Prepared,
) -> None:
    """Write the page and the figures."""
    facts: dict[str, Any] = {
        "machine": machine(),
        "rows": [asdict(row) for row in rows],
        "memory": memory,
        "long_load": None if long_load is None else asdict(long_load),
    }
    facts["settings"] = {
        key: value for key, value in vars(options).items() if key not in ("no_page", "only_memory")
    }
    facts["versions"] = {"tagwood": version("tagwood")}
    if not options.no_annif:
        facts["versions"]["annif"] = version("annif")
    if any(row.errors for row in [*rows, *([long_load] if long_load else [])]):
        print(
            "! There were errors: look at the logs in .cache/bench/service before you publish this.",
            flush=True,
        )
    text = "\n".join(page_lines(rows, memory, facts, options, data)) + "\n"
    if options.no_page:
        print(text)
        return
    PAGE.with_suffix(".md").write_text(text)
    PAGE.with_suffix(".json").write_text(json.dumps(facts, indent=2) + "\n")


def page_lines(
    rows: list[Load],
    memory: list[dict[str, float]],
    facts: dict[str, Any],
    options: argparse.Namespace,
    data: Prepared,
) -> list[str]:
    annif = {row.connections: row.requests_per_second for row in rows if row.title.startswith("Annif")}
    cells = [
        [
            row.title,
            str(row.connections),
            number(row.requests_per_second),
            f"{row.requests_per_second / annif[row.connections]:.1f}x" if annif else "",
            number(row.p50_ms),
            number(row.p99_ms),
            f"{row.errors:,}",
        ]
        for row in rows
    ]
    header = ["service", "connections", "requests/s", "against Annif", "p50 ms", "p99 ms", "errors"]
    setting = (
        f"One title per request, {len(data.texts):,} titles of yso-titles in turn, the best {K} labels of "
        f"{len(data.names):,}; models trained on the same {len(data.rows):,} rows. Load by wrk over the loopback "
        f"address, {options.seconds} s each, {options.workers} worker processes on {os.cpu_count()} cores, which wrk "
        "shares. Annif is served by gunicorn with uvicorn workers, as its documentation says."
    )
    lines = ["# The REST service under load", "", setting, "", *markdown_table(header, cells), ""]
    if memory:
        asked = facts["long_load"]
        lines += [memory_line(memory), f"{asked['requests']:,} requests, {asked['errors']:,} errors.", ""]
    versions = ", ".join(f"{name} {found}" for name, found in facts["versions"].items())
    return [
        *lines,
        f"Versions: {versions}.",
        machine_line(facts["machine"]),
        "Made by `python -m benchmarks.service`.",
    ]


def memory_line(looks: list[dict[str, float]]) -> str:
    """Return what memory did, the first sixth of the time left out: caches fill."""
    late = [look["mb"] for look in looks[len(looks) // 6 :]]
    return (
        f"Memory of all processes (shared pages counted once) over {looks[-1]['seconds'] / 60:.1f} minutes of load: "
        f"{late[0]:.0f} MB after the first sixth, {late[-1]:.0f} MB at the end, {max(late):.0f} MB at most."
    )
