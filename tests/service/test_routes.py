"""What each route answers, asked in the same process."""

import json

import numpy as np
import pytest
from library import make_library
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from tagwood import Disentangled, LinearTree, Tagger
from tagwood.data import read_dataset
from tagwood.service import schemas
from tagwood.service.app import ROUTES, create_app
from tagwood.service.observability import ServiceMetrics
from tagwood.service.settings import RequestLimits, ServiceSettings
from tagwood.service.state import LoadedModel
from tagwood.tagger import LabelCard, TreeView

EVIL = "<script>alert(1)</script>"


def suggest(client, **body):
    return client.post("/v1/suggest", json=body)


def problem(response, status, kind):
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    content = schemas.ProblemDetails.model_validate(response.json())
    assert content.type == f"urn:tagwood:problem:{kind}"
    assert content.status == status
    assert content.request_id == response.headers["x-request-id"]
    return content


def test_suggestions_are_those_of_the_tagger(client, tagger):
    texts = ["oak and elm", "salt of the sea", ""]
    answer = suggest(client, texts=texts, k=3).json()
    for found, tags in zip(answer["results"], tagger.tag(texts, 3), strict=True):
        assert [(one["id"], one["name"], one["uri"]) for one in found["labels"]] == [tuple(tag)[:3] for tag in tags]
        assert [one["score"] for one in found["labels"]] == pytest.approx([tag.score for tag in tags])
    assert answer["calibrated"] is True


def test_one_text_is_a_list_of_one(client):
    assert suggest(client, texts="oak").json()["results"] == suggest(client, texts=["oak"]).json()["results"]


def test_options_of_a_request_reach_the_tagger(client, tagger):
    options = {"k": 6, "exclude": ["trees", 1], "language": "de"}
    names = [one["name"] for one in suggest(client, texts="oak", **options).json()["results"][0]["labels"]]
    assert "Sterne" in names
    assert not {"Bäume", "Wasser"} & set(names)
    only = suggest(client, texts="oak sea", restrict=["http://example.org/1"]).json()["results"][0]["labels"]
    assert [one["id"] for one in only] == [1]
    sure = suggest(client, texts="oak", threshold=0.99).json()["results"][0]["labels"]
    assert all(one["score"] >= 0.99 for one in sure)


def test_a_promise_cuts_sets_as_the_tagger_does(client, tagger):
    texts = ["oak elm ash", "zzz"]
    expected = tagger.tag(texts, promise="recall>=0.8")
    found = suggest(client, texts=texts, promise="recall>=80%").json()["results"]
    assert [[one["id"] for one in result["labels"]] for result in found] == [
        [t.label for t in tags] for tags in expected
    ]
    assert [result["review"] for result in found] == [tags.review for tags in expected]


def test_a_promise_needs_probabilities(settings):
    small = Tagger(model=LinearTree(threads=1)).fit(["oak", "sea"] * 3, [["tree"], ["water"]] * 3)
    with TestClient(create_app(small, settings)) as client:
        problem(suggest(client, texts="oak", promise="f1"), 409, "conflict")
        assert suggest(client, texts="oak").json()["calibrated"] is False
        facts = client.get("/v1/model").json()
        assert facts["calibration"] is None
        assert "held out" in facts["missing"]["calibration"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"texts": []}, "#/texts"),
        ({"texts": "x" * 2001}, "#/texts"),
        ({"texts": ["ok", "x" * 2001]}, "#/texts/1"),
        ({"texts": ["x"] * 21}, "#/texts"),
        ({"texts": "x", "k": 51}, "#/k"),
        ({"texts": "x", "k": 0}, "#/k"),
        ({"texts": "x", "k": "5"}, "#/k"),
        ({"texts": "x", "k": True}, "#/k"),
        ({"texts": "x", "threshold": 1.5}, "#/threshold"),
        ({"texts": "x", "promise": "precision>=1"}, "#/promise"),
        ({"texts": "x", "exclude": [0] * 31}, "#/exclude"),
        ({"texts": "x", "exclude": "trees"}, "#/exclude"),
        ({"texts": "x", "kk": 3}, "#/kk"),
        ({"texts": 5}, "#/texts"),
        ({}, "#/texts"),
        ([], "#"),
    ],
)
def test_invalid_fields_are_named(client, body, pointer):
    content = problem(client.post("/v1/suggest", json=body), 422, "invalid-request")
    assert content.errors[0].pointer == pointer
    assert content.detail


