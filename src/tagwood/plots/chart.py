"""`Chart`: named curves of marks, with titles and ranges. It knows no drawing library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tagwood._check import check_finite
from tagwood.errors import InputError

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # told apart by everyone
N_TICKS = 5


@dataclass(frozen=True)
class Mark:
    """A point of a curve; `text` names it where there is room, `chosen` makes it stand out."""

    x: float
    y: float
    text: str = ""
    chosen: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves of marks over two axes.

    Examples
    --------
    >>> chart = Chart("Trees", "depth", "P@1", {"λ": [Mark(6.0, 0.80), Mark(8.0, 0.82)]})
    >>> chart.x_range
    (5.9, 8.1)
    """

    title: str
    x_title: str
    y_title: str
    curves: Mapping[str, Sequence[Mark]]

    def __post_init__(self) -> None:
        import numpy as np

        marks = [mark for curve in self.curves.values() for mark in curve]
        if not marks:
            raise InputError("a chart must have one mark or more", given="none")
        check_finite(np.array([[mark.x, mark.y] for mark in marks]), "marks of a chart")

    @property
    def x_range(self) -> tuple[float, float]:
        """Smallest and largest x, with a little room."""
        return _range([mark.x for curve in self.curves.values() for mark in curve])

    @property
    def y_range(self) -> tuple[float, float]:
        """Smallest and largest y, with a little room."""
        return _range([mark.y for curve in self.curves.values() for mark in curve])

    def place(self, mark: Mark, width: float, height: float) -> tuple[float, float]:
        """Return where a mark lies on a plane of `width` and `height`, from the upper left corner."""
        (x_low, x_high), (y_low, y_high) = self.x_range, self.y_range
        return (mark.x - x_low) / (x_high - x_low) * width, (y_high - mark.y) / (y_high - y_low) * height

    def ticks(self) -> list[tuple[float, float]]:
        """Return evenly spaced (x, y) values from corner to corner, for the numbers at the axes."""
        (x_low, x_high), (y_low, y_high) = self.x_range, self.y_range
        shares = [step / (N_TICKS - 1) for step in range(N_TICKS)]
        return [(x_low + (x_high - x_low) * s, y_low + (y_high - y_low) * s) for s in shares]


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room
