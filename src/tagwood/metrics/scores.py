"""Metrics of the first k labels of a ranking, one function each; `evaluate` computes many at once and faster.

In: true labels Y and a Ranking. Out: one number from 0 to 1 (a depth for `depth_at_k`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import check_choice, check_int
from tagwood.metrics.evaluation import Propensity, evaluate, evaluate_sets
from tagwood.metrics.matching import Floats, match
from tagwood.metrics.measures import divide, part_of
from tagwood.ranking import Ranking

# SECTION metrics.sets
# Metrics of label sets: precision, recall and F1 in four averages, the Hamming loss, and counts per label.
#
# In: true and predicted label sets as (n_rows, n_labels) matrices of 0 and 1, or a Ranking. Out: numbers from 0
# to 1. A quotient 0 / 0 is 0 everywhere.


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


def precision_at_k(Y: Any, ranking: Ranking, k: int = 1) -> float:
    """Return P@k: the share of true labels among the first k, averaged over all rows.

    Always divides by k, also where fewer labels were returned; rows without true labels count 0.

    Examples
    --------
    >>> ranking = Ranking.from_lists([[(2, 0.9), (1, 0.5)], [(0, 0.8)]], n_labels=3)
    >>> precision_at_k([[1, 2], [0]], ranking, k=2)
    0.75
    """
    return _value("P", Y, ranking, k)


def recall_at_k(Y: Any, ranking: Ranking, k: int = 5) -> float:
    """Return R@k: the share of a row's true labels among the first k, averaged over rows that have any."""
    return _value("R", Y, ranking, k)


def r_precision_at_k(Y: Any, ranking: Ranking, k: int = 5) -> float:
    """Return RP@k: hits among the first k divided by min(k, true labels), averaged over rows that have any.

    Examples
    --------
    >>> r_precision_at_k([[1]], Ranking.from_lists([[(1, 0.9), (0, 0.5)]], n_labels=2), k=2)
    1.0
    """
    return _value("RP", Y, ranking, k)


def ndcg_at_k(Y: Any, ranking: Ranking, k: int = 5) -> float:
    """Return nDCG@k: hits discounted by 1 / log2(place + 1), over the best possible; mean of all rows."""
    return _value("nDCG", Y, ranking, k)


def psp_at_k(
    Y: Any, ranking: Ranking, k: int = 5, *, train_labels: Any = None, propensity: Propensity = "default"
) -> float:
    """Return PSP@k: hits weighted by inverse propensity, summed over rows, divided by the best possible sum.

    Parameters
    ----------
    Y, ranking, k
        True labels, what was returned, and the number of labels to look at.
    train_labels
        Training labels or their `LabelCounts`.
    propensity
        ``"default"``, ``"wikipedia"``, ``"amazon"``, a pair (A, B), or an array of inverse propensities.

    Examples
    --------
    >>> ranking = Ranking.from_lists([[(0, 0.9)], [(0, 0.9)]], n_labels=2)
    >>> psp_at_k([[0], [1]], ranking, k=1, propensity=[1.0, 3.0])
    0.25
    """
    return _value("PSP", Y, ranking, k, train_labels=train_labels, propensity=propensity)


def psr_at_k(
    Y: Any, ranking: Ranking, k: int = 5, *, train_labels: Any = None, propensity: Propensity = "default"
) -> float:
    """Return PSR@k: like `psp_at_k`, with each row's gain divided by its number of true labels."""
    return _value("PSR", Y, ranking, k, train_labels=train_labels, propensity=propensity)


def psndcg_at_k(
    Y: Any, ranking: Ranking, k: int = 5, *, train_labels: Any = None, propensity: Propensity = "default"
) -> float:
    """Return PSnDCG@k: nDCG@k with hits weighted by inverse propensity, divided by the best possible."""
    return _value("PSnDCG", Y, ranking, k, train_labels=train_labels, propensity=propensity)


def coverage_at_k(Y: Any, ranking: Ranking, k: int = 5) -> float:
    """Return coverage@k: of the distinct true labels, the share that was hit at least once."""
    return _value("coverage", Y, ranking, k)


def depth_at_k(Y: Any, ranking: Ranking, k: int = 5, *, label_depths: ArrayLike) -> float:
    """Return the expected depth@k: depth of the deepest of the first k labels, mean over rows with any.

    `label_depths` holds the depth of each label in its tree. Y is only checked: true or not does not matter.

    Examples
    --------
    >>> ranking = Ranking.from_lists([[(0, 0.9), (1, 0.5)], [(0, 0.8)]], n_labels=2)
    >>> depth_at_k([[], []], ranking, k=2, label_depths=[1, 4])
    2.5
    """
    return _value("depth", Y, ranking, k, label_depths=label_depths)


def _value(family: str, Y: Any, ranking: Ranking, k: int, **needs: Any) -> float:
    name = f"{family}@{check_int(k, 'k', low=1, high=999_999_999)}"
    return evaluate(Y, ranking, metrics=[name], **needs)[name]
