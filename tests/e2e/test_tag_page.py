"""The page Tag: labels while one writes, the slider, reasons, decisions, files."""

import csv
import io
import json

import pytest
from playwright.sync_api import expect
from subject_catalogue import ABSTRACT

pytestmark = pytest.mark.browser

ARABIC = "النحو الفعل الاسم الجملة القواعد اللغة"
JAPANESE = "茶道と茶室、抹茶と茶碗"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def page(visit, server):
    return visit(server)


def write(page, text):
    page.get_by_label("Text to tag").fill(text)
    expect(page.locator(".results[aria-busy]")).to_have_count(0)
    page.locator(".label-main").first.wait_for()


def suggested(page):
    return page.locator('[data-kind="kept"] .label-name').all_inner_texts()


def row(page, name):
    return page.locator(".label", has=page.get_by_text(name, exact=True))


def test_labels_appear_while_one_writes_best_first(page):
    write(page, ABSTRACT)
    assert suggested(page)[0] == "Beekeeping"
    shares = [int(text.split(" ")[0]) for text in page.locator(".label-score").all_inner_texts()]
    assert shares == sorted(shares, reverse=True)
    widths = [box.bounding_box()["width"] for box in page.locator(".label .bar").all()]
    assert len(set(widths)) == 1  # all bars have the same scale


def test_an_empty_text_offers_an_example(page):
    expect(page.get_by_text("No text yet")).to_be_visible()
    page.get_by_role("button", name="Try an example").click()
    page.locator(".label-main").first.wait_for()
    assert page.get_by_label("Text to tag").input_value()
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_text("No text yet")).to_be_visible()


def test_the_slider_goes_from_few_and_certain_to_many(page):
    write(page, ABSTRACT)
    slider = page.get_by_role("slider")
    sizes, words = [], []
    slider.press("Home")
    for _ in range(int(slider.get_attribute("max")) + 1):
        page.wait_for_timeout(350)
        expect(page.locator(".results[aria-busy]")).to_have_count(0)
        sizes.append(len(suggested(page)))
        words.append(page.locator(".promise output").inner_text())
        slider.press("ArrowRight")
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]
    assert words[0] == "At least 95 % of the labels are right"


def test_a_text_that_cannot_keep_the_promise_is_flagged(page):
    page.get_by_role("slider").press("Home")
    write(page, "unknown gibberish wwwww")
    expect(page.get_by_text("The promise cannot be kept for this text")).to_be_visible()


def test_a_label_of_a_fused_model_shows_what_each_member_found(visit, fused_server):
    page = visit(fused_server)
    write(page, ABSTRACT)
    row(page, "Beekeeping").locator(".label-main").click()
    used = [one.name for one in fused_server.tagger.members() if one.used]
    expect(page.locator(".member .word-name")).to_have_text(used)
    expect(page.locator(".member", has_text="LinearTree")).to_contain_text("of its ranking, for ")
    expect(page.locator(".why")).to_contain_text("for a label that no member finds")
    page.get_by_role("link", name="Model", exact=True).click()
    members = page.get_by_role("region", name="Members")
    expect(members.get_by_role("rowheader")).to_have_text([one.name for one in fused_server.tagger.members()])


def test_a_label_shows_its_words_and_path(page):
    write(page, ABSTRACT)
    label = row(page, "Beekeeping").locator(".label-main")
    label.click()
    expect(page.locator(".why")).to_contain_text("Suggested as number 1")
    marked = page.locator(".editor-copy mark").all_inner_texts()
    assert {"honey", "hives", "bees"} <= set(marked)
    assert "ports" not in marked
    expect(page.locator(".path li").last).to_contain_text("The label itself")
    label.click()
    expect(page.locator(".why")).to_have_count(0)
    expect(page.locator(".editor-copy mark")).to_have_count(0)


def test_marks_lie_behind_the_words_they_mark(page):
    write(page, ABSTRACT)
    row(page, "Beekeeping").locator(".label-main").click()
    page.locator(".editor-copy mark").first.wait_for()
    copy, area = page.locator(".editor-copy").bounding_box(), page.get_by_label("Text to tag").bounding_box()
    assert copy == area
    styles = "element => [getComputedStyle(element).font, getComputedStyle(element).padding]"
    assert page.locator(".editor-copy").evaluate(styles) == page.get_by_label("Text to tag").evaluate(styles)


def test_why_not_says_where_a_label_was_lost_and_adds_it(page):
    write(page, ABSTRACT)
    field = page.get_by_role("combobox", name="Is a label missing?")
    field.fill("lighth")
    page.get_by_role("option", name="Lighthouses").click()
    card = page.locator(".missing-found")
    expect(card).to_contain_text("Why not Lighthouses?")
    expect(card).to_contain_text("ot suggested")
    card.get_by_role("button", name="Add this label").click()
    expect(page.get_by_role("list", name="Added by you")).to_contain_text("Lighthouses")
    page.get_by_role("button", name="Remove Lighthouses").click()
    expect(page.get_by_role("list", name="Added by you")).to_have_count(0)


def test_an_unknown_name_is_reported(page):
    page.get_by_role("combobox", name="Is a label missing?").fill("qqqqqqqq")
    expect(page.get_by_text("No matching label.")).to_be_visible()