def test_an_unknown_field_is_named_as_such_and_no_error_is_repeated(client):
    content = problem(client.post("/v1/suggest", json={"texts": "a", "limit": 2}), 422, "invalid-request")
    assert content.detail == "limit: is not a field of this request; see /openapi.json for its fields."
    content = problem(client.post("/v1/suggest", json={"texts": "a", "k": 0}), 422, "invalid-request")
    assert len(content.errors) == 1


def test_unknown_labels_are_answered_with_the_nearest(client):
    content = problem(suggest(client, texts="x", exclude=["trees", "treez"]), 404, "unknown-label")
    assert content.errors[0].pointer == "#/exclude/1"
    assert "Did you mean 'trees'?" in content.detail
    problem(suggest(client, texts="x", restrict=[6]), 404, "unknown-label")


def test_an_explanation_marks_the_words_of_the_text(client, tagger):
    text = "Elm, oak & the SEA"
    answer = client.post("/v1/explain", json={"text": text, "label": "trees"}).json()
    assert "".join(piece["text"] for piece in answer["segments"]) == text
    marked = {piece["text"]: piece["weight"] for piece in answer["segments"] if piece["weight"] is not None}
    assert marked["oak"] > 0
    assert marked["SEA"] < marked["oak"]
    assert answer["verdict"]["reason"] == "suggested"
    assert answer["paths"][0]["steps"]
    schemas.ExplainResponse.model_validate(answer)


def test_an_explanation_says_why_not(client):
    answer = client.post("/v1/explain", json={"text": "oak", "label": "water", "k": 1}).json()
    assert answer["suggested"] is False
    assert answer["verdict"]["reason"] == "beyond the limit"


def test_labels_are_found_while_typing(client):
    found = client.get("/v1/labels", params={"q": "tree"}).json()["labels"]
    assert found[0] | {"rows": 0} == {
        "id": 0,
        "name": "trees",
        "uri": "http://example.org/0",
        "rows": 0,
        "masked": False,
        "match": "prefix",
        "matched": "trees",
    }
    german = client.get("/v1/labels", params={"q": "baume", "language": "de"}).json()["labels"]
    assert (german[0]["name"], german[0]["match"]) == ("Bäume", "exact")
    assert client.get("/v1/labels", params={"q": "strees"}).json()["labels"][0]["match"] == "fuzzy"
    assert len(client.get("/v1/labels", params={"limit": 3}).json()["labels"]) == 3
    assert client.get("/v1/labels", params={"q": "script"}).json()["labels"][0]["name"] == EVIL


def test_a_label_card_shows_where_the_label_sits(client, tagger):
    card = client.get("/v1/labels/0").json()
    TypeAdapter(LabelCard).validate_json(json.dumps(card))
    tree = tagger.model_.trees_[0].tree
    assert [sense["leaf"] for sense in card["senses"]] == tree.leaves_of(0).tolist()
    assert card["senses"][0]["path"] == tree.path(card["senses"][0]["leaf"])
    assert {"oak", "elm"} & set(card["senses"][0]["words"])
    assert card["names"] == {"de": "Bäume"}
    assert card["rows"] == tagger.label_counts_[0]
    assert all("trees" in example["labels"] for example in card["examples"])
    problem(client.get("/v1/labels/6"), 404, "unknown-label")


def test_a_label_with_two_meanings_shows_the_texts_of_each(settings):
    texts, labels = make_library(600)
    fused = [["both" if name in ("trees", "stars") else name for name in row] for row in labels]
    fused = [[*dict.fromkeys(row), f"{row[0]} {number % 5}"] for number, row in enumerate(fused)]
    model = Disentangled(LinearTree(max_leaf_size=3, arity=2), copies=2, threads=1)
    tagger = Tagger(model=model).fit(texts, fused)
    with TestClient(create_app(tagger, settings)) as client:
        label = client.get("/v1/labels", params={"q": "both"}).json()["labels"][0]["id"]
        card = client.get(f"/v1/labels/{label}").json()
    TypeAdapter(LabelCard).validate_json(json.dumps(card))
    leaves = tagger.model_.trees_[0].tree.leaves_of(label).tolist()
    assert [sense["leaf"] for sense in card["senses"]] == leaves
    shown = [example["text"] for sense in card["senses"] for example in sense["examples"]]
    assert shown
    assert len(shown) == len(set(shown))  # each text has one sense


