"""Learning in a running service: at once, in every worker, on disk before it is acknowledged, and not for the worse."""

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from annif_client import AnnifClient
from library import WORDS, make_library
from services import LIMITS, Service, ask
from starlette.testclient import TestClient
from typer.testing import CliRunner

from tagwood import LabelVocab, LinearTree, Neighbours, Tagger
from tagwood.cli.app import app as command
from tagwood.data.feedback import FeedbackRecord, feedback_rows
from tagwood.service.app import create_app
from tagwood.service.settings import ServiceSettings

NAMES = [*WORDS, "never used"]
TEXT = "oak oak elm leaf"


def make_tagger():
    texts, labels = make_library(200)
    vocab = LabelVocab.from_names(NAMES, uris=[f"http://example.org/{n}" for n in range(5)])
    return Tagger(model=Neighbours(n_neighbours=1, threads=1)).fit(texts, labels, vocab=vocab)


@pytest.fixture(scope="module")
def remembering():
    """Do not change it."""
    return make_tagger()


@pytest.fixture
def settings(tmp_path):
    return ServiceSettings(limits=LIMITS, feedback=tmp_path / "books.feedback.jsonl", learn=True)


@pytest.fixture
def client(remembering, settings):
    with TestClient(create_app(remembering, settings), base_url="http://localhost") as client:
        yield client


def top(client, text=TEXT):
    found = client.post("/v1/suggest", json={"texts": text, "k": 1}).json()
    return found["results"][0]["labels"][0]["name"]


def record(text=TEXT, right="never used", **more):
    return {"text": text, "added": [right], **more}


def test_a_correction_is_learned_at_once_and_stored(client, settings, remembering):
    assert top(client) == "trees"
    answer = client.post("/v1/learn", json={"records": [record(rejected=["trees"], by="ann")]})
    assert answer.status_code == 200
    assert answer.json()["learned"] == 1
    assert answer.json()["measured"] is None
    assert top(client) == "never used"
    (line,) = settings.feedback.read_text().splitlines()
    assert json.loads(line)["learn"] is True
    assert json.loads(line)["rejected"] == [{"label": "trees", "uri": "http://example.org/0"}]
    assert remembering.tag_one(TEXT, 1).names == ["trees"], "the Tagger that was given stays as it is"


def test_what_was_learned_is_there_after_a_restart(client, remembering, settings):
    client.post("/v1/learn", json={"records": [record()]})
    settings.feedback.write_bytes(settings.feedback.read_bytes() + b'{"text": "cut sho')  # a crash
    with TestClient(create_app(remembering, settings), base_url="http://localhost") as again:
        assert top(again) == "never used"
        again.post("/v1/learn", json={"records": [record("sea salt wave")]})
        assert top(again, "sea salt wave") == "never used"
    assert top(client, "sea salt wave") == "never used", "the first service reads what the second one wrote"


def test_a_new_model_that_knows_some_of_it_learns_the_rest(tmp_path, remembering):
    folder = tmp_path / "books"
    remembering.save(folder)
    settings = ServiceSettings(feedback=tmp_path / "books.feedback.jsonl", learn=True, reload_seconds=0.05)
    with TestClient(create_app(folder, settings), base_url="http://localhost") as client:
        client.post("/v1/learn", json={"records": [record(by="ann")]})
        client.post("/v1/learn", json={"records": [record(right="water", by="ann")]})  # she changed her mind
        before = client.get("/ready").json()["model"]
        learned = Tagger.load(folder).learn(["sun rain"], [["never used"]], ids=["a"])
        learned.save(folder, overwrite=True)
        for _ in range(200):
            if client.get("/ready").json()["model"] != before:
                break
            threading.Event().wait(0.05)
        assert (top(client), top(client, "sun rain")) == ("water", "never used")


def test_a_file_that_was_replaced_is_read_from_the_beginning(client, settings):
    client.post("/v1/learn", json={"records": [record("oak ash elm " * 20)]})
    settings.feedback.unlink()
    assert top(client, "oak ash elm " * 20) == "never used"
    client.post("/v1/learn", json={"records": [record("sun moon")]})
    assert top(client, "sun moon") == "never used"


def test_requests_at_the_same_time_are_all_learned(client, settings):
    texts = [f"{word} {other}" for word in WORDS["stones"] for other in WORDS["stars"]][:24]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda text: client.post("/v1/learn", json={"records": [record(text)]}), texts))
    assert {one.status_code for one in answers} == {200}
    assert len(settings.feedback.read_text().splitlines()) == 24
    assert {top(client, text) for text in texts} == {"never used"}


def test_a_request_that_makes_the_model_worse_is_refused_unless_forced(remembering, tmp_path):
    settings = ServiceSettings(feedback=tmp_path / "f.jsonl", learn=True)
    texts, labels = make_library(150, seed=3)
    right = [{"text": text, "added": row} for text, row in zip(texts, labels, strict=True)]
    # Held-out texts have right labels, the others wrong ones: what a mistake in a file looks like.
    rows = feedback_rows([FeedbackRecord("", text, "", "", ["trees"], []) for text in texts], remembering.vocab_)
    held = {text for text, one in zip(rows.texts, rows.held_out(), strict=True) if one}
    assert len(held) >= 20
    mixed = [one if one["text"] in held else {**one, "added": ["never used"]} for one in right]
    with TestClient(create_app(remembering, settings), base_url="http://localhost") as client:
        refused = client.post("/v1/learn", json={"records": mixed})
        assert refused.status_code == 409
        assert "The model would become worse: nDCG@5" in refused.json()["detail"]
        assert not settings.feedback.exists()
        forced = client.post("/v1/learn", json={"records": mixed, "force": True}).json()
        assert forced["measured"]["worse"] is True
        assert client.post("/v1/learn", json={"records": right}).json()["measured"]["worse"] is False


