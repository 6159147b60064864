"""Accessibility and security: axe-core finds nothing serious, phones do not scroll sideways, policies hold."""

import re

import pytest
from browsing import violations
from playwright.sync_api import expect
from subject_catalogue import ABSTRACT

pytestmark = pytest.mark.browser

PAGES = ("tag", "labels/8", "tree", "model", "batch")


def prepare(page, route):
    """Bring a page into the state in which it shows most."""
    if route == "tag":
        page.get_by_label("Text to tag").fill(ABSTRACT)
        page.locator(".label-main").first.click()
        page.locator(".why").wait_for()
        page.get_by_role("button", name="Accept Beekeeping").click()
        page.get_by_role("button", name="Reject Forestry").click()
    elif route == "batch":
        content = {"name": "new.csv", "mimeType": "text/csv", "buffer": b"text\nhives and honey\n"}
        page.locator(".batch-setup input[type=file]").set_input_files(content)
        page.get_by_role("button", name="Tag 1 row").click()
        page.get_by_role("heading", name="Done").wait_for()
    else:
        ready = {"labels/8": ".label-title", "tree": ".cell-label", "model": ".chart", "review/3": ".sample"}
        page.locator(ready[route]).first.wait_for()


@pytest.mark.parametrize(("scheme", "rules"), [("light", ()), ("dark", ("color-contrast",))])
def test_axe_finds_nothing_serious(visit, server, group_server, scheme, rules):
    page = visit(server, color_scheme=scheme)
    for route in PAGES:
        page.goto(f"{server.url}#/{route}")
        prepare(page, route)
        assert violations(page, rules) == [], route
    page = visit(group_server, "review/3", color_scheme=scheme)
    prepare(page, "review/3")
    assert violations(page, rules) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_about_members(visit, fused_server, scheme):
    page = visit(fused_server, color_scheme=scheme)
    page.get_by_label("Text to tag").fill(ABSTRACT)
    page.locator(".label-main").first.click()
    page.locator(".member").first.wait_for()
    assert violations(page) == []
    page.goto(f"{fused_server.url}#/model")
    page.locator(".chart").first.wait_for()
    assert violations(page) == []


def test_axe_finds_nothing_serious_on_empty_and_failed_pages(visit, server):
    page = visit(server)
    page.get_by_text("No text yet").wait_for()
    assert violations(page) == []
    page.route("**/v1/suggest", lambda route: route.fulfill(status=500, json={"detail": "x"}))
    page.get_by_label("Text to tag").fill(ABSTRACT)
    page.get_by_role("alert").wait_for()
    assert violations(page) == []


def test_a_phone_shows_every_page_without_scrolling_sideways(visit, server, group_server):
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    page = visit(server, **phone)
    for route in PAGES:
        page.goto(f"{server.url}#/{route}")
        prepare(page, route)
        assert page.evaluate("document.documentElement.scrollWidth") == 360, route
    page = visit(group_server, "review/3", **phone)
    prepare(page, "review/3")
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_visit_moves_the_focus_to_the_heading(visit, server):
    page = visit(server)
    page.get_by_role("link", name="Model").click()
    expect(page.get_by_role("heading", name="Model", level=1)).to_be_focused()
    assert page.title() == "Model · tagwood"
    expect(page.get_by_role("link", name="Model")).to_have_attribute("aria-current", "page")


def test_the_text_is_still_there_when_one_comes_back(visit, server):
    page = visit(server)
    prepare(page, "tag")
    page.get_by_role("link", name="About this label").click()
    expect(page.locator(".label-title")).to_have_text("Beekeeping")
    page.go_back()
    expect(page.get_by_label("Text to tag")).to_have_value(ABSTRACT)
    expect(page.locator(".why")).to_be_visible()


def test_colours_follow_the_system_or_the_choice(visit, server):
    page = visit(server, color_scheme="dark")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    button = page.get_by_role("button", name="Colours: system")
    button.wait_for()
    dark = page.evaluate(background)
    button.click()
    page.get_by_role("button", name="Colours: light").wait_for()
    light = page.evaluate(background)
    assert dark != light
    page.reload()
    page.get_by_role("button", name="Colours: light").click()
    page.get_by_role("button", name="Colours: dark").wait_for()
    assert page.evaluate(background) == dark


def test_nothing_inline_and_nothing_from_elsewhere(server, visit):
    page = visit(server)
    response = page.request.get(server.url)
    policy = response.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    html = response.text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=|https?://", html)


def test_csv_is_read_as_python_reads_it(visit, server):
    page = visit(server)
    read = "async text => (await import('./js/csv.js')).parse(text)"
    cases = {
        "a,b\r\n1,2\r\n": [["a", "b"], ["1", "2"]],
        '\ufeffa;b\n"x;""y""\nz";2': [["a", "b"], ['x;"y"\nz', "2"]],
        "a\tb\n1\t\n\t2\n": [["a", "b"], ["1", ""], ["", "2"]],
        'a,b\n\n,\n1,"open': [["a", "b"], ["", ""], ["1", "open"]],
        "only": [["only"]],
        "": [],
    }
    assert {text: page.evaluate(read, text) for text in cases} == cases
