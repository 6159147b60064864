"""Links: how a margin becomes a probability-like score of at most 1. Scores multiply along a path."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_choice

# Name -> power of the hinge in exp(-max(0, 1 - z)^power); 0 stands for the sigmoid.
LINKS = {"sigmoid": 0, "l1-hinge": 1, "l2-hinge": 2, "l3-hinge": 3, "l4-hinge": 4}


def link_power(link: str) -> int:
    """Return the kernel's number for a link name, or raise `InputError`."""
    return LINKS[check_choice(link, "link", LINKS)]


def log_probability(margins: NDArray[Any], link: str) -> NDArray[np.float64]:
    """Return log p for margins.

    Examples
    --------
    >>> np.exp(log_probability(np.array([1.5, 0.0]), "l2-hinge")).round(4).tolist()
    [1.0, 0.3679]
    """
    power = link_power(link)
    z = np.asarray(margins, dtype=np.float64)
    if power == 0:
        return -np.logaddexp(0.0, -z)
    return -(np.maximum(0.0, 1.0 - z) ** power)
