"""Stored runs of the OTSeq2Set experiment, and means, intervals and paired differences over seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from experiments.otseq2set_plan import Settings, key_of

OUT = Path(__file__).parent.parent / "docs" / "experiments"
RESULTS = OUT / "otseq2set.json"
FACTORS = {2: 12.71, 3: 4.30, 4: 3.18}  # of the t distribution, 95 %, by number of seeds
Run = dict[str, Any]


def load() -> dict[str, Any]:
    """Return what was measured so far."""
    found: dict[str, Any] = {"runs": {}, "tree": {}, "time": {}, "sizes": {}}
    return {**found, **json.loads(RESULTS.read_text())} if RESULTS.exists() else found


def store(result: dict[str, Any]) -> None:
    """Store the results, a line for each run."""
    text = json.dumps(result, ensure_ascii=False).replace('}, "', '},\n"') + "\n"
    new = RESULTS.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(RESULTS)


def runs_of(
    result: dict[str, Any], data: str, model: str, change: Settings | None = None, seeds: int = 3
) -> list[Run]:
    """Return the runs of a model with some settings on a set, by seed."""
    keys = [key_of(data, model, change or {}, seed) for seed in range(seeds)]
    return [result["runs"][key] for key in keys if key in result["runs"]]


def mean_of(runs: list[Run], measure: str, part: str = "test") -> float:
    """Return the mean of a measure over seeds."""
    return float(np.mean([run[part][measure] for run in runs]))


def interval(runs: list[Run], measure: str = "F1", part: str = "test", digits: int = 1) -> str:
    """Return the mean with half the width of its 95 % interval (t distribution), where there are seeds for one.

    Examples
    --------
    >>> interval([{"test": {"F1": value}} for value in (50.0, 51.0, 52.0)])
    '51.0 ± 2.5'
    """
    return _interval([run[part][measure] for run in runs], f".{digits}f")


def difference(ours: list[Run], theirs: list[Run], measure: str = "F1", part: str = "test") -> str:
    """Return the mean difference of runs with the same seeds, and half of its 95 % interval.

    Examples
    --------
    >>> pair = [[{"test": {"F1": value}} for value in values] for values in ((50.0, 51.0), (49.0, 50.0))]
    >>> difference(*pair)
    '+1.0 ± 0.0'
    """
    pairs = zip(ours, theirs, strict=True)
    return _interval([one[part][measure] - other[part][measure] for one, other in pairs], "+.1f")


def _interval(values: list[float], form: str) -> str:
    mean = format(float(np.mean(values)), form)
    if len(values) < 2:
        return mean
    half = FACTORS[len(values)] / len(values) ** 0.5 * np.std(values, ddof=1)
    return f"{mean} ± {half:{form.removeprefix('+')}}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    rule = "|".join(["---", *["---:"] * (len(header) - 1)])
    return "\n".join([f"| {' | '.join(header)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)])
