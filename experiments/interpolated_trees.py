"""Figures 1-4 of the interpolated label trees on our data, and what depth is worth in real time.

Run with ``python -m experiments.interpolated_trees figure1 figure3 build --data eurlex57k``; without arguments
everything on all sets, some hours on two cores. Figure 1: how few labels cover the rows. Figures 2 and 3: precision
against expected depth of the linear tree along λ, with four ways to count f̃, evaluated nodes, and the latency of
the exact search and of a beam of 10. Figure 4: coding trees against interpolated ones with one label a leaf. Build:
time per tree on a synthetic set with 500,000 labels.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from experiments.curves import curves_svg
from tagwood._sparse import normalize_rows
from tagwood.data import read_dataset
from tagwood.data.synthetic import power_law
from tagwood.features import TfidfEncoder
from tagwood.features.label_features import label_centroids
from tagwood.metrics import evaluate
from tagwood.models.linear_tree import LinearTree
from tagwood.trees import (
    LabelTree,
    build_balanced_tree,
    build_fano_tree,
    build_huffman_tree,
    build_interpolated_tree,
    label_frequencies,
    lambda_grid,
)

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
OUT = ROOT / "docs" / "experiments"
PAGE = OUT / "interpolated_trees.md"
SETS = ("eurlex57k", "tibkat-gnd-en", "yso-titles", "debian-depends", "tate-subjects", "delicious")
GRID = (0.0, 0.25, 0.5, 0.75, 1.0, 2.0, 6.0, 10.0, 30.0, 100.0, 1000.0, 100000.0)
METRICS = [f"{family}@{k}" for family in ("P", "depth") for k in (1, 3, 5)]
VARIANTS: dict[str, dict[str, Any]] = {
    "marginal": {},
    "greedy": {"frequencies": "greedy"},
    "direct": {"direct": True},
    "direct, greedy": {"direct": True, "frequencies": "greedy"},
}
# Rows of the table of one curve: heading and key.
COLUMNS = {
    "λ′": "lam_prime", "λ": "lam", "P@1": "P@1", "P@3": "P@3", "P@5": "P@5", "depth@1": "depth@1",
    "depth@3": "depth@3", "depth@5": "depth@5", "nodes, k=1": "exact_nodes_1", "nodes, k=5": "exact_nodes_5",
    "exact p50, k=1": "exact_p50_1", "exact p99, k=1": "exact_p99_1", "exact p50, k=5": "exact_p50_5",
    "beam p50, k=1": "beam_p50_1", "beam p50, k=5": "beam_p50_5", "beam P@1": "beam_P@1",
}  # fmt: skip


class Problem:
    """A set as features and labels, with its label features; labels without training rows are left out."""

    def __init__(self, name: str, n_rows: int | None) -> None:
        self.name = name
        folder = DATA / name
        if (folder / "X.trn.npz").exists():
            train, test = (read_dataset(folder, split=part) for part in ("train", "test"))
            self.X, self.X_test = normalize_rows(train.features), normalize_rows(test.features)
        else:
            train = read_dataset(folder / "train.jsonl.gz")
            test = read_dataset(folder / "test.jsonl.gz", vocab=train.vocab, on_unknown="skip")
            encoder = TfidfEncoder(ngrams=(1, 1), threads=2)
            self.X, self.X_test = encoder.fit_transform(train.texts), encoder.transform(test.texts)
        self.Y, self.Y_test = train.labels, test.labels
        if n_rows is not None:
            self.X, self.Y = self.X[:n_rows], self.Y[:n_rows]
        self.V = label_centroids(self.X, self.Y)


def figure1(problem: Problem) -> dict[str, Any]:
    """Return which share of the labels, most frequent first, covers a share of the rows."""
    frequency = label_frequencies(problem.Y).marginal
    rank = np.empty(frequency.size, dtype=np.int64)
    rank[np.argsort(-frequency, kind="stable")] = np.arange(frequency.size)
    indptr = problem.Y.indptr[:-1][np.diff(problem.Y.indptr) > 0]
    first = np.sort(np.minimum.reduceat(rank[problem.Y.indices], indptr)) + 1
    shares = np.linspace(0.1, 1, 10)
    places = np.ceil(shares * first.size).astype(int) - 1
    points = [
        {"rows": round(float(s), 2), "labels": first[p] / frequency.size}
        for s, p in zip(shares, places, strict=True)
    ]
    return {"figure": 1, "data": problem.name, "points": points}


def figure3(problem: Problem, arity: int, variant: str, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield one point of a curve per λ: precision, depth, nodes, latency; means over the seeds."""
    for lam_prime in GRID:
        lam = float(lambda_grid(lam_prime))
        runs = []
        for seed in range(seeds):
            options = {"arity": arity, "seed": seed, "threads": 2, **VARIANTS[variant]}
            tree = build_interpolated_tree(problem.V, problem.Y, lam=lam, **options)
            runs.append(measure(problem, tree, latency=variant == "marginal"))
        mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        spread = float(np.std([run["P@1"] for run in runs]))
        point = {"lam_prime": lam_prime, "lam": lam, "P@1_spread": spread, **mean}
        yield {"figure": 3, "data": problem.name, "arity": arity, "variant": variant, **point}


