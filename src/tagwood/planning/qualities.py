"""Forecasts of the qualities: what `balanced` and `best` need beyond one linear tree, and which one fits into limits.

In: the forecast of a tree, figures of the data. Out: a forecast for each quality.

Decisions: the tree's forecast is scaled by the number of trees and of rounds; the other members follow from the rows
and features that they store, and the fusion from the held-out rows. The constants were read off the results of
``python -m benchmarks.quality`` (docs/benchmarks/quality.md) and are known within the factors of `_BANDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from tagwood.data.dataset import Dataset
from tagwood.models.ensemble.members import holdout_plan
from tagwood.planning.figures import DataFigures
from tagwood.planning.forecast import Forecast, Value, figures_for, forecast_training, n_fits, used_bytes
from tagwood.planning.operating_points import Limits, Point, choose_point
from tagwood.recipe import Recipe
from tagwood.tagger import Tagger
from tagwood.tagger.quality import QUALITIES, has_prime

_HELD_OUT = 0.2  # share of the rows that an ensemble holds out
_ENTRY_BYTES = 7.0  # of a stored feature of a row or label
_ROW_FEATURES, _LABEL_FEATURES = 100, 300  # that neighbours and centroids keep
_OTHER_BYTES = 1.5e6  # names, fusion
_PRIME_BYTES, _PRIME_LATENCY = 95e6, 0.008  # with MiniLM
_PRIME_TOKEN_SECONDS = 2e-4  # with bfloat16 1.5e-4, without 2.8e-4; each text passes once through the network
_PRIME_TOKENS, _TOKEN_CHARACTERS, _NAME_TOKENS = 64, 5, 8  # most of a text, characters of one, those of a label's name
_BANDS = {"peak_bytes": 1.5, "cpu_seconds": 1.8, "model_bytes": 1.6, "latency_seconds": 2.2, "batch_seconds": 2.2}


class Needs(NamedTuple):
    """What a quality needs, relative to one tree."""

    trees: float  # training time, in trees
    kept_trees: float  # size, in trees
    searched_trees: float  # latency, in trees
    seconds: float  # fusion, for each held-out row
    latency: float  # members other than trees, and the fusion
    memory: float


NEEDS = {
    "balanced": Needs(1.0, 1.0, 1.5, 0.0017, 0.0003, 1.2),
    "best": Needs(11.5, 11.0, 12.0, 0.009, 0.0012, 2.0),
}


def predictor(rows: Dataset, used: float | None = None, *, speed: float = 1.0) -> Callable[[Recipe], Forecast]:
    """Return a function that forecasts the training of a recipe; the data are measured once for each encoder.

    `used` are the bytes of a process that holds the data, default those of this process; `speed` is the `factor` of
    this machine.
    """
    used = used_bytes() if used is None else used
    known: dict[str, DataFigures] = {}

    def predict(recipe: Recipe) -> Forecast:
        tagger = recipe.tagger()
        key = repr(recipe.sections.get("features", {}))
        if key not in known:
            known[key] = figures_for(rows, tagger)
        tree = forecast_training(known[key], tagger, used_bytes=used)
        quality = tagger.effective_quality
        prime = quality == "best" and has_prime(rows.texts or ())
        return forecast_quality(tree, known[key], tagger, quality, prime=prime).scaled(speed)

    return predict


def forecast_quality(
    tree: Forecast, figures: DataFigures, tagger: Tagger, quality: str, *, prime: bool = False
) -> Forecast:
    """Return the forecast of a quality, given that of the Tagger's tree alone; `prime`: whether PRIME is a member."""
    if quality == "fast" or figures.grouped or figures.rows < 500:
        return tree
    needs = NEEDS[quality]
    n_held, n_rounds = holdout_plan(figures.rows, _HELD_OUT)
    rounds = n_rounds * (1 - n_held / n_rounds / figures.rows) + tagger.sets.refit
    cpu = tree.cpu_seconds.expected * needs.trees * rounds / n_fits(figures, tagger) + needs.seconds * n_held
    stored = figures.rows * min(_ROW_FEATURES, figures.texts.per_row)
    stored += min(_LABEL_FEATURES * figures.labels.n_labels, figures.labels.features)
    size = tree.model_bytes.expected * needs.kept_trees + _ENTRY_BYTES * stored + _OTHER_BYTES
    latency = tree.latency_seconds.expected * needs.searched_trees + needs.latency
    batch = tree.batch_seconds.expected * needs.searched_trees + needs.latency
    if prime:
        tokens = figures.rows * min(_PRIME_TOKENS, 2 + figures.characters / figures.rows / _TOKEN_CHARACTERS)
        cpu += _PRIME_TOKEN_SECONDS * (tokens + _NAME_TOKENS * figures.labels.n_labels)
        size += _PRIME_BYTES
        latency, batch = latency + _PRIME_LATENCY, batch + _PRIME_LATENCY
    return replace(
        tree,
        peak_bytes=Value(tree.peak_bytes.expected * needs.memory, _BANDS["peak_bytes"]),
        cpu_seconds=Value(cpu, _BANDS["cpu_seconds"]),
        model_bytes=Value(size, _BANDS["model_bytes"]),
        latency_seconds=Value(latency, _BANDS["latency_seconds"]),
        batch_seconds=Value(batch, _BANDS["batch_seconds"]),
    )


def choose_quality(recipe: Recipe, limits: Limits, predict: Callable[[Recipe], Forecast], highest: str) -> Point:
    """Return the highest quality within limits, up to `highest`; below fast, settings of a smaller tree.

    If nothing is within the limits, `InputError` is raised. `predict` returns the forecast of a recipe.
    """
    for quality in reversed(QUALITIES[: QUALITIES.index(highest) + 1]):
        changed = recipe.override([f"model.quality={quality}"])
        forecast = predict(changed)
        if not limits.exceeded(forecast):
            return Point(changed, (), 0.0, forecast)
    return choose_point(recipe.override(["model.quality=fast"]), limits, predict)
