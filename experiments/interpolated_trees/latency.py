"""Latency of trees along λ: single rows and whole requests from text, for 1, 5 and 10 labels.

In: names of sets. Out: one row per set and shape. λ is chosen among `LAMS` on a held-out part of the training rows, by
the rule of ``LinearTree(tree="auto")``: fewest evaluated classifiers where P@5 surely loses no more than 0.3 points.
Then λ=0 and that λ are trained on all training rows and measured on the test rows. Exact search and the beam, which
stops as soon as nothing better can come, take turns row by row; of each row the fastest of five requests counts, and
times are ratios to those of λ=0. Features are the Tagger's default, words and word pairs, but for one set of short
titles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.interpolated_trees.problems import Problem, synthetic_problem
from tagwood._sparse import csr_parts
from tagwood.features import TfidfEncoder
from tagwood.metrics import evaluate
from tagwood.models.linear_tree import LinearTree
from tagwood.models.linear_tree.trials import (
    SweepPlan,
    paired_gains,
    row_precision,
    sweep_trees,
)
from tagwood.ranking import Ranking
from tagwood.trees import build_balanced_tree, build_interpolated_tree, label_frequencies, lambda_grid

# Arity and leaf size. (2, 100) is the paper's tree. The wide ones are those in which the balanced tree fills its nodes
# to the last place, so that the others do not win by wider nodes.
SHAPES = {
    "tate-subjects": ((64, 5), (2, 100)),
    "debian-depends": ((16, 10), (2, 100)),
    "eurlex57k": ((16, 20), (2, 100)),
    "delicious": ((4, 16), (2, 100)),
    "tibkat-gnd-en": ((8, 50), (2, 100)),
    "cooking-stackexchange": ((4, 3), (2, 100)),
}
# On these short titles pieces of words raised P@1 by 0.4 points on held-out rows; word pairs elsewhere, the default.
ANALYZERS = {"tate-subjects": "word+char"}
LAMS = (0.15, 0.25, 0.4, 2 / 3, 1.0)
METRICS = ("P@1", "P@5", "depth@1", "depth@5")
SEARCHES = ("exact", "beam")
SIZES = (1, 5, 10)  # labels asked for
PASSES, TIMED_ROWS = 5, 1000


def measure_latency(name: str, n_rows: int | None, threads: int, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield one row per shape of the trees of a set."""
    analyzer = ANALYZERS.get(name, "word")
    problem = Problem(name, n_rows, threads, TfidfEncoder(analyzer=analyzer, threads=threads))
    for arity, leaf in SHAPES[name]:
        base = LinearTree(arity=arity, max_leaf_size=leaf, threads=threads)
        plan = SweepPlan(lams=LAMS, seeds=seeds, latency=False)
        sweep = sweep_trees(base, problem.X, problem.Y, plan)
        row = {"part": "latency", "data": name, "arity": arity, "max_leaf_size": leaf, "lam": sweep.lam}
        row |= {"held_out_gain": 100 * sweep.point(sweep.lam).gain, "seeds": seeds}
        yield row | (_on_test_rows(problem, base, sweep.lam, seeds) if sweep.lam > 0 else {})


def _on_test_rows(problem: Problem, base: LinearTree, lam: float, seeds: int) -> dict[str, Any]:
    """Return measures of λ=0 (`base_`) and `lam` (`new_`), means over the seeds, and ratios of times."""
    found: list[dict[str, float]] = []
    hits = []
    for seed in range(seeds):
        models = [
            LinearTree(**{**base.get_params(deep=False), "lam": one, "seed": seed}).fit(problem.X, problem.Y)
            for one in (0.0, lam)
        ]
        rankings = [model.rank(problem.X_test, k=5, search="exact") for model in models]
        hits.append([row_precision(problem.Y_test, ranking, 5) for ranking in rankings])
        values: dict[str, float] = {}
        for role, model, ranking in zip(("base", "new"), models, rankings, strict=True):
            depths = model.trees_[0].tree.label_depths()
            report = evaluate(problem.Y_test, ranking, metrics=METRICS, label_depths=depths)
            values |= {f"{role}_{m}": report[m] * (100 if m.startswith("P") else 1) for m in METRICS}
        found.append(values | _time_ratios(problem, models))
    mean: dict[str, Any] = {key: float(np.mean([values[key] for values in found])) for key in found[0]}
    _, gain = paired_gains(np.stack(hits, axis=1), seed=0)
    mean["P@5_gain"], mean["P@5_gain_low"], mean["P@5_gain_high"] = (100 * gain).tolist()
    return mean


def _time_ratios(problem: Problem, models: list[LinearTree]) -> dict[str, float]:
    """Return medians of a row's time with λ over that with λ=0, by search and number of labels; from text, too."""
    for model in models:
        model.set_params(threads=1)
    matrix = problem.X_test[:TIMED_ROWS]
    rows = [csr_parts(matrix[at : at + 1]) for at in range(matrix.shape[0])]
    ratios: dict[str, float] = {}
    for k in SIZES:
        rankers = [partial(model.rank, k=k, search=search) for model in models for search in SEARCHES]
        exact_0, beam_0, exact, beam = np.median(request_times(rankers, rows), axis=1)
        ratios |= {f"exact_{k}": exact / exact_0, f"beam_{k}": beam / beam_0, f"exact_to_beam_{k}": exact / beam_0}
        if problem.encoder is not None and k > 1:
            encoder = problem.encoder.set_params(threads=1)
            whole = [partial(_from_text, encoder, model, k) for model in models]
            before, after = np.median(request_times(whole, problem.test_texts[:TIMED_ROWS]), axis=1)
            ratios[f"text_{k}"] = after / before
    return {key: float(value) for key, value in ratios.items()}


def _from_text(encoder: TfidfEncoder, model: LinearTree, k: int, text: str) -> Ranking:
    return model.rank(encoder.transform([text]), k=k, search="exact")


def request_times(
    rankers: Sequence[Callable[[Any], object]], requests: Sequence[Any], passes: int = PASSES
) -> NDArray[np.float64]:
    """Return (n_rankers, n_requests) seconds: of each request the fastest of some passes; rankers take turns."""
    best = np.full((len(rankers), len(requests)), np.inf)
    for _ in range(passes):
        for at, request in enumerate(requests):
            for number, rank in enumerate(rankers):
                start = perf_counter()
                rank(request)
                best[number, at] = min(best[number, at], perf_counter() - start)
    return best


def measure_builds(n_labels: int, threads: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield build times of trees over power-law labels, the balanced tree measured beside each."""
    V, Y = synthetic_problem(n_labels)
    f = label_frequencies(Y)
    for lam_prime in (0.5, 1.0, 6.0, 100.0):
        lam = float(lambda_grid(lam_prime))
        ours, base = [], []
        for _ in range(repeats):
            ours.append(_seconds(partial(build_interpolated_tree, V, f, lam=lam, threads=threads)))
            base.append(_seconds(partial(build_balanced_tree, V, threads=threads)))
        yield {
            "part": "build", "data": f"power law, {n_labels:,} labels", "lam": lam, "seconds": min(ours),
            "balanced_seconds": min(base), "ratio": min(ours) / min(base),
        }  # fmt: skip


def _seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start
