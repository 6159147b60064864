"""`TreeSweep`: what trees of different λ are worth on held-out rows, and which one to take.

In: measures per λ. Out: the recommended λ, the Pareto front, JSON. Nothing is measured here; see `tree_trials`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from tagwood.errors import InputError

WORTH_IT = (
    0.02  # a tree that is not at least this share faster than the balanced one is not worth another shape
)


@dataclass(frozen=True)
class SweepPoint:
    """One λ.

    Parameters
    ----------
    lam
        λ of the tree.
    measures
        By name: P@k and depth@k; ``exact_nodes_k`` and ``beam_nodes_k``, nodes evaluated per row in a search for k
        labels; ``exact_p50_k``, ``exact_p99_k``, ``beam_p50_k``, ``beam_p99_k``, microseconds of a single row.
    gain, gain_low, gain_high
        P@1 less that of λ=0 on the same rows, and its 95 % interval by paired bootstrap.
    """

    lam: float
    measures: dict[str, float]
    gain: float
    gain_low: float
    gain_high: float


@dataclass(frozen=True)
class TreeSweep:
    """Measures of trees along λ.

    Parameters
    ----------
    points
        By rising λ; the first one is λ=0.
    cost
        The measure that says how slow a tree is.
    loss
        How much P@1 a tree may lose against λ=0.
    facts
        How it was measured: rows, seeds, shape of the trees.

    Examples
    --------
    >>> points = [SweepPoint(lam, {"P@1": p, "us": us}, p - 0.5, -1, 1)
    ...           for lam, p, us in [(0.0, 0.50, 9.0), (0.5, 0.51, 7.0), (1.0, 0.49, 5.0)]]
    >>> sweep = TreeSweep(tuple(points), cost="us")
    >>> sweep.lam, sweep.front()
    (0.5, [0.5, 1.0])
    """

    points: tuple[SweepPoint, ...]
    cost: str
    loss: float = 0.0
    facts: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.points or self.points[0].lam != 0:
            raise InputError("a sweep of trees must begin with λ=0", given=str([p.lam for p in self.points]))

    @property
    def lam(self) -> float:
        """The recommended λ: fastest of those that lose no more P@1 than `loss`; 0 where none is clearly faster."""
        base = self.points[0]
        limit = (1 - WORTH_IT) * base.measures[self.cost]
        useful = [p for p in self.points[1:] if p.gain >= -self.loss and p.measures[self.cost] <= limit]
        return min(useful, key=lambda p: p.measures[self.cost], default=base).lam

    def point(self, lam: float) -> SweepPoint:
        """Return the point of a λ."""
        return next(point for point in self.points if point.lam == lam)

    def front(self) -> list[float]:
        """Return the λ of the points that no other one beats in both P@1 and cost."""
        return [point.lam for point in self.points if not any(self._beats(p, point) for p in self.points)]

    def saving(self, measure: str) -> float:
        """Return the share of a measure that the recommended λ saves against λ=0."""
        return 1 - self.point(self.lam).measures[measure] / self.points[0].measures[measure]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON, with the recommendation and the front."""
        return {
            "recommended": self.lam,
            "front": self.front(),
            "cost": self.cost,
            "loss": self.loss,
            "facts": dict(self.facts or {}),
            "points": [asdict(point) for point in self.points],
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Rebuild a sweep from its JSON form."""
        points: Sequence[Mapping[str, Any]] = value["points"]
        return cls(tuple(SweepPoint(**p) for p in points), value["cost"], value["loss"], value["facts"])

    def _beats(self, one: SweepPoint, other: SweepPoint) -> bool:
        better = (one.measures["P@1"], -one.measures[self.cost])
        worse = (other.measures["P@1"], -other.measures[self.cost])
        return better != worse and all(a >= b for a, b in zip(better, worse, strict=True))
