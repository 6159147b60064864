"""Figures 1-4 of the interpolated label trees on our data, and what depth is worth in real time.

``python -m experiments.interpolated_trees figure1 figure3 --data eurlex57k`` measures these parts on these sets;
without arguments all parts on all sets, some hours on two cores. Figure 1: how few labels cover the rows. Figures 2
and 3: precision against expected depth of the linear tree along λ, with four ways to count f̃. Figure 4: coding trees
against interpolated ones with one label a leaf. Synthetic: trees over 500,000 labels. ``--latency`` measures times
instead and needs a quiet machine. ``--quick`` takes 2,000 rows of two sets, ``--cluster local`` computes the seeds of
figure 3 on all cores. Earlier results are kept; ``--report`` only writes the page.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.report import machine
from experiments.interpolated_trees.latency import SHAPES, measure_builds, measure_latency
from experiments.interpolated_trees.page import PAGE, add_row, page_blocks
from experiments.interpolated_trees.problems import SETS, Problem, synthetic_problem
from experiments.tasks import add_cluster, run_seeds
from tagwood.metrics import evaluate
from tagwood.models.linear_tree import LinearTree
from tagwood.models.linear_tree.trials import paired_gains, row_precision
from tagwood.trees import (
    LabelTree,
    build_balanced_tree,
    build_fano_tree,
    build_huffman_tree,
    build_interpolated_tree,
    label_frequencies,
    lambda_grid,
)

PARTS = ("figure1", "figure3", "figure4", "synthetic")
GRID = (0.0, 0.25, 0.5, 1.0, 2.0, 6.0, 30.0, 1000.0, 100000.0)
CODING_GRID = (0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 64.0, 100000.0)
METRICS = [f"{family}@{k}" for family in ("P", "depth") for k in (1, 3, 5)]
VARIANTS: dict[str, dict[str, Any]] = {
    "marginal": {},
    "greedy": {"frequencies": "greedy"},
    "direct": {"direct": True},
    "direct, greedy": {"direct": True, "frequencies": "greedy"},
}


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
        {"rows": round(float(s), 2), "labels": first[p] / frequency.size} for s, p in zip(shares, places, strict=True)
    ]
    return {"part": "figure1", "data": problem.name, "points": points}


def figure3(
    problem: Problem, arity: int, variant: str, seeds: int, leaf: int = 100, cluster: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield one point of a curve per λ: precision, depth, nodes; means over the seeds, and the gain over λ=0.

    f̃ counts above λ=1 only, so `greedy` shares its first points with `marginal`.
    """
    points = [(lam_prime, float(lambda_grid(lam_prime))) for lam_prime in GRID]
    points = [point for point in points if variant != "greedy" or point[1] > 1]
    options = {"arity": arity, "max_leaf_size": leaf, **VARIANTS[variant]}
    calls = [
        [partial(build_and_measure, problem, seed, lam=lam, **options) for seed in range(seeds)] for _, lam in points
    ]
    base: NDArray[np.float64] | None = None
    for (lam_prime, lam), runs in zip(points, run_seeds(calls, cluster), strict=True):
        hits = np.stack([run.pop("hits") for run in runs])
        base = hits if lam == 0 else base
        mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        gain = {}
        if base is not None and lam > 0:
            values = 100 * paired_gains(np.stack([base, hits]), seed=0)[1]
            gain = dict(zip(("P@1_gain", "P@1_gain_low", "P@1_gain_high"), values.tolist(), strict=True))
        point = {"lam_prime": lam_prime, "lam": lam, "seeds": seeds, **gain, **mean}
        shape = {"arity": arity, "max_leaf_size": leaf}
        yield {"part": "figure3", "data": problem.name, **shape, "variant": variant, **point}


def build_and_measure(problem: Problem, seed: int, **options: Any) -> dict[str, Any]:
    """Measure an interpolated tree of a seed; ``hits`` is P@1 of each test row."""
    tree = build_interpolated_tree(problem.V, problem.Y, seed=seed, threads=problem.threads, **options)
    return measure(problem, tree, seed)


def figure4(problem: Problem) -> Iterator[dict[str, Any]]:
    """Yield one point per tree with one label a leaf, with linear classifiers in the place of fastText's."""
    f = label_frequencies(problem.Y)
    threads = {"threads": problem.threads}
    named: list[tuple[str, float, LabelTree]] = [
        ("Huffman", -1.0, build_huffman_tree(f.marginal)),
        ("Fano", -1.0, build_fano_tree(f.coding)),
        ("interpolated", 0.0, build_balanced_tree(problem.V, max_leaf_size=1, **threads)),
    ]
    for lam_prime in CODING_GRID:
        lam = float(lambda_grid(lam_prime))
        tree = build_interpolated_tree(problem.V, f, lam=lam, max_leaf_size=1, **threads)
        named.append(("interpolated", lam, tree))
    for name, lam, tree in named:
        found = measure(problem, tree, 0)
        del found["hits"]
        yield {"part": "figure4", "data": problem.name, "tree": name, "lam": lam, **found}


