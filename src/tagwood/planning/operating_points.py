"""`choose_point`: limits in, settings out. The changes that cost least precision and keep to the limits are chosen.

Every change makes something smaller and loses some precision; how much was measured (docs/benchmarks/plan.md has the
table). Combinations are tried in the order of the precision they are expected to lose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from tagwood.errors import InputError
from tagwood.features.tfidf import TfidfEncoder
from tagwood.models.linear_tree import LinearTree
from tagwood.planning.forecast import Forecast, parts_of
from tagwood.planning.quantities import show_amount, show_time
from tagwood.recipe import Recipe

Predict = Callable[[Recipe], Forecast]


@dataclass(frozen=True)
class Limits:
    """What must not be exceeded, in bytes and seconds; None is no limit."""

    peak_bytes: float | None = None
    latency_seconds: float | None = None
    model_bytes: float | None = None

    def exceeded(self, forecast: Forecast) -> list[str]:
        """Say what a forecast exceeds, at the upper end of its band."""
        pairs = [
            ("memory", forecast.peak_bytes.high, self.peak_bytes, show_amount),
            ("latency", forecast.latency_seconds.high, self.latency_seconds, show_time),
            ("model size", forecast.model_bytes.high, self.model_bytes, show_amount),
        ]
        return [
            f"{name} up to {show(value)}, allowed {show(limit)}"
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


# Value of a setting, and percent of P@5 that it loses: about the mean over two sets, on rows kept from training. Words
# alone lost nothing there; they do on long texts, hence a percent.
MIN_DF = ((3, 2.5), (5, 6.0), (10, 15.0), (20, 25.0))
THRESHOLD = ((0.15, 0.5), (0.2, 2.0), (0.3, 5.0), (0.5, 12.0))
ONE_TREE, WORDS_ONLY = 1.0, 1.0


def choose_point(recipe: Recipe, limits: Limits, predict: Predict) -> Point:
    """Return the recipe, changed as little as the limits allow.

    Parameters
    ----------
    recipe
        The settings to begin with.
    limits
        What must not be exceeded.
    predict
        Returns the forecast of a recipe; it is asked for one recipe after the other.

    Raises
    ------
    InputError
        If no combination keeps to the limits; it says how near they come.
    """
    last: Forecast | None = None
    for changes, loss in _combinations(recipe):
        changed = recipe.override(changes)
        last = predict(changed)
        if not limits.exceeded(last):
            return Point(changed, changes, loss, last)
    assert last is not None
    raise InputError(
        "no settings keep to these limits",
        given="; ".join(limits.exceeded(last)) + " with the smallest model that was tried",
        hint="Raise the limits, or train on fewer rows (--docs-limit) or labels.",
    )


def _combinations(recipe: Recipe) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield combinations of changes by rising loss; the first one changes nothing."""
    axes = [[Change(None, 0.0), *axis] for axis in _axes(*parts_of(recipe.tagger()))]
    ordered = sorted(product(*axes), key=lambda point: sum(change.loss for change in point))
    for point in ordered:
        changes = tuple(change.setting for change in point if change.setting is not None)
        yield changes, sum(change.loss for change in point)


def _axes(encoder: TfidfEncoder, model: LinearTree) -> Iterator[list[Change]]:
    yield [
        Change(f"model.threshold={value}", loss)
        for value, loss in THRESHOLD
        if value > model.solver.threshold
    ]
    if isinstance(encoder.min_df, int) and not encoder.hash_bits:
        yield [Change(f"features.min_df={value}", loss) for value, loss in MIN_DF if value > encoder.min_df]
    if tuple(encoder.ngrams) != (1, 1) and encoder.analyzer != "char":
        yield [Change("features.ngrams=[1, 1]", WORDS_ONLY)]
    if model.n_trees > 1:
        yield [Change("tree.n_trees=1", ONE_TREE)]
