"""What the page says when something is wrong: the service gone, too long, no token, busy, a mistake."""

import pytest
from page_server import PageServer
from playwright.sync_api import expect
from subject_catalogue import ABSTRACT

from tagwood.service.settings import ServiceSettings

pytestmark = pytest.mark.browser


@pytest.fixture
def own_server(tagger):
    """A service of one test, which may stop it."""
    server = PageServer(tagger, ServiceSettings(token="correct-horse"))
    yield server
    server.stop()


def enter(page, token):
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_role("button", name="Continue").click()


def test_a_wrong_token_is_reported_and_the_right_one_accepted(visit, own_server):
    page = visit(own_server)
    dialog = page.get_by_role("dialog", name="This service requires a token")
    expect(dialog).to_be_visible()
    enter(page, "battery-staple")
    expect(dialog).to_contain_text("did not accept this token")
    enter(page, "correct-horse")
    expect(page.get_by_label("Text to tag")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Text to tag")).to_be_visible()
    assert "correct-horse" not in page.url


def test_without_a_token_the_page_reports_it_and_asks_again(visit, own_server):
    page = visit(own_server)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert")).to_contain_text("A token is required")
    page.get_by_role("button", name="Enter a token").click()
    enter(page, "correct-horse")
    expect(page.get_by_label("Text to tag")).to_be_visible()


def test_a_service_that_goes_away_and_comes_back(visit, own_server):
    page = visit(own_server)
    enter(page, "correct-horse")
    page.get_by_label("Text to tag").wait_for()
    own_server.stop()
    page.get_by_label("Text to tag").fill(ABSTRACT)
    expect(page.get_by_role("alert")).to_contain_text("The service does not respond")
    expect(page.locator("#banner")).to_be_visible()
    own_server.start()
    expect(page.locator(".label-name").first).to_have_text("Beekeeping")
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.get_by_label("Text to tag")).to_have_value(ABSTRACT)


def test_a_text_that_is_too_long_is_reported_before_it_is_sent(visit, server):
    page = visit(server)
    sent = []
    page.on("request", lambda request: sent.append(request.url))
    page.get_by_label("Text to tag").fill("honey " * 1000)
    expect(page.get_by_role("alert")).to_contain_text(
        "The text has 6,000 characters; this service accepts at most 5,000"
    )
    assert not any("suggest" in url for url in sent)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (413, "Too long"),
        (422, "Request not accepted"),
        (429, "The service is busy"),
        (500, "The service reported an error"),
        (503, "The service is busy"),
    ],
)
def test_refusals_are_reported(visit, server, status, words):
    page = visit(server)
    problem = {"detail": "Some words about it."}
    page.route("**/v1/suggest", lambda route: route.fulfill(status=status, json=problem))
    page.get_by_label("Text to tag").fill(ABSTRACT)
    expect(page.get_by_role("alert")).to_contain_text(words)
    expect(page.get_by_role("alert")).to_contain_text("Some words about it.")


def test_an_answer_that_is_not_json_is_reported(visit, server):
    page = visit(server)
    page.route("**/v1/suggest", lambda route: route.fulfill(status=200, body="<html>proxy</html>"))
    page.get_by_label("Text to tag").fill(ABSTRACT)
    expect(page.get_by_role("alert")).to_contain_text("The answer could not be read")


def test_trying_again_after_a_fault(visit, server):
    page = visit(server)
    page.route("**/v1/labels?*", lambda route: route.fulfill(status=500, json={"detail": "x"}))
    page.goto(f"{server.url}#/labels")
    expect(page.get_by_role("alert")).to_contain_text("The service reported an error")
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".index-name").first).to_be_visible()


def test_loading_is_shown_until_the_answer_comes(visit, server):
    page = visit(server)
    waiting = []

    def wait(route):
        waiting.append(route)

    page.route("**/v1/labels/8*", wait)
    page.goto(f"{server.url}#/labels/8")
    expect(page.locator(".label-card .loading")).to_be_visible()
    expect(page.locator(".label-card")).to_have_attribute("aria-busy", "true")
    waiting[0].continue_()
    expect(page.locator(".label-title")).to_have_text("Beekeeping")
    expect(page.locator(".label-card .loading")).to_have_count(0)


def test_a_model_without_probabilities_counts_labels_instead(visit, server):
    page = visit(server)

    def bare(route):
        content = route.fetch().json()
        missing = {"metrics": "Nothing was held out."}
        route.fulfill(json={**content, "calibration": None, "metrics": None, "missing": missing})

    page.route("**/v1/model", bare)
    page.reload()
    expect(page.locator(".promise output")).to_have_text("The best 5 labels")
    page.get_by_label("Text to tag").fill(ABSTRACT)
    expect(page.locator('[data-kind="kept"]')).to_have_count(5)
    page.get_by_role("link", name="Model").click()
    expect(page.get_by_text("Nothing was held out.")).to_be_visible()


def test_a_new_model_is_offered(visit, server):
    page = visit(server)
    page.get_by_text("No text yet").wait_for()

    def newer(route):
        route.fulfill(json={**route.fetch().json(), "model": "another"})

    page.route("**/v1/suggest", newer)
    page.get_by_label("Text to tag").fill(ABSTRACT)
    expect(page.locator("#banner")).to_contain_text("A new model is available.")
    page.unroute_all(behavior="wait")
    page.get_by_role("button", name="Reload").click()
    expect(page.locator("#banner")).to_be_hidden()
