"""Metrics of the first k labels of a ranking, one function each; `evaluate` computes many at once and faster.

In: true labels Y and a Ranking. Out: one number from 0 to 1 (a depth for `depth_at_k`).
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from tagwood._check import check_int
from tagwood.metrics.evaluation import Propensity, evaluate
from tagwood.ranking import Ranking


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
