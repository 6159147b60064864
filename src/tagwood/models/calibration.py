"""`Calibrator`: from the scores of a ranking to probabilities, on the ranked candidates only.

In: a held-out ranking (say 50 candidates a row) and the true labels. Out: rankings of the same labels in the same order
whose scores are probabilities. `set_rules` cuts them into label sets.

Decisions
---------
* Labels are never reordered. ``"context"`` may give a label a larger probability than the one ranked before it; it then
  takes that one's.
* Isotonic curves are joined linearly between their steps, so probabilities hardly tie and thresholds cut finely.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood import _kernels
from tagwood._check import check_choice
from tagwood.errors import InputError
from tagwood.metrics.matching import match
from tagwood.models.base import FittedModel
from tagwood.models.logistic import fit_logistic, sigmoid
from tagwood.models.monotone import MonotoneCurve
from tagwood.models.score_context import (
    context_features,
    falling,
    log_odds,
    weigh_products,
    with_products,
)
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

METHODS = ("isotonic", "platt", "context")
Floats = NDArray[np.float64]


@storable("Calibrator")
class Calibrator(FittedModel):
    """Turn scores into probabilities that a label is right.

    Fit it on rows the model was not trained on, and promise sets (`fit_set_rule`) on further rows: both would otherwise
    be too sure of themselves.

    Parameters
    ----------
    method
        ``"context"``: a logistic model of the score, its place, the gaps to its neighbours, the row's best score and
        sum, and the label's frequency where known, then an isotonic curve; the most precise, from about 1,000 rows on.
        ``"isotonic"``: any rising curve of the score; from about 300 rows on. ``"platt"``: a logistic curve of the
        score, two numbers, for few rows.

    Attributes
    ----------
    n_labels_ : int

    Examples
    --------
    >>> ranking = Ranking.from_lists([[(0, 0.9), (1, 0.2)], [(1, 0.9), (0, 0.2)]], n_labels=2)
    >>> Calibrator("isotonic").fit(ranking, [[0], [0, 1]]).transform(ranking)[0]
    [(0, 1.0), (1, 0.5)]
    """

    def __init__(self, method: str = "isotonic") -> None:
        self.method = method

    def fit(self, ranking: Ranking, Y: Any, *, frequencies: ArrayLike | None = None) -> Self:
        """Learn from a held-out ranking and the true labels.

        Parameters
        ----------
        ranking
            Candidates of held-out rows, as many per row as will be calibrated later.
        Y
            (n_rows, n_labels) true labels of the same rows.
        frequencies
            (n_labels,) training rows of each label; only ``"context"`` uses them.
        """
        check_choice(self.method, "method", METHODS)
        hits = match(Y, ranking).hits.astype(np.float64)
        if hits.size == 0:
            raise InputError("the ranking must hold at least one label", given="none")
        if np.isinf(ranking.scores).any():
            raise InputError("scores to calibrate must be finite", given="infinity")
        self._as_odds = bool(ranking.scores.min() >= 0 and ranking.scores.max() <= 1)
        self._frequencies = _check_frequencies(frequencies, ranking.n_labels, self.method)
        self._weights = self._centre = self._scale = np.empty(0)
        if self.method == "platt":
            self._fit_platt(self._signal(ranking), hits)
        if self.method == "context":
            self._fit_context(ranking, hits)
        self._curve = None if self.method == "platt" else MonotoneCurve.fit(self._signal(ranking), hits)
        self.n_labels_ = ranking.n_labels
        return self

    def transform(self, ranking: Ranking) -> Ranking:
        """Return the same labels in the same order with probabilities as scores."""
        self._check_fitted()
        if ranking.n_labels != self.n_labels_:
            raise InputError(
                f"the ranking must be over the {self.n_labels_:,} labels this Calibrator was fitted with",
                given=f"{ranking.n_labels:,} labels",
            )
        return Ranking._trusted(ranking.indptr, ranking.labels, self._values(ranking), ranking.n_labels)

    def state(self) -> State:
        """Return the stored form."""
        self._check_fitted()
        arrays = {"weights": self._weights, "centre": self._centre, "scale": self._scale}
        if self._frequencies is not None:
            arrays["frequencies"] = self._frequencies
        params = {"method": self.method, "as_odds": self._as_odds, "n_labels": self.n_labels_}
        parts = {} if self._curve is None else {"curve": self._curve.state()}
        return State("Calibrator", params=params, arrays=arrays, parts=parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the calibrator; stored values are checked."""
        new = cls(check_choice(state.param("method", str), "method", METHODS))
        new._as_odds = state.param("as_odds", bool)
        new.n_labels_ = state.param("n_labels", int)
        known = "frequencies" in state.arrays
        new._frequencies = state.array("frequencies", np.float64, (new.n_labels_,)) if known else None
        n_base = (7 if known else 6) if new.method == "context" else 0
        sizes = {"platt": 2, "context": 1 + n_base + n_base * (n_base + 1) // 2, "isotonic": 0}
        new._weights = state.array("weights", np.float64, (sizes[new.method],))
        new._centre = state.array("centre", np.float64, (n_base,))
        new._scale = state.array("scale", np.float64, (n_base,))
        learned = (new._weights, new._centre, new._scale)
        if not all(np.isfinite(array).all() for array in learned) or np.any(new._scale <= 0):
            raise InputError("a stored Calibrator must hold finite weights and positive scales")
        if new.method == "platt" and new._weights[1] < 0:
            raise InputError("a stored Platt curve must not fall")
        new._curve = None if new.method == "platt" else MonotoneCurve.from_state(state.part("curve"))
        return new

    def _values(self, ranking: Ranking) -> NDArray[np.float32]:
        if self.method == "isotonic" and self._curve is not None:
            return _kernels.calibrate(ranking.scores, self._as_odds, self._curve.x, self._curve.y)
        signal = self._signal(ranking)
        if self._curve is None:
            slope, offset = self._weights[1], self._weights[0]
            return sigmoid(slope * signal + offset).astype(np.float32)
        return self._curve(signal).astype(np.float32)

    def _signal(self, ranking: Ranking) -> Floats:
        """Return what the curve takes, falling inside each row: the score, or the context model's log odds."""
        score = log_odds(ranking.scores) if self._as_odds else ranking.scores.astype(np.float64)
        if self._weights.size == 0 or self.method != "context":
            return score
        features = (context_features(ranking, score, self._frequencies) - self._centre) / self._scale
        return falling(weigh_products(np.clip(features, -5.0, 5.0), self._weights), ranking)

    def _fit_platt(self, signal: Floats, hits: Floats) -> None:
        # Platt's targets: as if one more right and one more wrong label had been seen.
        n_right = hits.sum()
        high, low = (n_right + 1) / (n_right + 2), 1 / (hits.size - n_right + 2)
        columns = np.stack([np.ones(signal.size), signal], axis=1)
        weights = fit_logistic(columns, np.where(hits > 0, high, low), ridge=1e-6)
        if weights[1] < 0:  # worse than chance: a curve must not turn the order round
            share = hits.mean()
            weights = np.array([np.log((share + 1e-9) / (1 - share + 1e-9)), 0.0])
        self._weights = weights

    def _fit_context(self, ranking: Ranking, hits: Floats) -> None:
        features = context_features(ranking, self._signal(ranking), self._frequencies)
        self._centre = features.mean(axis=0)
        self._scale = np.maximum(features.std(axis=0), 1e-9)
        scaled = np.clip((features - self._centre) / self._scale, -5.0, 5.0)
        self._weights = fit_logistic(with_products(scaled), hits)


def _check_frequencies(frequencies: ArrayLike | None, n_labels: int, method: str) -> Floats | None:
    if frequencies is None or method != "context":
        return None
    counts = np.array(frequencies, dtype=np.float64).ravel()
    if counts.size != n_labels or not np.isfinite(counts).all() or np.any(counts < 0):
        raise InputError(
            f"frequencies must hold one count for each of the {n_labels:,} labels",
            given=f"{counts.size:,} numbers",
        )
    return counts
