"""EAGLE with many labels: Table 2, Figure 3, Figure 4, common terms, docstrings.

Out: jobs, (key, function) pairs; a function returns one row of results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from experiments.eagle.grouping import clustered_groups, random_groups
from experiments.eagle.problems import THREADS, Problem, docstrings, groups_of, load, mentions
from tagwood import LinearTree, Ranking
from tagwood.groups import GroupedLabels, Imputed, impute_from_scores, impute_labels
from tagwood.models.base import out_of_fold
from tagwood.tagger.group_learning import GroupRule, choose_rule, learns_soft

Job = tuple[str, Callable[[], dict[str, Any]]]
PAPER = {
    "contrast": 0.0,
    "step_size": 1.0,
}  # the paper gives no step size; from 0.1 to 10 it hardly matters here
METHODS: dict[str, dict[str, Any]] = {
    "Baseline": {"method": "baseline"},
    "EAGLE-0": {"method": "eagle-0", **PAPER},
    "EAGLE": {"method": "eagle", **PAPER},
    "EAGLE-0, contrast": {"method": "eagle-0"},
    "EAGLE, contrast": {"method": "eagle"},
    "EAGLE, contrast, soft": {"method": "eagle", "soft": True},
    "EAGLE-0, contrast, soft": {"method": "eagle-0", "soft": True},
    "EAGLE, contrast, 2 rounds": {"method": "eagle", "rounds": 2},
    "auto": {"method": "auto"},
}
MAIN = ("Baseline", "EAGLE-0", "EAGLE", "EAGLE, contrast")
SHORT = tuple(name for name in METHODS if "rounds" not in name)


class Part(NamedTuple):
    """What Table 2 measures on a set: training rows, seeds, methods (of seed 0), terms on at most a share of rows."""

    n_rows: int
    n_seeds: int
    methods: tuple[str, ...] = SHORT
    share: float = 1.0


# The paper's smallest set has 15,539 training rows.
SETS = {
    "eurlex57k": [Part(15_000, 2, tuple(METHODS)), Part(15_000, 1, SHORT, 0.1)],
    "tibkat-gnd-en": [Part(15_000, 1), Part(15_000, 1, SHORT, 0.1)],
    "tate-subjects": [Part(15_000, 1)],
    "debian-depends": [Part(15_000, 1)],
    "delicious": [Part(12_920, 1)],
}
QUICK_ROWS = 600
QUICK = {"eurlex57k": [Part(QUICK_ROWS, 1)]}
FIGURE4_ROWS = 4_000
DEPTH = 8


def make_groups(problem: Problem, rule: str, seed: int, noise: float = 0.0) -> sparse.csr_array:
    """Return groups by a rule: "R-10" for random groups of 10, "C-8" for clusters of depth 8."""
    kind, number = rule.split("-")
    if kind == "R":
        return random_groups(problem.X.shape[0], int(number), seed=seed)
    return clustered_groups(problem.X, int(number), noise=noise, seed=seed, threads=THREADS)


def measure(problem: Problem, groups: sparse.csr_array, settings: dict[str, Any]) -> dict[str, Any]:
    """Impute, train, and measure on single rows."""
    settings = dict(settings)
    rounds = settings.pop("rounds", 1)
    labels = sparse.csr_array(groups.T @ problem.Y)
    chosen = ""
    if settings["method"] == "auto":
        rule, _ = choose_rule(problem.X, GroupedLabels(groups, labels), GroupRule(), threads=THREADS)
        settings = {"method": rule.method, "soft": learns_soft(rule)}
        chosen = f"{rule.method}, soft" if learns_soft(rule) else rule.method
    imputed = impute_labels(problem.X, groups, labels, threads=THREADS, **settings)
    model = problem.fit(imputed.labels, imputed.weights if settings.get("soft") else None)
    for _ in range(rounds - 1):
        scores = out_of_fold(groups.indices, partial(_rank_fold, problem, imputed)).to_csr()
        imputed = impute_from_scores(scores, groups, labels, previous=imputed)
        model = problem.fit(imputed.labels)
    return {
        "right": problem.right(imputed.labels),
        **problem.score(model),
        "test_rows": problem.X_test.shape[0],
        "chosen": chosen,
    }


def _rank_fold(problem: Problem, imputed: Imputed, train: np.ndarray, held: np.ndarray) -> Ranking:
    """Rank the labels of rows by a model trained on the labels imputed to the rows of other groups."""
    return LinearTree(threads=THREADS).fit(problem.X[train], imputed.labels[train]).rank(problem.X[held], k=100)


def oracle(problem: Problem) -> dict[str, Any]:
    return {"right": 100.0, **problem.score(problem.fit(problem.Y)), "test_rows": problem.X_test.shape[0]}


def table2(name: str, part: Part) -> Iterator[Job]:
    """Random groups of 4 and 10 and clusters, all methods."""

    def problem() -> Problem:
        whole = load(name, part.n_rows)
        return whole if part.share == 1.0 else whole.without_common(part.share)

    def run(rule: str, seed: int, method: str) -> dict[str, Any]:
        rows = problem()
        return measure(rows, make_groups(rows, rule, seed), METHODS[method])

    tag = part_name(name, part)
    yield f"table2|{tag}|oracle|0|Oracle", lambda: oracle(problem())
    for seed in range(part.n_seeds):
        for rule in ("R-4", "R-10", f"C-{DEPTH}"):
            for method in part.methods if seed == 0 else SHORT:
                key = f"table2|{tag}|{rule}|{seed}|{method}"
                yield key, lambda rule=rule, seed=seed, method=method: run(rule, seed, method)


def part_name(name: str, part: Part) -> str:
    """Return the name that a part has in keys."""
    return name if part.share == 1.0 else f"{name}, terms on at most {100 * part.share:g} % of the rows"


def background(n_rows: int | None = None) -> Iterator[Job]:
    """Try the paper's algorithm when features that many rows share are left out."""

    def run(share: float, method: str) -> dict[str, Any]:
        problem = load("eurlex57k", n_rows or SETS["eurlex57k"][0].n_rows)
        problem = problem if share == 1.0 else problem.without_common(share)
        found = measure(problem, make_groups(problem, "R-10", 0), METHODS[method])
        return {**found, "mean_cosine": problem.mean_cosine()}

    for share in (1.0, 0.3, 0.1, 0.03, 0.01):
        for method in MAIN:
            yield f"background|eurlex57k|R-10|{share:g}|{method}", lambda s=share, m=method: run(s, m)


