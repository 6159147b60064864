"""Figures. In: measured values. Out: a `Chart`, and from it SVG (no dependency), HTML (plotly) or PNG (Pillow)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import Any

from tagwood._check import check_finite
from tagwood.errors import InputError, MissingExtraError
from tagwood.models.linear_tree.trials import TreeSweep

# SECTION plots.chart
# `Chart`: named curves of marks, with titles and ranges. It knows no drawing library.


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


# SECTION plots.html
# Charts as one page of HTML that loads nothing: plotly's script is inside. In: `Chart`s. Out: HTML text.


def charts_html(charts: Sequence[Chart], title: str, text: str = "") -> str:
    """Draw charts below each other, with a heading and a line of text."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingExtraError("an interactive chart", extra="plots") from error
    figures = [_figure(chart).to_html(full_html=False, include_plotlyjs=False) for chart in charts]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><script>{get_plotlyjs()}</script>'
    body = f"<h1>{escape(title)}</h1><p>{escape(text)}</p>{''.join(figures)}"
    page = f'<head>{head}</head><body style="font-family:sans-serif">{body}</body>'
    return f'<!doctype html><html lang="en">{page}</html>\n'


def _figure(chart: Chart) -> Any:
    from plotly import graph_objects

    figure = graph_objects.Figure()
    for number, (name, marks) in enumerate(chart.curves.items()):
        figure.add_scatter(
            x=[mark.x for mark in marks],
            y=[mark.y for mark in marks],
            text=[mark.text for mark in marks],
            name=name,
            mode="lines+markers+text",
            textposition="top right",
            line={"color": COLOURS[number % len(COLOURS)]},
            marker={"size": [14 if mark.chosen else 7 for mark in marks]},
        )
    figure.update_layout(
        title=chart.title,
        xaxis_title=chart.x_title,
        yaxis_title=chart.y_title,
        template="plotly_white",
        showlegend=len(chart.curves) > 1,
    )
    return figure


# SECTION plots.png
# Charts as PNG pictures. In: `Chart`s. Out: one picture with the charts below each other.
#
# Drawn with Pillow and its own font: no browser, no system fonts, the same picture everywhere. The font is Latin
# only, so
# the few Greek letters of our titles are spelled out.


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


# SECTION plots.svg
# Charts as small SVG files. In: a `Chart`. Out: SVG text; pointing at a mark shows its values.


WIDTH_svg, HEIGHT_svg, EDGE_svg = 640, 400, 56


def chart_svg(chart: Chart) -> str:
    """Draw a chart with axes, a legend and its marks.

    Examples
    --------
    >>> svg = chart_svg(Chart("", "depth", "P@1", {"λ": [Mark(6.0, 0.80), Mark(8.0, 0.82)]}))
    >>> svg.count("<circle"), svg.count("<polyline")
    (2, 1)
    """
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<path d="M{EDGE} {EDGE}V{HEIGHT - EDGE}H{WIDTH - EDGE}" fill="none" stroke="#666"/>',
        f'<text x="{EDGE}" y="16" font-weight="bold">{escape(chart.title)}</text>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(chart.x_title)}</text>',
        f'<text x="{EDGE}" y="{EDGE - 14}">{escape(chart.y_title)}</text>',
    ]
    for x, y in chart.ticks():
        across, down = _place_svg(chart, Mark(x, y))
        parts.append(f'<text x="{across:.0f}" y="{HEIGHT - EDGE + 18}" text-anchor="middle">{x:.3g}</text>')
        parts.append(f'<text x="{EDGE - 8}" y="{down + 4:.0f}" text-anchor="end">{y:.4g}</text>')
    for number, (name, marks) in enumerate(chart.curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (_place_svg(chart, mark) for mark in marks))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.extend(_mark(chart, name, mark, colour) for mark in marks)
        style = f'fill="{colour}" text-anchor="end"'
        parts.append(f'<text x="{WIDTH - EDGE}" y="{16 + 16 * number}" {style}>{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _mark(chart: Chart, name: str, mark: Mark, colour: str) -> str:
    x, y = _place_svg(chart, mark)
    tip = escape(f"{name} {mark.text}: {mark.x:.4g}, {mark.y:.4g}")
    circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if mark.chosen else 3}" fill="{colour}">'
    text = (
        f'<text x="{x + 6:.1f}" y="{y - 6:.1f}" font-size="10">{escape(mark.text)}</text>'
        if mark.text
        else ""
    )
    return f"{circle}<title>{tip}</title></circle>{text}"


def _place_svg(chart: Chart, mark: Mark) -> tuple[float, float]:
    x, y = chart.place(mark, WIDTH_svg - 2 * EDGE_svg, HEIGHT_svg - 2 * EDGE_svg)
    return EDGE_svg + x, EDGE_svg + y


# SECTION plots.trees
# Charts of a `TreeSweep`: precision against latency and against expected depth, one mark per λ.


def sweep_charts(sweep: TreeSweep) -> list[Chart]:
    """Return the Pareto charts of a sweep; without times there is one over nodes instead of latency."""
    timed = "exact_p50_1" in sweep.points[0].measures
    kinds = {"exact search": "exact_p50_1", "beam of 10": "beam_p50_1"}
    title, unit = "Precision against latency", "p50 of a single row, k=1, µs"
    if not timed:
        kinds = {"exact search": "exact_nodes_1", "beam of 10": "beam_nodes_1"}
        title, unit = "Precision against work", "evaluated nodes of a row, k=1"
    fast = {
        name: _marks(sweep, measure, "beam_P@1" if "beam" in name else "P@1")
        for name, measure in kinds.items()
    }
    depths = [
        Chart(
            f"P@{k} against expected depth",
            f"expected depth@{k}",
            f"P@{k}, %",
            {"λ": _marks(sweep, f"depth@{k}", f"P@{k}")},
        )
        for k in (1, 3, 5)
    ]
    return [Chart(title, unit, "P@1, %", fast), *depths]


def _marks(sweep: TreeSweep, across: str, up: str) -> list[Mark]:
    chosen = sweep.lam
    return [
        Mark(p.measures[across], 100 * p.measures[up], f"λ={p.lam:.3g}", p.lam == chosen)
        for p in sweep.points
    ]


__all__ = ["Chart", "Mark", "chart_svg", "charts_html", "charts_png", "sweep_charts"]
