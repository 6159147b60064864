"""Charts as PNG pictures. In: `Chart`s. Out: one picture with the charts below each other.

Drawn with Pillow and its own font: no browser, no system fonts, the same picture everywhere. The font is Latin only, so
the few Greek letters of our titles are spelled out.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from tagwood.errors import MissingExtraError
from tagwood.plots.chart import COLOURS, Chart, Mark

WIDTH, HEIGHT, EDGE = 800, 480, 72
_FINE = 2  # drawn larger and shrunk: smooth lines
_LATIN = str.maketrans({"λ": "lambda", "′": "'", "µ": "u", "−": "-", "≥": ">="})


def charts_png(charts: Sequence[Chart]) -> bytes:
    """Draw charts below each other as one PNG."""
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise MissingExtraError("a PNG picture", extra="plots") from error
    picture = Image.new("RGB", (_FINE * WIDTH, _FINE * HEIGHT * len(charts)), "white")
    for number, chart in enumerate(charts):
        _draw(_Pen(ImageDraw.Draw(picture), number * HEIGHT), chart)
    out = BytesIO()
    picture.resize((WIDTH, HEIGHT * len(charts)), Image.Resampling.LANCZOS).save(out, "PNG", optimize=True)
    return out.getvalue()


def _draw(pen: _Pen, chart: Chart) -> None:
    right, bottom = WIDTH - EDGE, HEIGHT - EDGE
    pen.line([(EDGE, EDGE), (EDGE, bottom), (right, bottom)], "#666666", 1)
    pen.text(EDGE, 18, chart.title, 17)
    pen.text(EDGE, EDGE - 16, chart.y_title, 13)
    pen.text(WIDTH / 2, HEIGHT - 20, chart.x_title, 13, anchor="mm")
    for x, y in chart.ticks():
        across, down = _place(chart, Mark(x, y))
        pen.text(across, bottom + 16, f"{x:.3g}", 12, anchor="mm")
        pen.text(EDGE - 8, down, f"{y:.4g}", 12, anchor="rm")
    for number, (name, marks) in enumerate(chart.curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        pen.line([_place(chart, mark) for mark in marks], colour, 2)
        for mark in marks:
            pen.dot(*_place(chart, mark), 7 if mark.chosen else 4, colour)
            across, down = _place(chart, mark)
            pen.text(across + 7, down - 10, mark.text, 11, "#333333")
        pen.text(right, 18 + 17 * number, name, 13, colour, anchor="rm")


def _place(chart: Chart, mark: Mark) -> tuple[float, float]:
    x, y = chart.place(mark, WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE)
    return EDGE + x, EDGE + y


class _Pen:
    """Draws in picture units, `top` units below the upper edge."""

    def __init__(self, draw: Any, top: int) -> None:
        self.draw, self.top = draw, top

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: int) -> None:
        if len(points) > 1:
            places = [(_FINE * x, _FINE * (y + self.top)) for x, y in points]
            self.draw.line(places, fill=colour, width=_FINE * width, joint="curve")

    def dot(self, x: float, y: float, radius: float, colour: str) -> None:
        self.draw.circle((_FINE * x, _FINE * (y + self.top)), _FINE * radius, fill=colour, outline="white")

    def text(
        self, x: float, y: float, words: str, size: int, colour: str = "#222222", anchor: str = "lm"
    ) -> None:
        from PIL import ImageFont

        at = (_FINE * x, _FINE * (y + self.top))
        font = ImageFont.load_default(_FINE * size)
        self.draw.text(at, words.translate(_LATIN), fill=colour, font=font, anchor=anchor)
