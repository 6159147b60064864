"""`Budget`: limits of training time, model size and latency, and which members of an `Ensemble` are within them.

In: limits, and what members cost. Out: whether a member may still be trained, and which limit a set of members exceeds.

Decisions
---------
* Costs are measured, not guessed: a member's size and latency are those of the one that was fitted without the held-out
  rows. Only its time has to be known before it is trained: trees take as long as the trees before them; what a
  member of another kind takes is found by training it on few rows and labels, and on more of them (`Pilot`).
* The first member is always part of the ensemble.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

from tagwood._check import BYTES, SECONDS, check_float, parse_quantity
from tagwood.storage import State

_FUSION_SECONDS = (1.5, 0.003)  # to learn the fusion: at least, and per held-out row
_FUSION_LATENCY = 0.0003  # per text


@dataclass(frozen=True)
class Budget:
    """What training and answering may cost; None is no limit.

    Parameters
    ----------
    time
        Duration of training: seconds, or a text such as ``"10m"``.
    size
        Size of the model folder: bytes, or a text such as ``"100MB"``.
    latency
        CPU time to tag one text from Python: seconds, or a text such as ``"2ms"``.

    Examples
    --------
    >>> Budget(time="10m").seconds, Budget(size="50MB").bytes, Budget(latency=0.002).latency_seconds
    (600.0, 50000000.0, 0.002)
    """

    time: str | float | None = None
    size: str | float | None = None
    latency: str | float | None = None

    @property
    def seconds(self) -> float | None:
        """Limit of the training time."""
        return _limit(self.time, "time", SECONDS, "s")

    @property
    def bytes(self) -> float | None:
        """Limit of the model size."""
        return _limit(self.size, "size", BYTES, "b")

    @property
    def latency_seconds(self) -> float | None:
        """Limit of the time for one text."""
        return _limit(self.latency, "latency", SECONDS, "s")

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        _ = self.seconds, self.bytes, self.latency_seconds


def _limit(value: str | float | None, name: str, units: dict[str, float], plain: str) -> float | None:
    if value is None:
        return None
    return parse_quantity(value, name, units, plain) if isinstance(value, str) else check_float(value, name, above=0.0)


class Clock:
    """Tells which members can still be trained in the time that is left.

    Parameters
    ----------
    seconds
        Limit; None for none.
    rounds
        How often each member is trained.
    held_out
        Number of held-out rows, on which the fusion is learned.
    """

    def __init__(self, seconds: float | None, rounds: int, held_out: int) -> None:
        self.seconds, self.rounds = seconds, rounds
        self._start = perf_counter()
        self._reserved = _FUSION_SECONDS[0] + _FUSION_SECONDS[1] * held_out

    def allows(self, expected: float) -> bool:
        """Whether a member that is trained in `expected` seconds, all rounds together, is within the limit."""
        if self.seconds is None:
            return True
        return perf_counter() - self._start + self._reserved + expected <= self.seconds

    def reserve(self, seconds: float) -> None:
        """Keep time for the other rounds of a member."""
        self._reserved += seconds


class Costs(NamedTuple):
    """What each member adds to size and latency, what the others share, and the limits."""

    budget: Budget
    bytes: Sequence[float]
    latency: Sequence[float]
    shared_bytes: float
    shared_latency: float

    def exceeded(self, used: Sequence[int]) -> str:
        """Return the limit that some members exceed together: ``"size"``, ``"latency"`` or ``""``."""
        size = self.shared_bytes + sum(self.bytes[place] for place in used)
        latency = self.shared_latency + _FUSION_LATENCY + sum(self.latency[place] for place in used)
        if self.budget.bytes is not None and size > self.budget.bytes:
            return "size"
        if self.budget.latency_seconds is not None and latency > self.budget.latency_seconds:
            return "latency"
        return ""

    def of(self, what: str, place: int) -> float:
        """Return what a member adds to ``"size"`` or ``"latency"``."""
        return max(1e-9, self.bytes[place] if what == "size" else self.latency[place])


def state_bytes(state: State) -> float:
    """Return the bytes of the arrays of a stored form."""
    own = sum(array.nbytes for array in state.arrays.values())
    return float(own) + sum(state_bytes(part) for part in state.parts.values())
