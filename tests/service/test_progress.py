"""Progress of correcting: agreement over time and by label, and the queue of texts, least certain first."""

import json

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from tagwood.cli.app import app as command
from tagwood.service.app import create_app
from tagwood.service.settings import ServiceSettings

TEXTS = ["oak elm leaf bark", "sun stone quite unknown", "sea salt wave", "nothing known here"]


@pytest.fixture
def settings(tmp_path):
    queue = tmp_path / "new.csv"
    queue.write_text("ppn;title\n" + "".join(f"p{n};{text}\n" for n, text in enumerate(TEXTS)))
    return ServiceSettings(feedback=tmp_path / "f.jsonl", queue=queue)


@pytest.fixture
def client(tagger, settings):
    with TestClient(create_app(tagger, settings), base_url="http://localhost") as client:
        yield client


def test_agreement_is_counted_by_day_and_by_label(client, settings):
    lines = [
        {"text": "a", "time": "2026-03-01T10:00:00", "accepted": [{"label": "trees", "uri": "http://example.org/0"}]},
        {"text": "b", "time": "2026-03-01T11:00:00", "rejected": ["water"], "untouched": ["stars"], "by": "ann"},
        {"text": "b", "time": "2026-03-02T11:00:00", "accepted": ["water"], "added": ["a proposal"], "learn": True},
    ]
    settings.feedback.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"text": "cut')
    found = client.get("/v1/progress?language=de").json()
    assert (found["records"], found["texts"], found["people"], found["learned"]) == (3, 2, 1, 1)
    assert (found["accepted"], found["rejected"], found["added"], found["untouched"]) == (2, 1, 1, 1)
    assert found["agreement"] == pytest.approx(2 / 3)
    assert [(one["period"], one["agreement"]) for one in found["periods"]] == [("2026-03-01", 0.5), ("2026-03-02", 1.0)]
    named = {one["name"]: one for one in found["labels"]}
    assert set(named) == {"Wasser", "Bäume", "a proposal"}, "untouched labels were not corrected"
    assert (named["Wasser"]["agreement"], named["a proposal"]["id"]) == (0.5, None)
    assert {name: one["records"] for name, one in named.items()} == {"Wasser": 2, "Bäume": 1, "a proposal": 1}
    assert [one["name"] for one in client.get("/v1/progress?limit=1").json()["labels"]] == ["water"]


def test_many_days_are_shown_as_months(client, settings):
    days = [f"2026-{month:02}-{day:02}T00:00:00" for month in (1, 2, 3) for day in range(1, 29)]
    lines = [{"text": day, "time": day, "accepted": ["trees"]} for day in days]
    settings.feedback.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = client.get("/v1/progress").json()["periods"]
    assert [(one["period"], one["records"]) for one in found] == [("2026-01", 28), ("2026-02", 28), ("2026-03", 28)]


def test_texts_wait_least_certain_first_until_they_have_feedback(client):
    found = client.get("/v1/queue").json()
    assert (found["waiting"], found["done"]) == (4, 0)
    assert [one["score"] for one in found["texts"]] == sorted(one["score"] for one in found["texts"])
    first = found["texts"][0]
    best = client.post("/v1/suggest", json={"texts": first["text"], "k": 1}).json()["results"][0]["labels"]
    assert first["score"] == pytest.approx(best[0]["score"] if best else 0, abs=1e-6)
    client.post("/v1/feedback", json={"text": first["text"], "rejected": ["trees"]})
    found = client.get("/v1/queue?limit=2").json()
    assert (found["waiting"], found["done"], len(found["texts"])) == (3, 1, 2)
    assert first["text"] not in {one["text"] for one in found["texts"]}


def test_without_files_the_service_says_so(tagger):
    with TestClient(create_app(tagger), base_url="http://localhost") as client:
        for path, words in (("/v1/progress", "file for feedback"), ("/v1/queue", "--queue FILE")):
            answer = client.get(path)
            assert (answer.status_code, words in answer.json()["detail"]) == (409, True)


@pytest.mark.parametrize(
    ("content", "more", "words"),
    [
        ("title\n", [], "must have texts to review"),
        ("title\noak\n", ["--no-feedback"], "one model that stores feedback"),
    ],
)
def test_serve_refuses_a_queue_that_cannot_be_reviewed(tagger, tmp_path, content, more, words):
    tagger.save(tmp_path / "books")
    (tmp_path / "new.csv").write_text(content)
    found = CliRunner().invoke(
        command, ["serve", str(tmp_path / "books"), "--queue", str(tmp_path / "new.csv"), *more], standalone_mode=False
    )
    assert words in str(found.exception)
