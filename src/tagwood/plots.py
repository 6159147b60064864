"""Figures of measured values, drawn with matplotlib.

In: `Chart`s, curves of marks over two axes. Out: SVG or PNG, or one HTML page that loads nothing. The same chart gives
the same SVG, byte for byte, so that figures of the documentation change only with their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import Any

import numpy as np

from tagwood._check import check_finite
from tagwood.errors import InputError, MissingExtraError
from tagwood.models.linear_tree.trials import TreeSweep

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # safe for colour-blind readers
_SIZE = (8.0, 4.8)  # inches of one chart
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "tagwood",
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans", "sans-serif"],
}


@dataclass(frozen=True)
class Mark:
    """A point of a curve; `text` is written beside it, `chosen` draws it larger."""

    x: float
    y: float
    text: str = ""
    chosen: bool = False


@dataclass(frozen=True)
class Chart:
    """Named curves of marks over two axes, which are logarithmic with `log`."""

    title: str
    x_title: str
    y_title: str
    curves: Mapping[str, Sequence[Mark]]
    log: bool = False

    def __post_init__(self) -> None:
        marks = [mark for curve in self.curves.values() for mark in curve]
        if not marks:
            raise InputError("a chart must have at least one mark", given="none")
        check_finite(np.array([[mark.x, mark.y] for mark in marks]), "marks of a chart")


def chart_svg(chart: Chart) -> str:
    """Return a chart as SVG.

    Examples
    --------
    >>> svg = chart_svg(Chart("Trees", "depth", "P@1", {"λ": [Mark(6.0, 0.80), Mark(8.0, 0.82)]}))
    >>> ">depth</text>" in svg
    True
    """
    return _render([chart], "svg", {"Date": None}).decode()


def charts_png(charts: Sequence[Chart]) -> bytes:
    """Return charts below each other as one PNG."""
    return _render(charts, "png", {})


def charts_html(charts: Sequence[Chart], title: str, text: str = "") -> str:
    """Return a page with a heading, a paragraph and the charts."""
    drawn = [chart_svg(chart) for chart in charts]
    figures = "".join(f"<figure>{svg[svg.index('<svg') :]}</figure>" for svg in drawn)
    head = f'<meta charset="utf-8"><title>{escape(title)}</title>'
    body = f"<h1>{escape(title)}</h1><p>{escape(text)}</p>{figures}"
    page = f'<head>{head}</head><body style="font-family:sans-serif">{body}</body>'
    return f'<!doctype html><html lang="en">{page}</html>\n'


def _render(charts: Sequence[Chart], file_format: str, metadata: dict[str, Any]) -> bytes:
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("a chart", extra="plots") from error
    out = BytesIO()
    with rc_context(_STYLE):
        figure = Figure(figsize=(_SIZE[0], _SIZE[1] * len(charts)), layout="constrained")
        for axes, chart in zip(figure.subplots(len(charts), squeeze=False)[:, 0], charts, strict=True):
            _draw(axes, chart)
        figure.savefig(out, format=file_format, metadata=metadata)
    return out.getvalue()


def _draw(axes: Any, chart: Chart) -> None:
    for number, (name, marks) in enumerate(chart.curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        x, y = [mark.x for mark in marks], [mark.y for mark in marks]
        axes.plot(x, y, color=colour, linewidth=2, label=_plain(name))
        axes.scatter(x, y, s=[100 if mark.chosen else 25 for mark in marks], color=colour, zorder=3)
        for mark in marks:
            if mark.text:
                at = (mark.x, mark.y)
                axes.annotate(_plain(mark.text), at, xytext=(6, 6), textcoords="offset points", fontsize=8)
    axes.set_title(_plain(chart.title), loc="left")
    axes.set_xlabel(_plain(chart.x_title))
    axes.set_ylabel(_plain(chart.y_title))
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(0.08)
    if chart.log:
        axes.set_xscale("log")
        axes.set_yscale("log")
    if len(chart.curves) > 1:
        axes.legend(frameon=False)


def _plain(text: str) -> str:
    """Return a text in which dollar signs do not begin a formula."""
    return text.replace("$", r"\$")


def sweep_charts(sweep: TreeSweep) -> list[Chart]:
    """Return the Pareto charts of a sweep; without times there is one over nodes instead of latency."""
    cost, title, unit = "p50", "Precision against latency", "p50 of a single row, k=1, µs"
    if "exact_p50_1" not in sweep.points[0].measures:
        cost, title, unit = "nodes", "Precision against work", "evaluated nodes of a row, k=1"
    fast = {
        "exact search": _marks(sweep, f"exact_{cost}_1", "P@1"),
        "beam of 10": _marks(sweep, f"beam_{cost}_1", "beam_P@1"),
    }
    charts = [Chart(title, unit, "P@1, %", fast)]
    for k in (1, 3, 5):
        marks = {"λ": _marks(sweep, f"depth@{k}", f"P@{k}")}
        charts.append(Chart(f"P@{k} against expected depth", f"expected depth@{k}", f"P@{k}, %", marks))
    return charts


def _marks(sweep: TreeSweep, across: str, up: str) -> list[Mark]:
    best, points = sweep.lam, sweep.points
    return [Mark(p.measures[across], 100 * p.measures[up], f"λ={p.lam:.3g}", p.lam == best) for p in points]
