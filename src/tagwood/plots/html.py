"""Charts as one page of HTML that loads nothing: plotly's script is inside. In: `Chart`s. Out: HTML text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from tagwood.errors import MissingExtraError
from tagwood.plots.chart import COLOURS, Chart


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
