"""`choose_point`: limits in, settings out. The changes that lose the least precision within the limits are chosen.

Every change makes something smaller and loses some precision; how much was measured (see docs/benchmarks/plan.md).
Combinations are tried in the order of the precision they are expected to lose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from tagwood._check import check_threads, show_amount, show_time
from tagwood.errors import InputError
from tagwood.features.tfidf import TfidfEncoder
from tagwood.models.linear_tree import LinearTree
from tagwood.planning.forecast import Forecast, parts_of
from tagwood.recipe import Recipe

Predict = Callable[[Recipe], Forecast]


@dataclass(frozen=True)
class Limits:
    """What must not be exceeded, in bytes and seconds; None is no limit."""

    peak_bytes: float | None = None
    latency_seconds: float | None = None
    model_bytes: float | None = None
    train_seconds: float | None = None

    def exceeded(self, forecast: Forecast, *, surely: bool = False) -> list[str]:
        """Return what a forecast exceeds at the upper end of its band, or with `surely` at the lower end."""
        end = "low" if surely else "high"
        peak, latency, size, cpu = (
            float(getattr(value, end))
            for value in (forecast.peak_bytes, forecast.latency_seconds, forecast.model_bytes, forecast.cpu_seconds)
        )
        pairs = [
            ("memory", peak, self.peak_bytes, show_amount),
            ("latency", latency, self.latency_seconds, show_time),
            ("model size", size, self.model_bytes, show_amount),
            ("training time", cpu / check_threads(None), self.train_seconds, show_time),
        ]
        words = "at least" if surely else "up to"
        return [
            f"{name} {words} {show(value)}, allowed {show(limit)}"
            for name, value, limit, show in pairs
            if limit is not None and value > limit
        ]


class Change(NamedTuple):
    """A change of a setting, and the percent of P@5 that it is expected to lose."""

    setting: str | None
    loss: float


class Point(NamedTuple):
    """An operating point: the recipe, what was changed in it, and what it will need."""

    recipe: Recipe
    changes: tuple[str, ...]
    loss: float
    forecast: Forecast


# Value of a setting, and percent of P@5 that it loses: about the mean over two datasets, on held-out rows. Single words
# lost nothing there but do on long texts, hence one percent.
MIN_DF = ((3, 2.5), (5, 6.0), (10, 15.0), (20, 25.0))
THRESHOLD = ((0.15, 0.5), (0.2, 2.0), (0.3, 5.0), (0.5, 12.0))
ONE_TREE, WORDS_ONLY = 1.0, 1.0


def choose_point(recipe: Recipe, limits: Limits, predict: Predict) -> Point:
    """Return the recipe, changed as little as the limits allow; `predict` returns the forecast of a recipe.

    If no combination of changes is within the limits, `InputError` is raised.
    """
    last: Forecast | None = None
    for changes, loss in _combinations(recipe):
        # Forecasts are for a tree alone.
        changed = recipe.override(["model.quality=fast", *changes]) if changes else recipe
        last = predict(changed)
        if not limits.exceeded(last):
            return Point(changed, changes, loss, last)
    assert last is not None
    raise InputError(
        "no settings are within these limits",
        given="; ".join(limits.exceeded(last)) + " with the smallest model that was tried",
        hint="Raise the limits, or train on fewer rows (--docs-limit) or labels.",
    )


def _combinations(recipe: Recipe) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield combinations of changes by rising loss; the first one changes nothing."""
    axes = [[Change(None, 0.0), *axis] for axis in _axes(*parts_of(recipe.tagger()))]
    for point in sorted(product(*axes), key=lambda point: sum(change.loss for change in point)):
        changes = tuple(change.setting for change in point if change.setting is not None)
        yield changes, sum(change.loss for change in point)


def _axes(encoder: TfidfEncoder, model: LinearTree) -> Iterator[list[Change]]:
    yield [Change(f"model.threshold={value}", loss) for value, loss in THRESHOLD if value > model.solver.threshold]
    if isinstance(encoder.min_df, int) and not encoder.hash_bits:
        yield [Change(f"features.min_df={value}", loss) for value, loss in MIN_DF if value > encoder.min_df]
    if tuple(encoder.ngrams) != (1, 1) and encoder.analyzer != "char":
        yield [Change("features.ngrams=[1, 1]", WORDS_ONLY)]
    if model.n_trees > 1:
        yield [Change("tree.n_trees=1", ONE_TREE)]
