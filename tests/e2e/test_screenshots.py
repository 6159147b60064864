"""Pictures of every page for README and docs: `make screenshots` writes them to docs/images, other runs look only.

Taken at the size of a window, so that what floats over a page lies where people see it.
"""

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect
from subject_catalogue import ABSTRACT, catalogue

WINDOW = {"viewport": {"width": 1200, "height": 860}}
DARK = {**WINDOW, "color_scheme": "dark"}
PHONE = {"viewport": {"width": 390, "height": 844}}
ROUTES = {"why-not": "tag", "labels": "labels/8", "tree": "tree", "model": "model", "batch": "batch"}


@pytest.fixture
def folder(tmp_path):
    """Where pictures go."""
    chosen = os.environ.get("TAGWOOD_SCREENSHOTS")
    path = Path(chosen) if chosen else tmp_path
    path.mkdir(parents=True, exist_ok=True)
    return path


def take(page, path):
    """Take a picture, and see that it shows something and all of its width."""
    page.mouse.move(1, 1)
    page.wait_for_timeout(100)
    page.screenshot(path=path)
    assert path.stat().st_size > 15_000
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.parametrize(("name", "options"), [("tag", WINDOW), ("tag-dark", DARK), ("tag-phone", PHONE)])
def test_pictures_of_a_tagged_text(visit, server, folder, name, options):
    page = visit(server, **options)
    prepare_tag(page)
    take(page, folder / f"page-{name}.png")


def test_pictures_of_the_other_pages(visit, server, folder):
    page = visit(server, **WINDOW)
    for name, route in ROUTES.items():
        page.goto(f"{server.url}#/{route}")
        PREPARE[name](page)
        take(page, folder / f"page-{name}.png")


def test_picture_of_the_review_of_groups(visit, group_server, folder):
    page = visit(group_server, "review/3", **WINDOW)
    page.locator(".sample").first.wait_for()
    take(page, folder / "page-review.png")


def prepare_tag(page):
    page.get_by_label("Text to tag").fill(ABSTRACT)
    page.locator(".label-main").first.wait_for()
    page.get_by_role("slider").press("ArrowRight")
    expect(page.locator('[data-kind="kept"]')).to_have_count(3)
    page.locator(".label-main").first.click()
    page.locator(".why").wait_for()


def prepare_why_not(page):
    page.get_by_label("Text to tag").fill(ABSTRACT)
    page.locator(".label-main").first.wait_for()
    page.get_by_role("button", name="Accept Beekeeping").click()
    page.get_by_role("combobox", name="Is a label missing?").fill("soil")
    page.locator(".option").first.click()
    page.locator(".missing-found").wait_for()


def prepare_batch(page):
    texts, _ = catalogue(120, seed=9)
    rows = "".join(f'{number},"{text}"\n' for number, text in enumerate(texts))
    content = {"name": "acquisitions.csv", "mimeType": "text/csv", "buffer": f"id,abstract\n{rows}".encode()}
    page.locator(".batch-setup input[type=file]").set_input_files(content)
    page.get_by_role("button", name="Tag 120 rows").click()
    page.get_by_role("heading", name="Done").wait_for()


PREPARE = {
    "why-not": prepare_why_not,
    "labels": lambda page: page.locator(".label-title").wait_for(),
    "tree": lambda page: page.locator(".cell-label").first.wait_for(),
    "model": lambda page: page.locator(".chart").first.wait_for(),
    "batch": prepare_batch,
}
