"""`choose_point`: limits in, settings out. The changes that lose the least precision within the limits are chosen.

Every change makes something smaller and loses some precision; how much was measured (see docs/benchmarks/plan.md).
Combinations are tried in the order of the precision they are expected to lose. Also: quantities with units.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from tagwood.errors import InputError
from tagwood.features.tfidf import TfidfEncoder
from tagwood.models.linear_tree import LinearTree
from tagwood.planning.forecast import Forecast, parts_of
from tagwood.recipe import Recipe

_PARTS = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Zµ]*)\s*")
BYTES = {"b": 1.0, "kb": 1e3, "k": 1e3, "mb": 1e6, "m": 1e6, "gb": 1e9, "g": 1e9, "tb": 1e12}
BYTES |= {"kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def parse_quantity(text: str, name: str, units: dict[str, float], plain: str) -> float:
    """Return a quantity in bytes or seconds; a number without unit is in `plain`.

    Examples
    --------
    >>> parse_quantity("2.5GB", "--max-ram", BYTES, "mb"), parse_quantity("5", "--max-latency", SECONDS, "ms")
    (2500000000.0, 0.005)
    """
    match = _PARTS.fullmatch(text)
    unit = (match[2].lower() or plain) if match else ""
    if match is None or unit not in units or float(match[1]) <= 0:
        known = "500MB or 4GB" if units is BYTES else "2ms or 500us"
        raise InputError(f"{name} must be a number above 0 with a unit, such as {known}", given=repr(text[:40]))
    return float(match[1]) * units[unit]


def show_amount(size: float) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> show_amount(2.34e9), show_amount(51e6), show_amount(800)
    ('2.3 GB', '51 MB', '0.8 kB')
    """
    return _scaled(size, {"GB": 1e9, "MB": 1e6, "kB": 1e3})


def show_time(seconds: float) -> str:
    """Return a time as text.

    Examples
    --------
    >>> show_time(150), show_time(4.2), show_time(0.0042), show_time(42e-6)
    ('2.5 min', '4.2 s', '4.2 ms', '42 µs')
    """
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    units = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
    return _scaled(seconds, {"min": 60.0} if seconds >= 120 else units)


def _scaled(amount: float, units: dict[str, float]) -> str:
    """Return an amount in the largest of the units that is not above it, or in the last one."""
    unit = next((unit for unit, scale in units.items() if amount >= scale), list(units)[-1])
    value = amount / units[unit]
    return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"


Predict = Callable[[Recipe], Forecast]


@dataclass(frozen=True)
class Limits:
    """What must not be exceeded, in bytes and seconds; None is no limit."""

    peak_bytes: float | None = None
    latency_seconds: float | None = None
    model_bytes: float | None = None

    def exceeded(self, forecast: Forecast) -> list[str]:
        """Return what a forecast exceeds, at the upper end of its band."""
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
