"""Figure 4 of the interpolated label trees with the model of the paper: a hierarchical softmax on averaged embeddings.

``python -m experiments.softmax_tree --data yso-titles`` measures Huffman's tree, Fano's and interpolated ones along λ
on this set, each with three seeds, after 5 epochs (fastText's default) and after 25; without arguments on all sets,
more than an hour. Every tree is measured twice: on a tenth of the training rows, held out, where the recommended λ is
chosen, and on the test rows after training on all.
``--quick`` takes 2,000 rows of one set, ``--cluster local`` computes seeds on all cores. Earlier results are kept;
``--report`` only writes the page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.problems import read_splits
from benchmarks.report import Page, columns_table, replace_row
from experiments.statistics import T_95
from experiments.tasks import add_cluster, run_seeds
from tagwood import SoftmaxTree
from tagwood.metrics import evaluate
from tagwood.models.softmax_tree import softmax_label_features
from tagwood.plots import Chart, Mark, chart_svg
from tagwood.trees import (
    build_fano_tree,
    build_huffman_tree,
    build_interpolated_tree,
    label_frequencies,
    lambda_grid,
)
from tagwood.trees.label_tree import LabelTree

PAGE = Page("experiments", "softmax_tree")
TreeOfSeed = Callable[[int], LabelTree]
# Set -> words of a text that are used (0: all)
SETS = {
    "cooking-stackexchange": 0,
    "eurlex57k": 100,
    "tate-subjects": 0,
    "tibkat-gnd-en": 100,
    "yso-titles": 0,
}
GRID = (0.0, 0.25, 0.5, 1.0, 2.0, 6.0, 30.0)
MEASURES = tuple(f"{family}@{k}" for family in ("P", "depth") for k in (1, 3, 5))
COLUMNS = {
    "tree": "tree", "λ": "lam", "P@1": "P@1", "±": "P@1_spread", "P@3": "P@3", "P@5": "P@5", "depth@1": "depth@1",
    "depth@3": "depth@3", "depth@5": "depth@5", "decisions, k=1": "decisions_1", "decisions, k=5": "decisions_5",
    "held out: P@1": "held_P@1", "P@3 ": "held_P@3", "P@5 ": "held_P@5",
}  # fmt: skip


class TextRows(NamedTuple):
    """Texts and their label sets."""

    texts: list[str]
    Y: sparse.csr_array

    def take(self, rows: Any) -> TextRows:
        """Return some of the rows."""
        return TextRows([self.texts[row] for row in rows], self.Y[rows])


def trees_of(train: TextRows, grid: Sequence[float], threads: int) -> list[tuple[dict[str, Any], TreeOfSeed]]:
    """Return name and λ of each tree, and the function that builds it; coding trees do not depend on the seed.

    `grid` holds λ′; λ = 2λ′ / (1 + λ′).
    """
    f = label_frequencies(train.Y)
    V = softmax_label_features(train.texts, train.Y, threads)

    def interpolated(lam: float, seed: int) -> LabelTree:
        return build_interpolated_tree(V, f, lam=lam, max_leaf_size=1, seed=seed, threads=threads)

    trees: list[tuple[dict[str, Any], TreeOfSeed]] = [
        ({"tree": "Huffman"}, lambda seed: build_huffman_tree(f.marginal)),
        ({"tree": "Fano"}, lambda seed: build_fano_tree(f.coding)),
    ]
    return trees + [
        ({"tree": "interpolated", "lam": lam}, partial(interpolated, lam)) for lam in lambda_grid(grid).tolist()
    ]


def run(model: SoftmaxTree, build: TreeOfSeed, train: TextRows, test: TextRows) -> dict[str, float]:
    """Fit a model on the tree of its seed and measure it."""
    return measure(model.fit(train.texts, train.Y, tree=build(model.seed)), test)


def measure(model: SoftmaxTree, test: TextRows) -> dict[str, float]:
    """Return precision in percent, depths and decisions of a fitted model."""
    ranking = model.rank(test.texts, k=5)
    report = evaluate(test.Y, ranking, metrics=MEASURES, label_depths=model.tree_.label_depths())
    point = {name: report[name] * (100 if name.startswith("P@") else 1) for name in MEASURES}
    for k in (1, 5):
        point[f"decisions_{k}"] = float(model.search_effort(test.texts, k=k).mean())
    return point


def read_rows(name: str, n_rows: int | None = None) -> tuple[TextRows, TextRows]:
    """Return training and test rows of a set; test rows without a known label are left out."""
    train, test = read_splits(name)
    most = SETS.get(name, 0)
    pair = [TextRows([_cut(text, most) for text in part.texts or ()], part.labels) for part in (train, test)]
    if n_rows is not None:
        pair[0] = pair[0].take(np.random.default_rng(0).permutation(len(pair[0].texts))[:n_rows])
    return pair[0], pair[1].take(np.flatnonzero(np.diff(pair[1].Y.indptr)))


def _cut(text: str, most: int) -> str:
    return " ".join(text.split()[:most]) if most else text


def measure_set(
    name: str, n_rows: int | None, *, seeds: int, epochs: int, threads: int, grid: Sequence[float], cluster: str | None
) -> Iterator[dict[str, Any]]:
    """Yield a point per tree, means over seeds, precision in percent.

    Figures are those on the test rows, and with ``held_`` in front those on held-out rows.
    """
    train, test = read_rows(name, n_rows)
    order = np.random.default_rng(1).permutation(len(train.texts))
    held, kept = np.split(order, [order.size // 10])
    splits = [(train.take(np.sort(kept)), train.take(np.sort(held))), (train, test)]
    trees = [trees_of(fitted, grid, threads) for fitted, _ in splits]
    calls = [
        [
            partial(run, SoftmaxTree(epochs=epochs, seed=seed, threads=threads), build, *split)
            for (_, build), split in zip(pair, splits, strict=True)
            for seed in range(seeds)
        ]
        for pair in zip(*trees, strict=True)
    ]
    for (point, _), runs in zip(trees[1], run_seeds(calls, cluster), strict=True):
        trial, found = mean_and_spread(runs[:seeds]), mean_and_spread(runs[seeds:])
        chosen_by = {f"held_{key}": trial[key] for key in ("P@1", "P@3", "P@5", "P@1_spread")}
        facts = {"epochs": epochs, "seeds": seeds, "n_train": len(train.texts)}
        yield {"data": name, **facts, **point, **found, **chosen_by}


def mean_and_spread(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the means over seeds, and the standard deviation of P@1."""
    mean = {key: float(np.mean([one[key] for one in runs])) for key in runs[0]}
    return {**mean, "P@1_spread": float(np.std([one["P@1"] for one in runs]))}


