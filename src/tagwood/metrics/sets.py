"""Metrics of label sets: precision, recall and F1 in four averages, the Hamming loss, and counts per label.

In: true and predicted label sets as (n_rows, n_labels) matrices of 0 and 1, or a Ranking. Out: numbers from 0
to 1. A quotient 0 / 0 is 0 everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_choice, check_int
from tagwood.metrics.evaluation import evaluate_sets
from tagwood.metrics.matching import Floats, match
from tagwood.metrics.terms import divide, part_of
from tagwood.ranking import Ranking

AVERAGES = ("micro", "macro", "weighted", "example")


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
    check_choice(average, "average", AVERAGES)
    names = [f"{average}-{what}" for what in ("P", "R", "F1")]
    report = evaluate_sets(Y, predicted, metrics=names)
    return SetScores(*(report[name] for name in names))


def hamming_loss(Y: Any, predicted: Any) -> float:
    """Return the share of (row, label) pairs that are wrong: missing or too many.

    Examples
    --------
    >>> hamming_loss(np.array([[1, 0, 0, 0]]), np.array([[0, 1, 0, 0]]))
    0.5
    """
    return evaluate_sets(Y, predicted, metrics=["hamming"])["hamming"]


@dataclass(frozen=True, eq=False)
class LabelScores:
    """Counts and scores per label, each an array of n_labels numbers.

    Examples
    --------
    >>> scores = label_scores([[0, 1], [1]], Ranking.from_lists([[(1, 0.9)], [(0, 0.9)]], n_labels=2))
    >>> scores.hits, scores.recall
    (array([0, 1]), array([0. , 0.5]))
    """

    hits: NDArray[np.int64]
    returned: NDArray[np.int64]
    true: NDArray[np.int64]

    @property
    def precision(self) -> Floats:
        """Hits divided by the rows the label was returned for."""
        return self._score("P")

    @property
    def recall(self) -> Floats:
        """Hits divided by the rows the label is true for."""
        return self._score("R")

    @property
    def f1(self) -> Floats:
        """Harmonic mean of precision and recall."""
        return self._score("F1")

    def _score(self, what: str) -> Floats:
        counts = np.stack([self.hits, self.returned, self.true]).astype(np.float64)
        return divide(*part_of(what, counts))


def label_scores(Y: Any, ranking: Ranking, k: int | None = None) -> LabelScores:
    """Count how often each label was true, returned among the first `k` (None: at all), and both."""
    laid = match(Y, ranking).top(None if k is None else check_int(k, "k", low=1))
    labels = laid.ranking.labels
    parts = (labels[laid.hits.astype(bool)], labels, laid.true_labels)
    return LabelScores(*(np.bincount(part, minlength=laid.n_labels) for part in parts))
