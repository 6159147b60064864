"""The softmax tree beside fastText: precision, depth, speed, latency. Written to docs/benchmarks.

Run with ``python -m benchmarks.softmax_tree``; needs the real datasets in ../shared/data. fastText (hierarchical
softmax, its own Huffman tree) and tagwood's softmax tree on Huffman's tree, Fano's, balanced and interpolated ones get
the same words, the same settings and one thread, each in a process of its own, one after the other.
"""

from __future__ import annotations

import argparse
import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import ROOT, JobFailedError, run_job
from benchmarks.peers import interpreter, version
from benchmarks.softmax_problems import CACHE, SETS, Problem, prepare
from benchmarks.tables import machine, machine_line, markdown_table, number
from tagwood import Ranking
from tagwood.metrics import evaluate
from tagwood.trees import lambda_grid

OUT = ROOT / "docs" / "benchmarks"
K = 5
SETTINGS = {"rate": 0.5, "dimension": 128, "min_count": 2, "seed": 0}
MEASURES = ("P@1", "P@3", "P@5")
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "fastText, Huffman": ("fasttext", {}),
    "tagwood, Huffman": ("tagwood", {"tree": "huffman"}),
    "tagwood, Fano": ("tagwood", {"tree": "fano"}),
    "tagwood, balanced": ("tagwood", {"tree": "balanced"}),
    **{
        f"tagwood, λ={lam:.2f}": ("tagwood", {"lam": float(lam)})
        for lam in lambda_grid([0.25, 0.5, 1, 2, 6, 30])
    },
}
COLUMNS = {
    "train_cpu": "train CPU s", "speed": "million words per CPU s", "P@1": "P@1", "P@3": "P@3", "P@5": "P@5",
    "depth@1": "depth@1", "decisions_5": "decisions, k=5", "rows_per_cpu_s": "rows per CPU s",
    "p50_ms": "one row p50 ms", "p99_ms": "p99 ms", "disk_mb": "disk MB",
}  # fmt: skip
INTRODUCTION = """\
`python -m benchmarks.softmax_tree` repeats this. Averaged embeddings of words and word pairs with a hierarchical
softmax: fastText's own, and tagwood's `SoftmaxTree` on several label trees. Same words, rate 0.5 falling to
0, dimension 128, 2²¹ buckets for pairs, one sampled label per update, one thread. Kept are words that stand
in two texts (fastText: that stand twice) and, by tagwood only, pairs in two texts: fastText keeps all.

Training time is that of the whole call: dictionary, tree, embeddings. fastText reads and hashes its file in every
epoch; tagwood cuts texts into words once. Prediction returns the 5 most probable labels, exactly in both. depth@1 is
the depth of the first label returned, decisions what the search evaluates; fastText tells neither."""


def run(problem: Problem, title: str, epochs: int, threads: int, minutes: float) -> dict[str, Any]:
    """Measure one tool on one problem."""
    print(f"{problem.name}: {title} ...", flush=True)
    tool, settings = TOOLS[title]
    ranking, folder = CACHE / "ranking.npz", CACHE / "model"
    shutil.rmtree(folder, ignore_errors=True)
    job = {
        **SETTINGS, "tool": tool, "settings": settings, "epochs": epochs, "threads": threads, "k": K,
        "data": str(problem.folder), "ranking": str(ranking), "folder": str(folder),
    }  # fmt: skip
    log = CACHE / "logs" / problem.name / f"{title.replace(' ', '_')}.txt"
    try:
        figures = run_job(
            interpreter(tool), "benchmarks.softmax_worker", job, log, threads=threads, minutes=minutes
        )
    except JobFailedError as error:
        print(f"{problem.name}: {title}: {error}", flush=True)
        return {"title": title, "failed": str(error)}
    figures["speed"] = problem.facts["n_words"] * epochs / figures["train_cpu"] / 1e6
    report = evaluate(problem.Y_test, read_ranking(ranking, problem.Y_test.shape[1]), metrics=MEASURES)
    shutil.rmtree(folder, ignore_errors=True)
    return {"title": title, **figures, **{name: 100 * report[name] for name in MEASURES}}


