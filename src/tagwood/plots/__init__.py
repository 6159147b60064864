"""Figures. In: measured values. Out: a `Chart`, and from it SVG (no dependency), HTML (plotly) or PNG (Pillow)."""

from tagwood.plots.chart import Chart, Mark
from tagwood.plots.html import charts_html
from tagwood.plots.png import charts_png
from tagwood.plots.svg import chart_svg
from tagwood.plots.trees import sweep_charts

__all__ = ["Chart", "Mark", "chart_svg", "charts_html", "charts_png", "sweep_charts"]
