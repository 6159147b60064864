"""Label disentanglement on our data: fused labels, number of copies, real sets, cost, dense features.

``python -m experiments.disentanglement real seeds --data tibkat-gnd-en`` adds these parts to earlier results; without
arguments it only writes the page. ``--quick`` runs the parts, or all but dense and time, on a few rows of one set.
fused: §5.1 and Figure 2. difficulty: its modes over several fusions. copies: 1 to 6 (Figure 3). real: Table 4 with
PSP@k, the random baseline (A.8) and other controls. dense: TF-IDF beside MiniLM embeddings (Table 3). seeds: several
seeds (on all cores with ``--cluster local``), and test rows without near-duplicates. time: Table 5, which needs a quiet
machine.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.report import replace_row
from experiments.disentanglement.copies import count_covered, duplicate_at_random
from experiments.disentanglement.data import (
    MODES,
    Rows,
    distinct,
    fuse,
    read_set,
    read_with_embeddings,
)
from experiments.disentanglement.page import KEY, PAGE, page_blocks
from experiments.statistics import compare_seeds
from experiments.tasks import add_cluster, run_seeds
from tagwood import CopySettings, Disentangled, LinearTree, Ranking, compare
from tagwood._sparse import csr_parts
from tagwood.trees.label_tree import LabelTree

SETS = ("eurlex57k", "tibkat-gnd-en", "yso-titles", "debian-depends-no-hubs", "tate-subjects")
METRICS = ["P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5"]
PAPER = CopySettings(rows="training", leaves_per_row=10, bring="all", max_leaf_load=1000)
MODELS: dict[str, Callable[[], LinearTree]] = {
    "base": lambda: LinearTree(threads=1),
    "copies=1": lambda: Disentangled(copies=1, threads=1),
    "copies=2, no update": lambda: Disentangled(retrain_matcher=False, threads=1),
    "copies=2": lambda: Disentangled(threads=1),
    "copies=2, mean": lambda: Disentangled(merge="mean", threads=1),
    "copies=2, all rows": lambda: Disentangled(copy_settings=CopySettings(bring="all"), threads=1),
    "copies=2, paper's assignment": lambda: Disentangled(copy_settings=PAPER, merge="mean", threads=1),
    "copies=2, any": lambda: Disentangled(merge="any", threads=1),
    "copies=auto": lambda: Disentangled(copies="auto", threads=1),
    "no copies, leaves of copies=2": lambda: LinearTree(threads=1, **Disentangled().tree_shape()),
    # Its first tree has half the arity and twice the leaf size of this base: exactly the leaves of "base".
    "copies=2, leaves of base": lambda: Disentangled(LinearTree(arity=32, max_leaf_size=200), threads=1),
}
PARTS = ("fused", "difficulty", "copies", "real", "seeds", "dense", "time")
FIGURE2 = ("copies=2", "random")
TABLE4 = (
    "no copies, leaves of copies=2",
    "copies=1",
    "copies=2, no update",
    "copies=2",
    "copies=2, leaves of base",
    "copies=2, any",
    "copies=2, all rows",
    "copies=2, paper's assignment",
    "copies=auto",
    "random",
)
TABLE5 = ("copies=2", "copies=auto")


class Doubled(LinearTree):
    """A linear tree on a given tree with copies, merged like those of `Disentangled`."""

    def copy_merge(self, search: str) -> str:
        """Return how the scores of copies are joined."""
        return "max"


class Runs:
    """Models fitted on one set, each beside the base."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.rankings: dict[str, Ranking] = {}
        self.models: dict[str, LinearTree] = {}

    def fit(self, name: str) -> LinearTree:
        """Fit a model of `MODELS`, or ``"random"``: as many copies as ``"copies=2"``, in random leaves."""
        if name not in self.models:
            self.models[name] = self._random() if name == "random" else self._fitted(MODELS[name]())
            self.rankings[name] = self.models[name].rank(self.rows.X_test, k=5)
        return self.models[name]

    def against_base(self, name: str) -> dict[str, Any]:
        """Return the measures of a model, and its gain over the base with interval and p-value."""
        self.fit("base")
        model = self.fit(name)
        found = compare(
            self.rows.Y_test, self.rankings["base"], self.rankings[name], metrics=METRICS,
            train_labels=self.rows.Y, propensity=self.rows.propensity,
        )  # fmt: skip
        values = {
            one.name: [round(100 * v, 3) for v in (one.second, one.difference, one.low, one.high)] + [one.p_value]
            for one in found.differences
        }
        tree = model.trees_[0].tree
        facts = {"data": self.rows.name, "model": name, "test_rows": found.n_rows, "labels": tree.n_labels}
        return {
            **facts,
            "copies": round(tree.labels.size / tree.n_labels, 3),
            "leaves": tree.n_leaves,
            "in_reach": round(100 * self.in_reach(model), 2),
            "nodes": round(float(model.search_effort(self.rows.X_test, 5, search="beam")[0].mean()), 2),
            "weights": int(model.trees_[0].arrays.weights.size),
            **values,
        }

    def in_reach(self, model: LinearTree) -> float:
        """Return the share of the test positives in a leaf that a beam of 10 ends in: no search finds the others."""
        weights = model.trees_[0]
        leaves, _ = weights.leaves(csr_parts(self.rows.X_test), 10, 1)
        return count_covered(weights.tree, self.rows.Y_test, leaves) / self.rows.Y_test.nnz

    def _fitted(self, model: LinearTree) -> LinearTree:
        return model.fit(self.rows.X, self.rows.Y)

    def _random(self) -> LinearTree:
        copies = self.fit("copies=2").trees_[0].tree.labels.size
        shape = LinearTree(max_leaf_size=50, arity=128, threads=1)
        tree = first_tree(shape, self.rows)
        doubled = duplicate_at_random(tree, copies - tree.labels.size)
        return Doubled(threads=1).fit(self.rows.X, self.rows.Y, tree=doubled)


