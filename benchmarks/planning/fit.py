"""From measured runs to the constants of the forecast and their errors. In: results of `benchmarks.planning.worker`.

The logarithm of forecast over measurement is minimised, so that half and twice count alike; constants are positive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from tagwood.planning.forecast import Coefficients, entries

Run = dict[str, Any]
QUANTITIES = ("memory", "cpu", "size", "latency", "batch")
_PULL = 0.02  # towards equal shares of the terms, where the runs do not tell them apart


def fit_coefficients(
    runs: Sequence[Run], bands: dict[str, float], facts: dict[str, str], probe: float = 1.0
) -> Coefficients:
    """Fit every group of constants to the runs; `probe` are the CPU seconds of the probe on their machine."""

    def stage(name: str) -> tuple[float, ...]:
        terms = [_times(run["terms"][name], run["fits"]) for run in runs]
        return _fit(terms, [run["measured"]["cpu"][name] for run in runs])

    def plain(terms: str, quantity: str) -> tuple[float, ...]:
        return _fit([run["terms"][terms] for run in runs], [run["measured"][quantity] for run in runs])

    return Coefficients(
        features=stage("features"),
        label_features=stage("label_features"),
        tree=stage("tree"),
        rest=_fit([run["terms"]["rest"] for run in runs], [run["measured"]["cpu"]["rest"] for run in runs]),
        memory=_fit(
            [run["terms"]["memory"] for run in runs],
            [run["measured"]["peak"] - run["measured"]["used"] for run in runs],
            [run["measured"]["used"] for run in runs],
        ),
        entries=_fit_entries(runs),
        size=plain("size", "size"),
        latency=plain("tagging", "latency"),
        batch=plain("tagging", "batch"),
        probe=probe,
        bands=bands,
        measured=facts,
    )


def ratios(run: Run, known: Coefficients) -> dict[str, float]:
    """Return forecast over measurement for every quantity of a run."""
    terms, measured = run["terms"], run["measured"]
    scale = _entries(run, known) / measured["entries"]  # the terms hold the measured number of weights
    memory, size = list(terms["memory"]), list(terms["size"])
    memory[-1] *= scale
    size[1] *= scale
    stages = ("features", "label_features", "tree")
    cpu = run["fits"] * sum(_dot(getattr(known, name), terms[name]) for name in stages)
    cpu += _dot(known.rest, terms["rest"])
    return {
        "memory": (measured["used"] + _dot(known.memory, memory)) / measured["peak"],
        "cpu": cpu / measured["cpu_total"],
        "size": _dot(known.size, size) / measured["size"],
        "latency": _dot(known.latency, terms["tagging"]) / measured["latency"],
        "batch": _dot(known.batch, terms["tagging"]) / measured["batch"],
    }


def error_bands(
    fit_runs: Sequence[Run], other_runs: Sequence[Run], same_set: Callable[[Run, Run], bool]
) -> dict[str, float]:
    """Return for every quantity the factor within which nine of ten unseen runs lie.

    Runs that constants are fitted to are forecast with constants from the runs of other sets.
    """
    logs: dict[str, list[float]] = {name: [] for name in QUANTITIES}
    everything = fit_coefficients(fit_runs, {}, {})
    for run in [*fit_runs, *other_runs]:
        others = [one for one in fit_runs if not same_set(one, run)]
        known = everything if len(others) == len(fit_runs) else fit_coefficients(others, {}, {})
        for name, ratio in ratios(run, known).items():
            logs[name].append(abs(np.log(ratio)))
    return {name: round(float(np.exp(np.quantile(found, 0.9))), 2) for name, found in logs.items()}


def _fit(
    terms: Sequence[Sequence[float]], values: Sequence[float], added: Sequence[float] | None = None
) -> tuple[float, ...]:
    """Return constants with terms @ constants (+ added) near values (+ added) in ratio."""
    matrix, wanted = np.array(terms, dtype=float), np.maximum(np.array(values, dtype=float), 1e-9)
    known = np.zeros(wanted.size) if added is None else np.array(added, dtype=float)
    scale = wanted.mean() / np.maximum(matrix.mean(axis=0), 1e-12) / matrix.shape[1]

    def errors(logs: Any) -> Any:
        found = (matrix * scale) @ np.exp(logs) + known
        return np.concatenate([np.log(found / (wanted + known)), _PULL * logs])

    starts = np.random.default_rng(0).normal(0, 1.5, (12, matrix.shape[1]))
    tries = [least_squares(errors, start, bounds=(-12, 12)) for start in starts]
    best = min(tries, key=lambda one: one.cost)
    return tuple((np.exp(best.x) * scale).tolist())


def _fit_entries(runs: Sequence[Run]) -> tuple[float, float]:
    """Fit the two constants of the number of weights: a straight line in logarithms."""
    work = np.array([run["terms"]["label_work"] for run in runs])
    entries = np.array([run["measured"]["entries"] for run in runs], dtype=float)
    line = np.stack([np.ones(len(runs)), -work[:, 1]], axis=1)
    found, *_ = np.linalg.lstsq(line, np.log(entries / work[:, 0]), rcond=None)
    return float(np.exp(found[0])), float(max(found[1], 0.0))


def _entries(run: Run, known: Coefficients) -> float:
    return entries(known.entries, tuple(run["terms"]["label_work"]))


def _times(terms: Sequence[float], factor: float) -> list[float]:
    return [factor * term for term in terms]


def _dot(constants: Sequence[float], terms: Sequence[float]) -> float:
    return float(np.dot(constants, terms))
