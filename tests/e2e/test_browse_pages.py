"""The pages Labels, Tree and Model."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def names(page):
    return page.locator(".index-name").all_inner_texts()


def test_labels_are_found_by_prefix_and_in_spite_of_a_typo(visit, server):
    page = visit(server, "labels")
    expect(page.get_by_text("Most frequent")).to_be_visible()
    field = page.get_by_label("Search labels")
    field.fill("tele")
    expect(page.locator(".index-name").first).to_have_text("Telescopes")
    field.fill("beekeping")
    expect(page.locator(".index-name").first).to_have_text("Beekeeping")
    field.fill("qqqqqqqq")
    expect(page.get_by_text("No label found")).to_be_visible()


def test_a_label_card_shows_names_words_and_texts(visit, server):
    page = visit(server, "labels/8")
    card = page.locator(".label-card")
    expect(card.get_by_role("heading", name="Beekeeping")).to_be_visible()
    expect(card).to_contain_text("Imkerei (de)")
    expect(card).to_contain_text("training texts")
    assert {"honey", "bees"} <= set(card.locator(".chip-word").all_inner_texts())
    assert card.locator(".texts li").count() > 2
    link = card.get_by_role("link", name="https://subjects.example/8")
    assert link.get_attribute("rel") == "noreferrer noopener"


def test_cards_lead_to_other_cards_and_the_back_button_returns(visit, server):
    page = visit(server, "labels/8")
    first = page.locator(".neighbours a, .sense a").first
    name = first.inner_text()
    first.click()
    expect(page.locator(".label-title")).to_have_text(name)
    expect(page.locator(".label-title")).to_be_focused()
    page.go_back()
    expect(page.locator(".label-title")).to_have_text("Beekeeping")


def test_an_unknown_label_is_reported(visit, server):
    page = visit(server, "labels/99999")
    expect(page.locator(".label-card .state-bad")).to_contain_text("Not found")


def test_the_tree_is_as_wide_as_the_texts_below(visit, server):
    page = visit(server, "tree")
    page.locator(".cell").first.wait_for()
    whole = page.locator('[data-key="n0"]').bounding_box()["width"]
    second = [cell.bounding_box() for cell in page.locator('.cell[data-depth="1"]').all()]
    assert abs(sum(box["width"] for box in second) - whole) < 4
    boxes = """cells => cells.map(cell => [cell.getAttribute("aria-label"), cell.getBoundingClientRect().width])"""
    widths = dict(page.locator(".cell-label").evaluate_all(boxes))
    assert len(widths) == 44
    rows = {name: int(name.rsplit(" ", 2)[1]) for name in widths}
    most, least = max(rows, key=rows.get), min(rows, key=rows.get)
    assert widths[most] > widths[least]


def test_zooming_into_the_tree_and_out_again(visit, server):
    page = visit(server, "tree")
    cell = page.locator('.cell[data-depth="1"]').first
    cell.wait_for()
    key = cell.get_attribute("data-key")
    cell.click()
    expect(page.get_by_role("heading", name="A branch")).to_be_visible()
    chosen = page.locator(f'[data-key="{key}"]').bounding_box()
    assert chosen["width"] == pytest.approx(page.locator(".icicle").bounding_box()["width"], abs=2)
    page.locator(".crumbs").get_by_role("button", name="All labels").click()
    expect(page.get_by_role("heading", name="The whole tree")).to_be_visible()


def test_the_tree_by_keyboard(visit, server):
    page = visit(server, "tree")
    page.locator('[data-key="n0"]').focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.depth") == "1"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="A branch")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="The whole tree")).to_be_visible()
    expect(page.locator('[data-key="n0"]')).to_be_focused()


def test_a_search_zooms_to_the_label(visit, server):
    page = visit(server, "tree")
    page.get_by_role("combobox", name="Find a label in the tree").fill("lighth")
    page.get_by_role("option", name="Lighthouses").click()
    found = page.locator(".cell-found")
    expect(found).to_have_count(1)
    expect(found).to_contain_text("Lighthouses")
    found.click()
    expect(page.locator(".label-title")).to_have_text("Lighthouses")


def test_the_model_page_shows_figures_charts_and_passport(visit, server, tagger):
    page = visit(server, "model")
    expect(page.locator(".facts")).to_contain_text("44")
    expect(page.locator(".metrics")).to_contain_text("P@1")
    expect(page.get_by_role("img", name="Reliability: predicted and observed probability")).to_be_visible()
    expect(page.get_by_role("img", name="Precision and recall over the mean size of label sets")).to_be_visible()
    assert page.locator(".chart-line").count() == 4
    page.get_by_text("Numbers").first.click()
    assert page.locator("figure table").first.locator("tbody tr").count() == page.locator(".chart-dot").count()
    promises = page.get_by_role("region", name="What can be promised")
    assert promises.locator("tbody tr").count() >= 5
    page.get_by_text("Recipe: all settings").click()
    expect(page.locator(".recipe")).to_contain_text("max_leaf_size = 4")


def test_a_tuned_tree_shows_its_curve(visit, server):
    page = visit(server)
    page.route("**/v1/model", with_pareto)
    page.reload()
    page.goto(f"{server.url}#/model")
    chart = page.get_by_role("img", name="P@1 over milliseconds for each λ")
    expect(chart).to_be_visible()
    assert chart.locator("circle").count() == 3
    expect(page.get_by_text("λ = 0.5 was chosen")).to_be_visible()


def with_pareto(route):
    content = route.fetch().json()
    points = [(0.0, 0.7, 2.0, False), (0.5, 0.69, 1.2, True), (1.0, 0.6, 0.9, False)]
    content["pareto"] = {
        "quality": "P@1",
        "cost": "milliseconds",
        "points": [dict(zip(("lam", "quality", "cost", "chosen"), point, strict=True)) for point in points],
    }
    route.fulfill(json=content)
