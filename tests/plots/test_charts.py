"""Charts in three forms: every mark is drawn, foreign text does no harm, pages load nothing."""

import struct
import sys
from xml.etree import ElementTree

import pytest

from tagwood.errors import InputError, MissingExtraError
from tagwood.models.linear_tree.trials import SweepPoint, TreeSweep
from tagwood.plots import Chart, Mark, chart_svg, charts_html, charts_png, sweep_charts

TREES = Chart(
    "A < B",
    "depth",
    "P@1",
    {"<b>λ</b>": [Mark(6, 0.8, "λ=1", chosen=True), Mark(8, 0.82)], "beam": [Mark(7, 0.7)]},
)
MEASURES = {
    "depth@1": 6.0,
    "depth@3": 7.0,
    "depth@5": 8.0,
    "P@1": 0.8,
    "P@3": 0.6,
    "P@5": 0.5,
    "beam_P@1": 0.79,
}


SVG = "{http://www.w3.org/2000/svg}"


def test_svg_is_well_formed_and_has_all_texts_and_curves():
    svg = chart_svg(TREES)
    root = ElementTree.fromstring(svg)
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"A < B", "depth", "P@1", "λ=1", "<b>λ</b>", "beam"} <= set(texts)
    marks = [one for one in root.iter(f"{SVG}g") if one.get("id", "").startswith("PathCollection")]
    assert len(marks) == len(TREES.curves)
    assert chart_svg(TREES) == svg  # no dates, no random ids


def test_png_has_a_picture_of_each_chart():
    def size(data):
        assert data.startswith(b"\x89PNG")
        return struct.unpack(">II", data[16:24])

    width, height = size(charts_png([TREES]))
    assert size(charts_png([TREES, TREES])) == (width, 2 * height)


def test_html_is_one_page_that_loads_nothing():
    page = charts_html([TREES, TREES], "Trees <1>", 'it\'s "fine"')
    assert page.startswith("<!doctype html>")
    assert "<title>Trees &lt;1&gt;</title>" in page
    assert page.count("<svg") == 2
    assert "<script" not in page
    assert "src=" not in page
    assert "<b>λ</b>" not in page


def test_dollar_signs_are_text():
    assert ">$5 and $6</text>" in chart_svg(Chart("$5 and $6", "", "", {"a": [Mark(0, 1)]}))


def test_a_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"tagwood\[plots\]"):
        chart_svg(TREES)


def test_charts_need_finite_marks():
    with pytest.raises(InputError, match="must have at least one mark"):
        Chart("", "", "", {})
    with pytest.raises(InputError, match="must hold finite numbers"):
        Chart("", "", "", {"a": [Mark(0, float("nan"))]})


@pytest.mark.parametrize(("measure", "words"), [("p50", "latency"), ("nodes", "work")])
def test_a_sweep_becomes_charts_with_the_recommended_mark(measure, words):
    points = tuple(
        SweepPoint(lam, {**MEASURES, f"exact_{measure}_1": cost, f"beam_{measure}_1": cost + 1}, 0.0, 0.0, 0.0)
        for lam, cost in [(0.0, 9.0), (0.5, 7.0)]
    )
    charts = sweep_charts(TreeSweep(points, f"exact_{measure}_1"))
    assert len(charts) == 4
    assert words in charts[0].title
    exact = charts[0].curves["exact search"]
    assert [(mark.x, mark.text, mark.chosen) for mark in exact] == [(9.0, "λ=0", False), (7.0, "λ=0.5", True)]
    assert charts[1].curves["λ"][0].y == 80.0