def first_tree(model: LinearTree, rows: Rows) -> LabelTree:
    """Return the tree that a model would start from."""
    from tagwood.models.linear_tree.training import TreeShape, build_trees, shaping_features
    from tagwood.models.tasks import LocalRunner

    Y = rows.Y
    V = shaping_features(csr_parts(rows.X), csr_parts(Y.T.tocsr()), None, 1)
    shape = TreeShape("interpolated", 0.0, model.arity, model.max_leaf_size)
    return build_trees(V, Y, shape, range(1), LocalRunner(threads=1))[0]


def separated(model: LinearTree, rows: Rows, most: int = 300) -> dict[str, Any]:
    """Return the share of fused labels with copies whose original labels mostly arrive at different copies.

    Looked at are the training rows of up to `most` fused labels with two original labels of three rows or more.
    """
    weights, parts, unfused = model.trees_[0], rows.parts, rows.unfused
    assert parts is not None
    assert unfused is not None
    of_label = unfused.T.tocsr()
    members: dict[int, list[int]] = {}
    for label in np.flatnonzero(np.diff(of_label.indptr) >= 3):
        members.setdefault(int(parts[label]), []).append(int(label))
    fused = [label for label, inside in members.items() if len(inside) >= 2]
    tree, told, several = weights.tree, 0, 0
    for label in np.random.default_rng(0).permutation(fused)[:most].tolist():
        copies = np.flatnonzero(tree.labels == label)
        several += copies.size > 1
        homes = set()
        for part in members[label] if copies.size > 1 else ():
            own = of_label.indices[of_label.indptr[part] : of_label.indptr[part + 1]].astype(np.int64)
            pairs = np.tile(np.arange(own.size), copies.size), np.repeat(copies, own.size)
            best = weights.score_copies(csr_parts(rows.X[own]), *pairs, 1).reshape(copies.size, -1).argmax(axis=0)
            homes.add(int(np.bincount(best).argmax()))
        told += len(homes) > 1
    looked = min(most, len(fused))
    return {"looked_at": looked, "with_copies": several / looked, "separated": told / looked}


def fused(rows: Rows, ks: list[int], modes: list[str]) -> Iterator[dict[str, Any]]:
    for mode in modes:
        for k in ks:
            made = fuse(rows, mode, k)
            runs = Runs(made)
            for name in FIGURE2:
                facts = {"part": "fused", "set": rows.name, "mode": mode, "k": k}
                senses = separated(runs.fit(name), made)
                yield {**facts, **runs.against_base(name), **senses}


def difficulty(rows: Rows, ks: list[int], modes: list[str], n_fusions: int = 4) -> Iterator[dict[str, Any]]:
    """Yield the relative gain in P@5 of two copies for each of several fusions, with trees of other seeds, too."""
    for k in ks:
        for mode in modes:
            relative = []
            for seed in range(n_fusions):
                made = fuse(rows, mode, k, seed)
                models = [MODELS[name]().set_params(seed=seed) for name in ("base", "copies=2")]
                rankings = [model.fit(made.X, made.Y).rank(made.X_test, k=5) for model in models]
                (found,) = compare(made.Y_test, *rankings, metrics=["P@5"]).differences
                relative.append(round(100 * found.difference / found.first, 3))
            facts = {"part": "difficulty", "set": rows.name, "mode": mode, "k": k}
            yield {**facts, "model": "copies=2", "relative": relative}


def copies(rows: Rows, most: int) -> Iterator[dict[str, Any]]:
    runs = Runs(rows)
    for number in range(1, most + 1):
        name = f"copies={number}"
        runs.models[name] = Disentangled(copies=number, threads=1).fit(rows.X, rows.Y)
        runs.rankings[name] = runs.models[name].rank(rows.X_test, k=5)
        yield {"part": "copies", "set": rows.name, "k": number, **runs.against_base(name)}