def figure4(problem: Problem) -> Iterator[dict[str, Any]]:
    """Yield one point per tree with one label a leaf; the linear tree stands in for fastText's model."""
    f = label_frequencies(problem.Y)
    named: list[tuple[str, LabelTree]] = [
        ("Huffman", build_huffman_tree(f.marginal)),
        ("Fano", build_fano_tree(f.coding)),
        ("balanced", build_balanced_tree(problem.V, max_leaf_size=1, threads=2)),
    ]
    for lam_prime in (0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 16.0, 64.0):
        lam = float(lambda_grid(lam_prime))
        named.append(
            (f"λ={lam:.3g}", build_interpolated_tree(problem.V, f, lam=lam, max_leaf_size=1, threads=2))
        )
    for name, tree in named:
        yield {"figure": 4, "data": problem.name, "tree": name, **measure(problem, tree, latency=False)}


def measure(problem: Problem, tree: LabelTree, *, latency: bool) -> dict[str, float]:
    """Train a linear tree on the shape `tree` and measure it on the test rows."""
    model = LinearTree(threads=2).fit(problem.X, problem.Y, tree=tree)
    ranking = model.rank(problem.X_test, k=5, search="exact")
    report = evaluate(problem.Y_test, ranking, metrics=METRICS, label_depths=tree.label_depths())
    point = {name: report[name] * (100 if name.startswith("P@") else 1) for name in METRICS}
    beam = model.rank(problem.X_test, k=5, width=10)
    point["beam_P@1"] = 100 * evaluate(problem.Y_test, beam, metrics=["P@1"])["P@1"]
    for k in (1, 5):
        point[f"exact_nodes_{k}"] = float(model.search_effort(problem.X_test, k)[0].mean())
        if latency:
            for search in ("exact", "beam"):
                times = single_row_times(model, problem.X_test, k, search)
                point[f"{search}_p50_{k}"], point[f"{search}_p99_{k}"] = np.percentile(
                    times, [50, 99]
                ).tolist()
    return point


def single_row_times(model: LinearTree, X: sparse.csr_array, k: int, search: str) -> NDArray[np.float64]:
    """Return the microseconds of each of up to 1,000 single-row requests, the faster of two passes."""
    rows = [X[i : i + 1] for i in range(min(1000, X.shape[0]))]
    passes = np.empty((2, len(rows)))
    single = LinearTree(**{**model.get_params(), "threads": 1})
    single.__dict__.update({name: value for name, value in model.__dict__.items() if name.endswith("_")})
    for turn in range(2):
        for at, row in enumerate(rows):
            start = time.perf_counter()
            single.rank(row, k=k, search=search, width=10)
            passes[turn, at] = time.perf_counter() - start
    fastest: NDArray[np.float64] = 1e6 * passes.min(axis=0)
    return fastest


