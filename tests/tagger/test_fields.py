"""Texts with named fields: in Python, stored with the model, weighted apart, and in requests to the service."""

from __future__ import annotations

import numpy as np
import pytest
from starlette.testclient import TestClient

from tagwood import Tagger, TfidfEncoder, load
from tagwood.errors import InputError
from tagwood.service.app import create_app
from tagwood.service.settings import ServiceSettings


def rows_with_fields(n_rows=800, n_labels=20, seed=0):
    """Rows whose short keywords tell the label; title and abstract have words of any label."""
    random = np.random.default_rng(seed)
    rows, labels = [], []
    for _ in range(n_rows):
        label = int(random.integers(n_labels))
        words = [f"topic{random.integers(n_labels)}word{random.integers(4)}" for _ in range(9)]
        own = " ".join(f"topic{label}word{random.integers(4)}" for _ in range(2))
        rows.append({"title": " ".join(words[:2]), "keywords": own, "abstract": " ".join(words[2:])})
        labels.append([f"label{label}"])
    return rows, labels


@pytest.fixture(scope="module")
def fitted():
    rows, labels = rows_with_fields()
    return Tagger(quality="fast").fit(rows, labels), rows, labels


def test_the_field_that_tells_the_label_counts_more_and_names_are_stored(fitted, tmp_path):
    tagger, rows, labels = fitted
    weights = dict(zip(tagger.fields_, tagger.encoder_.field_weights, strict=True))
    assert list(weights) == ["title", "keywords", "abstract"]
    assert weights["keywords"] > 1
    assert weights["abstract"] == 1
    again = load(tagger.save(tmp_path / "model"))
    assert again.fields_ == tagger.fields_
    assert again.overview()["fields"] == weights
    assert again.tag(rows[:9]) == tagger.tag(rows[:9])
    even = Tagger(TfidfEncoder(field_weights=(1, 1, 1)), quality="fast").fit(rows[:600], labels[:600])
    chosen = Tagger(quality="fast").fit(rows[:600], labels[:600])
    assert chosen.score(rows[600:], labels[600:]) > even.score(rows[600:], labels[600:])


def test_a_text_is_the_same_by_its_fields_and_by_its_lines(fitted):
    tagger, rows, _ = fitted
    text = "\n".join(rows[3].values())
    assert tagger.tag_one(rows[3]) == tagger.tag_one(text)
    assert tagger.explain(rows[3], 0).score == tagger.explain(text, 0).score
    assert tagger.tag([rows[3], text])[1] == tagger.tag_one(text)
    partly = {"keywords": rows[3]["keywords"], "title": None}
    assert tagger.tag_one(partly) == tagger.tag_one("\n" + rows[3]["keywords"] + "\n")


def test_unknown_fields_and_models_without_fields_get_a_sentence(fitted):
    tagger, rows, labels = fitted
    with pytest.raises(InputError, match=r"among those of the model: 'title', 'keywords', 'abstract'; got 'keyword'"):
        tagger.tag_one({"keyword": "oak"})
    with pytest.raises(InputError, match=r"fields must be texts; got int in 'title'"):
        tagger.tag([{"title": 3}])
    plain = Tagger(quality="fast").fit([row["keywords"] for row in rows[:100]], labels[:100])
    assert plain.fields_ == ()
    with pytest.raises(InputError, match=r"trained on texts without named fields; got 'title'"):
        plain.tag_one({"title": "oak"})


def test_requests_have_fields_in_place_of_texts(fitted, tmp_path):
    tagger, rows, _ = fitted
    settings = ServiceSettings(feedback=tmp_path / "feedback.jsonl")
    with TestClient(create_app(tagger, settings), base_url="http://localhost") as client:

        def post(path, status=200, **body):
            answer = client.post(f"/v1/{path}", json=body)
            assert answer.status_code == status, answer.text
            return answer.json()

        text = "\n".join(rows[3].values())
        by_text = post("suggest", texts=text)["results"]
        assert post("suggest", fields=rows[3])["results"] == by_text
        assert post("suggest", fields=[rows[3], {}])["results"][0] == by_text[0]
        assert post("explain", fields=rows[3], label=0)["score"] == post("explain", text=text, label=0)["score"]
        post("feedback", 201, fields=rows[3], accepted=[0])
        assert text.splitlines()[1] in (tmp_path / "feedback.jsonl").read_text()
        assert client.get("/v1/model").json()["fields"]["keywords"] > 1
        wrong = post("suggest", 409, fields=[rows[3], {"keyword": "oak"}])
        assert "'title', 'keywords', 'abstract'" in wrong["detail"]
        assert wrong["errors"][0]["pointer"] == "#/fields/1"
        for body in ({}, {"texts": "oak", "fields": rows[3]}, {"fields": []}, {"fields": {"title": 3}}):
            post("suggest", 422, **body)
        assert "either" in post("explain", 422, label=0)["detail"]