def test_decisions_are_stored_by_the_service(page, stored):
    write(page, ABSTRACT)
    page.get_by_role("button", name="Accept Beekeeping").click()
    page.get_by_role("button", name="Reject Trade").click()
    page.get_by_role("button", name="Save decisions").click()
    expect(page.get_by_text("Decisions saved")).to_be_visible()
    record = json.loads((stored / "feedback.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert record["text"] == ABSTRACT
    assert [one["label"] for one in record["accepted"]] == ["Beekeeping"]
    assert [one["label"] for one in record["rejected"]] == ["Trade"]


def test_rejected_labels_are_not_in_the_result(page):
    write(page, ABSTRACT)
    page.get_by_role("button", name="Accept Forestry").click()
    page.get_by_role("button", name="Reject Beekeeping").click()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("copied")).to_be_visible()
    names = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert "Forestry" in names
    assert "Beekeeping" not in names


def test_the_result_can_be_downloaded(page):
    write(page, ABSTRACT)
    with page.expect_download() as found:
        page.get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(found.value.path().read_text(encoding="utf-8"))))
    assert [one["label"] for one in rows] == suggested(page)
    assert rows[0]["uri"] == "https://subjects.example/8"
    with page.expect_download() as found:
        page.get_by_role("button", name="JSON").click()
    content = json.loads(found.value.path().read_text(encoding="utf-8"))
    assert content["text"] == ABSTRACT
    assert [one["name"] for one in content["labels"]] == suggested(page)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "windows-1252"])
def test_a_text_file_is_read_in_its_encoding(page, encoding):
    content = "Böhmische Bücher: hives, honey and bees".encode(encoding)
    page.locator(".text-card input[type=file]").set_input_files(
        {"name": "note.txt", "mimeType": "text/plain", "buffer": content}
    )
    expect(page.get_by_label("Text to tag")).to_have_value("Böhmische Bücher: hives, honey and bees")
    page.locator(".label-main").first.wait_for()
    assert suggested(page)[0] == "Beekeeping"


def test_a_file_that_is_no_text_is_refused_with_a_message(page):
    page.locator(".text-card input[type=file]").set_input_files(
        {"name": "scan.png", "mimeType": "image/png", "buffer": b"\x89PNG"}
    )
    expect(page.get_by_text("scan.png is not a text file")).to_be_visible()


def test_a_table_dropped_on_the_text_goes_to_batch(page):
    drop = """element => {
        const data = new DataTransfer();
        data.items.add(new File(["title,text\\n1,hives and honey\\n"], "new.csv", {type: "text/csv"}));
        element.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true}));
    }"""
    page.locator(".text-card").evaluate(drop)
    expect(page.get_by_role("heading", name="new.csv")).to_be_visible()
    assert page.url.endswith("#/batch")


def test_a_label_that_looks_like_a_script_is_shown_as_text(page):
    write(page, "scripts, browsers, injection and escaping; cookies, forms and attacks")
    assert SCRIPT in suggested(page)
    row(page, SCRIPT).locator(".label-main").click()
    page.locator(".why").wait_for()
    page.get_by_role("combobox", name="Is a label missing?").fill("<script")
    expect(page.locator(".option").first).to_contain_text(SCRIPT)
    assert page.locator("script").count() == 1  # the page's own


def test_right_to_left_text_is_laid_out_and_tagged(page):
    write(page, ARABIC)
    assert suggested(page)[0] == "النحو العربي"
    assert page.get_by_label("Text to tag").evaluate("element => getComputedStyle(element).direction") == "rtl"
    row(page, "النحو العربي").locator(".label-main").click()
    page.locator(".editor-copy mark").first.wait_for()
    assert page.locator(".editor-copy").evaluate("element => getComputedStyle(element).direction") == "rtl"


def test_japanese_words_are_found_and_marked(page):
    write(page, JAPANESE)
    assert suggested(page)[0] == "茶道"
    row(page, "茶道").locator(".label-main").click()
    page.locator(".why").wait_for()
    assert "茶" in "".join(page.locator(".editor-copy mark").all_inner_texts())


def test_names_come_in_the_chosen_language(page):
    write(page, ABSTRACT)
    page.get_by_label("Language of label names").select_option("de")
    expect(page.locator(".label-name").first).to_have_text("Imkerei")


def test_everything_can_be_done_by_keyboard(page):
    page.get_by_label("Text to tag").wait_for()
    keys = page.keyboard
    keys.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    keys.press("Enter")
    keys.press("Tab")
    expect(page.get_by_label("Text to tag")).to_be_focused()
    keys.insert_text(ABSTRACT)
    page.locator(".label-main").first.wait_for()
    for _ in range(12):
        keys.press("Tab")
        if page.locator(".slider:focus").count():
            break
    keys.press("End")
    keys.press("Tab")
    expect(page.locator(".label-main").first).to_be_focused()
    page.wait_for_timeout(400)
    page.locator(".label-main").first.focus()
    keys.press("Enter")
    page.locator(".why").wait_for()
    keys.press("a")
    expect(page.get_by_role("button", name="Accept Beekeeping")).to_have_attribute("aria-pressed", "true")
    keys.press("ArrowDown")
    keys.press("r")
    expect(page.locator('.decide-rejected[aria-pressed="true"]')).to_have_count(1)


def test_the_combobox_works_by_keyboard(page):
    write(page, ABSTRACT)
    field = page.get_by_role("combobox", name="Is a label missing?")
    field.press_sequentially("te")
    page.locator(".option").nth(1).wait_for()
    expect(field).to_have_attribute("aria-expanded", "true")
    field.press("ArrowDown")
    expect(page.locator(".option").nth(1)).to_have_attribute("aria-selected", "true")
    field.press("Escape")
    expect(field).to_have_attribute("aria-expanded", "false")
    field.press("ArrowDown")
    page.locator(".option").first.wait_for()
    field.press("Enter")
    expect(page.locator(".missing-found h2")).to_be_focused()