def test_the_tree_opens_node_by_node(client, tagger):
    tree = tagger.model_.trees_[0].tree
    root = client.get("/v1/tree", params={"depth": 8}).json()
    TypeAdapter(TreeView).validate_json(json.dumps(root))
    assert [node["node"] for node in root["nodes"]] == list(range(tree.n_nodes))
    assert root["nodes"][0]["labels"] == tree.labels.size
    assert root["nodes"][0]["rows"] == tagger.label_counts_.sum()
    for node in root["nodes"]:
        below = [one for one in root["nodes"] if one["parent"] == node["node"]]
        assert node["leaf"] or node["rows"] == sum(one["rows"] for one in below)
    leaf = int(tree.leaves[-1])
    shown = client.get("/v1/tree", params={"node": leaf}).json()
    assert {one["id"] for one in shown["labels"]} == set(tree.leaf_labels(leaf).tolist())
    assert [one["node"] for one in shown["path"]] == tree.path(leaf)[:-1]
    problem(client.get("/v1/tree", params={"node": tree.n_nodes}), 404, "not-found")
    problem(client.get("/v1/tree", params={"tree": 1}), 404, "not-found")


def test_the_model_page_has_measures_of_held_out_rows(client, tagger):
    facts = client.get("/v1/model").json()
    schemas.ModelResponse.model_validate(facts)
    assert 0.5 < facts["metrics"]["P@1"] <= 1
    sets = facts["calibration"]["sets"]
    assert np.all(np.diff([point["size"] for point in sets]) > 0)
    assert np.all(np.diff([point["recall"] for point in sets]) >= 0)
    assert (
        sum(point["count"] for point in facts["calibration"]["reliability"])
        == tagger.probabilities_.held_out.labels.size
    )
    kept = [one for one in facts["calibration"]["promises"] if one["kept"] and one["promise"].startswith("recall")]
    assert kept
    assert all(one["recall"] >= float(one["promise"][-3:]) for one in kept)
    assert facts["limits"]["texts"] == 20


def test_a_fused_model_tells_what_its_members_bring_and_found(settings):
    texts, labels = make_library(520)
    fused = Tagger(model=LinearTree(threads=1), quality="balanced").fit(texts, labels)
    with TestClient(create_app(fused, settings), base_url="http://localhost") as client:
        facts = client.get("/v1/model").json()
        schemas.ModelResponse.model_validate(facts)
        assert facts["members"] == [one._asdict() for one in fused.members()]
        assert (facts["quality"], facts["measured_rows"]) == ("balanced", 520)
        assert 'quality = "balanced"' in facts["recipe"]
        found = client.post("/v1/explain", json={"text": texts[0], "label": labels[0][0]}).json()
    schemas.ExplainResponse.model_validate(found)
    assert [one["member"] for one in found["members"]] == [one.name for one in fused.members() if one.used]
    total = found["base"] + sum(one["contribution"] for one in found["members"])
    assert total == pytest.approx(found["log_odds"])


def test_feedback_is_a_line_that_can_be_trained_on(client, settings):
    body = {
        "text": "oak 木",
        "accepted": ["trees"],
        "rejected": [1],
        "added": ["stars", "brand new"],
        "note": "n",
    }
    answer = client.post("/v1/feedback", json=body)
    assert answer.status_code == 201
    record = json.loads(settings.feedback.read_text())
    assert record["id"] == answer.json()["id"]
    assert [one["label"] for one in record["labels"]] == ["trees", "stars", "brand new"]
    assert [one["label"] for one in record["rejected"]] == ["water"]
    data = read_dataset(settings.feedback)
    assert list(data.texts) == ["oak 木"]
    assert [data.vocab.name(label) for label in data.label_lists()[0]] == ["trees", "stars", "brand new"]


def test_feedback_with_an_unknown_rejected_label_is_refused_and_not_stored(client, settings):
    problem(client.post("/v1/feedback", json={"text": "x", "rejected": ["nothing"]}), 404, "unknown-label")
    assert not settings.feedback.exists()


def test_a_service_without_a_file_refuses_feedback(tagger):
    with TestClient(create_app(tagger)) as client:
        problem(client.post("/v1/feedback", json={"text": "x"}), 409, "conflict")
        assert client.get("/v1/model").json()["feedback"] is False


