"""`Calibrator`: from the scores of a ranking to probabilities, on the ranked candidates only.

In: a held-out ranking (say 50 candidates per row) and the true labels. Out: rankings of the same labels in the same
order whose scores are probabilities. `sets` cuts them into label sets.

Decisions
---------
* Labels are never reordered. ``"context"`` may give a label a larger probability than the one ranked before it; it is
  then lowered to that one's.
* Isotonic curves are interpolated linearly between their steps, so probabilities rarely tie and thresholds cut finely.
* ``"auto"`` takes ``"context"`` from 400 calibration rows on: with so many, its log-loss and Brier score were better
  than those of ``"isotonic"`` in nine of nine runs on three sets; with 200 rows they were level.
* What a score means in its row is learned from whole rankings. For a ranking that leaves labels out,
  ``transform(ranking, complete=False)`` takes the isotonic curve of the score alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood import _kernels
from tagwood._check import Fitted, check_choice, check_int
from tagwood.errors import InputError
from tagwood.metrics.matching import match
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

METHODS = ("auto", "context", "isotonic")
CONTEXT_ROWS = 400  # calibration rows from which "auto" takes "context"
Floats = NDArray[np.float64]
_CHUNK = 1 << 16  # rows whose weighted copy is in memory at once


@storable("Calibrator")
class Calibrator(Fitted):
    """Turn scores into probabilities that a label is right.

    Fit it on rows the model was not trained on, and promise sets (`fit_set_rule`) on further rows: both would otherwise
    be too confident.

    Parameters
    ----------
    method
        ``"context"``: a logistic model of the score, its place, the gaps to its neighbours, the row's best score and
        sum, and the label's frequency where known, then an isotonic curve; the most precise. ``"isotonic"``: any rising
        curve of the score. ``"auto"``: context from 400 rows on, otherwise isotonic.

    Attributes
    ----------
    method_ : the method in use
    n_labels_ : int

    Examples
    --------
    >>> ranking = Ranking.from_lists([[(0, 0.9), (1, 0.2)], [(1, 0.9), (0, 0.2)]], n_labels=2)
    >>> Calibrator("isotonic").fit(ranking, [[0], [0, 1]]).transform(ranking)[0]
    [(0, 1.0), (1, 0.5)]
    """

    def __init__(self, method: str = "auto") -> None:
        self.method = method

    def fit(self, ranking: Ranking, Y: Any, *, frequencies: ArrayLike | None = None) -> Self:
        """Learn from a held-out ranking and the true labels.

        Parameters
        ----------
        ranking
            Candidates of held-out rows; later rankings should have as many per row, or more.
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
        chosen = "context" if ranking.n_rows >= CONTEXT_ROWS else "isotonic"
        self.method_ = chosen if self.method == "auto" else self.method
        self._as_odds = bool(ranking.scores.min() >= 0 and ranking.scores.max() <= 1)
        self._frequencies = _check_frequencies(frequencies, ranking.n_labels, self.method_)
        self._n_candidates = int(np.diff(ranking.indptr).max())
        self._weights = self._centre = self._scale = np.empty(0)
        self._curve = self._plain = MonotoneCurve.fit(self._score(ranking), hits)
        if self.method_ == "context":
            self._fit_context(ranking, hits)
            self._curve = MonotoneCurve.fit(self._context(ranking), hits)
        self.n_labels_ = ranking.n_labels
        return self

    @property
    def uses_context(self) -> bool:
        """Whether a probability depends on the other candidates of its row; there should be as many as in `fit`."""
        self._check_fitted()
        return self.method_ == "context"

    def transform(self, ranking: Ranking, *, complete: bool = True) -> Ranking:
        """Return the same labels in the same order with probabilities as scores.

        Parameters
        ----------
        ranking
            Candidates, best first.
        complete
            Whether the best labels of all were ranked. If labels were left out, or fewer candidates were ranked than in
            `fit`, the score alone decides.
        """
        self._check_fitted()
        if ranking.n_labels != self.n_labels_:
            raise InputError(
                f"the ranking must be over the {self.n_labels_:,} labels this Calibrator was fitted with",
                given=f"{ranking.n_labels:,} labels",
            )
        if self.method_ == "context" and complete:
            values = self._curve(self._context(ranking)).astype(np.float32)
        else:
            values = _kernels.calibrate(ranking.scores, self._as_odds, self._plain.x, self._plain.y)
        return Ranking.from_trusted(ranking.indptr, ranking.labels, values, ranking.n_labels)

    def grow(self, n_labels: int) -> Self:
        """Accept rankings over more labels: new ones have no training rows."""
        self._check_fitted()
        added = check_int(n_labels, "n_labels", low=self.n_labels_) - self.n_labels_
        if self._frequencies is not None:
            self._frequencies = np.append(self._frequencies, np.zeros(added))
        self.n_labels_ += added
        return self

    def state(self) -> State:
        """Return the stored form."""
        self._check_fitted()
        arrays = {"weights": self._weights, "centre": self._centre, "scale": self._scale}
        if self._frequencies is not None:
            arrays["frequencies"] = self._frequencies
        params = {
            "method": self.method,
            "method_in_use": self.method_,
            "as_odds": self._as_odds,
            "n_labels": self.n_labels_,
            "n_candidates": self._n_candidates,
        }
        parts = {"curve": self._curve.state(), "plain": self._plain.state()}
        return State("Calibrator", params=params, arrays=arrays, parts=parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the calibrator; stored values are checked."""
        new = cls(check_choice(state.param("method", str), "method", METHODS))
        new.method_ = method = check_choice(state.param("method_in_use", str), "method", METHODS[1:])
        new._as_odds = state.param("as_odds", bool)
        new.n_labels_ = check_int(state.param("n_labels", int), "n_labels", low=1)
        new._n_candidates = check_int(state.param("n_candidates", int), "n_candidates", low=1)
        known = "frequencies" in state.arrays
        new._frequencies = state.array("frequencies", np.float64, (new.n_labels_,)) if known else None
        n_base = (7 if known else 6) if method == "context" else 0
        n_weights = 1 + n_base + n_base * (n_base + 1) // 2 if n_base else 0
        new._weights = state.array("weights", np.float64, (n_weights,))
        new._centre = state.array("centre", np.float64, (n_base,))
        new._scale = state.array("scale", np.float64, (n_base,))
        learned = [new._weights, new._centre, new._scale]
        if new._frequencies is not None:
            learned.append(new._frequencies)
        if not all(np.isfinite(array).all() for array in learned) or np.any(new._scale <= 0):
            raise InputError("a stored Calibrator must hold finite weights and positive scales")
        new._curve, new._plain = (MonotoneCurve.from_state(state.part(name)) for name in ("curve", "plain"))
        return new

    def _score(self, ranking: Ranking) -> Floats:
        return log_odds(ranking.scores) if self._as_odds else ranking.scores.astype(np.float64)

    def _context(self, ranking: Ranking) -> Floats:
        """Return the log odds of the context model, falling inside each row."""
        return falling(weigh_products(self._scaled(self._features(ranking)), self._weights), ranking)

    def _fit_context(self, ranking: Ranking, hits: Floats) -> None:
        features = self._features(ranking)
        self._centre = features.mean(axis=0)
        self._scale = np.maximum(features.std(axis=0), 1e-9)
        self._weights = fit_logistic(with_products(self._scaled(features)), hits)

    def _features(self, ranking: Ranking) -> Floats:
        return context_features(ranking, self._score(ranking), self._frequencies, self._n_candidates)

    def _scaled(self, features: Floats) -> Floats:
        return np.clip((features - self._centre) / self._scale, -5.0, 5.0)


@dataclass(frozen=True, eq=False)
class MonotoneCurve:
    """A piecewise linear curve through knots, constant beyond them.

    Positions `x` rise, values `y` from 0 to 1 never fall; there is at least one knot.

    Examples
    --------
    >>> curve = MonotoneCurve.fit(np.array([1.0, 2, 3, 4]), np.array([0.0, 1, 0, 1]))
    >>> curve(np.array([0.0, 1.75, 2.5, 9.0]))
    array([0.  , 0.25, 0.5 , 1.  ])
    """

    x: Floats
    y: Floats

    @classmethod
    def fit(cls, x: Floats, outcome: Floats) -> Self:
        """Fit by isotonic regression; each block of equal values becomes one knot at its mean score."""
        from scipy.optimize import isotonic_regression  # slow to import, and needed in training only

        place, of, count = np.unique(x, return_inverse=True, return_counts=True)
        found = isotonic_regression(np.bincount(of, outcome) / count, weights=count)
        starts = found.blocks[:-1]
        weight = np.add.reduceat(count, starts)
        knots = np.add.reduceat(place * count, starts) / weight
        knots, first = np.unique(knots, return_index=True)  # blocks so close that rounding joined them
        return cls(knots, np.clip(found.x[starts][first], 0.0, 1.0))

    def __call__(self, x: Floats) -> Floats:
        """Return the values at `x`."""
        return np.interp(x, self.x, self.y)

    def state(self) -> State:
        """Return the knots."""
        return State("MonotoneCurve", arrays={"x": self.x, "y": self.y})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the curve; stored knots must rise."""
        x, y = (state.array(name, np.float64, (None,)) for name in ("x", "y"))
        rising = x.size == y.size >= 1 and np.all(x[1:] > x[:-1]) and np.all(y[1:] >= y[:-1])
        if not rising or not np.isfinite(x).all() or not (y[0] >= 0 and y[-1] <= 1):
            raise InputError("a stored curve must have rising knots with values from 0 to 1")
        return cls(x, y)


def sigmoid(z: Floats) -> Floats:
    """Return 1 / (1 + exp(-z)) without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * z)))


def fit_logistic(
    columns: Floats, outcome: Floats, *, ridge: float = 1.0, prior: Floats | None = None, steps: int = 50
) -> Floats:
    """Return the coefficients that maximise the likelihood minus ``ridge / 2 * |coefficients - prior|²``.

    Without a prior, the penalty spares the first column, the intercept.

    Examples
    --------
    >>> ones = np.ones((4, 1))
    >>> sigmoid(fit_logistic(ones, np.array([1.0, 0, 0, 0]))).round(6)
    array([0.25])
    """
    from scipy import linalg

    centre = np.zeros(columns.shape[1]) if prior is None else prior
    weights = centre
    penalty = np.full(columns.shape[1], ridge)
    if prior is None:
        penalty[0] = 1e-9
    loss = _loss(columns, outcome, weights, penalty, centre)
    for _ in range(steps):
        gradient, hessian = _derivatives(columns, outcome, weights, penalty, centre)
        step = linalg.solve(hessian, gradient, assume_a="pos")
        size = 1.0
        while (new := _loss(columns, outcome, weights - size * step, penalty, centre)) > loss and size > 1e-6:
            size /= 2
        if size <= 1e-6:
            break
        weights = weights - size * step
        done, loss = loss - new < 1e-9 * abs(loss), new
        if done:
            break
    return weights


def _loss(columns: Floats, outcome: Floats, weights: Floats, penalty: Floats, centre: Floats) -> float:
    z = columns @ weights
    return float(np.sum(np.logaddexp(0.0, z) - outcome * z) + 0.5 * penalty @ (weights - centre) ** 2)


def _derivatives(
    columns: Floats, outcome: Floats, weights: Floats, penalty: Floats, centre: Floats
) -> tuple[Floats, Floats]:
    share = sigmoid(columns @ weights)
    gradient = columns.T @ (share - outcome) + penalty * (weights - centre)
    hessian = np.diag(penalty + 1e-9)
    for begin in range(0, columns.shape[0], _CHUNK):
        part = columns[begin : begin + _CHUNK]
        curve = (share * (1.0 - share))[begin : begin + _CHUNK]
        hessian += part.T @ (part * curve[:, None])
    return gradient, hessian


def log_odds(scores: NDArray[np.float32]) -> Floats:
    """Return the log odds of scores that are shares of 1, kept within about ±14.

    Examples
    --------
    >>> log_odds(np.array([0.5, 1.0], dtype=np.float32)).round(1)
    array([ 0. , 13.8])
    """
    # np.clip takes longer than the rest.
    share = np.minimum(np.maximum(scores, 1e-6, dtype=np.float64), 1 - 1e-6)
    return np.asarray(np.log(share) - np.log1p(-share))


def context_features(ranking: Ranking, signal: Floats, frequencies: Floats | None, n_candidates: int) -> Floats:
    """Return (n_entries, n_features) features of each ranked label: what its score means in its row.

    `signal` is the score of each entry on a scale where differences mean something, such as log odds. Only the first
    `n_candidates` entries of a row count for the others, so that it does not matter how many more were ranked.
    """
    sizes = np.diff(ranking.indptr)
    first = np.repeat(ranking.indptr[:-1], sizes)
    entry = np.arange(signal.size)
    counted = np.minimum(sizes, n_candidates)
    following = np.minimum(entry + 1, first + np.repeat(counted, sizes) - 1)
    share = 1.0 / (1.0 + np.exp(-np.clip(signal, -30, 30)))
    share[entry - first >= n_candidates] = 0.0
    mass = np.zeros(sizes.size)
    filled = sizes > 0
    if share.size:
        mass[filled] = np.add.reduceat(share, ranking.indptr[:-1][filled])
    columns = [
        signal,
        np.log1p(entry - first),
        signal - signal[np.maximum(following, entry)],  # gap to the next label, 0 at the end
        signal[np.maximum(entry - 1, first)] - signal,  # gap to the one before, 0 at the start
        signal[first],
        np.repeat(np.log(mass + 1e-6), sizes),
    ]
    if frequencies is not None:
        columns.append(np.log1p(frequencies[ranking.labels]))
    return np.stack(columns, axis=1)


def with_products(features: Floats) -> Floats:
    """Return a column of ones, the features, and all products of two of them.

    Examples
    --------
    >>> with_products(np.array([[2.0, 3.0]]))
    array([[1., 2., 3., 4., 6., 9.]])
    """
    left, right = _pairs(features.shape[1])
    ones = np.ones((features.shape[0], 1))
    return np.hstack([ones, features, features[:, left] * features[:, right]])


def weigh_products(features: Floats, weights: Floats) -> Floats:
    """Return ``with_products(features) @ weights`` without making the products.

    Examples
    --------
    >>> weigh_products(np.array([[2.0, 3.0]]), np.array([1.0, 0, 0, 0, 1, 10]))
    array([97.])
    """
    n = features.shape[1]
    square = np.zeros((n, n))
    square[_pairs(n)] = weights[1 + n :]
    # Not by matrix products, which round differently for one row and for many.
    pairs = np.einsum("ij,jk,ik->i", features, square, features)
    return np.asarray(weights[0] + np.einsum("ij,j->i", features, weights[1 : 1 + n]) + pairs)


@cache
def _pairs(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    left, right = np.triu_indices(n)
    return left, right


def falling(values: Floats, ranking: Ranking) -> Floats:
    """Return `values` with each one lowered to the smallest before it in its row: ranks stay as they are.

    Examples
    --------
    >>> row = Ranking.from_lists([[(0, 3.0), (1, 2.0), (2, 1.0)], [(1, 0.5)]], n_labels=3)
    >>> falling(np.array([0.5, 0.2, 0.4, 0.9]), row)
    array([0.5, 0.2, 0.2, 0.9])
    """
    if values.size == 0:
        return values
    sizes = np.diff(ranking.indptr)
    used = np.arange(sizes.max()) < sizes[:, None]
    table = np.full(used.shape, np.inf)
    table[used] = values
    return np.asarray(np.minimum.accumulate(table, axis=1)[used])


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
