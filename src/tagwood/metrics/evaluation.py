"""`evaluate` and `evaluate_sets`: true labels and a ranking (or label sets) in, a `Report` out.

All metrics are computed in one pass over the ranking. Their definitions are in docs/reference/metrics.md and, as code,
in `measures`.

Decisions. Rows without true labels follow the Extreme Classification Repository: such a row counts 0 in the mean of P@k
and nDCG@k, and adds nothing to numerator and denominator of PSP@k, PSR@k and PSnDCG@k. R@k and RP@k are undefined there
(0 / 0), so that their mean is over the other rows. Example-based measures follow scikit-learn: 0. P@k divides by k also
in rows with fewer returned labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood._lazy import sparse
from tagwood._sparse import check_labels
from tagwood.errors import InputError
from tagwood.metrics.matching import Floats, Match, match
from tagwood.metrics.measures import (
    SETS,
    MetricInputs,
    MetricName,
    RowSums,
    divide,
    parse_metrics,
    part_of,
    prepare,
    terms_of,
)
from tagwood.metrics.propensity import LabelSlice, Propensity, frequency_slices
from tagwood.metrics.report import Measure, Report, SliceReport
from tagwood.metrics.resampling import bootstrap_values, intervals
from tagwood.ranking import Ranking

_DEFAULT_SET_METRICS = ("micro-P", "micro-R", "micro-F1", "macro-F1", "weighted-F1", "example-F1", "hamming")
_AVERAGES = ("micro", "macro", "weighted", "example")


def evaluate(
    Y: Any,
    ranking: Ranking,
    *,
    metrics: Iterable[str] | None = None,
    train_labels: Any = None,
    propensity: Propensity = "default",
    label_depths: ArrayLike | None = None,
    filter_pairs: Any = None,
    confidence: float | None = None,
    n_resamples: int = 1000,
    slices: bool = False,
    seed: int = 0,
    threads: int | None = 1,
) -> Report:
    """Measure a ranking against the true labels.

    Parameters
    ----------
    Y
        (n_rows, n_labels) true labels, 0/1: sparse, dense, or one collection of label ids per row.
    ranking
        The ranking of the same rows by a model.
    metrics
        Names such as ``"P@5"``, ``"nDCG@3"``, ``"PSP@5"``, ``"micro-F1"``, ``"macro-F1@5"``. Default: P@1,
        P@3, P@5, nDCG@5, R@5, and PSP@1, PSP@3, PSP@5 if `train_labels` is given.
    train_labels
        (n_train, n_labels) training labels, or their `LabelCounts`. Needed by PSP, PSR, PSnDCG and `slices`.
    propensity
        ``"default"``, ``"wikipedia"``, ``"amazon"``, the name of a dataset of the Extreme Classification Repository
        (``"LF-AmazonTitles-131K"``), a pair (A, B), or an array of inverse propensities.
    label_depths
        (n_labels,) depth of each label in its tree, for ``"depth@k"``.
    filter_pairs
        (n_rows, n_labels) pairs that count neither as true nor as returned, as in ``Dataset.filter_pairs``. They leave
        the ranking first, so that it must have more labels per row than the metrics need.
    confidence
        Level of bootstrap confidence intervals, for example 0.95; default none. Coverage has none: a resample always
        has fewer distinct labels than the rows it was drawn from.
    n_resamples
        Bootstrap repeats. 1,000 is enough for two digits.
    slices
        Also measure head, torso and tail labels (see `frequency_slices`). True labels are restricted to the slice and
        the ranking is not, so that P@k adds up over the slices; metrics of label sets restrict both.
    seed
        Seed of the bootstrap.
    threads
        Number of threads; None means all cores. The values do not depend on it.

    Examples
    --------
    >>> ranking = Ranking.from_lists([[(2, 0.9), (1, 0.5)], [(0, 0.8)]], n_labels=3)
    >>> report = evaluate([[0, 2], [1]], ranking, metrics=["P@1", "R@2"])
    >>> report["P@1"], report["R@2"]
    (0.5, 0.25)
    """
    if filter_pairs is not None:
        Y = check_labels(Y, name="Y")
        ranking = ranking.without(filter_pairs)
        Y = Y - Y.multiply(sparse.csr_array(filter_pairs) > 0)
    matched = match(Y, ranking, check_threads(threads))
    inputs = prepare(
        matched.n_labels, metrics, train_labels=train_labels, propensity=propensity, label_depths=label_depths
    )
    terms = inputs.sums(matched)
    if confidence is None:
        measures = tuple(Measure(str(name), term.value()) for name, term in terms.items())
    else:
        check_float(confidence, "confidence", low=0.5, high=0.999)
        measures = _with_intervals(
            terms, matched.n_rows, confidence, check_int(n_resamples, "n_resamples", low=10), seed
        )
    return Report(
        measures,
        n_rows=matched.n_rows,
        n_labels=matched.n_labels,
        n_rows_without_labels=int(np.count_nonzero(matched.n_true == 0)),
        propensity=inputs.propensity,
        confidence=confidence,
        slices=_slice_reports(matched, inputs) if slices else (),
    )


def evaluate_sets(Y: Any, predicted: Any, *, metrics: Iterable[str] = _DEFAULT_SET_METRICS) -> Report:
    """Measure predicted label sets, an (n_rows, n_labels) matrix of 0 and 1, against the true labels.

    Only metrics of label sets are possible; for confidence intervals pass a `Ranking` to `evaluate`.

    Examples
    --------
    >>> evaluate_sets(np.array([[1, 0, 1], [0, 1, 0]]), np.array([[1, 1, 0], [0, 1, 0]]))["micro-F1"]
    0.6666666666666666
    """
    names = parse_metrics(metrics)
    for name in names:
        if name.family not in SETS or name.k is not None:
            raise InputError(
                f"{name} requires ranked labels, and label sets have no order",
                hint="Pass a Ranking to evaluate.",
            )
    return evaluate(Y, _unordered(predicted, Y), metrics=map(str, names))


class SetScores(NamedTuple):
    """Precision, recall and F1."""

    precision: float
    recall: float
    f1: float


def set_scores(Y: Any, predicted: Any, average: str = "micro") -> SetScores:
    """Return precision, recall and F1 of predicted label sets.

    Parameters
    ----------
    Y, predicted
        (n_rows, n_labels) true and predicted label sets.
    average
        ``"micro"``: from the counts of all rows and labels together; ``"macro"``: mean over the labels that
        are true or predicted anywhere; ``"weighted"``: mean over labels by number of true rows;
        ``"example"``: mean over rows.

    Examples
    --------
    >>> set_scores(np.array([[1, 1, 0], [0, 0, 1]]), np.array([[1, 0, 0], [0, 1, 1]]), "example")
    SetScores(precision=0.75, recall=0.75, f1=0.6666666666666666)
    """
    check_choice(average, "average", _AVERAGES)
    names = [f"{average}-{what}" for what in ("P", "R", "F1")]
    report = evaluate_sets(Y, predicted, metrics=names)
    return SetScores(*(report[name] for name in names))


@dataclass(frozen=True, eq=False)
class LabelScores:
    """Counts and scores per label, each an array of n_labels numbers."""

    hits: NDArray[np.int64]
    returned: NDArray[np.int64]
    true: NDArray[np.int64]

    @property
    def precision(self) -> Floats:
        """Hits divided by the rows that the label was returned for."""
        return self._score("P")

    @property
    def recall(self) -> Floats:
        """Hits divided by the rows that have the label."""
        return self._score("R")

    @property
    def f1(self) -> Floats:
        """Harmonic mean of precision and recall."""
        return self._score("F1")

    def _score(self, what: str) -> Floats:
        counts = np.stack([self.hits, self.returned, self.true]).astype(np.float64)
        return divide(*part_of(what, counts))


def label_scores(Y: Any, ranking: Ranking, k: int | None = None) -> LabelScores:
    """Count the rows in which each label is true, is among the first `k` labels (None: all), and both.

    Examples
    --------
    >>> label_scores([[0, 1], [1]], Ranking.from_lists([[(1, 0.9)], [(0, 0.9)]], n_labels=2)).recall
    array([0. , 0.5])
    """
    matched = match(Y, ranking).top(None if k is None else check_int(k, "k", low=1))
    labels = matched.ranking.labels
    parts = (labels[matched.hits.astype(bool)], labels, matched.true_labels)
    return LabelScores(*(np.bincount(part, minlength=matched.n_labels) for part in parts))


def _with_intervals(
    terms: dict[MetricName, RowSums], n_rows: int, confidence: float, n_resamples: int, seed: int
) -> tuple[Measure, ...]:
    drawn = [name for name in terms if name.family != "coverage"]
    ends: dict[MetricName, NDArray[np.float64]] = {}
    if drawn:
        values = bootstrap_values([terms[name] for name in drawn], n_rows, n_resamples, seed)
        ends = dict(zip(drawn, intervals(values, confidence), strict=True))
    return tuple(
        Measure(str(name), term.value(), *(map(float, ends[name]) if name in ends else ()))
        for name, term in terms.items()
    )


def _slice_reports(matched: Match, inputs: MetricInputs) -> tuple[SliceReport, ...]:
    if inputs.counts is None:
        raise InputError("slices require the label frequencies in the training data", hint="Pass train_labels.")
    return tuple(_slice_report(matched, inputs, part) for part in frequency_slices(inputs.counts))


def _slice_report(matched: Match, inputs: MetricInputs, part: LabelSlice) -> SliceReport:
    values: dict[MetricName, float] = {}
    for of_sets in (False, True):
        names = [n for n in inputs.names if (n.family in SETS) == of_sets and n.family != "depth"]
        cut = matched.restricted(part.mask, ranking_too=of_sets)
        terms = terms_of(cut, names, inputs.weights) if names else {}
        values |= {name: term.value() for name, term in terms.items()}
    measures = tuple(Measure(str(name), values[name]) for name in inputs.names if name in values)
    return SliceReport(part.name, part.n_labels, part.rarest, part.commonest, measures)


def _unordered(predicted: Any, Y: Any) -> Ranking:
    if isinstance(predicted, Ranking):
        return predicted
    sets = check_labels(predicted, name="predicted")
    n_labels = sets.shape[1]
    if isinstance(predicted, list | tuple):  # lists of ids: the width is that of Y
        n_labels = max(n_labels, check_labels(Y).shape[1])
    return Ranking(sets.indptr, sets.indices, np.ones(sets.indices.size, dtype=np.float32), n_labels)
