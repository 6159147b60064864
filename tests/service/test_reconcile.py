"""The Reconciliation API 0.2, as OpenRefine uses it: answers are checked against schemas after its specification."""

import json
from urllib.parse import quote

import jsonschema
import pytest
from starlette.testclient import TestClient

from tagwood import Tagger
from tagwood.service.app import create_app

HERE = "/v1/projects/model/reconcile"
NAMED = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
}
URL = {"type": "string", "pattern": "^https?://"}
TEMPLATE = {"type": "string", "pattern": r"^https?://.*\{\{id\}\}"}
SUGGESTER = {
    "type": "object",
    "required": ["service_url", "service_path"],
    "properties": {"service_url": URL, "service_path": {"type": "string", "pattern": "^/"}},
}
MANIFEST = {
    "type": "object",
    "required": ["versions", "name", "identifierSpace", "schemaSpace", "view"],
    "properties": {
        "versions": {"type": "array", "contains": {"const": "0.2"}},
        "name": {"type": "string"},
        "identifierSpace": URL,
        "schemaSpace": URL,
        "defaultTypes": {"type": "array", "items": NAMED},
        "view": {"type": "object", "required": ["url"], "properties": {"url": TEMPLATE}},
        "preview": {
            "type": "object",
            "required": ["url", "width", "height"],
            "properties": {"url": TEMPLATE, "width": {"type": "integer"}, "height": {"type": "integer"}},
        },
        "suggest": {"type": "object", "additionalProperties": SUGGESTER, "properties": {"entity": SUGGESTER}},
    },
}
CANDIDATE = {
    "type": "object",
    "required": ["id", "name", "score"],
    "properties": {
        **NAMED["properties"],
        "description": {"type": "string"},
        "score": {"type": "number", "minimum": 0, "maximum": 100},
        "match": {"type": "boolean"},
        "type": {"type": "array", "minItems": 1, "items": NAMED},
    },
}
BATCH = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "required": ["result"],
        "properties": {"result": {"type": "array", "items": CANDIDATE}},
    },
}
SUGGESTIONS = {
    "type": "object",
    "required": ["result"],
    "properties": {
        "result": {
            "type": "array",
            "items": {**NAMED, "properties": {**NAMED["properties"], "notable": {"type": "array", "items": NAMED}}},
        }
    },
}


def checked(response, schema):
    assert response.status_code == 200, response.text
    content = response.json()
    jsonschema.validate(content, schema)
    return content


def ask(client, **queries):
    return checked(client.post(HERE, data={"queries": json.dumps(queries)}), BATCH)


def test_the_manifest_leads_to_everything_else(client):
    found = checked(client.get(HERE), MANIFEST)
    assert found["identifierSpace"] == "http://example.org/"
    place = found["suggest"]["entity"]
    checked(client.get(place["service_url"] + place["service_path"], params={"prefix": "tr"}), SUGGESTIONS)
    uri = quote("http://example.org/0", safe="")
    assert client.get(found["preview"]["url"].replace("{{id}}", uri)).status_code == 200
    moved = client.get(found["view"]["url"].replace("{{id}}", uri), follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (302, "http://example.org/0")


def test_a_batch_of_queries_has_candidates_for_each(client):
    found = ask(
        client, q0={"query": "Trees"}, q1={"query": "tree", "limit": 1}, q2={"query": "zzzzzz"}, q3={"query": ""}
    )
    first = found["q0"]["result"][0]
    assert (first["id"], first["name"], first["match"]) == ("http://example.org/0", "trees", True)
    assert first["score"] == 100
    assert [one["match"] for one in found["q1"]["result"]] == [False]
    assert 50 < found["q1"]["result"][0]["score"] < 100
    assert found["q2"]["result"] == found["q3"]["result"] == []
    scores = [one["score"] for one in found["q0"]["result"]]
    assert scores == sorted(scores, reverse=True)


def test_queries_may_be_part_of_the_address(client):
    queries = json.dumps({"q0": {"query": "water", "properties": [{"pid": "p", "v": 1}], "type_strict": "any"}})
    assert checked(client.get(HERE, params={"queries": queries}), BATCH)["q0"]["result"][0]["name"] == "water"


def test_names_in_other_languages_match_and_are_told(client):
    found = ask(client, q={"query": "bäume"})["q"]["result"][0]
    assert (found["name"], found["description"], found["match"]) == ("trees", "Bäume", True)


def test_types_restrict_the_candidates(client):
    assert ask(client, q={"query": "trees", "type": "Concept"})["q"]["result"]
    assert ask(client, q={"query": "trees", "type": ["Person"]})["q"]["result"] == []


def test_labels_that_are_no_longer_used_are_no_candidates(tagger):
    texts = ["oak and elm", "salt sea"] * 3
    old = Tagger().fit(texts, [["trees"], ["water"]] * 3).update_labels(mask=["trees"])
    with TestClient(create_app(old)) as client:
        assert ask(client, q={"query": "trees"})["q"]["result"] == []
        assert ask(client, q={"query": "water"})["q"]["result"][0]["id"] == "water"
        moved = client.get(f"{HERE}/view", params={"id": "water"}, follow_redirects=False)
        assert moved.headers["location"] == "/?project=model#/labels/1"


def test_suggestions_continue_after_a_cursor(client):
    whole = client.get(f"{HERE}/suggest/entity", params={"prefix": "s"}).json()["result"]
    assert len(whole) >= 2
    assert client.get(f"{HERE}/suggest/entity", params={"prefix": "s", "cursor": 1}).json()["result"] == whole[1:]


def test_the_preview_is_text_that_other_sites_may_embed(client):
    found = client.get(f"{HERE}/preview", params={"id": "<script>alert(1)</script>"})
    assert found.headers["content-type"].startswith("text/html")
    assert "&lt;script&gt;" in found.text
    assert "<script" not in found.text
    policies = found.headers.get_list("content-security-policy")
    assert len(policies) == 1
    assert "frame-ancestors" not in policies[0]
    assert "script-src" not in policies[0]
    assert client.get(f"{HERE}/preview", params={"id": "nothing"}).status_code == 404


@pytest.mark.parametrize("queries", ["[", "[]", '{"q": 5}', '{"q": {}}', '{"q": {"query": "x", "limit": 0}}'])
def test_wrong_queries_are_refused(client, queries):
    assert client.post(HERE, data={"queries": queries}).status_code == 400
    assert client.post(HERE, data={"other": "x"}).status_code == 400


def test_too_many_queries_are_refused(client):
    queries = {f"q{number}": {"query": "x"} for number in range(21)}
    assert "at most 20 queries" in client.post(HERE, data={"queries": json.dumps(queries)}).json()["detail"]
