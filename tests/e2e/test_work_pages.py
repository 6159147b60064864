"""The pages Batch and Review: tables in and out, groups and their corrections."""

import csv
import io
import json

import pytest
from page_server import PageServer
from playwright.sync_api import expect
from subject_catalogue import ABSTRACT, catalogue

from tagwood.groups.labels import read_corrections

pytestmark = pytest.mark.browser


def table(rows, mark=","):
    text = io.StringIO()
    csv.writer(text, delimiter=mark).writerows(rows)
    return {"name": "new.csv", "mimeType": "text/csv", "buffer": text.getvalue().encode()}


def load(page, rows, mark=","):
    page.locator(".batch-setup input[type=file]").set_input_files(table(rows, mark))
    page.locator(".batch-options").wait_for()


def download(page):
    with page.expect_download() as found:
        page.get_by_role("button", name="Download the tagged CSV").click()
    assert found.value.suggested_filename == "new-tagged.csv"
    return list(csv.DictReader(io.StringIO(found.value.path().read_text(encoding="utf-8-sig"), newline="")))


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_table_comes_back_with_labels(visit, server, mark):
    page = visit(server, "batch")
    odd = 'He said "hives",\nand: honey; bees\tand wax'
    load(page, [["id", "text", "year"], ["a", ABSTRACT, "1"], ["b", odd, "2"], ["c", "", "3"]], mark)
    expect(page.get_by_label("Column with the texts")).to_have_value("1")
    page.get_by_role("button", name="Tag 3 rows").click()
    expect(page.get_by_role("heading", name="Done")).to_be_focused()
    rows = download(page)
    assert [(row["id"], row["text"], row["year"]) for row in rows] == [
        ("a", ABSTRACT, "1"),
        ("b", odd, "2"),
        ("c", "", "3"),
    ]
    assert rows[0]["labels"].split(";")[0] == "Beekeeping"
    assert rows[2]["labels"] == ""
    assert (rows[2]["review"], rows[2]["note"]) == ("yes", "no text")


def test_titles_join_the_texts_and_uris_come_back(visit, server):
    page = visit(server, "batch")
    load(page, [["Title", "abstract", "labels"], ["Hives and honey", "about bees", "old"]])
    expect(page.get_by_label("Column with the titles")).to_have_value("0")
    expect(page.locator(".batch-options .texts")).to_contain_text("Hives and honey")
    page.get_by_role("button", name="Tag 1 row").click()
    page.get_by_role("heading", name="Done").wait_for()
    (row,) = download(page)
    assert list(row) == ["Title", "abstract", "input_labels", "labels", "uris", "scores", "review", "note"]
    assert row["input_labels"] == "old"
    assert len(row["uris"].split(";")) == len(row["labels"].split(";"))


def test_long_tables_go_in_portions_and_labels_match_single_requests(visit, server, tagger):
    page = visit(server, "batch")
    texts, _ = catalogue(250, seed=5)
    load(page, [["text"], *[[text] for text in texts]])
    page.get_by_role("slider").press("Home")
    page.get_by_role("slider").press("ArrowRight")
    page.get_by_role("button", name="Tag 250 rows").click()
    page.get_by_role("heading", name="Done").wait_for()
    found = [row["labels"] for row in download(page)]
    expected = [";".join(tags.names) for tags in tagger.tag(texts, promise="precision>=0.9")]
    assert found == expected


def test_a_row_that_is_too_long_does_not_spoil_the_others(visit, server):
    page = visit(server, "batch")
    load(page, [["text"], ["hives " * 2000], ["hives and honey"]])
    page.get_by_role("button", name="Tag 2 rows").click()
    page.get_by_role("heading", name="Done").wait_for()
    rows = download(page)
    assert rows[0]["note"] == "longer than 5000 characters"
    assert rows[1]["labels"].startswith("Beekeeping")


def test_an_interrupted_table_goes_on_where_it_stopped(visit, server):
    page = visit(server, "batch")
    asked = []

    def now_and_then(route):
        asked.append(len(json.loads(route.request.post_data)["texts"]))
        if len(asked) == 2:
            route.fulfill(status=503, content_type="application/problem+json", body='{"detail": "Too busy."}')
        else:
            route.continue_()

    page.route("**/v1/suggest", now_and_then)
    load(page, [["text"], *[[f"hives and honey {number}"] for number in range(150)]])
    page.get_by_role("button", name="Tag 150 rows").click()
    expect(page.get_by_role("alert")).to_contain_text("100 rows are done and kept")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("heading", name="Done").wait_for()
    assert asked == [100, 50, 50]
    assert len(download(page)) == 150