def real(rows: Rows, part: str = "real", names: tuple[str, ...] = TABLE4) -> Iterator[dict[str, Any]]:
    runs = Runs(rows)
    for name in ("base", *names):
        yield {"part": part, "set": rows.name, **runs.against_base(name)}


def rank_with_seed(rows: Rows, name: str, seed: int) -> Ranking:
    """Rank the labels of the test rows by a model of `MODELS` with another seed."""
    return MODELS[name]().set_params(seed=seed).fit(rows.X, rows.Y).rank(rows.X_test, k=5)


def seeds(rows: Rows, count: int, cluster: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield gains over the base with several seeds, on all test rows and on one row of each label set."""
    names = ("base", "copies=2", "copies=auto")
    calls = [[partial(rank_with_seed, rows, name, number) for number in range(count)] for name in names]
    rankings = dict(zip(names, run_seeds(calls, cluster), strict=True))
    for title, kept in (("all", np.arange(rows.Y_test.shape[0])), ("one of each label set", distinct(rows))):
        some = {name: [one.rows(kept) for one in rankings[name]] for name in names}
        for name in names[1:]:
            gains = compare_seeds(rows.Y_test[kept], some["base"], some[name], metrics=METRICS[:3])
            facts = {"part": "seeds", "set": rows.name, "features": title, "model": name}
            yield {**facts, "test_rows": int(kept.size), "seeds": count, **gains}


def timed(rows: Rows, repeats: int, models: list[str]) -> Iterator[dict[str, Any]]:
    """Yield training and search times beside the base's, all models in turns; the least of each counts."""
    names = ("base", *(name for name in TABLE5 if name in models))
    fit: dict[str, list[float]] = {name: [] for name in names}
    rank: dict[str, list[float]] = {name: [] for name in names}
    fitted: dict[str, LinearTree] = {}
    for _ in range(repeats):
        for name in names:
            start = time.perf_counter()
            fitted[name] = MODELS[name]().fit(rows.X, rows.Y)
            fit[name].append(time.perf_counter() - start)
    for _ in range(5 * repeats):
        for name in names:
            start = time.perf_counter()
            fitted[name].rank(rows.X_test, k=5)
            rank[name].append(time.perf_counter() - start)
    for name in names:
        yield {
            "part": "time", "set": rows.name, "data": rows.name, "model": name,
            "fit_seconds": min(fit[name]), "fit_ratio": min(fit[name]) / min(fit["base"]),
            "rank_ms": 1000 * min(rank[name]) / rows.X_test.shape[0],
            "rank_ratio": min(rank[name]) / min(rank["base"]),
        }  # fmt: skip


def run(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name in args.data:
        rows = read_set(name, args.quick)
        if "fused" in args.what:
            yield from fused(rows, args.k, args.modes)
        if "difficulty" in args.what:
            yield from difficulty(rows, args.k, args.modes)
        if "copies" in args.what:
            yield from copies(rows, 6)
        if "real" in args.what:
            yield from real(rows, names=tuple(args.models))
        if "seeds" in args.what:
            yield from seeds(rows, args.seeds, args.cluster)
        if "time" in args.what:
            yield from timed(rows, args.repeats, args.models)
    if "dense" in args.what:
        for rows, features in zip(
            read_with_embeddings(args.dense_data, args.rows, args.rows // 4),
            ("TF-IDF", "TF-IDF + MiniLM"),
            strict=True,
        ):
            for row in real(rows, "dense", ("copies=2", "copies=auto")):
                yield {**row, "features": features}


def main() -> None:
    parser = PAGE.parser(__doc__, quick=True)
    parser.add_argument("what", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; none: only write the page")
    parser.add_argument("--data", nargs="+", default=list(SETS))
    parser.add_argument("--k", nargs="+", type=int, default=list(range(2, 9)))
    parser.add_argument("--modes", nargs="+", default=list(MODES))
    parser.add_argument("--models", nargs="+", default=list(TABLE4), help="beside the base, for real and time")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3, help="of timed fits")
    parser.add_argument("--dense-data", default="tate-subjects")
    parser.add_argument("--rows", type=int, default=12_000, help="training rows with embeddings")
    add_cluster(parser)
    args = parser.parse_args()
    if unknown := set(args.what) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    if args.quick:
        args.what = args.what or [part for part in PARTS if part not in ("dense", "time")]
        args.data, args.k, args.seeds, args.repeats, args.rows = args.data[:1], [2], 2, 1, 200
    for row in run(args):
        print(json.dumps(row, ensure_ascii=False), flush=True)
        PAGE.save(args.out, replace_row(PAGE.load(args.out, []), row, KEY))
    PAGE.write(args.out, page_blocks(PAGE.load(args.out, [])))


if __name__ == "__main__":
    main()
