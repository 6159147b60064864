"""Names of labels on the page: languages, other names, broader labels; and the menu of models."""

import json

import pytest
from library import make_library
from page_server import PageServer
from playwright.sync_api import expect

from tagwood import LinearTree, Tagger
from tagwood.data.vocab_files import read_vocab
from tagwood.service.settings import Candidate, ServedModel

pytestmark = pytest.mark.browser

SKOS = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix dct: <http://purl.org/dc/terms/> .
@prefix s: <http://example.org/> .
s:0 a skos:Concept ; skos:prefLabel "nature"@en, "Natur"@de .
s:1 a skos:Concept ; skos:prefLabel "trees"@en, "Bäume"@de ; skos:altLabel "timber plants"@en ; skos:broader s:0 ;
  skos:notation "582.16" .
s:2 a skos:Concept ; skos:prefLabel "water"@en, "Wasser"@de ; skos:broader s:0 .
s:3 a skos:Concept ; skos:prefLabel "stars"@en, "Sterne"@de .
s:4 a skos:Concept ; skos:prefLabel "stones"@en, "Steine"@de .
s:5 a skos:Concept ; skos:prefLabel "rocks"@en, "Felsen"@de ; owl:deprecated true ; dct:isReplacedBy s:4 .
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "subjects.ttl").write_text(SKOS, encoding="utf-8")
    texts, labels = make_library(300)
    vocab = read_vocab(folder / "subjects.ttl")
    Tagger(model=LinearTree(threads=1)).fit(texts, labels, vocab=vocab).save(folder / "books")
    others = [[f"on {name}" for name in row] for row in labels]
    Tagger(model=LinearTree(threads=1)).fit(texts, others).save(folder / "letters")
    server = PageServer({name: ServedModel(folder / name) for name in ("books", "letters")})
    yield server
    server.stop()


def label_id(page, server, name):
    found = page.request.get(f"{server.url}v1/labels", params={"q": name, "limit": 1}).json()
    return found["labels"][0]["id"]


def test_a_card_shows_other_names_broader_labels_and_replacements(visit, models):
    page = visit(models)
    page.goto(f"{models.url}#/labels/{label_id(page, models, 'trees')}")
    card = page.locator(".label-card")
    expect(card.get_by_role("heading", name="trees", level=2)).to_be_visible()
    for words in ("timber plants", "notation 582.16", "Bäume (de)"):
        expect(card).to_contain_text(words)
    card.locator("a.chip", has_text="nature").click()
    expect(page.locator(".label-title")).to_have_text("nature")
    page.goto(f"{models.url}#/labels/{label_id(page, models, 'rocks')}")
    expect(card).to_contain_text("masked: not suggested")
    card.locator("a.chip", has_text="stones").click()
    expect(page.locator(".label-title")).to_have_text("stones")


def test_the_language_menu_switches_all_names_and_is_remembered(visit, models):
    page = visit(models)
    page.get_by_label("Text to tag").fill("oak and elm")
    expect(page.locator(".label-name").first).to_have_text("trees")
    field = page.get_by_role("combobox", name="Is a label missing?")
    field.fill("timber")
    expect(page.locator(".option").first).to_contain_text("timber plants")
    field.press("Escape")
    page.get_by_label("Language of label names").select_option("de")
    expect(page.locator(".label-name").first).to_have_text("Bäume")
    field.fill("582")
    expect(page.locator(".option").first).to_contain_text("Bäume")
    page.reload()
    expect(page.get_by_label("Language of label names")).to_have_value("de")
    page.goto(f"{models.url}#/labels/{label_id(page, models, 'trees')}")
    expect(page.locator(".label-title")).to_have_text("Bäume")
    expect(page.locator(".label-card a.chip", has_text="Natur")).to_be_visible()
    expect(page.locator(".index-name").first).not_to_have_text("trees")


def test_the_menu_of_models_asks_the_chosen_one(visit, models):
    page = visit(models)
    menu = page.get_by_label("Model", exact=True)
    expect(menu).to_have_value("books")
    menu.select_option("letters")
    expect(page.get_by_label("Model", exact=True)).to_have_value("letters")
    assert "project=letters" in page.url
    page.get_by_label("Text to tag").fill("oak and elm")
    expect(page.locator(".label-name").first).to_have_text("on trees")


def test_decisions_are_stored_for_the_model_that_answered(visit, tmp_path):
    texts, labels = make_library(300)
    for name, step in (("current", 1), ("candidate", -1)):  # the same labels in different rows
        Tagger(model=LinearTree(threads=1)).fit(texts[::step], labels[::step]).save(tmp_path / name)
    candidate = Candidate(tmp_path / "candidate", 1.0, shadow=False)
    served = ServedModel(tmp_path / "current", tmp_path / "said.jsonl", candidate=candidate)
    server = PageServer({"books": served})
    try:
        page = visit(server)
        page.goto(server.url)
        page.get_by_label("Text to tag").fill(texts[0])
        page.get_by_role("button", name=f"Accept {labels[0][0]}").click()
        page.get_by_role("button", name="Save decisions").click()
        expect(page.get_by_text("Decisions saved")).to_be_visible()
        record = json.loads((tmp_path / "said.jsonl").read_text(encoding="utf-8"))
        assert [one["label"] for one in record["accepted"]] == labels[0][:1]
        in_use = page.request.get(f"{server.url}v1/model").json()["model"]
        assert record["model"] != in_use
        read = "import('/js/api.js').then((api) => ['-123456789012345', '7', '1234567890123456', ''].map(api.labelId))"
        assert page.evaluate(read) == [-123456789012345, 7, "1234567890123456", ""]
    finally:
        server.stop()