def test_small_requests_that_make_the_model_worse_are_refused_in_the_end(client, settings):
    """Somebody teaches nonsense, one label for every word; texts that others correct show it."""
    words = [(topic, word) for topic, some in WORDS.items() for word in some][:20]
    client.post("/v1/learn", json={"records": [record(word, by="mallory") for _, word in words]})
    honest = [{"text": f"{word} {word} {word} tide", "added": [topic]} for topic, word in words]
    statuses = [client.post("/v1/learn", json={"records": [one]}).status_code for one in honest]
    assert statuses == [200] * 19 + [409]
    lines = [json.loads(line) for line in settings.feedback.read_text().splitlines()]
    assert [one["measured"] is not None for one in lines] == [False] * 20 + [True] * 19
    forced = client.post("/v1/learn", json={"records": honest[-1:], "force": True}).json()
    assert forced["measured"]["after"] < forced["measured"]["before"]


def test_bad_requests_are_refused_and_nothing_is_stored(client, settings):
    cases = [
        ({"records": []}, 422, "#/records"),
        ({"records": [{"text": "oak", "accepted": ["oaks of nowhere"]}]}, 404, "#/records/0/accepted/0"),
        ({"records": [record(), record(rejected=["never used"])]}, 422, "#/records/1/rejected"),
        ({"records": [record("x" * 2001)]}, 422, "#/records/0/text"),
        ({"records": [record()] * 21}, 422, "#/records"),
        ({"records": [record()], "force": "yes"}, 422, "#/force"),
        ({"records": [{"text": "oak", "added": ["a proposal"]}]}, 422, None),
    ]
    for body, status, pointer in cases:
        answer = client.post("/v1/learn", json=body)
        assert (answer.status_code, body) == (status, body)
        if pointer is not None:
            assert answer.json()["errors"][0]["pointer"] == pointer
    assert not settings.feedback.exists()


def test_services_and_models_that_do_not_learn_say_so(remembering, tagger, tmp_path):
    plain = ServiceSettings(feedback=tmp_path / "f.jsonl")
    for model, settings, words in (
        (remembering, plain, "tagwood serve --learn"),
        (tagger, ServiceSettings(feedback=tmp_path / "f.jsonl", learn=True), "has no memory of texts"),
    ):
        with TestClient(create_app(model, settings), base_url="http://localhost") as client:
            answer = client.post("/v1/learn", json={"records": [{"text": "oak", "added": ["trees"]}]})
            assert (answer.status_code, words in answer.json()["detail"]) == (409, True)
            assert client.get("/v1/model").json()["learn"] is False


def test_a_disk_that_refuses_is_reported_and_nothing_is_learned(client, settings, monkeypatch):
    def full(*_):
        raise OSError(28, "no space")

    monkeypatch.setattr("tagwood.service.learning.append_lines", full)
    assert client.post("/v1/learn", json={"records": [record()]}).status_code == 507
    assert top(client) == "trees"


@pytest.fixture(scope="module")
def service(remembering, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    remembering.save(folder / "books")
    letters = Tagger(model=LinearTree(threads=1)).fit(*make_library(100))
    letters.save(folder / "letters")
    service = Service(folder, "--learn", "--workers", "2")
    yield service
    service.stop()


def test_annif_client_teaches_all_workers(service):
    client = AnnifClient(service.address + "v1/")
    document = {
        "text": TEXT,
        "subjects": [{"uri": "http://example.org/4", "label": "never used"}, {"uri": "x:unknown"}],
    }
    assert client.suggest("books", TEXT)[0]["label"] == "trees"
    assert client.learn("books", [document]).status_code == 204
    found = [client.suggest("books", TEXT)[0]["label"] for _ in range(20)]  # two workers answer
    assert set(found) == {"never used"}
    with pytest.raises(ValueError, match="Project 'nothing' not found"):
        client.learn("nothing", [document])
    for project, documents, status in (
        ("letters", [document], 409),
        ("books", [{"text": "oak", "subjects": []}], 400),
        ("books", [{"text": "oak"}], 400),
        ("books", {"text": "oak"}, 400),
        ("books", [{"text": "oak", "subjects": [{"uri": "x:unknown"}]}], 422),
    ):
        with pytest.raises(requests.HTTPError) as refused:
            client.learn(project, documents)
        assert refused.value.response.status_code == status
    assert client.learn("books", []).status_code == 204


def test_a_killed_worker_has_lost_nothing(service):
    texts = [f"{word} comet" for word in WORDS["stones"]]
    for text in texts:
        assert ask(service.address, "/v1/learn?project=books", {"records": [record(text)]})[0] == 200
    before = service.worker_pids()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    service.wait_for(lambda: len(service.worker_pids()) == 2 and not set(before) & set(service.worker_pids()))
    for text in texts:
        found = json.loads(ask(service.address, "/v1/suggest?project=books", {"texts": text, "k": 1})[1])
        assert found["results"][0]["labels"][0]["name"] == "never used"


def test_learning_needs_the_feedback_file(tmp_path):
    make_tagger().save(tmp_path / "books")
    found = CliRunner().invoke(
        command, ["serve", str(tmp_path / "books"), "--learn", "--no-feedback"], standalone_mode=False
    )
    assert "keeps what it learns in the feedback file" in str(found.exception)
