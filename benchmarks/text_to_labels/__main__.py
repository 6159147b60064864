"""From a text to its best five label names, beside libpecos: ``python -m benchmarks.text_to_labels``.

In: EURLEX57K, library titles (YSO) and library records (GND) of ../shared/data; missing sets are skipped by name. Every
training and every measurement runs in its own process. A trained libpecos model is kept in .cache and used again unless
``--fresh`` is given.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import CACHE, SHARED
from benchmarks.measure import run_job
from benchmarks.peers import interpreter, version
from benchmarks.report import Page, machine, machine_line, number, table

PAGE = Page("benchmarks", "text_to_labels")
SETS = {"eurlex57k": "EU laws", "yso-titles": "library titles", "tibkat-gnd-en": "library records"}
TURNS = 3


class Way(NamedTuple):
    """A tool and the mode of its trained model."""

    tool: str
    title: str
    mode: dict[str, Any]


WAYS = (
    Way("pecos", "libpecos TF-IDF + XR-Linear", {}),
    Way("pecos", "the same, hash-chunked", {"weight_matrix_type": "HASH_CHUNKED"}),
    Way("tagwood", "tagwood Tagger", {}),
)


def measure(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Train every tool on a set, then predict in turns, so that a slow moment of the machine affects all."""
    jobs: list[tuple[dict[str, Any], Path]] = []
    trained: dict[str, dict[str, Any]] = {}
    for way in WAYS:
        folder = CACHE / "texts" / (f"{name}-quick" if args.quick else name) / way.tool
        job = {
            "tool": way.tool,
            "data": str(SHARED / name),
            "folder": str(folder / "model"),
            "mode": way.mode,
        }
        job |= {"threads": args.threads, "limit": 2_000 if args.quick else 0}
        jobs.append((job, folder))
        trained[way.tool] = trained.get(way.tool) or _train(job, folder, args)
    asked: list[list[dict[str, Any]]] = [[] for _ in WAYS]
    for turn in range(1 if args.quick else TURNS):
        for answers, way, (job, folder) in zip(asked, WAYS, jobs, strict=True):
            print(f"{name}: {way.title}: predicting, turn {turn + 1}", flush=True)
            answers.append(_run({**job, "step": "ask"}, folder / "ask.txt", args))
    return [
        {
            "set": name,
            **way._asdict(),
            **trained[way.tool],
            **{key: median(answer[key] for answer in answers) for key in answers[0]},
        }
        for way, answers in zip(WAYS, asked, strict=True)
    ]


def _train(job: dict[str, Any], folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Train; an earlier model of libpecos with the same settings is used again."""
    done = folder / "trained.json"
    key = {"version": version(job["tool"]), "threads": job["threads"], "limit": job["limit"]}
    if job["tool"] == "pecos" and done.exists() and not args.fresh:
        content = json.loads(done.read_text())
        if content["key"] == key:
            return content["figures"]
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{Path(job['data']).name}: {job['tool']}: training", flush=True)
    figures = _run({**job, "step": "train"}, folder / "train.txt", args)
    done.write_text(json.dumps({"key": key, "figures": figures}))
    return figures


def _run(job: dict[str, Any], log: Path, args: argparse.Namespace) -> dict[str, Any]:
    limits = {"threads": args.threads, "minutes": args.minutes}
    return run_job(interpreter(job["tool"]), "benchmarks.text_to_labels.worker", job, log, **limits)


def compare(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return how much faster tagwood is than the faster mode of libpecos."""
    peers = [row for row in rows if row["tool"] == "pecos"]
    ours = next(row for row in rows if row["tool"] == "tagwood")
    return {
        "p50": min(row["p50_ms"] for row in peers) / ours["p50_ms"],
        "p99": min(row["p99_ms"] for row in peers) / ours["p99_ms"],
        "rows": ours["rows_per_cpu_s"] / max(row["rows_per_cpu_s"] for row in peers),
    }


def page_blocks(content: dict[str, Any]) -> Iterator[str]:
    """Yield a table per set."""
    yield f"{machine_line(content['machine'])} {content['versions']}."
    header = [
        "",
        "one text p50 ms",
        "p99 ms",
        "batch rows per CPU s",
        "P@1",
        "P@5",
        "training CPU s",
        "disk MB",
    ]
    for name, rows in content["sets"].items():
        first, times = rows[0], compare(rows)
        yield f"## {name}: {SETS[name]}, {first['n_test']:,} test texts of {first['characters']:,.0f} characters"
        yield table(
            header,
            [
                [
                    row["title"],
                    *(number(row[key]) for key in ("p50_ms", "p99_ms", "rows_per_cpu_s")),
                    *(f"{row[key]:.1f}" for key in ("P@1", "P@5")),
                    *(number(row[key]) for key in ("train_cpu", "disk_mb")),
                ]
                for row in rows
            ],
        )
        yield (
            f"Against the faster mode of libpecos: p50 {times['p50']:.1f} times shorter, p99 {times['p99']:.1f} times, "
            f"{times['rows']:.1f} times the rows per CPU second."
        )


def main() -> None:
    parser = PAGE.parser(__doc__, keeps=True)
    parser.add_argument("--data", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60, help="time limit of a step")
    parser.add_argument("--quick", action="store_true", help="2,000 rows of each set, to try it out")
    args = parser.parse_args()
    content: dict[str, Any] = {"machine": machine(), "sets": {}}
    content["versions"] = f"libpecos {version('pecos')}, tagwood {version('tagwood')}"
    for name in args.data:
        if (SHARED / name).exists():
            content["sets"][name] = measure(name, args)
        else:
            print(f"skipped: {name} is not in ../shared/data", flush=True)
    if not content["sets"]:
        raise SystemExit("nothing was measured")
    PAGE.save(args.out, content)
    PAGE.write(args.out, page_blocks(content))


if __name__ == "__main__":
    main()
