"""Metrics on sparse input: the quality of a ranking, by label frequency, with intervals, and compared with another.

In: true labels Y and a `Ranking`. Out: a `Report` (`evaluate`), a `Comparison` (`compare`), or scores per label.
"""

from typing import TYPE_CHECKING

from tagwood._lazy import lazy_names

if TYPE_CHECKING:
    from tagwood.metrics.evaluation import evaluate, evaluate_sets, label_scores, set_scores
    from tagwood.metrics.measures import parse_metrics
    from tagwood.metrics.propensity import (
        PRESETS,
        LabelCounts,
        describe_propensity,
        frequency_slices,
        inverse_propensity,
    )
    from tagwood.metrics.report import Report
    from tagwood.metrics.resampling import compare
else:  # type checkers do not see it: they would accept any name
    __getattr__ = lazy_names(
        __name__,
        evaluation="evaluate evaluate_sets label_scores set_scores",
        measures="parse_metrics",
        propensity="PRESETS LabelCounts describe_propensity frequency_slices inverse_propensity",
        report="Report",
        resampling="compare",
    )

__all__ = [
    "PRESETS",
    "LabelCounts",
    "Report",
    "compare",
    "describe_propensity",
    "evaluate",
    "evaluate_sets",
    "frequency_slices",
    "inverse_propensity",
    "label_scores",
    "parse_metrics",
    "set_scores",
]


def __dir__() -> list[str]:
    return __all__
