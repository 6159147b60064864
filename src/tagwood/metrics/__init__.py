"""Metrics on sparse input: how good a ranking is, for which labels, how surely, and against another ranking.

In: true labels Y and a `Ranking`. Out: a `Report` (`evaluate`), a `Comparison` (`compare`), or one number.
"""

from tagwood.metrics.comparison import Comparison, Difference, compare
from tagwood.metrics.evaluation import LabelSlice, evaluate, evaluate_sets, frequency_slices
from tagwood.metrics.measures import parse_metrics
from tagwood.metrics.propensity import PRESETS, LabelCounts, describe_propensity, inverse_propensity
from tagwood.metrics.report import Measure, Report, SliceReport
from tagwood.metrics.scores import (
    LabelScores,
    SetScores,
    coverage_at_k,
    depth_at_k,
    hamming_loss,
    label_scores,
    ndcg_at_k,
    precision_at_k,
    psndcg_at_k,
    psp_at_k,
    psr_at_k,
    r_precision_at_k,
    recall_at_k,
    set_scores,
)

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
    "coverage_at_k",
    "depth_at_k",
    "describe_propensity",
    "evaluate",
    "evaluate_sets",
    "frequency_slices",
    "hamming_loss",
    "inverse_propensity",
    "label_scores",
    "ndcg_at_k",
    "parse_metrics",
    "precision_at_k",
    "psndcg_at_k",
    "psp_at_k",
    "psr_at_k",
    "r_precision_at_k",
    "recall_at_k",
    "set_scores",
]