def test_feedback_that_cannot_be_stored_is_not_acknowledged(tagger, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with TestClient(create_app(tagger, ServiceSettings(feedback=tmp_path / "file" / "feedback.jsonl"))) as client:
        problem(client.post("/v1/feedback", json={"text": "x"}), 507, "not-stored")
        assert client.get("/health").status_code == 200


def test_every_route_is_in_the_document_and_in_the_counts(client):
    document = client.get("/openapi.json").json()
    assert {(route.path, route.method.lower()) for route in ROUTES} == {
        (path, method) for path, operations in document["paths"].items() for method in operations
    }
    for operations in document["paths"].values():
        for operation in operations.values():
            assert "application/problem+json" in operation["responses"]["422"]["content"]
    suggest(client, texts="oak")
    text = client.get("/metrics").text
    assert 'tagwood_requests_total{route="/v1/suggest",status="2xx"} 1' in text
    assert "tagwood_texts_total 1" in text


def test_no_route_is_counted_among_others(client):
    metrics = ServiceMetrics.in_memory()
    for route in client.app.routes:
        metrics.request(route.path, 200, 0.01)
    text = metrics.text().decode()
    assert 'tagwood_requests_total{route="/v1/filters/{name}",status="2xx"}' in text
    assert 'route="other"' not in text


def test_without_a_group_model_there_is_nothing_to_review(client):
    problem(client.get("/v1/groups"), 404, "not-found")


def test_limits_are_in_the_document(tagger):
    app = create_app(tagger, ServiceSettings(limits=RequestLimits(k=7, texts=3)))
    schema = app.openapi()["components"]["schemas"]["SuggestRequest"]["properties"]
    assert schema["k"]["maximum"] == 7
    assert schema["texts"]["anyOf"][1]["maxItems"] == 3


def test_only_known_languages_reach_the_tagger_which_remembers_names_by_language(tagger):
    loaded = LoadedModel.of(tagger)
    assert [loaded.language(code) for code in ("de", "x1", "", None)] == ["de", None, None, None]


@pytest.fixture(scope="module")
def grouped():
    texts, labels = make_library(200)
    return Tagger(model=LinearTree(threads=1)).fit(texts, labels, [f"box {row // 4}" for row in range(200)])


def test_groups_are_shown_corrected_and_exported(grouped, settings, tmp_path):
    with TestClient(create_app(grouped, settings)) as client:
        listing = client.get("/v1/groups", params={"limit": 10}).json()
        assert (listing["total"], listing["in_training"], len(listing["groups"])) == (50, 50, 10)
        sure = [one["confidence"] for one in listing["groups"]]
        assert sure == sorted(sure)
        number = listing["groups"][0]["group"]
        group = client.get(f"/v1/groups/{number}").json()
        schemas.GroupResponse.model_validate(group)
        inside = {label["id"] for sample in group["samples"] for label in sample["labels"]}
        assert inside == {label["id"] for label in group["labels"]}
        row = group["samples"][1]["row"]
        for labels in (["trees"], ["trees", "stars"]):
            body = {"samples": [{"row": row, "labels": labels}]}
            assert client.post(f"/v1/groups/{number}/corrections", json=body).status_code == 201
        again = client.get(f"/v1/groups/{number}").json()["samples"][1]
        assert again["corrected"]
        assert {label["name"] for label in again["labels"]} == {"trees", "stars"}
        assert client.get("/v1/groups", params={"limit": 1}).json()["groups"][0]["corrected"]
        exported = client.get("/v1/corrections")
        assert exported.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in exported.text.splitlines()]
        assert [[one["label"] for one in line["labels"]] for line in lines] == [["trees", "stars"]]
        wrong = {"samples": [{"row": 10**6, "labels": []}]}
        problem(client.post(f"/v1/groups/{number}/corrections", json=wrong), 404, "not-found")
        problem(client.post("/v1/groups/x/corrections", json=wrong), 422, "invalid-request")
        problem(client.get("/v1/groups/50"), 404, "not-found")
    (tmp_path / "out.jsonl").write_text(exported.text)
    assert list(read_dataset(tmp_path / "out.jsonl").texts) == [again["text"]]


