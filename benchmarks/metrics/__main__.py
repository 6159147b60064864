"""CPU seconds of the metrics on a 1,000,000 x 5 ranking against 500,000 labels: ``python -m benchmarks.metrics``.

Labels follow a power law, rows have about five true labels, and two fifths of the returned labels are true. Inputs are
made before the clock starts; their validation is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.measure import least_cpu_seconds
from benchmarks.report import Page, machine, machine_line, table
from tagwood import Ranking
from tagwood.metrics import LabelCounts, compare, evaluate

PAGE = Page("benchmarks", "metrics")


def make_problem(n_rows: int, n_labels: int, k: int, seed: int = 0) -> tuple[sparse.csr_array, Ranking, LabelCounts]:
    """Return true labels, a ranking with about two fifths of hits, and the label counts."""
    rng = np.random.default_rng(seed)
    draw = ((n_labels - k) * rng.random((n_rows, k)) ** 2.5).astype(np.int64)
    rows = np.repeat(np.arange(n_rows), k)
    Y = sparse.csr_array((np.ones(rows.size, dtype=np.float32), (rows, draw.ravel())), shape=(n_rows, n_labels))
    other = ((n_labels - k) * rng.random((n_rows, k)) ** 2.5).astype(np.int64)
    labels = np.where(rng.random((n_rows, k)) < 0.4, draw, other)
    labels.sort(axis=1)
    for column in range(1, k):  # each label once in a row
        labels[:, column] = np.maximum(labels[:, column], labels[:, column - 1] + 1)
    labels = rng.permuted(labels, axis=1)
    scores = np.sort(rng.random((n_rows, k), dtype=np.float32), axis=1)[:, ::-1]
    ranking = Ranking(np.arange(0, n_rows * k + 1, k), labels.ravel().astype(np.int32), scores.ravel(), n_labels)
    counts = LabelCounts(np.bincount(Y.indices, minlength=n_labels), n_rows)
    return Y, ranking, counts


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
        found[title] = least_cpu_seconds(lambda m=metrics: evaluate(Y, ranking, metrics=m, train_labels=counts), 3)
    some = np.arange(min(n_rows, 20_000))
    y, first, second = Y[some], ranking.rows(some), ranking.rows(some[::-1])
    found["P@5, PSP@5 with 1,000 bootstrap repeats, 20,000 rows"] = least_cpu_seconds(
        lambda: evaluate(y, first, metrics=["P@5", "PSP@5"], train_labels=counts, confidence=0.95)
    )
    found["compare P@5, PSP@5, 1,000 repeats, 20,000 rows"] = least_cpu_seconds(
        lambda: compare(y, first, second, metrics=["P@5", "PSP@5"], train_labels=counts)
    )
    return found


def main() -> None:
    parser = PAGE.parser(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=500_000)
    args = parser.parse_args()
    result = {"n_rows": args.rows, "n_labels": args.labels, "machine": machine()}
    result["cpu_seconds"] = measure(args.rows, args.labels)
    PAGE.save(args.out, result)
    PAGE.write(args.out, page_blocks(result))


def page_blocks(result: dict[str, Any]) -> Iterator[str]:
    """Yield the table."""
    yield f"A ranking of {result['n_rows']:,} × 5, {result['n_labels']:,} labels. {machine_line(result['machine'])}"
    yield table(["metrics", "CPU s"], [[title, f"{value:.2f}"] for title, value in result["cpu_seconds"].items()])


if __name__ == "__main__":
    main()
