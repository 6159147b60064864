"""Pictures of every page for README and docs, of the demo model: `make screenshots` writes them to docs/images.

They are taken at the size of a window, so that what floats over a page lies where people see it. Other runs skip them.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from page_server import PageServer
from playwright.sync_api import expect

from tagwood import Tagger, demo
from tagwood.service.settings import ServiceSettings

FOLDER = os.environ.get("TAGWOOD_SCREENSHOTS")
WINDOW = {"viewport": {"width": 1200, "height": 860}}
DARK = {**WINDOW, "color_scheme": "dark"}
PHONE = {"viewport": {"width": 390, "height": 844}}
TEXT = (
    "The sensor returns a noisy signal. Smooth it with a low-pass Butterworth filter, find the peaks above a given "
    "height, and estimate the power spectral density of the residuals with Welch's method. Fit a cubic spline through "
    "the peaks and integrate it to obtain the total heat."
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(FOLDER is None, reason="pictures are taken by `make screenshots`"),
]


@pytest.fixture(scope="module")
def corpus():
    return demo.build()


@pytest.fixture(scope="module")
def demo_server(corpus, tmp_path_factory):
    train, _ = corpus
    folder = tmp_path_factory.mktemp("demo")
    Tagger().fit(train.texts, train.labels, vocab=train.vocab).save(folder / "model", notes="Made by tagwood demo")
    write_feedback(folder / "feedback.jsonl", corpus[0])
    table = "".join(json.dumps({"id": f"text {n + 1}", "text": text}) + "\n" for n, text in enumerate(corpus[1].texts))
    (folder / "new.jsonl").write_text(table, encoding="utf-8")
    settings = ServiceSettings(feedback=folder / "feedback.jsonl", queue=folder / "new.jsonl", learn=True)
    server = PageServer(folder / "model", settings)
    yield server
    server.stop()


def write_feedback(path, train):
    """Decisions of two weeks, in which people agree more and more."""
    random = np.random.default_rng(0)
    lines = []
    for n, (text, labels) in enumerate(zip(train.texts[:160], train.label_lists(), strict=False)):
        names = [train.vocab.name(label) for label in labels]
        right = [name for name in names if random.random() < 0.6 + n / 500]
        wrong = [name for name in names if name not in right]
        day = f"2026-03-{1 + n // 12:02}T10:00:00"
        lines.append({"id": str(n), "text": text, "time": day, "by": "Ann", "accepted": right, "rejected": wrong})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture(scope="module")
def demo_group_server(corpus):
    server = PageServer(Tagger(keep_texts=300).fit(corpus[0]))
    yield server
    server.stop()


def take(page, name):
    """Take a picture, and see that it shows something and all of its width."""
    path = Path(FOLDER, f"page-{name}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    page.mouse.move(1, 1)
    page.wait_for_timeout(200)
    page.screenshot(path=path)
    assert path.stat().st_size > 15_000
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def enter_text(page):
    page.get_by_label("Text to tag").fill(TEXT)
    page.locator(".label-main").first.wait_for()


@pytest.mark.parametrize(("name", "options"), [("tag", WINDOW), ("tag-dark", DARK), ("tag-phone", PHONE)])
def test_pictures_of_a_tagged_text(visit, demo_server, name, options):
    page = visit(demo_server, **options)
    enter_text(page)
    page.locator(".label-main").nth(0 if options is PHONE else 3).click()
    page.locator(".why").wait_for()
    take(page, name)


def test_picture_of_a_label_that_was_not_suggested(visit, demo_server):
    page = visit(demo_server, **WINDOW)
    enter_text(page)
    page.get_by_role("combobox", name="Is a label missing?").fill("cubicspline")
    page.locator(".option").first.click()
    page.locator(".missing-found").wait_for()
    take(page, "why-not")


def test_pictures_of_labels_tree_and_model(visit, demo_server, corpus):
    label = corpus[0].vocab.find("sklearn.cluster.KMeans")
    page = visit(demo_server, f"labels/{label}", **WINDOW)
    page.locator(".label-title").wait_for()
    take(page, "labels")
    page.goto(f"{demo_server.url}#/tree/label/{label}")
    expect(page.get_by_role("heading", name="A leaf")).to_be_visible()
    page.wait_for_timeout(500)  # until the cells have moved
    take(page, "tree")
    page.goto(f"{demo_server.url}#/model")
    page.locator(".chart").first.wait_for()
    take(page, "model")


def test_picture_of_a_tagged_table(visit, demo_server, corpus):
    test = corpus[1]
    wanted = test.vocab.find("scipy.stats")
    texts = [test.texts[row] for row, labels in enumerate(test.label_lists()) if wanted in labels]
    quoted = [text.replace('"', '""') for text in texts if 80 < len(text) < 400][:120]
    content = "id,passage\n" + "".join(f'{number},"{text}"\n' for number, text in enumerate(quoted))
    page = visit(demo_server, "batch", **WINDOW)
    page.locator(".batch-setup input[type=file]").set_input_files(
        {"name": "passages.csv", "mimeType": "text/csv", "buffer": content.encode()}
    )
    page.get_by_role("button", name=f"Tag {len(quoted)} rows").click()
    page.get_by_role("heading", name="Done").wait_for()
    take(page, "batch")


@pytest.mark.parametrize(("end", "options"), [("", WINDOW), ("-phone", PHONE)])
def test_pictures_of_correcting_and_progress(visit, demo_server, end, options):
    page = visit(demo_server, "correct", **options)
    page.locator(".label-main").first.wait_for()
    for _ in range(40):  # the least certain texts are not the prettiest
        page.keyboard.press("n")
    page.locator(".label-main").nth(2).wait_for()
    page.locator(".label-main").first.focus()
    page.keyboard.press("a")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("r")
    page.keyboard.press("ArrowDown")
    take(page, f"correct{end}")
    page.goto(f"{demo_server.url}#/progress")
    page.locator(".chart").wait_for()
    page.get_by_role("region", name="Texts that wait").wait_for()
    take(page, f"progress{end}")


def test_picture_of_the_review_of_groups(visit, demo_group_server):
    page = visit(demo_group_server, "review", **WINDOW)
    page.get_by_label("Search groups").fill("scipy.")
    page.locator(".index-list a", has_text="scipy.").first.click()
    page.locator(".sample").first.wait_for()
    expect(page.locator(".label-title")).to_be_visible()
    take(page, "review")