def measure(problem: Problem, tree: LabelTree, seed: int) -> dict[str, Any]:
    """Train a linear tree on the shape `tree` and measure it on the test rows."""
    model = LinearTree(threads=problem.threads, seed=seed).fit(problem.X, problem.Y, tree=tree)
    ranking = model.rank(problem.X_test, k=5, search="exact")
    report = evaluate(problem.Y_test, ranking, metrics=METRICS, label_depths=tree.label_depths())
    point: dict[str, Any] = {name: report[name] * (100 if name.startswith("P@") else 1) for name in METRICS}
    beam = model.rank(problem.X_test, k=5, beam_width=10)
    point["beam_P@1"] = 100 * evaluate(problem.Y_test, beam, metrics=["P@1"])["P@1"]
    for k in (1, 5):
        effort = model.search_effort(problem.X_test, k)
        point |= {f"exact_nodes_{k}": float(effort.nodes.mean()), f"exact_outputs_{k}": float(effort.outputs.mean())}
    return {**point, "hits": row_precision(problem.Y_test, ranking, 1)}


def synthetic(n_labels: int, threads: int) -> Iterator[dict[str, Any]]:
    """Yield the expected depth of trees over power-law labels: of the label that stands for a row, as f̃ counts it."""
    V, Y = synthetic_problem(n_labels)
    f = label_frequencies(Y)
    for lam_prime in GRID:
        lam = float(lambda_grid(lam_prime))
        tree = build_interpolated_tree(V, f, lam=lam, threads=threads)
        depths = tree.label_depths()
        yield {
            "part": "synthetic", "data": f"power law, {n_labels:,} labels", "lam": lam,
            "depth@1": float(f.coding @ depths / f.coding.sum()), "deepest": int(depths.max()),
            "leaves": tree.n_leaves, "near": likeness(V, tree),
        }  # fmt: skip


def likeness(V: sparse.csr_array, tree: LabelTree) -> float:
    """Return how alike the labels of a leaf are: the mean cosine of a label with the centre of its leaf."""
    leaf = np.searchsorted(tree.leaves, tree.leaf_of_copy)
    members = sparse.csr_array(
        (np.ones(tree.labels.size, dtype=np.float32), (leaf, tree.labels)),
        shape=(tree.n_leaves, tree.n_labels),
    )
    centres = sparse.csr_array(members @ V)
    # The cosines of a leaf's labels with their centre sum up to the length of their sum.
    lengths = np.sqrt(np.asarray(centres.multiply(centres).sum(axis=1)).ravel())
    return float(lengths.sum() / tree.labels.size)


def run(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    what = set(args.parts or PARTS)
    for name in args.data if what & {"figure1", "figure3", "figure4"} else []:
        problem = Problem(name, args.rows, args.threads)
        if "figure1" in what:
            yield figure1(problem)
        if "figure3" in what:
            for arity in args.arity:
                yield from figure3(problem, arity, "marginal", args.seeds, args.leaf, args.cluster)
            for variant in ("greedy", "direct", "direct, greedy") if args.variants else ():
                yield from figure3(problem, 2, variant, 1, cluster=args.cluster)
        if "figure4" in what:
            yield from figure4(problem)
    if "synthetic" in what:
        yield from synthetic(args.labels, args.threads)


def run_latency(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name in args.data:
        if name in SHAPES:
            yield from measure_latency(name, args.rows, args.threads, args.seeds)
    if args.builds:
        yield from measure_builds(args.labels, args.threads, args.seeds)


def main() -> None:
    parser = PAGE.parser(__doc__, quick=True)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; default all")
    parser.add_argument("--data", nargs="+", default=list(SETS))
    parser.add_argument("--arity", nargs="+", type=int, default=[2, 16])
    parser.add_argument("--leaf", type=int, default=100, help="labels of a leaf in figure 3")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--variants", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--rows", type=int, help="use only the first training rows")
    parser.add_argument("--labels", type=int, default=500_000, help="of the synthetic set")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--latency", action="store_true", help="measure times instead")
    parser.add_argument("--builds", action="store_true", help="with --latency: the time to build trees, too")
    parser.add_argument("--report", action="store_true", help="only write the page")
    add_cluster(parser)
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    if args.quick:
        args.rows, args.seeds, args.variants, args.labels = 2_000, 1, False, 20_000
        args.data = args.data if len(args.data) < len(SETS) else ["tate-subjects", "debian-depends"]
    if not args.report:
        for row in run_latency(args) if args.latency else run(args):
            print(json.dumps(row, ensure_ascii=False), flush=True)
            earlier = PAGE.load(args.out, {"rows": []})["rows"]
            PAGE.save(args.out, {"machine": machine(), "rows": add_row(earlier, row)})
    PAGE.write(args.out, page_blocks(PAGE.load(args.out, {"rows": []}), args.out))


if __name__ == "__main__":
    main()
