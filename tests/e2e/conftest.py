"""A browser, and services to look at: one for all tests, on a small catalogue that is learned once."""

import shutil
from pathlib import Path

import pytest
from page_server import PageServer
from subject_catalogue import boxes, catalogue, vocabulary

pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
pytest.importorskip("fastapi", reason="fastapi is not installed (extra serve)")

from playwright.sync_api import expect, sync_playwright  # noqa: E402

from tagwood import Tagger  # noqa: E402
from tagwood.models.linear_tree import LinearTree  # noqa: E402
from tagwood.service.settings import Limits, Settings  # noqa: E402

CHROMIUM = shutil.which("chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
AXE = Path(__file__).parents[2] / "build/npm/node_modules/axe-core/axe.min.js"
PATIENCE = 8_000


@pytest.fixture(scope="session")
def tagger():
    texts, labels = catalogue()
    return Tagger(model=LinearTree(arity=4, max_leaf_size=4, threads=1), sets=SetRules(holdout=0.3)).fit(texts, labels, vocab=vocabulary())


@pytest.fixture(scope="session")
def group_tagger():
    texts, labels, groups = boxes()
    return Tagger(model=LinearTree(arity=4, max_leaf_size=4, threads=1), sets=SetRules(holdout=0.3)).fit(texts, labels, groups)


@pytest.fixture(scope="session")
def stored(tmp_path_factory):
    """Folder of the files that the services append to."""
    return tmp_path_factory.mktemp("stored")


@pytest.fixture(scope="session")
def server(tagger, stored):
    settings = Settings(feedback=stored / "feedback.jsonl", limits=Limits(text_chars=5000))
    server = PageServer(tagger, settings)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def group_server(group_tagger, stored):
    server = PageServer(group_tagger, Settings(corrections=stored / "corrections.jsonl"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed; scripts/install-browser.sh installs it where that is possible")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


class Visitor:
    """A browser window that notes what must not happen: script errors, blocked content, dialogs, foreign requests."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(reduced_motion="reduce", locale="en-GB", **options)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.faults = []
        self.page.on("pageerror", lambda error: self.faults.append(f"script error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("console", self._console)
        self.page.on("request", self._request)

    def open(self, server, route=""):
        """Go to a page of a service."""
        self.url = server.url
        self.page.goto(f"{server.url}#/{route}")
        return self.page

    def _dialog(self, dialog):
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, message):
        expected = "Failed to load resource" in message.text  # refused requests are part of some tests
        if message.type == "error" and not expected:
            self.faults.append(f"console: {message.text}")

    def _request(self, request):
        if not request.url.startswith((self.url, "blob:", "data:")):
            self.faults.append(f"foreign request: {request.url}")


@pytest.fixture
def visit(browser):
    """Open windows with `visit(server, route, **options of the browser context)`; faults fail the test."""
    visitors = []

    def visit(server, route="", **options):
        visitor = Visitor(browser, **options)
        visitors.append(visitor)
        return visitor.open(server, route)

    yield visit
    faults = [fault for visitor in visitors for fault in visitor.faults]
    for visitor in visitors:
        visitor.context.close()
    assert faults == []


@pytest.fixture(autouse=True, scope="session")
def _patience():
    expect.set_options(timeout=PATIENCE)
