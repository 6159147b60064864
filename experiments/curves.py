"""Line charts as small SVG files, so that experiments need no plotting library. In: named curves. Out: SVG text."""

from __future__ import annotations

from html import escape

WIDTH, HEIGHT, EDGE = 640, 400, 56
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")

Curves = dict[str, list[tuple[float, float]]]


def curves_svg(curves: Curves, x_title: str, y_title: str) -> str:
    """Draw curves of (x, y) points with axes, a legend and the value under the pointer."""
    x_low, x_high = _range([x for points in curves.values() for x, _ in points])
    y_low, y_high = _range([y for points in curves.values() for _, y in points])

    def place(x: float, y: float) -> tuple[float, float]:
        across = EDGE + (x - x_low) / (x_high - x_low) * (WIDTH - 2 * EDGE)
        return across, HEIGHT - EDGE - (y - y_low) / (y_high - y_low) * (HEIGHT - 2 * EDGE)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<path d="M{EDGE} {EDGE}V{HEIGHT - EDGE}H{WIDTH - EDGE}" fill="none" stroke="#666"/>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_title)}</text>',
        f'<text x="{EDGE}" y="{EDGE - 28}">{escape(y_title)}</text>',
    ]
    for step in range(5):
        x, y = x_low + (x_high - x_low) * step / 4, y_low + (y_high - y_low) * step / 4
        parts.append(
            f'<text x="{place(x, y)[0]:.0f}" y="{HEIGHT - EDGE + 18}" text-anchor="middle">{x:.3g}</text>'
        )
        parts.append(f'<text x="{EDGE - 8}" y="{place(x, y)[1] + 4:.0f}" text-anchor="end">{y:.4g}</text>')
    for number, (name, points) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        at = [place(x, y) for x, y in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), (x_value, y_value) in zip(at, points, strict=True):
            tip = f"{escape(name)}: {x_value:.4g}, {y_value:.4g}"
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{tip}</title></circle>'
            )
        top = EDGE - 28 + 16 * number
        style = f'fill="{colour}" text-anchor="end"'
        parts.append(f'<text x="{WIDTH - EDGE}" y="{top}" {style}>{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _range(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    space = 0.05 * (high - low) or 1.0
    return low - space, high + space
