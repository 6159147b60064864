"""A browser, and services to look at: one for all tests, on a small catalogue that is learned once."""

import contextlib

import pytest
from browsing import CHROMIUM, FLAGS, PATIENCE, Visitor, new_context
from page_server import PageServer
from playwright.sync_api import Error, expect, sync_playwright
from subject_catalogue import boxes, catalogue, vocabulary

from tagwood import Tagger
from tagwood.models.linear_tree import LinearTree
from tagwood.service.settings import RequestLimits, ServiceSettings
from tagwood.tagger import SetRules


def small_tagger():
    """A Tagger with a label tree of several levels, and held-out rows enough for promises."""
    return Tagger(model=LinearTree(arity=4, max_leaf_size=4, threads=1), sets=SetRules(holdout=0.3))


@pytest.fixture(scope="session")
def tagger():
    texts, labels = catalogue()
    return small_tagger().fit(texts, labels, vocab=vocabulary())


@pytest.fixture(scope="session")
def fused_tagger():
    texts, labels = catalogue()
    tagger = Tagger(model=LinearTree(arity=4, max_leaf_size=4, threads=1), quality="balanced")
    return tagger.fit(texts, labels, vocab=vocabulary())


@pytest.fixture(scope="session")
def fused_server(fused_tagger):
    """A service of a fused model."""
    server = PageServer(fused_tagger)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def group_tagger():
    texts, labels, groups = boxes()
    return small_tagger().fit(texts, labels, groups)


@pytest.fixture(scope="session")
def stored(tmp_path_factory):
    """Folder of the files that the services append to."""
    return tmp_path_factory.mktemp("stored")


@pytest.fixture(scope="session")
def server(tagger, stored):
    settings = ServiceSettings(feedback=stored / "feedback.jsonl", limits=RequestLimits(text_chars=5000))
    server = PageServer(tagger, settings)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def group_server(group_tagger, stored):
    server = PageServer(group_tagger, ServiceSettings(corrections=stored / "corrections.jsonl"))
    yield server
    server.stop()


@pytest.fixture(scope="module")  # while it lives, playwright keeps an event loop running in this thread
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed; scripts/install-browser.sh installs it where that is possible")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def context(browser):
    """The surroundings that tests share which need none of their own."""
    context = new_context(browser)
    yield context
    context.close()


@pytest.fixture
def visit(browser, context):
    """Open windows with `visit(server, route, **options of the browser context)`; faults fail the test."""
    visitors, own = [], []

    def visit(server, route="", **options):
        if options:
            own.append(new_context(browser, **options))
        visitors.append(Visitor(own[-1] if options else context))
        return visitors[-1].open(server, route)

    yield visit
    for visitor in visitors:  # tests share what a browser remembers
        with contextlib.suppress(Error):  # the service may be gone
            visitor.page.evaluate("localStorage.clear()")
    faults = [fault for visitor in visitors for fault in visitor.faults]
    for opened in [*(visitor.page for visitor in visitors), *own]:
        opened.close()
    assert faults == []


@pytest.fixture(autouse=True, scope="session")
def _patience():
    expect.set_options(timeout=PATIENCE)
