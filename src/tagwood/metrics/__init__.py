"""Metrics on sparse input: the quality of a ranking, by label frequency, with intervals, and compared with another.

In: true labels Y and a `Ranking`. Out: a `Report` (`evaluate`), a `Comparison` (`compare`), or scores per label.
"""

from tagwood.metrics.evaluation import (
    LabelScores,
    SetScores,
    evaluate,
    evaluate_sets,
    label_scores,
    set_scores,
)
from tagwood.metrics.measures import parse_metrics
from tagwood.metrics.propensity import (
    PRESETS,
    LabelCounts,
    LabelSlice,
    describe_propensity,
    frequency_slices,
    inverse_propensity,
)
from tagwood.metrics.report import Measure, Report, SliceReport
from tagwood.metrics.resampling import Comparison, Difference, compare

__all__ = [
    "PRESETS",
    "Comparison",
    "Difference",
    "LabelCounts",
    "LabelScores",
    "LabelSlice",
    "Measure",
    "Report",
    "SetScores",
    "SliceReport",
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
