"""The pages Correct and Progress: twenty texts by keyboard alone, what is stored, and what the figures show."""

import json
from collections import Counter

import pytest
from browsing import violations
from page_server import PageServer
from playwright.sync_api import expect
from subject_catalogue import catalogue

from tagwood.service.settings import ServiceSettings

pytestmark = pytest.mark.browser
N_TEXTS = 20
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def texts():
    return dict.fromkeys(catalogue(60, seed=11)[0])


@pytest.fixture
def new_server(fused_tagger, tmp_path, texts):
    """Start services with texts to review; they learn, if it is asked for."""
    servers = []

    def start(**settings):
        queue = tmp_path / "new.csv"
        queue.write_text("id,text\n" + "".join(f'ppn{n},"{text}"\n' for n, text in enumerate(list(texts)[:N_TEXTS])))
        feedback = tmp_path / "books.feedback.jsonl"
        servers.append(PageServer(fused_tagger, ServiceSettings(feedback=feedback, queue=queue, **settings)))
        return servers[-1], feedback

    yield start
    for server in servers:
        server.stop()


def stored(feedback):
    return [json.loads(line) for line in feedback.read_text(encoding="utf-8").splitlines()]


def ready(page, number):
    expect(page.locator(".correct-count strong")).to_have_text(f"Text {number} of {N_TEXTS}")
    expect(page.locator(".label-main").first).to_be_focused()


def test_twenty_texts_are_corrected_by_keyboard_alone(visit, new_server, fused_tagger):
    server, feedback = new_server(learn=True)
    page = visit(server, "correct")
    press = page.keyboard.press
    for number in range(1, N_TEXTS + 1):
        ready(page, number)
        press("a")
        press("ArrowDown")
        press("r")
        if number % 2:
            press("+")
            expect(page.get_by_role("combobox", name="Add a label")).to_be_focused()
            page.keyboard.type("imker")
            expect(page.locator(".option").first).to_contain_text("Beekeeping")
            press("Enter")
            expect(page.locator(".label-main").first).to_be_focused()
        press("s")
    expect(page.get_by_role("heading", name="No more texts here")).to_be_focused()
    expect(page.get_by_text("20 texts saved, 0 skipped.")).to_be_visible()
    records = stored(feedback)
    assert len({one["text"] for one in records}) == N_TEXTS
    assert [one["learn"] for one in records] == [True] * N_TEXTS
    for number, one in enumerate(records, start=1):
        kept = Counter(label["uri"] for kind in ("accepted", "rejected", "added", "untouched") for label in one[kind])
        assert max(kept.values()) == 1, "a label is in one of the four lists"
        assert len(one["rejected"]) == 1
        added = [label["label"] for label in (*one["added"], *one["accepted"])]
        assert number % 2 == 0 or "Beekeeping" in added
        assert one["document"].startswith("ppn")
    corrected = [one["text"] for one in records if "Beekeeping" in [label["label"] for label in one["added"]]]
    found = page.request.post(f"{server.url}v1/suggest", data={"texts": corrected, "k": 50}).json()["results"]
    after = [label["score"] for one in found for label in one["labels"] if label["name"] == "Beekeeping"]
    before = [tag.score for tags in fused_tagger.tag(corrected, 50) for tag in tags if tag.name == "Beekeeping"]
    assert sum(after) > 2 * sum(before), "what was added has been learned"


def test_keys_skip_go_back_and_accept_all(visit, new_server):
    server, feedback = new_server()
    page = visit(server, "correct")
    press = page.keyboard.press
    ready(page, 1)
    first = page.locator(".correct-words").inner_text()
    press("s")
    expect(page.get_by_text("Decide about a label first")).to_be_visible()
    press("n")
    ready(page, 2)
    press("p")
    ready(page, 1)
    assert page.locator(".correct-words").inner_text() == first
    shown = page.locator("[data-kind=kept]").count()
    press("y")
    expect(page.locator("[data-decision=accepted]")).to_have_count(shown)
    page.get_by_text("How many labels, and who decides").click()
    page.get_by_label("Your name").fill("Ann")
    page.get_by_label("Your name").press("Tab")
    page.locator(".label-main").first.focus()
    press("Enter")
    expect(page.locator(".why")).to_be_visible()
    press("s")
    ready(page, 2)
    (one,) = stored(feedback)
    assert (len(one["accepted"]), one["rejected"], one["by"]) == (shown, [], "Ann")
    assert one["untouched"], "labels that were shown and not decided"


