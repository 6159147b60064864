"""How much each member of an `Ensemble` counts: shares that rank held-out rows best.

In: what each member says of the candidates of held-out rows, and the true labels. Out: one share per member.

Decisions
---------
* Shares are searched, not fitted: what counts is the order of the joined opinions (nDCG@5), which has no gradient, and
  a few shares need few trials. Equal shares are where it begins and stay where nothing is better.
* A member whose opinions only do harm gets the share 0: the ensemble is not worse than its best member there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood.errors import InputError
from tagwood.metrics import evaluate
from tagwood.models.ensemble_members import Candidates

Floats = NDArray[np.float64]
MEASURE = "nDCG@5"
_STEPS = (np.linspace(0.0, 1.0, 11), np.linspace(-0.075, 0.075, 7))  # all shares, then those near the best
_ROUNDS = 3
_ROUNDING = 1e-6  # of a sum of shares


def learn_shares(opinions: Sequence[Floats], cells: Candidates, Y: Any) -> Floats:
    """Return the share of each member; they add up to 1.

    Parameters
    ----------
    opinions
        What each member says of each cell.
    cells
        Candidates of held-out rows.
    Y
        (n_rows, n_labels) true labels of these rows.
    """
    stacked = np.stack(opinions)
    if len(opinions) == 1:
        return np.ones(1)

    def measure(shares: Floats) -> float:
        return float(evaluate(Y, cells.ranking(shares @ stacked, 5), metrics=[MEASURE])[MEASURE])

    shares = np.full(len(opinions), 1.0 / len(opinions))
    best = measure(shares)
    for _ in range(_ROUNDS if len(opinions) > 2 else 1):
        before = best
        for member in range(
            len(opinions) - (len(opinions) == 2)
        ):  # the share of one decides that of the other
            for grid, around in zip(_STEPS, (0.0, None), strict=True):
                centre = shares[member] if around is None else around
                for share in np.clip(centre + grid, 0.0, 1.0):
                    tried = with_share(shares, member, float(share))
                    if (found := measure(tried)) > best:
                        best, shares = found, tried
        if best <= before:
            break
    return shares


def with_share(shares: Floats, member: int, share: float) -> Floats:
    """Return shares in which a member has `share` and the others keep their proportions.

    Examples
    --------
    >>> with_share(np.array([0.5, 0.25, 0.25]), 0, 0.2).tolist()
    [0.2, 0.4, 0.4]
    """
    rest = np.delete(shares, member)
    rest = rest / rest.sum() if rest.sum() > 0 else np.full(rest.size, 1.0 / rest.size)
    found: Floats = np.insert(rest * (1.0 - share), member, share)
    return found


def check_weights(weights: Any, n_members: int) -> None:
    """Raise `InputError` for weights that a user must not give."""
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (n_members,) or not np.all(np.isfinite(given)) or np.any(given <= 0):
        raise InputError(
            f"weights must hold one positive number for each of the {n_members} members", given=str(weights)
        )


def check_shares(values: list[Any], n_members: int) -> Floats:
    """Return stored shares, checked."""
    good = len(values) == n_members and all(isinstance(one, int | float) and 0 <= one <= 1 for one in values)
    if not good or abs(sum(values) - 1.0) > _ROUNDING:
        raise InputError(
            f"stored shares must be {n_members} numbers from 0 to 1 that add up to 1", given=str(values)[:60]
        )
    return np.asarray(values, dtype=np.float64)
