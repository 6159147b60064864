"""Charts as small SVG files. In: a `Chart`. Out: SVG text; pointing at a mark shows its values."""

from __future__ import annotations

from html import escape

from tagwood.plots.chart import COLOURS, Chart, Mark

WIDTH, HEIGHT, EDGE = 640, 400, 56


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
        across, down = _place(chart, Mark(x, y))
        parts.append(f'<text x="{across:.0f}" y="{HEIGHT - EDGE + 18}" text-anchor="middle">{x:.3g}</text>')
        parts.append(f'<text x="{EDGE - 8}" y="{down + 4:.0f}" text-anchor="end">{y:.4g}</text>')
    for number, (name, marks) in enumerate(chart.curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (_place(chart, mark) for mark in marks))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.extend(_mark(chart, name, mark, colour) for mark in marks)
        style = f'fill="{colour}" text-anchor="end"'
        parts.append(f'<text x="{WIDTH - EDGE}" y="{16 + 16 * number}" {style}>{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _mark(chart: Chart, name: str, mark: Mark, colour: str) -> str:
    x, y = _place(chart, mark)
    tip = escape(f"{name} {mark.text}: {mark.x:.4g}, {mark.y:.4g}")
    circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if mark.chosen else 3}" fill="{colour}">'
    text = (
        f'<text x="{x + 6:.1f}" y="{y - 6:.1f}" font-size="10">{escape(mark.text)}</text>'
        if mark.text
        else ""
    )
    return f"{circle}<title>{tip}</title></circle>{text}"


def _place(chart: Chart, mark: Mark) -> tuple[float, float]:
    x, y = chart.place(mark, WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE)
    return EDGE + x, EDGE + y
