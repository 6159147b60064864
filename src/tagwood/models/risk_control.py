"""Finite-sample tests for promises: whether a bounded gain has a positive mean, and for which settings.

In: per row gains (what a promise wins or loses on that row). Out: yes or no, with a known chance of a wrong yes. The
tests bet against "the mean is at most 0" (Waudby-Smith and Ramdas, 2024) and go through settings in a fixed order until
the first no (Learn then Test; Angelopoulos et al., 2021), so that trying many settings costs nothing.

Decisions
---------
* Bets are the variance-adaptive ones for a known number of rows; wealth may be cashed in at any row (Ville).
* Rows are taken in an order shuffled by a fixed seed, because files are often sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_BOLDNESS = 0.9  # largest share of the wealth that one row can cost


def mean_is_positive(gains: Floats, lowest: float, error: float) -> bool:
    """Decide whether independent gains have a mean above 0; if they have not, say yes with probability <= `error`.

    Parameters
    ----------
    gains
        (n_rows,) independent, equally distributed numbers of at least `lowest`.
    lowest
        The least a gain can be, a negative number fixed without looking at the gains.
    error
        Allowed probability of a wrong yes, between 0 and 1.

    Examples
    --------
    >>> mean_is_positive(np.tile([0.3, -0.2], 500), lowest=-0.2, error=0.1)
    True
    >>> mean_is_positive(np.tile([0.3, -0.2], 20), lowest=-0.2, error=0.1)
    False
    """
    if gains.size == 0:
        return False
    count = np.arange(1, gains.size + 1)
    mean = np.cumsum(gains) / (count + 1)
    # Spread known before each row; it starts as if one row with a quarter of the range had been seen.
    spread = (lowest**2 / 16 + np.cumsum((gains - mean) ** 2)) / (count + 1)
    before = np.concatenate([[lowest**2 / 16], spread[:-1]])
    wanted = np.sqrt(2 * np.log(1 / error) / (gains.size * before))
    bets = np.minimum(wanted, _BOLDNESS / -lowest)
    wealth = np.cumsum(np.log1p(bets * gains))
    return bool(wealth.max() >= np.log(1 / error))


def last_that_holds(settings: Sequence[float], holds: Callable[[float], bool]) -> float | None:
    """Return the last setting before the first that does not hold; None if already the first does not.

    With tests of error δ the chance that the returned setting breaks its promise is at most δ, however many
    settings there are: the first setting that truly breaks it has to be passed by mistake.

    Examples
    --------
    >>> last_that_holds([1, 2, 3, 4], lambda x: x != 3)
    2
    """
    found = None
    for setting in settings:
        if not holds(setting):
            break
        found = setting
    return found


def shuffled(n_rows: int) -> NDArray[np.int64]:
    """Return the order in which rows are tested."""
    return np.random.default_rng(0).permutation(n_rows)


def thresholds(start: float, stop: float, step: float = 0.02) -> list[float]:
    """Return probabilities from `start` to `stop`, evenly spaced in log odds, about `step` apart.

    Examples
    --------
    >>> [round(t, 2) for t in thresholds(0.9, 0.5, step=1.1)]
    [0.9, 0.75, 0.5]
    """
    low, high = (np.log(p) - np.log1p(-p) for p in (start, stop))
    odds = np.linspace(low, high, max(2, round(abs(high - low) / step) + 1))
    return [float(t) for t in 1.0 / (1.0 + np.exp(-odds))]