def build(n_labels: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield build times of trees over `n_labels` power-law labels, the balanced tree measured beside each."""
    problem = power_law(int(0.6 * n_labels), 1, n_labels, n_labels // 2, nnz_per_row=40, exponent=0.8)
    V, f = label_centroids(problem.X_train, problem.Y_train), label_frequencies(problem.Y_train)
    for lam_prime in GRID[:10:2]:
        lam = float(lambda_grid(lam_prime))
        ours, base = [], []
        for _ in range(repeats):
            start = time.perf_counter()
            tree = build_interpolated_tree(V, f, lam=lam, threads=2)
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            build_balanced_tree(V, threads=2)
            base.append(time.perf_counter() - start)
        depth = float(f.coding @ tree.label_depths() / f.coding.sum())
        yield {
            "figure": "build", "data": f"power law, {n_labels:,} labels", "lam": lam, "seconds": min(ours),
            "balanced_seconds": min(base), "ratio": min(ours) / min(base), "depth": depth,
        }  # fmt: skip


def table(rows: list[dict[str, Any]], columns: dict[str, str]) -> str:
    """Return rows as a Markdown table; columns that no row has are left out."""
    shown = {head: key for head, key in columns.items() if any(key in row for row in rows)}
    lines = ["| " + " | ".join(shown) + " |", "|" + "---|" * len(shown)]
    for row in rows:
        cells = [f"{v:.4g}" if isinstance(v := row.get(key, ""), float) else str(v) for key in shown.values()]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write(rows: list[dict[str, Any]]) -> None:
    """Write the figures as JSON, and the tables and plots into the page below its marker."""
    OUT.mkdir(parents=True, exist_ok=True)
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    (OUT / "interpolated_trees.json").write_text(
        json.dumps({**machine, "rows": rows}, indent=1, ensure_ascii=False)
    )
    parts = [
        f"Measured on {machine['cores']} cores ({machine['machine']}), Python {machine['python']}; times in µs per row."
    ]
    for data in dict.fromkeys(row["data"] for row in rows):
        parts.append(f"### {data}")
        mine = [row for row in rows if row["data"] == data]
        parts.extend(_section(data, mine))
    head, marker, _ = PAGE.read_text(encoding="utf-8").partition("<!-- results -->")
    PAGE.write_text(f"{head}{marker}\n\n" + "\n\n".join(parts) + "\n", encoding="utf-8")


def _section(data: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    for row in (row for row in rows if row["figure"] == 1):
        half = next(point for point in row["points"] if point["rows"] == 0.5)
        yield f"Figure 1: {100 * half['labels']:.2g} % of the labels cover half of the rows."
    points = [row for row in rows if row["figure"] == 3]
    for arity in dict.fromkeys(row["arity"] for row in points):
        curves: dict[str, list[tuple[float, float]]] = {}
        for row in (row for row in points if row["arity"] == arity):
            curves.setdefault(row["variant"], []).append((row["depth@1"], row["P@1"]))
        name = f"interpolated_trees_{data}_{arity}.svg"
        (OUT / name).write_text(curves_svg(curves, "expected depth@1", "P@1"), encoding="utf-8")
        yield f"Figure 3, nodes of up to {arity} children:\n\n![P@1 against expected depth@1 on {data}]({name})"
        for variant in curves:
            chosen = [row for row in points if row["arity"] == arity and row["variant"] == variant]
            yield f"`{variant}`\n\n{table(chosen, COLUMNS)}"
    if codes := [row for row in rows if row["figure"] == 4]:
        yield f"Figure 4, one label a leaf:\n\n{table(codes, {'tree': 'tree', **COLUMNS})}"
    if builds := [row for row in rows if row["figure"] == "build"]:
        heads = {
            "λ": "lam",
            "seconds": "seconds",
            "balanced": "balanced_seconds",
            "ratio": "ratio",
            "depth": "depth",
        }
        yield f"Time to build a tree:\n\n{table(builds, heads)}"


def run(
    what: set[str], data: list[str], seeds: int, n_rows: int | None, n_labels: int
) -> Iterator[dict[str, Any]]:
    for name in data if what & {"figure1", "figure3", "figure4"} else []:
        problem = Problem(name, n_rows)
        if "figure1" in what:
            yield figure1(problem)
        if "figure3" in what:
            for arity in (2, 16, 64):
                yield from figure3(problem, arity, "marginal", seeds)
            for variant in ("greedy", "direct", "direct, greedy"):
                yield from figure3(problem, 2, variant, 1)
        if "figure4" in what:
            yield from figure4(problem)
    if "build" in what:
        yield from build(n_labels, seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    figures = ("figure1", "figure3", "figure4", "build")
    parser.add_argument("what", nargs="*", help=f"any of {', '.join(figures)}; default all")
    parser.add_argument("--data", nargs="+", default=list(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="use only the first training rows")
    parser.add_argument("--labels", type=int, default=500_000, help="of the synthetic set")
    args = parser.parse_args()
    if unknown := set(args.what) - set(figures):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(figures)}")
    rows = []
    for row in run(set(args.what or figures), args.data, args.seeds, args.rows, args.labels):
        print(json.dumps(row, ensure_ascii=False), flush=True)
        rows.append(row)
    write(rows)


if __name__ == "__main__":
    main()
