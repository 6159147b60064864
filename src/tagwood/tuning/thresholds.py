"""Measure every rule that cuts a ranking to label sets: thresholds, fixed numbers of labels, promises.

In: rankings of rows that the model was not trained on, and their true labels. Out: a `Cut` per rule, and the best one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood.errors import InputError
from tagwood.metrics import evaluate
from tagwood.metrics.measures import SETS, parse_metric
from tagwood.ranking import Ranking

METRICS = ("micro-P", "micro-R", "micro-F1", "macro-F1", "example-F1")
"""The metrics of every cut."""

THRESHOLDS = (0.001, 0.002, 0.005, *(step / 100 for step in range(1, 100)))
"""Thresholds to try, in steps of 0.01 above 0.01."""

PROMISES = (
    "f1",
    *(f"precision>={value}" for value in (0.95, 0.9, 0.8, 0.7, 0.5)),
    *(f"recall>={value}" for value in (0.5, 0.7, 0.8, 0.9, 0.95)),
)


class Cut(NamedTuple):
    """A set rule and its results: labels per row, measures by name, share of rows flagged for review."""

    rule: str
    labels: float
    measures: dict[str, float]
    review: float


def check_metric(text: str) -> str:
    """Return the name of a metric of label sets, or raise `InputError`."""
    name = parse_metric(text)
    if name.family not in SETS or name.k is not None:
        raise InputError(
            "the metric must be one of label sets",
            given=str(name),
            hint="Such as micro-F1, macro-F1, example-F1.",
        )
    return str(name)


def measure_thresholds(
    Y: Any, ranking: Ranking, metric: str = "micro-F1", thresholds: Sequence[float] = THRESHOLDS
) -> list[Cut]:
    """Measure the sets of labels with at least each threshold, from the lowest to the highest.

    Examples
    --------
    >>> ranking = Ranking.from_lists([[(0, 0.9), (1, 0.4)], [(1, 0.6), (0, 0.2)]], n_labels=2)
    >>> best_cut(measure_thresholds([[0], [1]], ranking), "micro-F1").rule
    'threshold>=0.41'
    """
    cuts = []
    for threshold in sorted(thresholds):
        ranking = ranking.above(threshold)
        cuts.append(_cut(f"threshold>={threshold}", Y, ranking, metric))
    return cuts


def measure_sizes(Y: Any, ranking: Ranking, metric: str = "micro-F1", sizes: Iterable[int] = range(1, 21)) -> list[Cut]:
    """Measure the sets of the first k labels for each k."""
    return [_cut(f"top-{k}", Y, ranking.top(k), metric) for k in sizes]


def measure_rules(
    Y: Any,
    ranking: Ranking,
    apply: Callable[[Ranking, str], tuple[Ranking, NDArray[np.bool_]]],
    metric: str = "micro-F1",
    rules: Iterable[str] = PROMISES,
) -> list[Cut]:
    """Measure the sets of rules; `apply` cuts a ranking by a rule and says which rows to review."""
    cuts = []
    for rule in rules:
        sets, review = apply(ranking, rule)
        cuts.append(_cut(rule, Y, sets, metric)._replace(review=float(review.mean())))
    return cuts


def best_cut(cuts: Sequence[Cut], metric: str) -> Cut:
    """Return the cut with the best value of a metric; of equal ones the first."""
    sign = -1 if metric == "hamming" else 1
    return max(cuts, key=lambda cut: sign * cut.measures[metric])


def _cut(rule: str, Y: Any, sets: Ranking, metric: str) -> Cut:
    report = evaluate(Y, sets, metrics=dict.fromkeys([*METRICS, metric]))
    sizes = np.diff(sets.indptr)
    measures = {measure.name: measure.value for measure in report.measures}
    return Cut(rule, float(sizes.mean()), measures, float((sizes == 0).mean()))