def figure4(n_rows: int | None = None) -> Iterator[Job]:
    """Group size, clustering depth, and noise in the clustering."""

    def run(rule: str, noise: float, method: str) -> dict[str, Any]:
        problem = load("eurlex57k", n_rows or FIGURE4_ROWS)
        return measure(problem, make_groups(problem, rule, 0, noise), METHODS[method])

    yield "figure4|oracle|oracle|0|Oracle", lambda: oracle(load("eurlex57k", n_rows or FIGURE4_ROWS))
    axes = [("size", f"R-{g}", g, 0.0) for g in (2, 4, 10, 20, 50)]
    axes += [("depth", f"C-{d}", d, 0.0) for d in (6, 8, 10, 11)]
    axes += [("noise", "C-8", noise, noise) for noise in (0.0, 0.25, 0.5, 0.75, 1.0)]
    for axis, rule, value, noise in axes:
        for method in MAIN:
            key = f"figure4|{axis}|{rule}|{value:g}|{method}"
            yield key, lambda rule=rule, noise=noise, method=method: run(rule, noise, method)


def corpus() -> Iterator[Job]:
    """Passages labelled through their docstring, and through the page their docstring stands on.

    Once with the labels of the corpus, most of which are true of all passages, and once with those of `mentions`.
    """

    def run(where: int, method: str) -> dict[str, Any]:
        problem, *names = docstrings()
        return measure(problem, groups_of(names[where]), METHODS[method])

    yield "corpus|docstrings|oracle|0|Oracle", lambda: oracle(docstrings()[0])
    for where, rule in enumerate(("docstring", "page")):
        for method in METHODS:
            yield f"corpus|docstrings|{rule}|0|{method}", lambda w=where, m=method: run(w, m)
    yield "corpus|mentions|oracle|0|Oracle", lambda: oracle(mentions()[0])
    for method in METHODS:
        yield f"corpus|mentions|docstring|0|{method}", lambda m=method: measure(*mentions(), METHODS[m])


def figure3() -> Iterator[Job]:
    """Theorem 1: regression without (NoAS) and with assignment (AS), over regression with known pairs."""
    for deviation in (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0):
        yield f"figure3|regression|-|{deviation:g}|-", lambda d=deviation: regression(d)


def regression(
    deviation: float, n_repeats: int = 20, n_groups: int = 500, size: int = 5, width: int = 20
) -> dict[str, Any]:
    """Return the root mean squared error of both estimators over that with known pairs, σ1 = σe = 1."""
    errors = np.array(
        [_errors(np.random.default_rng(seed), n_groups, size, width, deviation) for seed in range(n_repeats)]
    )
    root = np.sqrt(np.square(errors).mean(axis=0))
    return {"NoAS": float(root[0] / root[2]), "AS": float(root[1] / root[2])}


def _errors(random: np.random.Generator, n_groups: int, size: int, width: int, deviation: float) -> list[float]:
    """Return the errors of NoAS, AS and least squares with known pairs, as in equation (3)."""
    B = random.normal(size=(width, width))
    B /= np.linalg.norm(B, 2)
    centres = random.normal(size=(n_groups, 1, width))
    X = centres + deviation * random.normal(size=(n_groups, size, width))
    Z = X @ B + random.normal(size=X.shape)
    known = _least_squares(X.reshape(-1, width), Z.reshape(-1, width))
    no_as = _least_squares(X.sum(axis=1), Z.sum(axis=1))
    # Each output goes to the row of its group with the smallest residual; the order inside a group is unknown.
    residual = np.linalg.norm(Z[:, :, None, :] - (X @ no_as)[:, None, :, :], axis=3)
    chosen = np.take_along_axis(X, residual.argmin(axis=2)[:, :, None], axis=1)
    assigned = _least_squares(chosen.reshape(-1, width), Z.reshape(-1, width))
    return [float(np.linalg.norm(found - B, 2)) for found in (no_as, assigned, known)]


def _least_squares(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(X, Z, rcond=None)[0]