def recommended(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the interpolated tree with the largest mean of P@1, P@3 and P@5 on the held-out rows.

    Examples
    --------
    >>> point = {"tree": "interpolated", "held_P@1": 1.0, "held_P@3": 1.0, "held_P@5": 1.0}
    >>> recommended([{**point, "lam": 0.5}, {**point, "lam": 1.0, "held_P@5": 2.0}])["lam"]
    1.0
    """
    known = [point for point in points if point["tree"] == "interpolated"]
    return max(known, key=lambda point: sum(point[f"held_P@{k}"] for k in (1, 3, 5)))


def page_blocks(points: list[dict[str, Any]], out: Path) -> Iterator[str]:
    """Yield a chart and a table per set and number of epochs."""
    for data, epochs in sorted({(point["data"], point["epochs"]) for point in points}):
        mine = [point for point in points if (point["data"], point["epochs"]) == (data, epochs)]
        if {"Huffman", "interpolated"} <= {point["tree"] for point in mine}:  # else the run is not complete
            yield from _section(data, epochs, mine, out)


def _section(data: str, epochs: int, points: list[dict[str, Any]], out: Path) -> Iterator[str]:
    yield f"### {data}, {epochs} epochs"
    best, huffman = recommended(points), next(point for point in points if point["tree"] == "Huffman")
    curves = {
        tree: [
            Mark(
                point["depth@1"],
                point["P@1"],
                f"λ={point['lam']:.2f}" if "lam" in point else "",
                point is best,
            )
            for point in points
            if point["tree"] == tree
        ]
        for tree in ("interpolated", "Huffman", "Fano")
    }
    name = f"softmax_tree_{data}_{epochs}.svg"
    (out / name).write_text(chart_svg(Chart("", "expected depth@1", "P@1", curves)), encoding="utf-8")
    yield f"![P@1 against expected depth@1 on {data} after {epochs} epochs]({name})"
    yield f"{points[0]['n_train']:,} training texts; seeds: {points[0]['seeds']}.\n\n{columns_table(points, COLUMNS)}"
    gain = {k: 100 * (best[f"P@{k}"] / huffman[f"P@{k}"] - 1) for k in (1, 3, 5)}
    gains = ", ".join(f"P@{k} {value:+.1f}{_half(best, huffman) if k == 1 else ''} %" for k, value in gain.items())
    several = sum(point["tree"] == "interpolated" for point in points) > 1
    yield (
        f"{'Chosen on held-out rows' if several else 'The only one tried'}: λ={best['lam']:.2f}. "
        f"On the test rows against Huffman's tree: {gains}, "
        f"expected depth@1 {100 * (best['depth@1'] / huffman['depth@1'] - 1):+.1f} %."
    )


def _half(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Return half the width of the 95 % interval of the gain in P@1 over the seeds, in percent; nothing for one."""
    seeds = min(one["seeds"], other["seeds"])
    if seeds < 2:
        return ""
    error = np.hypot(one["P@1_spread"], other["P@1_spread"]) / np.sqrt(seeds - 1)  # the spreads divide by all seeds
    return f" ± {100 * T_95[seeds] * error / other['P@1']:.1f}"


def main() -> None:
    parser = PAGE.parser(__doc__, quick=True)
    parser.add_argument("--data", nargs="+", default=list(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, nargs="+", default=[5, 25])
    parser.add_argument("--grid", type=float, nargs="+", default=list(GRID), help="λ′ of the interpolated trees")
    parser.add_argument("--rows", type=int, help="use only ROWS training rows")
    parser.add_argument("--threads", type=int, default=1, help="1 gives the same figures every time")
    parser.add_argument("--report", action="store_true", help="only write the page from earlier results")
    add_cluster(parser)
    args = parser.parse_args()
    if args.quick:
        args.data = args.data if len(args.data) < len(SETS) else ["cooking-stackexchange"]
        args.seeds, args.epochs, args.grid, args.rows = 1, [5], [0.0, 1.0], 2_000
    options = {"seeds": args.seeds, "threads": args.threads, "grid": args.grid, "cluster": args.cluster}
    for name, epochs in [] if args.report else product(args.data, args.epochs):
        for point in measure_set(name, args.rows, epochs=epochs, **options):
            print(json.dumps(point, ensure_ascii=False), flush=True)
            PAGE.save(args.out, replace_row(PAGE.load(args.out, []), point, ("data", "epochs", "tree", "lam")))
    PAGE.write(args.out, page_blocks(PAGE.load(args.out, []), args.out))


if __name__ == "__main__":
    main()
