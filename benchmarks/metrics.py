"""CPU seconds of the metrics on a 1,000,000 x 5 ranking against 500,000 labels, written to docs/benchmarks.

Run with ``python -m benchmarks.metrics``. Labels follow a power law, about five true labels a row, and two
fifths of the returned labels are true. Inputs are made before the clock starts; checks of the inputs are
inside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse

from tagwood import Ranking
from tagwood.metrics import LabelCounts, compare, evaluate

OUT = Path(__file__).parent.parent / "docs" / "benchmarks"
LIMIT = 2.0  # CPU seconds for P@k and PSP@k together


def make_problem(
    n_rows: int, n_labels: int, k: int, seed: int = 0
) -> tuple[sparse.csr_array, Ranking, LabelCounts]:
    """Return true labels, a ranking with about two fifths of hits, and the label counts."""
    rng = np.random.default_rng(seed)
    draw = ((n_labels - k) * rng.random((n_rows, k)) ** 2.5).astype(np.int64)
    rows = np.repeat(np.arange(n_rows), k)
    Y = sparse.csr_array(
        (np.ones(rows.size, dtype=np.float32), (rows, draw.ravel())), shape=(n_rows, n_labels)
    )
    other = ((n_labels - k) * rng.random((n_rows, k)) ** 2.5).astype(np.int64)
    labels = np.where(rng.random((n_rows, k)) < 0.4, draw, other)
    labels.sort(axis=1)
    for column in range(1, k):  # each label once in a row
        labels[:, column] = np.maximum(labels[:, column], labels[:, column - 1] + 1)
    labels = rng.permuted(labels, axis=1)
    scores = np.sort(rng.random((n_rows, k), dtype=np.float32), axis=1)[:, ::-1]
    ranking = Ranking(
        np.arange(0, n_rows * k + 1, k), labels.ravel().astype(np.int32), scores.ravel(), n_labels
    )
    counts = LabelCounts(np.bincount(Y.indices, minlength=n_labels), n_rows)
    return Y, ranking, counts


def cpu_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the CPU seconds of the fastest of several runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def measure(n_rows: int, n_labels: int) -> dict[str, float]:
    Y, ranking, counts = make_problem(n_rows, n_labels, k=5)
    ks = (1, 3, 5)
    jobs: dict[str, list[str]] = {
        "P@1, P@3, P@5, PSP@1, PSP@3, PSP@5": [f"{m}@{k}" for m in ("P", "PSP") for k in ks],
        "P@1, P@3, P@5": [f"P@{k}" for k in ks],
        "nDCG@1, nDCG@3, nDCG@5": [f"nDCG@{k}" for k in ks],
        "PSnDCG@1, PSnDCG@3, PSnDCG@5": [f"PSnDCG@{k}" for k in ks],
        "R@5, RP@5": ["R@5", "RP@5"],
        "micro-F1, example-F1, hamming": ["micro-F1", "example-F1", "hamming"],
        "macro-F1, weighted-F1": ["macro-F1", "weighted-F1"],
        "coverage@5": ["coverage@5"],
    }
    found = {}
    for title, metrics in jobs.items():
        found[title] = cpu_seconds(lambda m=metrics: evaluate(Y, ranking, metrics=m, train_labels=counts))
    some = np.arange(min(n_rows, 20_000))
    y, first, second = Y[some], ranking.rows(some), ranking.rows(some[::-1])
    found["P@5, PSP@5 with 1,000 bootstrap repeats, 20,000 rows"] = cpu_seconds(
        lambda: evaluate(y, first, metrics=["P@5", "PSP@5"], train_labels=counts, confidence=0.95), repeats=1
    )
    found["compare P@5, PSP@5, 1,000 repeats, 20,000 rows"] = cpu_seconds(
        lambda: compare(y, first, second, metrics=["P@5", "PSP@5"], train_labels=counts), repeats=1
    )
    return found


def to_markdown(result: dict[str, object]) -> str:
    seconds: dict[str, float] = result["cpu_seconds"]  # type: ignore[assignment]
    lines = [
        "# Metrics",
        "",
        f"CPU seconds on one thread for a {result['n_rows']:,} × 5 ranking against {result['n_labels']:,}",
        f"labels, about five true labels a row ({result['machine']}). Best of three runs",
        "(intervals: one run); made by `python -m benchmarks.metrics`.",
        "",
        "| metrics | CPU s |",
        "|---|---:|",
        *(f"| {title} | {value:.2f} |" for title, value in seconds.items()),
        "",
        f"Limit for the first line: {LIMIT:.0f} CPU seconds.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=500_000)
    parser.add_argument("--out", type=Path, default=OUT, help="folder for metrics.md and metrics.json")
    args = parser.parse_args()
    seconds = measure(args.rows, args.labels)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    result = {"n_rows": args.rows, "n_labels": args.labels, "machine": machine, "cpu_seconds": seconds}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "metrics.json").write_text(json.dumps(result, indent=2) + "\n")
    (args.out / "metrics.md").write_text(to_markdown(result))
    print(to_markdown(result))


if __name__ == "__main__":
    main()
