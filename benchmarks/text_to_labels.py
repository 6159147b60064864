"""From a text to its best five label names, beside libpecos: ``python -m benchmarks.text_to_labels``.

In: EURLEX57K, library titles (YSO) and library records (GND) of ../shared/data; sets that are not there are skipped by
name. Out: docs/benchmarks/text_to_labels.md and .json. libpecos uses its own C++ TF-IDF vectoriser and XR-Linear,
tagwood a `Tagger` with calibrated probabilities; both make word 1-2-grams that stand in two texts or more, and search
with a beam of 10. Every training and every way to ask is a process of its own. A trained libpecos model is kept in
.cache and used again unless ``--fresh`` is given.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.measure import ROOT, run_job
from benchmarks.peers import interpreter, version
from benchmarks.problems import CACHE, SHARED
from benchmarks.tables import machine, machine_line, markdown_table, number

OUTPUT = ROOT / "docs" / "benchmarks"
SETS = {"eurlex57k": "EU laws", "yso-titles": "library titles", "tibkat-gnd-en": "library records"}
TURNS = 3
SLOWER, MORE_ROWS = 5.0, 4.0  # what tagwood is to reach


class Way(NamedTuple):
    """A tool and how its trained model is asked."""

    tool: str
    title: str
    mode: dict[str, Any]


WAYS = (
    Way("pecos", "libpecos TF-IDF + XR-Linear", {}),
    Way("pecos", "the same, hash-chunked", {"weight_matrix_type": "HASH_CHUNKED"}),
    Way("tagwood", "tagwood Tagger", {}),
)


def measure(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Train every tool on a set; then ask in every way by turns, so that a slow moment of the machine hits all."""
    jobs, trained = [], []
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
        trained.append(_train(job, folder, args))
    asked: list[list[dict[str, Any]]] = [[] for _ in WAYS]
    for turn in range(1 if args.quick else TURNS):
        for answers, way, (job, folder) in zip(asked, WAYS, jobs, strict=True):
            print(f"{name}: {way.title}: asking, turn {turn + 1}", flush=True)
            answers.append(_run({**job, "step": "ask"}, folder / "ask.txt", args))
    return [
        {
            "set": name,
            **way._asdict(),
            **fit,
            **{key: median(answer[key] for answer in answers) for key in answers[0]},
        }
        for way, fit, answers in zip(WAYS, trained, asked, strict=True)
    ]


def _train(job: dict[str, Any], folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Train, unless a model that was trained in the same way is there."""
    done = folder / "trained.json"
    key = {"version": version(job["tool"]), "threads": job["threads"], "limit": job["limit"]}
    if done.exists() and not (args.fresh and str(done) not in args.trained):
        content = json.loads(done.read_text())
        if content["key"] == key and (job["tool"] == "pecos" or args.keep or str(done) in args.trained):
            return content["figures"]
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{Path(job['data']).name}: {job['tool']}: training", flush=True)
    figures = _run({**job, "step": "train"}, folder / "train.txt", args)
    done.write_text(json.dumps({"key": key, "figures": figures}))
    args.trained.add(str(done))
    return figures


def _run(job: dict[str, Any], log: Path, args: argparse.Namespace) -> dict[str, Any]:
    limits = {"threads": args.threads, "minutes": args.minutes}
    return run_job(interpreter(job["tool"]), "benchmarks.text_worker", job, log, **limits)


def compare(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return how much faster tagwood is than the faster way to ask libpecos."""
    peers = [row for row in rows if row["tool"] == "pecos"]
    ours = next(row for row in rows if row["tool"] == "tagwood")
    return {
        "p50": min(row["p50_ms"] for row in peers) / ours["p50_ms"],
        "p99": min(row["p99_ms"] for row in peers) / ours["p99_ms"],
        "rows": ours["rows_per_cpu_s"] / max(row["rows_per_cpu_s"] for row in peers),
    }


def to_markdown(content: dict[str, Any]) -> str:
    """Return the page."""
    lines = [
        "# From texts to label names",
        "",
        (__doc__ or "").split("\n\n", 1)[1].strip(),
        "",
        "One text at a time is asked from Python with one thread; batches with all threads, counted in CPU seconds.",
        f"The ways to ask take turns, {TURNS} each; figures are medians.",
        f"{machine_line(content['machine'])} {content['versions']}.",
    ]
    for name, rows in content["sets"].items():
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
        cells = [
            [
                row["title"],
                *(number(row[key]) for key in ("p50_ms", "p99_ms", "rows_per_cpu_s")),
                f"{row['P@1']:.1f}",
                f"{row['P@5']:.1f}",
                number(row["train_cpu"]),
                number(row["disk_mb"]),
            ]
            for row in rows
        ]
        times = compare(rows)
        first = rows[0]
        lines += [
            "",
            f"## {name}: {SETS[name]}, {first['n_test']:,} test texts of {first['characters']:,.0f} characters",
            "",
            *markdown_table(header, cells),
            "",
            f"Against the faster way to ask libpecos: p50 {times['p50']:.1f} times shorter,",
            f"p99 {times['p99']:.1f} times, {times['rows']:.1f} times the rows per CPU second.",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60, help="longest time for one step")
    parser.add_argument("--fresh", action="store_true", help="train libpecos again as well")
    parser.add_argument("--keep", action="store_true", help="also use tagwood's model again")
    parser.add_argument("--quick", action="store_true", help="2,000 rows of each set, to try it out")
    parser.add_argument("--out", type=Path, default=OUTPUT)
    args = parser.parse_args()
    args.trained = set()
    content: dict[str, Any] = {"machine": machine(), "sets": {}}
    content["versions"] = f"libpecos {version('pecos')}, tagwood {version('tagwood')}"
    for name in args.data:
        if (SHARED / name).exists():
            content["sets"][name] = measure(name, args)
        else:
            print(f"skipped: {name} is not in ../shared/data", flush=True)
    page = to_markdown(content)
    print(page)
    if not content["sets"]:
        raise SystemExit("nothing was measured")
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "text_to_labels.json").write_text(json.dumps(content, indent=1) + "\n")
    (args.out / "text_to_labels.md").write_text(page)
    times = {name: compare(rows) for name, rows in content["sets"].items()}
    short = [name for name, one in times.items() if one["p50"] < SLOWER or one["rows"] < MORE_ROWS]
    if short:
        raise SystemExit(f"below the aim: {', '.join(short)}")


if __name__ == "__main__":
    main()
