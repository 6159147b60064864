"""Named label filters: stored, versioned, shared by workers, used by requests."""

import threading

import pytest
from starlette.testclient import TestClient

from tagwood.service.app import create_app
from tagwood.service.filters import FilterStore
from tagwood.service.problems import ProblemError
from tagwood.service.settings import ServiceSettings


def names(client, **body):
    answer = client.post("/v1/suggest", json={"texts": "oak and elm by the sea", "k": 6, **body})
    assert answer.status_code == 200, answer.text
    return [one["name"] for one in answer.json()["results"][0]["labels"]]


def put(client, name, labels, **more):
    return client.put(f"/v1/filters/{name}", json={"labels": labels, **more})


def test_a_filter_is_stored_used_replaced_and_deleted(client):
    answer = put(client, "in-stock", ["trees", "http://example.org/1", 2]).json()
    assert (answer["version"], answer["known"], answer["unknown"]) == (1, 3, 0)
    assert set(names(client, filters=["in-stock"])) == {"trees", "water", "stars"}
    assert put(client, "in-stock", ["stones"]).json()["version"] == 2
    assert names(client, filters=["in-stock"]) == ["stones"]
    assert "stones" not in names(client, filters=["~in-stock"])
    assert client.get("/v1/filters/in-stock").json()["version"] == 2
    assert [one["name"] for one in client.get("/v1/filters").json()["filters"]] == ["in-stock"]
    assert client.delete("/v1/filters/in-stock").status_code == 200
    gone = client.post("/v1/suggest", json={"texts": "oak", "filters": ["in-stock"]})
    assert (gone.status_code, gone.json()["type"]) == (404, "urn:tagwood:problem:unknown-filter")


def test_several_filters_must_all_hold_beside_restrict_and_exclude(client):
    put(client, "a", ["trees", "water", "stars"])
    put(client, "b", ["trees"])
    assert set(names(client, filters=["a", "~b"])) == {"water", "stars"}
    assert names(client, filters=["a", "~b"], exclude=["water"]) == ["stars"]
    assert names(client, filters=["a", "~b"], restrict=["trees", "water"]) == ["water"]
    put(client, "none", [])
    assert names(client, filters=["none"]) == []


def test_unknown_labels_are_refused_or_counted(client):
    refused = put(client, "x", ["trees", "B00X", 77])
    assert refused.status_code == 404
    assert "2 of 3 labels are unknown" in refused.json()["detail"]
    assert client.get("/v1/filters/x").status_code == 404
    assert put(client, "x", ["trees", "B00X", 77], unknown="ignore").json()["unknown"] == 2
    assert names(client, filters=["x"]) == ["trees"]


@pytest.mark.parametrize("name", [".hidden", "a b", "x" * 65, "..%2Fup"])
def test_names_that_could_be_paths_are_refused(client, name):
    assert put(client, name, ["trees"]).status_code in (404, 405, 422)


@pytest.mark.parametrize("body", [{}, {"labels": "trees"}, {"labels": [1.5]}, {"labels": [], "unknown": "maybe"}])
def test_bodies_that_are_no_filters_are_refused(client, body):
    assert client.put("/v1/filters/x", json=body).status_code == 422
    assert client.post("/v1/suggest", json={"texts": "oak", "filters": []}).status_code == 422


def test_workers_share_filters_and_a_restart_keeps_them(tagger, tmp_path):
    settings = ServiceSettings(filters=tmp_path)
    with TestClient(create_app(tagger, settings)) as one, TestClient(create_app(tagger, settings)) as two:
        put(one, "in-stock", ["trees"])
        assert names(two, filters=["in-stock"]) == ["trees"]
        put(two, "in-stock", ["water"])
        assert names(one, filters=["in-stock"]) == ["water"]
    with TestClient(create_app(tagger, settings)) as again:
        assert names(again, filters=["in-stock"]) == ["water"]


def test_versions_are_swapped_atomically_and_numbered_without_gaps(tagger, tmp_path):
    stores = [FilterStore(tmp_path) for _ in range(3)]
    stores[0].put("f", ["trees", "water"])
    seen, done = set(), threading.Event()

    def read():
        while not done.is_set():
            seen.add(tuple(stores[2].filter_of(tagger, ["f"]).ids.tolist()))

    def write(store):
        for turn in range(30):
            store.put("f", ["trees", "water"] if turn % 2 else ["stars", "stones"])

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(store,)) for store in stores[:2]]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert seen <= {(0, 1), (2, 3)}
    assert stores[2].get("f").version == 61


def test_a_full_disk_keeps_the_old_version(tagger, tmp_path, monkeypatch):
    store = FilterStore(tmp_path)
    store.put("f", ["trees"])

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ProblemError, match="the old one stays in use"):
        store.put("f", ["water"])
    assert store.get("f").version == 1
    assert store.filter_of(tagger, ["f"]).ids.tolist() == [0]