def test_tagging_can_be_stopped_and_what_is_done_downloaded(visit, server):
    page = visit(server, "batch")
    answered = []

    def first_only(route):
        answered.append(1)
        if len(answered) == 1:
            route.continue_()

    page.route("**/v1/suggest", first_only)
    load(page, [["text"], *[["hives and honey"]] * 150])
    page.get_by_role("button", name="Tag 150 rows").click()
    expect(page.get_by_text("100 of 150 rows")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("heading", name="Stopped after 100 rows")).to_be_visible()
    assert len(download(page)) == 100


def test_a_table_without_rows_is_refused_with_a_message(visit, server):
    page = visit(server, "batch")
    page.locator(".batch-setup input[type=file]").set_input_files(table([["text"]]))
    expect(page.get_by_role("alert")).to_contain_text("no rows below its first line")


def test_review_is_shown_only_where_labels_were_known_for_groups(visit, server, group_server):
    page = visit(server)
    page.get_by_role("link", name="Batch").wait_for()
    expect(page.get_by_role("link", name="Review")).to_have_count(0)
    page = visit(group_server)
    expect(page.get_by_role("link", name="Review")).to_be_visible()


def test_groups_are_listed_least_certain_first_and_can_be_searched(visit, group_server):
    page = visit(group_server, "review")
    page.locator(".index-list a").first.wait_for()
    shares = [text for text in page.locator(".index-rows").all_inner_texts() if text != "reviewed"]
    values = [int(text.strip("< %")) for text in shares]
    assert values == sorted(values)
    page.get_by_label("Search groups").fill("box 17")
    expect(page.locator(".index-name")).to_have_text(["Box 17"])


def test_a_moved_label_is_stored_and_exported_for_training(visit, group_server, tmp_path):
    page = visit(group_server, "review/3")
    page.locator(".sample").first.wait_for()
    texts = [text.split(":", 1)[1].strip() for text in page.locator(".sample-text").all_inner_texts()]
    label = page.locator(".sample").first.locator(".imputed-name").first.inner_text()
    page.get_by_label(f"Move {label} from sample 1 to").select_option("1")
    second = page.locator(".sample").nth(1).locator(".imputed", has_text=label)
    expect(second).to_contain_text("by you")
    expect(page.get_by_text("2 samples changed")).to_be_visible()
    page.get_by_role("button", name="Accept and save").click()
    expect(page.locator(".label-title")).not_to_have_text("Box 4")  # the next group
    with page.expect_download() as found:
        page.get_by_role("button", name="Export 1 group as JSONL").click()
    path = tmp_path / "corrections.jsonl"
    found.value.save_as(path)
    right = {one.text: one.labels for one in read_corrections(path) if one.group == "Box 4"}
    assert set(right) == set(texts)
    assert label not in right[texts[0]]
    assert label in right[texts[1]]


def test_corrections_that_no_service_stores_are_exported_by_the_page(visit, group_tagger, tmp_path):
    server = PageServer(group_tagger)
    page = visit(server, "review/3")
    page.locator(".sample").first.wait_for()
    found = [labels.all_inner_texts() for labels in page.locator(".sample").locator(".imputed-name").all()]
    page.get_by_role("button", name="Accept and save").click()
    expect(page.get_by_text("Kept on this page")).to_be_visible()
    with page.expect_download() as exported:
        page.get_by_role("button", name="Export 1 group as JSONL").click()
    exported.value.save_as(tmp_path / "corrections.jsonl")
    corrections = read_corrections(tmp_path / "corrections.jsonl")
    assert {one.group for one in corrections} == {"Box 4"}
    assert [[name] for one in corrections for name in one.labels] == found
    server.stop()


def test_changes_can_be_undone_and_labels_added(visit, group_server):
    page = visit(group_server, "review/5")
    first = page.locator(".sample").first
    first.wait_for()
    before = page.locator(".imputed-name").all_inner_texts()
    first.get_by_role("button", name="Remove").first.click()
    assert len(page.locator(".imputed-name").all_inner_texts()) == len(before) - 1
    first.get_by_label("Add a label to sample 1").select_option(index=1)
    expect(first.locator(".imputed-name")).not_to_have_count(0)
    page.get_by_role("button", name="Undo changes").click()
    assert page.locator(".imputed-name").all_inner_texts() == before