def test_group_samples_survive_saving(grouped, tmp_path):
    grouped.save(tmp_path / "model")
    kept = Tagger.load(tmp_path / "model").group_samples_
    assert list(kept.texts) == list(grouped.group_samples_.texts)
    assert kept.labels.tolist() == grouped.group_samples_.labels.tolist()
    assert kept.n_in_training == 50


def test_no_texts_are_kept_where_none_may_be():
    texts, labels = make_library(40)
    groups = [f"box {row // 4}" for row in range(40)]
    tagger = Tagger(model=LinearTree(threads=1), keep_texts=0).fit(texts, labels, groups)
    assert tagger.group_samples_ is None
    few = Tagger(model=LinearTree(threads=1), keep_texts=10).fit(texts, labels, groups).group_samples_
    assert (len(few), len(few.texts), few.n_in_training) == (2, 8, 10)


def test_trials_of_a_model_that_chose_its_tree_are_shown(settings):
    texts, labels = make_library()
    model = LinearTree(tree="auto", threads=1, max_leaf_size=2, arity=2)
    chose = Tagger(model=model).fit(texts, labels)
    with TestClient(create_app(chose, settings), base_url="http://localhost") as client:
        shown = client.get("/v1/model").json()["pareto"]
    assert shown["quality"] == "P@1"
    assert [point["lam"] for point in shown["points"] if point["chosen"]] == [chose.model_.lam_]
    assert len(shown["points"]) > 2
    assert all(point["cost"] > 0 for point in shown["points"])


def test_untouched_suggestions_and_the_person_are_stored_apart(client, settings):
    body = {"text": "oak", "accepted": ["trees"], "untouched": ["water", 2], "by": "ann"}
    assert client.post("/v1/feedback", json=body).status_code == 201
    record = json.loads(settings.feedback.read_text().splitlines()[-1])
    assert [one["label"] for one in record["untouched"]] == ["water", "stars"]
    assert [one["label"] for one in record["labels"]] == ["trees"]
    assert record["by"] == "ann"


def test_many_labels_are_looked_up_at_once(client, monkeypatch):
    def alone(*given):
        raise AssertionError("looked up alone")

    body = {"texts": "oak", "k": 6, "restrict": ["trees", 1, 1.0, "http://example.org/2"], "exclude": ["water"]}
    with monkeypatch.context() as patch:
        patch.setattr("tagwood.service.state.LoadedModel.find", alone)
        found = client.post("/v1/suggest", json=body).json()["results"][0]["labels"]
    assert {one["name"] for one in found} == {"trees", "stars"}
    unknown = client.post("/v1/suggest", json={**body, "restrict": ["trees", 1, "yew", 77]})
    assert (unknown.status_code, unknown.json()["errors"][0]["pointer"]) == (404, "#/restrict/2")


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"texts": 5}, "texts: must be a text or a list; got 5."),
        ({"texts": ["oak", None]}, "texts/1: must be a text; got null."),
        ({"texts": "oak", "restrict": "trees"}, "restrict: must be a list; got a text. Put it in brackets: [...]."),
        ({"texts": "oak", "exclude": [1.5]}, "exclude/0: must be a whole number or a text; got 1.5."),
        ({"texts": "oak", "exclude": [{}]}, "exclude/0: must be a whole number or a text; got an object."),
        ({"texts": "oak", "exclude": [""]}, "exclude/0: must have at least 1 character(s)."),
        ({"texts": "oak", "k": "5"}, "k: must be a whole number; got a text. Write numbers without quotes."),
        ({"texts": "oak", "k": 0}, "k: must be at least 1."),
        ({"texts": "oak", "filters": []}, "filters: must have at least 1 item(s)."),
        ({"fields": [{"title": 1}]}, "fields/0/title: must be a text; got 1. Put it in quotes."),
        ({"texts": "oak", "limit": 3}, "limit: is not a field of this request; see /openapi.json for its fields."),
        (["oak"], "The body must be an object; got a list."),
    ],
)
def test_invalid_values_are_answered_with_what_is_expected_and_what_came(client, body, detail):
    answer = client.post("/v1/suggest", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"] == detail
    assert len(answer.json()["errors"]) == 1


def test_a_missing_field_and_a_word_for_a_number_are_named(client):
    assert client.put("/v1/filters/x", json={}).json()["detail"] == "labels: is required."
    assert client.get("/v1/labels/oak").json()["detail"] == "path.label: must be a whole number."
