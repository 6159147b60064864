"""`MonotoneCurve`: a rising function fitted to 0/1 outcomes, from scores to probabilities.

In: scores and whether each was right. Out: a piecewise linear curve that never falls, so labels keep their order.
Used by `calibration` and, for confidence per row, by `set_rules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from tagwood.errors import InputError
from tagwood.storage import State

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MonotoneCurve:
    """A piecewise linear curve through knots, constant beyond them.

    Parameters
    ----------
    x
        (n_knots,) rising positions, at least one.
    y
        (n_knots,) values from 0 to 1 that never fall.

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
        """Fit by isotonic regression (pool adjacent violators); equal scores count as one.

        Each block of equal values becomes one knot at its mean score. Between knots the curve is linear, so that equal
        probabilities are rare and a threshold can cut anywhere, not only between blocks.
        """
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
        rising = x.size == y.size >= 1 and np.all(np.diff(x) > 0) and np.all(np.diff(y) >= 0)
        if not rising or not np.isfinite(x).all() or not (y[0] >= 0 and y[-1] <= 1):
            raise InputError("a stored curve must have rising knots with values from 0 to 1")
        return cls(x, y)