def read_ranking(path: Path, n_labels: int) -> Ranking:
    """Return the ranking a worker stored."""
    stored = np.load(path)
    used = stored["labels"] >= 0
    indptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    return Ranking(indptr, stored["labels"][used], stored["scores"][used], n_labels)


def page(results: list[dict[str, Any]], facts: dict[str, Any]) -> str:
    """Return the page of all results."""
    lines = [
        "# Softmax tree beside fastText",
        "",
        INTRODUCTION,
        "",
        machine_line(facts),
    ]
    lines += [f"Versions: fasttext-wheel {facts['fasttext']}, tagwood {facts['tagwood']}."]
    for result in results:
        rows = result["rows"]
        cut = f", the first {result['most_words']} words of each" if result["most_words"] else ""
        about = (
            f"{result['n_train']:,} texts of {result['n_words'] / result['n_train']:.0f} words{cut}; "
            f"{result['n_labels']:,} labels, {result['labels_per_row']:.1f} per text; {result['n_test']:,} test texts."
        )
        lines += ["", f"## {result['problem']}, {result['epochs']} epochs", "", about, ""]
        lines += markdown_table(
            ["", *COLUMNS.values()], [[row["title"], *(_cell(row, c) for c in COLUMNS)] for row in rows]
        )
        lines += _remarks(rows)
    return "\n".join(lines) + "\n"


def _cell(row: dict[str, Any], column: str) -> str:
    if column not in row:
        return ""
    return f"{row[column]:.2f}" if column in MEASURES or column.startswith("depth") else number(row[column])


def _remarks(rows: list[dict[str, Any]]) -> list[str]:
    known = {row["title"]: row for row in rows if "failed" not in row}
    said = [f"{row['title']}: {row['failed']}." for row in rows if "failed" in row]
    ours, theirs = known.get("tagwood, Huffman"), known.get("fastText, Huffman")
    if ours and theirs:
        said.append(
            f"On Huffman's tree: P@1 {ours['P@1'] - theirs['P@1']:+.2f} points, "
            f"{ours['speed'] / theirs['speed']:.1f} times the words per CPU second."
        )
    if busy := max((row.get("train_others", 0) for row in rows), default=0):
        said += [f"Other processes used up to {busy:.1f} cores meanwhile."] if busy > 0.2 else []
    default = known.get("tagwood, λ=1.00")
    if ours and default:
        gains = ", ".join(f"{m} {100 * (default[m] / ours[m] - 1):+.1f} %" for m in MEASURES)
        deeper = 100 * (default["depth@1"] / ours["depth@1"] - 1)
        said.append(
            f"λ=1, the default, against Huffman's tree, both tagwood's: {gains}, depth@1 {deeper:+.1f} %."
        )
    return [line for text in said for line in ("", text)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--tools", nargs="+", default=list(TOOLS), choices=list(TOOLS))
    parser.add_argument("--epochs", type=int, nargs="+", default=[5, 25])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, help="use only so many training rows")
    parser.add_argument("--minutes", type=float, default=120, help="longest time for one tool on one set")
    parser.add_argument("--output", type=Path, default=OUT)
    args = parser.parse_args()
    facts = {**machine(), **{name: version(name) for name in ("fasttext", "tagwood")}}
    results = []
    problems = {name: prepare(name, args.rows) for name in args.data}
    for (name, problem), epochs in product(problems.items(), args.epochs):
        rows = [run(problem, title, epochs, args.threads, args.minutes) for title in args.tools]
        results.append({"problem": name, "epochs": epochs, **problem.facts, "rows": rows})
        args.output.mkdir(parents=True, exist_ok=True)
        stored = {"machine": facts, "threads": args.threads, "problems": results}
        (args.output / "softmax_tree.json").write_text(
            json.dumps(stored, indent=1, ensure_ascii=False) + "\n"
        )
        (args.output / "softmax_tree.md").write_text(page(results, facts), encoding="utf-8")


if __name__ == "__main__":
    main()
