"""`SoftmaxTree` beside fastText: precision, depth, speed, latency: ``python -m benchmarks.softmax_tree``.

Needs the real datasets in ../shared/data. fastText (hierarchical softmax, its own Huffman tree) and tagwood's softmax
tree on several trees get the same words, the same settings and one thread, each in its own process. Words are runs of
two or more letters and digits in lower case. Training rows are shuffled once: fastText reads them in file order.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks import CACHE
from benchmarks.measure import JobFailedError, run_job
from benchmarks.peers import interpreter, version
from benchmarks.problems import read_splits
from benchmarks.report import Page, machine, machine_line, number, table
from tagwood import Ranking
from tagwood.data import Dataset
from tagwood.metrics import evaluate
from tagwood.trees import lambda_grid

PAGE = Page("benchmarks", "softmax_tree")
WORK = CACHE / "softmax_tree"
K = 5
SETTINGS = {"rate": 0.5, "dimension": 128, "min_count": 2, "seed": 0}
MEASURES = ("P@1", "P@3", "P@5")
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "fastText, Huffman": ("fasttext", {}),
    "tagwood, Huffman": ("tagwood", {"tree": "huffman"}),
    "tagwood, Fano": ("tagwood", {"tree": "fano"}),
    "tagwood, balanced": ("tagwood", {"tree": "balanced"}),
    **{f"tagwood, λ={lam:.2f}": ("tagwood", {"lam": float(lam)}) for lam in lambda_grid([0.25, 0.5, 1, 2, 6, 30])},
}
COLUMNS = {
    "train_cpu": "train CPU s", "speed": "million words per CPU s", "P@1": "P@1", "P@3": "P@3", "P@5": "P@5",
    "depth@1": "depth@1", "decisions_5": "decisions, k=5", "rows_per_cpu_s": "rows per CPU s",
    "p50_ms": "one row p50 ms", "p99_ms": "p99 ms", "disk_mb": "disk MB",
}  # fmt: skip

# Set -> words of a text that are used (0: all)
SETS = {"cooking-stackexchange": 0, "eurlex57k": 100, "tibkat-gnd-en": 100, "yso-titles": 0}
_WORD = re.compile(r"\w\w+")


@dataclass(frozen=True)
class Problem:
    """A set in ``.cache``: train.txt, test.txt, and the label sets of the test rows."""

    name: str
    folder: Path
    Y_test: sparse.csr_array
    facts: dict[str, Any]


def words(text: str, most: int) -> str:
    """Return the words of a text, joined by spaces.

    Examples
    --------
    >>> words("What's a roux-based sauce?", 0)
    'what roux based sauce'
    """
    found = _WORD.findall(text.lower())
    return " ".join(found[:most] if most else found)


def prepare(name: str, n_rows: int | None = None) -> Problem:
    """Write the files of a set; `n_rows` limits the training rows."""
    train, test = read_splits(name)
    order = np.random.default_rng(0).permutation(train.n_rows)[:n_rows]
    most = SETS[name]
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines, n_words = _lines(train, order, most)
    (folder / "train.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    asked = [words(text, most) for text in test.texts or ()]
    (folder / "test.txt").write_text("\n".join(asked) + "\n", encoding="utf-8")
    facts = {
        "n_train": len(lines), "n_test": test.n_rows, "n_words": n_words, "most_words": most,
        "n_labels": int(np.unique(train.labels[order].indices).size),
        "labels_per_row": float(train.labels[order].nnz / order.size),
    }  # fmt: skip
    (folder / "facts.json").write_text(json.dumps(facts))
    return Problem(name, folder, test.labels, facts)


def _lines(train: Dataset, order: Any, most: int) -> tuple[list[str], int]:
    texts, Y = list(train.texts or ()), train.labels
    lines, n_words = [], 0
    for row in order.tolist():
        text = words(texts[row], most)
        marks = " ".join(f"__label__{label}" for label in Y.indices[Y.indptr[row] : Y.indptr[row + 1]])
        lines.append(f"{marks} {text}")
        n_words += text.count(" ") + 1
    return lines, n_words


def run(problem: Problem, title: str, epochs: int, threads: int, minutes: float) -> dict[str, Any]:
    """Measure one tool on one problem."""
    print(f"{problem.name}: {title} ...", flush=True)
    tool, settings = TOOLS[title]
    ranking, folder = WORK / "ranking.npz", WORK / "model"
    shutil.rmtree(folder, ignore_errors=True)
    job = {
        **SETTINGS, "tool": tool, "settings": settings, "epochs": epochs, "threads": threads, "k": K,
        "data": str(problem.folder), "ranking": str(ranking), "folder": str(folder),
    }  # fmt: skip
    log = WORK / "logs" / problem.name / f"{title.replace(' ', '_')}.txt"
    try:
        figures = run_job(
            interpreter(tool), "benchmarks.softmax_tree.worker", job, log, threads=threads, minutes=minutes
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


def page_blocks(stored: dict[str, Any]) -> Iterator[str]:
    """Yield a table per set and number of epochs."""
    facts = stored["machine"]
    versions = f"fasttext-wheel {facts['fasttext']}, tagwood {facts['tagwood']}"
    yield f"{machine_line(facts)} Versions: {versions}."
    for result in stored["problems"]:
        rows = result["rows"]
        cut = f", the first {result['most_words']} words of each" if result["most_words"] else ""
        yield f"## {result['problem']}, {result['epochs']} epochs"
        yield (
            f"{result['n_train']:,} texts of {result['n_words'] / result['n_train']:.0f} words{cut}; "
            f"{result['n_labels']:,} labels, {result['labels_per_row']:.1f} per text; {result['n_test']:,} test texts."
        )
        yield table(["", *COLUMNS.values()], [[row["title"], *(_cell(row, c) for c in COLUMNS)] for row in rows])
        yield from _remarks(rows)


def _cell(row: dict[str, Any], column: str) -> str:
    if column not in row:
        return ""
    return f"{row[column]:.2f}" if column in MEASURES or column.startswith("depth") else number(row[column])


def _remarks(rows: list[dict[str, Any]]) -> Iterator[str]:
    known = {row["title"]: row for row in rows if "failed" not in row}
    yield from (f"{row['title']}: {row['failed']}." for row in rows if "failed" in row)
    ours, theirs = known.get("tagwood, Huffman"), known.get("fastText, Huffman")
    default = known.get("tagwood, λ=1.00")
    said = []
    if ours and theirs:
        gain, speed = ours["P@1"] - theirs["P@1"], ours["speed"] / theirs["speed"]
        said.append(f"On Huffman's tree: P@1 {gain:+.2f} points, {speed:.1f} times the words per CPU second.")
    if ours and default:
        gains = ", ".join(f"{m} {100 * (default[m] / ours[m] - 1):+.1f} %" for m in MEASURES)
        deeper = 100 * (default["depth@1"] / ours["depth@1"] - 1)
        said.append(f"λ=1, the default, against Huffman's tree: {gains}, depth@1 {deeper:+.1f} %.")
    busy = max((row.get("train_others", 0) for row in rows), default=0)
    if busy > 0.2:
        said.append(f"Other processes used up to {busy:.1f} cores meanwhile.")
    yield " ".join(said)


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--data", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--tools", nargs="+", default=list(TOOLS), choices=list(TOOLS))
    parser.add_argument("--epochs", type=int, nargs="+", default=[5, 25])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, help="use only ROWS training rows")
    parser.add_argument("--minutes", type=float, default=120, help="time limit of one tool on one set")
    args = parser.parse_args()
    facts = {**machine(), **{name: version(name) for name in ("fasttext", "tagwood")}}
    stored: dict[str, Any] = {"machine": facts, "threads": args.threads, "problems": []}
    problems = {name: prepare(name, args.rows) for name in args.data}
    for (name, problem), epochs in product(problems.items(), args.epochs):
        rows = [run(problem, title, epochs, args.threads, args.minutes) for title in args.tools]
        stored["problems"].append({"problem": name, "epochs": epochs, **problem.facts, "rows": rows})
        PAGE.save(args.out, stored)
    PAGE.write(args.out, page_blocks(stored))


if __name__ == "__main__":
    main()
