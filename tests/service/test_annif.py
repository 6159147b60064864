"""Annif's REST API: its own client, and requests with the shapes of its answers, against `tagwood serve`."""

import io
import json
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from annif_client import AnnifClient
from library import make_library
from services import Service, ask
from starlette.testclient import TestClient

from tagwood import LinearTree, Tagger
from tagwood.service.app import create_app
from tagwood.service.settings import ServedModel

RECORDED = json.loads(Path(__file__).with_name("annif_requests.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def letters():
    """A second model, with other labels and without URIs."""
    texts, labels = make_library(100)
    return Tagger(model=LinearTree(threads=1)).fit(texts, [[f"on {name}" for name in row] for row in labels])


@pytest.fixture(scope="module")
def folder(tagger, letters, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    tagger.save(folder / "books", notes="Books of the library")
    letters.save(folder / "letters")
    return folder


@pytest.fixture(scope="module")
def service(folder):
    service = Service(folder, "--language", "books=en", "--reload-seconds", "0.1", "--workers", "2")
    yield service
    service.stop()


@pytest.fixture
def client(service):
    return AnnifClient(service.address + "v1/")


def test_annif_client_asks_for_projects(client):
    assert set(client.api_info) == {"title", "version"}
    found = {project["project_id"]: project for project in client.projects}
    assert list(found) == ["books", "letters"]
    assert found["books"]["name"] == "Books of the library"
    assert found["books"]["language"] == "en"
    assert found["books"]["vocab"]["languages"] == ["en", "de"]
    assert client.get_project("letters")["vocab"]["size"] == 4
    with pytest.raises(ValueError, match="Project 'nothing' not found"):
        client.get_project("nothing")


def test_annif_client_asks_for_suggestions(client, tagger, letters):
    found = client.suggest("books", "oak and elm", limit=3)
    assert [(one["uri"], one["label"]) for one in found] == [
        (tag.uri, tag.name) for tag in tagger.tag_one("oak and elm", 3)
    ]
    assert client.suggest("letters", io.StringIO("oak and elm"), limit=1)[0]["uri"] == "on trees"
    assert client.analyze("books", "oak", threshold=1.0) == [
        one for one in client.suggest("books", "oak") if one["score"] >= 1
    ]
    with pytest.raises(ValueError, match="not found"):
        client.suggest("nothing", "oak")


def test_annif_client_asks_for_a_batch(client, letters):
    documents = [{"document_id": "doc-0", "text": "oak"}, {"text": "salt of the sea"}]
    found = client.suggest_batch("letters", documents, limit=2, threshold=0.0)
    assert [one["document_id"] for one in found] == ["doc-0", None]
    for one, text in zip(found, ("oak", "salt of the sea"), strict=True):
        assert [result["label"] for result in one["results"]] == letters.tag_one(text, 2).names


def test_annif_client_asks_for_the_language(client):
    found = client.detect_language("Bibliotekens historia och hur de växte", ["en", "fi", "sv"])
    assert found["results"][0]["language"] == "sv"
    assert {one["language"] for one in found["results"]} == {"en", "fi", "sv", None}


def send(address, recorded):
    headers, data = {}, None
    if "form" in recorded:
        data = urllib.parse.urlencode(recorded["form"]).encode()
    elif "json" in recorded:
        headers, data = {"Content-Type": "application/json"}, json.dumps(recorded["json"]).encode()
    request = urllib.request.Request(address.rstrip("/") + recorded["path"], data, headers, method=recorded["method"])
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.loads(response.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            kind = error.headers["content-type"]
            return error.code, json.loads(error.read()) if kind == "application/problem+json" else kind


def shape(value):
    """Keys and kinds of values; a list by the shapes of its items."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(shape(one), sort_keys=True) for one in value})
    return "null" if value is None else "number" if isinstance(value, int | float) else type(value).__name__


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["name"])
def test_recorded_requests_get_answers_of_the_same_shape(service, recorded):
    status, answer = send(service.address, recorded)
    assert status == recorded["status"], answer
    if status >= 400:  # a problem may tell more than Annif's
        answer = {key: value for key, value in answer.items() if key in recorded["answer"]}
    assert shape(answer) == shape(recorded["answer"])


def test_projects_are_replaced_apart(service, folder, tagger, letters):
    before = json.loads(ask(service.address, "/v1/model?project=books")[1])["model"]
    service.lines.clear()
    letters.update_labels(rename={"on trees": "about trees"}).save(folder / "letters", overwrite=True)
    service.wait_for(lambda: len(service.events("model")) == 2)  # two workers
    assert {line["project"] for line in service.events("model")} == {"letters"}
    assert json.loads(ask(service.address, "/v1/model?project=books")[1])["model"] == before
    found = json.loads(ask(service.address, "/v1/suggest?project=letters", {"texts": "oak", "k": 1})[1])
    assert found["results"][0]["labels"][0]["name"] == "about trees"
    letters.update_labels(rename={"about trees": "on trees"})


def test_feedback_is_stored_beside_each_model(service, folder):
    for project, label in (("books", "trees"), ("letters", "on water")):
        status, _ = ask(service.address, f"/v1/feedback?project={project}", {"text": "oak", "added": [label]})
        assert status == 201
        assert label in (folder / f"{project}.feedback.jsonl").read_text()
    status, content = ask(service.address, "/v1/suggest?project=nothing", {"texts": "oak"})
    assert (status, json.loads(content)["detail"]) == (404, "Project 'nothing' not found")


def test_the_document_names_the_projects(folder):
    models = {name: ServedModel(folder / name) for name in ("books", "letters")}
    with TestClient(create_app(models)) as client:
        paths = client.get("/openapi.json").json()["paths"]
        suggest = paths["/v1/suggest"]["post"]["parameters"]
        assert suggest[0]["schema"]["enum"] == ["books", "letters"]
        assert (
            "application/x-www-form-urlencoded"
            in (paths["/v1/projects/{project_id}/suggest"]["post"]["requestBody"]["content"])
        )
        refused = client.post("/v1/projects/books/suggest", content=b"text=%ff", headers=FORM)
        assert (refused.status_code, refused.json()["title"]) == (400, "Bad Request")
        assert client.post("/v1/suggest", content=b"texts=oak", headers=FORM).status_code == 415


FORM = {"content-type": "application/x-www-form-urlencoded"}
