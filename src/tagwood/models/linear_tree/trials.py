"""Trials of label trees along λ: train on a part of the rows, measure on the others. In: X, Y. Out: a `TreeSweep`.

Decisions
---------
* Only training rows are used: a share of them is held out. Trees of all λ see the same rows.
* P@5 must not fall: the lower end of the 95 % interval of the difference to λ=0, over held-out rows and seeds, decides.
  A point estimate of one tree per λ lost P@1 on test rows in three of six choices.
* With `latency` the cost is the median time of a single row with exact search for five labels, measured for all trees
  in turns in one run. Without, it is the number of classifiers that the search evaluates, counted in every node that it
  visits: the same on every machine, so that fits stay repeatable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_float, check_int
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, check_features, csr_parts
from tagwood.errors import InputError
from tagwood.metrics import evaluate
from tagwood.models.base import Progress, ignore_progress
from tagwood.ranking import Ranking
from tagwood.trees.interpolated import PAPER_GRID, lambda_grid

SMALLEST = 20  # held-out rows; with fewer, chance would decide
METRICS = tuple(f"{family}@{k}" for family in ("P", "depth") for k in (1, 3, 5))
SEARCHES = ("exact", "beam")
DEPTHS = (1, 5)  # numbers of labels that searches are measured for
WORTH_IT = 0.02  # share by which a tree must be faster than the balanced one to be recommended
LOSS = 0.003  # of P@5 that a faster tree may lose, at the lower end of the interval
_REPEATS = 1000


@dataclass(frozen=True)
class SweepPoint:
    """One λ.

    Parameters
    ----------
    lam
        λ of the tree.
    measures
        By name: P@k and depth@k; ``exact_nodes_k`` and ``beam_nodes_k``, nodes evaluated per row in a search for k
        labels, and ``exact_outputs_k`` and ``beam_outputs_k``, their classifiers; ``exact_p50_k``, ``exact_p99_k``,
        ``beam_p50_k``, ``beam_p99_k``, microseconds of a single row.
    gain, gain_low, gain_high
        P@5 less that of λ=0 on the same rows, and its 95 % interval by paired bootstrap over rows and seeds.
    """

    lam: float
    measures: dict[str, float]
    gain: float
    gain_low: float
    gain_high: float


@dataclass(frozen=True)
class TreeSweep:
    """Measures of trees along λ.

    Parameters
    ----------
    points
        By rising λ; the first one is λ=0.
    cost
        The measure that says how slow a tree is.
    loss
        How much P@5 a tree may lose against λ=0, at the lower end of the interval.
    facts
        How it was measured: rows, seeds, shape of the trees.

    Examples
    --------
    >>> points = [SweepPoint(lam, {"P@1": p, "us": us}, p - 0.5, p - 0.502, 1)
    ...           for lam, p, us in [(0.0, 0.50, 9.0), (0.5, 0.51, 7.0), (1.0, 0.49, 5.0)]]
    >>> sweep = TreeSweep(tuple(points), cost="us")
    >>> sweep.lam, sweep.front()
    (0.5, [0.5, 1.0])
    """

    points: tuple[SweepPoint, ...]
    cost: str
    loss: float = LOSS
    facts: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.points or self.points[0].lam != 0:
            raise InputError("a sweep of trees must begin with λ=0", given=str([p.lam for p in self.points]))

    @property
    def lam(self) -> float:
        """The recommended λ: fastest of those that surely lose no more than `loss`; 0 where none is clearly faster."""
        base = self.points[0]
        limit = (1 - WORTH_IT) * base.measures[self.cost]
        useful = [p for p in self.points[1:] if p.gain_low >= -self.loss and p.measures[self.cost] <= limit]
        return min(useful, key=lambda p: p.measures[self.cost], default=base).lam

    def point(self, lam: float) -> SweepPoint:
        """Return the point of a λ."""
        return next(point for point in self.points if point.lam == lam)

    def front(self) -> list[float]:
        """Return the λ of the points that no other one beats in both P@1 and cost."""
        return [point.lam for point in self.points if not any(self._beats(p, point) for p in self.points)]

    def saving(self, measure: str) -> float:
        """Return the share of a measure that the recommended λ saves against λ=0."""
        return 1 - self.point(self.lam).measures[measure] / self.points[0].measures[measure]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON, with the recommendation and the front."""
        return {
            "recommended": self.lam,
            "front": self.front(),
            "cost": self.cost,
            "loss": self.loss,
            "facts": dict(self.facts or {}),
            "points": [asdict(point) for point in self.points],
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Rebuild a sweep from its JSON form."""
        points: Sequence[Mapping[str, Any]] = value["points"]
        return cls(tuple(SweepPoint(**p) for p in points), value["cost"], value["loss"], value["facts"])

    def _beats(self, one: SweepPoint, other: SweepPoint) -> bool:
        better = (one.measures["P@1"], -one.measures[self.cost])
        worse = (other.measures["P@1"], -other.measures[self.cost])
        return better != worse and all(a >= b for a, b in zip(better, worse, strict=True))


@dataclass(frozen=True)
class SweepPlan:
    """Which λ to try, and on how many rows.

    Parameters
    ----------
    lams
        λ to try; 0 is always among them.
    holdout
        Share of the rows to measure on, at most `held_rows`.
    held_rows, train_rows
        Most rows to measure on, and to train on; None is no limit.
    seeds
        Trees per λ: a single tree moves P@5 by some tenths of a point by chance.
    latency
        Whether to measure times; otherwise nodes are counted.
    loss
        How much P@5 may be lost against λ=0.
    seed
        Seed of the choice of rows and of the first tree.
    """

    lams: tuple[float, ...] = tuple(lambda_grid(PAPER_GRID).tolist())
    holdout: float = 0.15
    held_rows: int = 5000
    train_rows: int | None = None
    seeds: int = 3
    latency: bool = True
    loss: float = LOSS
    seed: int = 0

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        for lam in self.lams:
            check_float(lam, "lam", low=0, high=2)
        check_float(self.holdout, "holdout", low=0.01, high=0.9)
        check_int(self.held_rows, "held_rows", low=SMALLEST)
        if self.train_rows is not None:
            check_int(self.train_rows, "train_rows", low=1)
        check_int(self.seeds, "seeds", low=1)
        check_float(self.loss, "loss", low=0, high=1)
        check_int(self.seed, "seed", low=0)


# The trials of `LinearTree(tree="auto")`.
QUICK = SweepPlan(lams=(0.0, 0.25, 2 / 3), train_rows=15_000, held_rows=4000, seeds=2, latency=False)


def choose_tree(model: Any, X: CsrParts, Y: sparse.csr_array, **options: Any) -> TreeSweep | None:
    """Return quick trials for the rows that a model is fitted on, or None for too few; options of `sweep_trees`."""
    if round(QUICK.holdout * np.count_nonzero(np.diff(Y.indptr))) < SMALLEST:
        return None
    return sweep_trees(model, X.to_scipy(), Y, replace(QUICK, seed=model.seed), **options)


def sweep_trees(
    model: Any,
    X: sparse.csr_array,
    Y: sparse.csr_array,
    plan: SweepPlan | None = None,
    *,
    label_features: Any = None,
    sample_weight: Any = None,
    progress: Progress | None = None,
) -> TreeSweep:
    """Try trees of different λ for an unfitted `LinearTree`, which is not changed, on its training rows.

    A part of the rows of X (n_rows, n_features) and Y (n_rows, n_labels) is held out. `plan` is by default the paper's
    grid on all rows, with latency; the other options are those of `LinearTree.fit`.
    """
    plan, report = plan or SweepPlan(), progress or ignore_progress
    plan.check()
    train, held = split_rows(Y, plan)
    options = {"label_features": label_features}
    if sample_weight is not None:
        per_entry = sparse.issparse(sample_weight)
        weights = sparse.csr_array(sample_weight) if per_entry else np.asarray(sample_weight)
        options["sample_weight"] = weights[train]
    trial = Trial(model, X[train], Y[train], X[held], Y[held], options)
    lams = sorted({0.0, *map(float, plan.lams)})
    models, measures, hits = [], [], []
    for number, lam in enumerate(lams):
        figures, right = [], []
        for seed in range(plan.seeds):
            report(f"trees, λ={lam:.3g}", (number + seed / plan.seeds) / len(lams))
            fitted, measured, first = trial.run(lam, model.seed + seed)
            figures.append(measured)
            right.append(first)
            if plan.latency and seed == 0:
                models.append(fitted)
        measures.append({name: float(np.mean([one[name] for one in figures])) for name in figures[0]})
        hits.append(right)
    if plan.latency:
        report("latency", 1.0)
        measures = [known | more for known, more in zip(measures, trial.times(models), strict=True)]
    gains = paired_gains(np.stack(hits), plan.seed)
    points = [SweepPoint(lam, m, *gain) for lam, m, gain in zip(lams, measures, gains, strict=True)]
    facts = {
        "arity": model.arity,
        "max_leaf_size": model.max_leaf_size,
        "train_rows": int(train.size),
        "held_out_rows": int(held.size),
        "seeds": plan.seeds,
    }
    return TreeSweep(tuple(points), "exact_p50_5" if plan.latency else "exact_outputs_5", plan.loss, facts)


def split_rows(Y: sparse.csr_array, plan: SweepPlan) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows to train on and those to measure on, rising; rows without labels are left out."""
    labelled = np.flatnonzero(np.diff(Y.indptr))
    n_held = min(round(plan.holdout * labelled.size), plan.held_rows)
    if n_held < SMALLEST:
        needed = int(np.ceil(SMALLEST / plan.holdout))
        raise InputError(
            f"trees are compared on held-out rows, which takes {needed} rows with labels or more",
            given=f"{labelled.size}",
            hint="Choose lam without it; 0 gives the balanced tree.",
        )
    order = np.random.default_rng(plan.seed).permutation(labelled)
    most = labelled.size if plan.train_rows is None else n_held + plan.train_rows
    return np.sort(order[n_held:most]), np.sort(order[:n_held])


@dataclass(frozen=True)
class Trial:
    """The rows that all trees are trained and measured on."""

    model: Any
    X: sparse.csr_array
    Y: sparse.csr_array
    X_held: sparse.csr_array
    Y_held: sparse.csr_array
    fit_options: dict[str, Any]

    def run(self, lam: float, seed: int) -> tuple[Any, dict[str, float], NDArray[np.float64]]:
        """Train on a tree of λ; return the model, its measures, and P@5 of each held-out row."""
        settings = {"tree": "interpolated", "lam": lam, "seed": seed, "n_trees": 1}
        model = type(self.model)(**{**self.model.get_params(deep=False), **settings})
        model.fit(self.X, self.Y, **self.fit_options)
        ranking = model.rank(self.X_held, k=5, search="exact")
        depths = model.trees_[0].tree.label_depths()
        report = evaluate(self.Y_held, ranking, metrics=METRICS, label_depths=depths)
        measures = {name: report[name] for name in METRICS}
        beam = model.rank(self.X_held, k=5)
        measures["beam_P@1"] = evaluate(self.Y_held, beam, metrics=["P@1"])["P@1"]
        for search in SEARCHES:
            for k in DEPTHS:
                effort = model.search_effort(self.X_held, k, search=search)
                measures[f"{search}_nodes_{k}"] = float(effort.nodes.mean())
                measures[f"{search}_outputs_{k}"] = float(effort.outputs.mean())
        return model, measures, row_precision(self.Y_held, ranking)

    def times(self, models: list[Any]) -> list[dict[str, float]]:
        """Return the median and the 99th percentile of single rows, for each model and search."""
        for model in models:
            model.set_params(threads=1)
        ways = [(search, k) for search in SEARCHES for k in DEPTHS]
        rankers = [partial(model.rank, k=k, search=search) for search, k in ways for model in models]
        times = single_row_times(rankers, self.X_held).reshape(len(ways), len(models), -1)
        found: list[dict[str, float]] = [{} for _ in models]
        for (search, k), of_models in zip(ways, np.percentile(times, [50, 99], axis=2).transpose(1, 2, 0), strict=True):
            for facts, (middle, late) in zip(found, of_models, strict=True):
                facts |= {f"{search}_p50_{k}": float(middle), f"{search}_p99_{k}": float(late)}
        return found


def row_precision(Y: sparse.csr_array, ranking: Ranking, k: int = 5) -> NDArray[np.float64]:
    """Return P@k of each row.

    Examples
    --------
    >>> row_precision(sparse.csr_array([[1.0, 0, 1]]), Ranking.from_lists([[(2, 0.9), (1, 0.5)]], 3), k=2).tolist()
    [0.5]
    """
    right = sparse.csr_array(ranking.top(k).to_sets().multiply(sparse.csr_array(Y) > 0))
    return np.asarray(np.diff(right.indptr) / k, dtype=np.float64)


def paired_gains(hits: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return the mean gain of trees over the first one, and its 95 % interval over rows and seeds.

    `hits` (n_trees, n_seeds, n_rows) are a measure of each row; rows and seeds are drawn with replacement.
    """
    gains = hits - hits[:1]
    n_trees, n_seeds, n_rows = gains.shape
    random = np.random.default_rng(seed)
    drawn = np.empty((_REPEATS, n_trees))
    for repeat in range(_REPEATS):
        seeds = random.integers(n_seeds, size=n_seeds)
        rows = random.integers(n_rows, size=n_rows)
        drawn[repeat] = gains[:, seeds][:, :, rows].mean(axis=(1, 2))
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    return np.stack([gains.mean(axis=(1, 2)), low, high], axis=1)


def single_row_times(
    rankers: Sequence[Callable[[CsrParts], object]], X: Any, *, passes: int = 3, max_rows: int = 1000
) -> NDArray[np.float64]:
    """Return (n_rankers, n_rows) microseconds: of each row the fastest of `passes` requests.

    The functions of `rankers` rank one row, as `CsrParts`. They take turns pass by pass, so that a machine which slows
    down for a while slows all of them down; the first pass warms caches up.
    """
    matrix = check_features(X)[:max_rows]
    rows = [csr_parts(matrix[i : i + 1]) for i in range(matrix.shape[0])]
    best = np.full((len(rankers), len(rows)), np.inf)
    for _ in range(passes):
        for number, rank in enumerate(rankers):
            mine = best[number]
            for at, row in enumerate(rows):
                start = perf_counter()
                rank(row)
                mine[at] = min(mine[at], perf_counter() - start)
    return 1e6 * best
