"""Charts in three forms: every mark is drawn, foreign text does no harm, pages load nothing."""

from io import BytesIO
from xml.etree import ElementTree

import pytest

from tagwood.errors import InputError
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


def test_marks_lie_between_the_corners():
    places = [TREES.place(mark, 100, 50) for curve in TREES.curves.values() for mark in curve]
    assert all(0 < x < 100 and 0 < y < 50 for x, y in places)
    assert places[0][0] < places[1][0]
    assert places[1][1] < places[0][1]  # larger is higher up


def test_ticks_go_from_corner_to_corner():
    ticks = TREES.ticks()
    assert ticks[0] == (TREES.x_range[0], TREES.y_range[0])
    assert ticks[-1] == pytest.approx((TREES.x_range[1], TREES.y_range[1]))


def test_svg_is_well_formed_and_has_every_mark():
    root = ElementTree.fromstring(chart_svg(TREES))
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert (names.count("circle"), names.count("polyline")) == (3, 2)
    assert "A < B" in [element.text for element in root.iter()]


def test_png_has_a_picture_of_each_chart():
    image = pytest.importorskip("PIL.Image")
    data = charts_png([TREES, TREES])
    picture = image.open(BytesIO(data))
    assert picture.format == "PNG"
    one = image.open(BytesIO(charts_png([TREES])))
    assert picture.size == (one.width, 2 * one.height)
    assert len(set(one.convert("RGB").resize((200, 120)).tobytes())) > 20  # something was drawn


def test_html_is_one_page_that_loads_nothing():
    page = charts_html([TREES], "Trees <1>", 'it\'s "fine"')
    assert page.startswith("<!doctype html>")
    assert "<title>Trees &lt;1&gt;</title>" in page
    assert "src=" not in page.partition("<script>")[0]
    assert "<script src" not in page
    assert "<b>λ</b>" not in page.rpartition("<h1>")[2].partition("<script")[0]


def test_charts_need_finite_marks():
    with pytest.raises(InputError, match="must have one mark or more"):
        Chart("", "", "", {})
    with pytest.raises(InputError, match="must hold finite numbers"):
        Chart("", "", "", {"a": [Mark(0, float("nan"))]})


@pytest.mark.parametrize(("measure", "words"), [("p50", "latency"), ("nodes", "work")])
def test_a_sweep_becomes_charts_with_the_recommended_mark(measure, words):
    points = tuple(
        SweepPoint(
            lam, {**MEASURES, f"exact_{measure}_1": cost, f"beam_{measure}_1": cost + 1}, 0.0, 0.0, 0.0
        )
        for lam, cost in [(0.0, 9.0), (0.5, 7.0)]
    )
    charts = sweep_charts(TreeSweep(points, f"exact_{measure}_1"))
    assert len(charts) == 4
    assert words in charts[0].title
    exact = charts[0].curves["exact search"]
    assert [(mark.x, mark.text, mark.chosen) for mark in exact] == [(9.0, "λ=0", False), (7.0, "λ=0.5", True)]
    assert charts[1].curves["λ"][0].y == 80.0