def test_a_refused_correction_is_kept_as_feedback(visit, new_server):
    server, feedback = new_server(learn=True)
    page = visit(server, "correct")
    refused = {"title": "This service cannot do that", "detail": "The model would become worse: nDCG@5 60 -> 50."}
    page.route("**/v1/learn", lambda route: route.fulfill(status=409, json=refused))
    ready(page, 1)
    page.keyboard.press("r")
    page.keyboard.press("s")
    expect(page.get_by_text("Saved, but not learned: The model would become worse")).to_be_visible()
    assert "learn" not in stored(feedback)[0]


def test_rows_of_a_table_are_corrected_from_batch(visit, new_server):
    server, feedback = new_server()
    page = visit(server, "batch")
    content = b"ppn;name;abstract\n1;x;hives and honey\n2;y;\n3;z;operas and arias\n"
    page.locator(".batch-setup input[type=file]").set_input_files(
        {"name": "new.csv", "mimeType": "text/csv", "buffer": content}
    )
    page.get_by_role("button", name="Correct them one by one").click()
    expect(page.locator(".correct-count strong")).to_have_text("Text 1 of 2")
    expect(page.locator(".correct-words")).to_have_text("hives and honey")
    page.locator(".label-main").first.focus()
    page.keyboard.press("a")
    page.keyboard.press("s")
    expect(page.locator(".correct-words")).to_have_text("operas and arias")
    assert stored(feedback)[0]["document"] == "row 1"


def test_progress_shows_agreement_labels_and_waiting_texts(visit, new_server):
    server, feedback = new_server()
    lines = [
        {
            "text": f"t{n}",
            "time": f"2026-03-0{1 + n % 3}T10:00:00",
            "accepted": ["Jazz"],
            "rejected": ["Opera"] * (n % 2),
        }
        for n in range(6)
    ]
    feedback.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = visit(server, "progress")
    expect(page.locator(".figure-number", has_text="Agreement").locator("strong")).to_have_text("67 %")
    expect(page.locator(".chart")).to_be_visible()
    table = page.get_by_role("region", name="Agreement by label").locator("tbody tr")
    expect(table.first).to_contain_text("Opera")
    expect(page.get_by_text("20 texts wait for review, 0 decided.")).to_be_visible()
    page.get_by_label("Language of label names").select_option("de")
    expect(table.first).to_contain_text("Oper")
    expect(table.nth(1)).to_contain_text("Jazz")
    page.get_by_role("link", name="Correct them").click()
    ready(page, 1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_correct_and_progress(visit, new_server, scheme):
    server, feedback = new_server()
    lines = [
        {"text": f"t{n}", "time": f"2026-03-0{n}T10:00:00", "accepted": ["Jazz"], "added": ["Soul"]} for n in (1, 2)
    ]
    feedback.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = visit(server, "correct", color_scheme=scheme)
    ready(page, 1)
    page.keyboard.press("a")
    page.get_by_text("How many labels, and who decides").click()
    assert violations(page) == []
    page.goto(f"{server.url}#/progress")
    page.locator(".chart").wait_for()
    page.get_by_role("region", name="Texts that wait").wait_for()
    assert violations(page) == []


def test_a_phone_shows_both_pages_without_scrolling_sideways(visit, new_server):
    server, feedback = new_server()
    feedback.write_text('{"text": "a", "accepted": ["Jazz"], "time": "2026-03-01T10:00:00"}\n')
    page = visit(server, "correct", **PHONE)
    page.locator(".label-main").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.goto(f"{server.url}#/progress")
    page.get_by_role("region", name="Texts that wait").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
