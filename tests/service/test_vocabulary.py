"""Answers from a thesaurus: branches as filters, ambiguous names, deprecated and replaced concepts, by REST."""

import pytest
from library import make_library
from starlette.testclient import TestClient

from tagwood import LinearTree, Tagger
from tagwood.data import read_vocab
from tagwood.service.app import create_app

pytest.importorskip("pyoxigraph")

# stars and stones are below nature; trees is deprecated by SKOS and replaced, water by OWL; "rock" stands for two.
TURTLE = """\
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix dct: <http://purl.org/dc/terms/> .
@prefix e: <http://e.org/> .
e:trees a skos:Concept ; skos:prefLabel "trees"@en ; skos:deprecated true ; dct:isReplacedBy e:woods .
e:water a skos:Concept ; skos:prefLabel "water"@en, "Wasser"@de ; owl:deprecated true .
e:stars a skos:Concept ; skos:prefLabel "stars"@en ; skos:broader e:sky .
e:stones a skos:Concept ; skos:prefLabel "stones"@en ; skos:altLabel "rock"@en ; skos:broader e:nature .
e:sky a skos:Concept ; skos:prefLabel "sky"@en ; skos:broader e:nature ; skos:notation "520" .
e:nature a skos:Concept ; skos:prefLabel "nature"@en .
e:music a skos:Concept ; skos:prefLabel "music"@en ; skos:altLabel "rock"@en .
e:woods a skos:Concept ; skos:prefLabel "woods"@en .
"""
TEXT = "oak sea sun granite"


@pytest.fixture(scope="module")
def thesaurus(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "subjects.ttl"
    path.write_text(TURTLE)
    texts, labels = make_library(300)
    return Tagger(model=LinearTree(threads=1)).fit(texts, labels, vocab=read_vocab(path))


@pytest.fixture
def client(thesaurus, settings):
    with TestClient(create_app(thesaurus, settings), base_url="http://localhost") as client:
        yield client


def names(client, **options):
    answer = client.post("/v1/suggest", json={"texts": TEXT, "k": 8, **options})
    assert answer.status_code == 200, answer.text
    return [one["name"] for one in answer.json()["results"][0]["labels"]]


def test_deprecated_concepts_are_not_suggested(client):
    found = names(client)
    assert {"stars", "stones"} <= set(found)
    assert not {"trees", "water"} & set(found)
    assert not {"trees", "water"} & set(names(client, restrict=["trees", "water", "stars"]))


@pytest.mark.parametrize("root", ["sky", "http://e.org/sky", "520"])
def test_a_branch_is_given_by_name_uri_or_notation_and_holds_all_below(client, root):
    assert set(names(client, restrict_branch=[root])) <= {"sky", "stars"}
    assert names(client, restrict_branch=[root])[0] == "stars"


def test_branches_reach_down_all_levels_and_are_of_one_request(client):
    before = names(client)
    below = names(client, restrict_branch=["nature"])
    assert {"stars", "stones"} <= set(below) <= {"nature", "sky", "stars", "stones"}
    assert names(client, restrict_branch=["nature"], exclude=["stars"])[0] == "stones"
    assert {"stars", "stones"} <= set(names(client, restrict_branch=["sky"], restrict=["stones"]))
    assert names(client) == before, "the next request is not restricted"


@pytest.mark.parametrize("field", ["restrict", "restrict_branch", "exclude"])
def test_ambiguous_and_unknown_names_are_refused_where_they_stand(client, field):
    for given, said in (("rock", "ambiguous"), ("stonez", "There is no label 'stonez'. Did you mean 'stones'?")):
        answer = client.post("/v1/suggest", json={"texts": TEXT, field: ["stars", given]})
        assert answer.status_code == 404
        (error,) = answer.json()["errors"]
        assert error["pointer"] == f"#/{field}/1"
        assert said in answer.json()["detail"]
        if given == "rock":
            assert "stones" in answer.json()["detail"]
            assert "music" in answer.json()["detail"]


def test_an_ambiguous_name_is_no_feedback(client, settings):
    answer = client.post("/v1/feedback", json={"text": TEXT, "accepted": ["stars"], "added": ["rock"]})
    assert answer.status_code == 404
    assert "ambiguous" in answer.json()["detail"]
    assert not settings.feedback.exists() or settings.feedback.read_text() == ""


def test_cards_say_what_replaces_a_concept_and_what_is_above_it(client, thesaurus):
    card = client.get(f"/v1/labels/{thesaurus.vocab_.id('trees')}").json()
    assert card["masked"] is True
    assert [one["name"] for one in card["replaced_by"]] == ["woods"]
    card = client.get(f"/v1/labels/{thesaurus.vocab_.id('sky')}").json()
    assert (card["masked"], card["notation"], card["replaced_by"]) == (False, ["520"], [])
    assert [one["uri"] for one in card["broader"]] == ["http://e.org/nature"]


def test_the_search_marks_deprecated_concepts_and_finds_notations(client):
    found = client.get("/v1/labels", params={"q": "Wasser"}).json()["labels"]
    assert [(one["name"], one["masked"]) for one in found[:1]] == [("water", True)]
    found = client.get("/v1/labels", params={"q": "520"}).json()["labels"]
    assert [(one["name"], one["masked"]) for one in found[:1]] == [("sky", False)]


def test_why_not_says_that_a_concept_is_masked(client):
    answer = client.post("/v1/explain", json={"text": "oak elm leaf", "label": "http://e.org/trees"})
    assert answer.status_code == 200
    assert "masked" in answer.text
