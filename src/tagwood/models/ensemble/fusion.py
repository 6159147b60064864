"""`JointLogistic`: one probability from the scores of several members. In: scores. Out: probabilities.

Decisions
---------
* One logistic curve over the scores of all members, not a mean of probabilities: it learns how much a member counts,
  and a label that two members find likely is likelier than each of them tells. On held-out rows of TIBKAT,
  Debian and YSO (tree and PRIME, one seed) P@5 was 13.65, 17.59 and 6.00; means of calibrated probabilities with the
  best shares had 13.44, 17.06 and 6.02, and scores scaled to [0, 1] 13.36, 16.96 and 5.50.
* Scores that are shares of 1 are taken as log odds, others as they are.
* No weight is below zero: a member that only does harm is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tagwood.errors import InputError
from tagwood.probabilities.calibration import fit_logistic, log_odds, sigmoid

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class JointLogistic:
    """A logistic curve over the scores of several members.

    Parameters
    ----------
    odds
        (n_members,) whether the scores of a member are shares of 1.
    weights
        (n_members,) factors of log odds or scores, none below 0.
    bias
        Constant term.
    spread
        (n_members,) standard deviations of log odds or scores on held-out rows.

    Examples
    --------
    >>> one, two = np.array([2.0, 0.0, 1.5, -1.0]), np.array([0.0, 1.0, 0.0, 1.0])
    >>> joint = JointLogistic.fit([one, two], np.array([1.0, 0.0, 1.0, 0.0]))
    >>> joint.shares.tolist(), (joint([one, two]) > 0.5).tolist()
    ([1.0, 0.0], [True, False, True, False])
    """

    odds: tuple[bool, ...]
    weights: Floats
    bias: float
    spread: Floats

    @classmethod
    def fit(cls, scores: Sequence[Floats], right: Floats) -> Self:
        """Learn from the scores of each member of the same candidates, and whether each is right, 1 or 0."""
        odds = tuple(bool(one.size and one.min() >= 0 and one.max() <= 1) for one in scores)
        columns = np.stack([np.ones(right.size), *_signals(odds, scores)], axis=1)
        spread = columns[:, 1:].std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        columns[:, 1:] /= spread
        kept = np.arange(columns.shape[1])
        while True:
            found = fit_logistic(columns[:, kept], right)
            if np.all(found[1:] >= 0):
                break
            kept = np.delete(kept, 1 + int(np.argmin(found[1:])))
        weights = np.zeros(len(scores))
        weights[kept[1:] - 1] = found[1:]
        return cls(odds, weights / spread, float(found[0]), spread)

    @property
    def shares(self) -> Floats:
        """How much each member counts, from 0 to 1: its weight per standard deviation."""
        sizes = self.weights * self.spread
        total = sizes.sum()
        found: Floats = sizes / total if total > 0 else np.full(sizes.size, 1.0 / sizes.size)
        return found

    def __call__(self, scores: Sequence[Floats]) -> Floats:
        """Return the probability of each candidate."""
        return sigmoid(self.bias + self.weights @ np.stack(_signals(self.odds, scores)))

    def plain(self) -> dict[str, Any]:
        """Return the stored form: a JSON value."""
        return {
            "odds": list(self.odds),
            "weights": self.weights.tolist(),
            "bias": self.bias,
            "spread": self.spread.tolist(),
        }

    @classmethod
    def of_plain(cls, values: Any, n_members: int) -> Self:
        """Rebuild it from its stored form; `InputError` if it is invalid."""
        try:
            odds = tuple(bool(one) for one in values["odds"])
            weights, spread = (np.array(values[name], dtype=np.float64) for name in ("weights", "spread"))
            bias = float(values["bias"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError("a stored ensemble must have odds, weights, bias and spread") from error
        sizes = {len(odds), weights.size, spread.size}
        if sizes != {n_members} or weights.ndim != 1 or not np.isfinite([*weights, *spread, bias]).all():
            raise InputError(f"a stored ensemble must have finite numbers for each of {n_members} members")
        if np.any(weights < 0) or np.any(spread <= 0):
            raise InputError("a stored ensemble must have weights of at least 0 and spreads above 0")
        return cls(odds, weights, bias, spread)


def _signals(odds: Sequence[bool], scores: Sequence[Floats]) -> list[Floats]:
    """Return log odds, or the scores themselves."""
    return [
        log_odds(one.astype(np.float32)) if share else np.asarray(one, dtype=np.float64)
        for share, one in zip(odds, scores, strict=True)
    ]
