"""Named label filters: stored, versioned, shared by workers, used by requests."""

import itertools
import json
import random
import shutil
import sys
import threading
from zlib import crc32

import pytest
from library import make_library
from starlette.testclient import TestClient

from tagwood import LabelVocab, LinearTree, Tagger
from tagwood.service import filters as service_filters
from tagwood.service.app import create_app
from tagwood.service.filters import FilterStore
from tagwood.service.problems import ProblemError
from tagwood.service.settings import ServedModel, ServiceSettings


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


def test_the_age_of_each_filter_is_in_the_metrics(client):
    put(client, "in-stock", ["trees"])
    put(client, "new", ["water"])
    lines = [
        line for line in client.get("/metrics").text.splitlines() if line.startswith("tagwood_filter_age_seconds{")
    ]
    assert [line.partition("}")[0] for line in lines] == [
        f'tagwood_filter_age_seconds{{filter="{name}",project="model"' for name in ("in-stock", "new")
    ]
    assert all(0 <= float(line.split()[1]) < 60 for line in lines)


def test_several_filters_must_all_hold_beside_restrict_and_exclude(client):
    put(client, "a", ["trees", "water", "stars"])
    put(client, "b", ["trees"])
    assert set(names(client, filters=["a", "~b"])) == {"water", "stars"}
    assert names(client, filters=["a", "~b"], exclude=["water"]) == ["stars"]
    assert names(client, filters=["a", "~b"], restrict=["trees", "water"]) == ["water"]
    put(client, "none", [])
    assert names(client, filters=["none"]) == []


def test_unknown_labels_are_refused_or_counted(client):
    refused = put(client, "x", ["trees", 77, "watre"])
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (404, "#/labels/1")
    assert "2 of 3 labels are unknown, the first is 77. Send unknown='ignore'" in refused.json()["detail"]
    refused = put(client, "x", ["trees", "watre", 77])
    assert "the first is 'watre'. Did you mean 'water'?" in refused.json()["detail"]
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


class Table:
    """Stands for a Tagger, of which filters need the label table only."""

    def __init__(self, size):
        self.vocab_ = LabelVocab.from_names([f"p{number}" for number in range(size)])


def test_filters_may_be_replaced_while_many_threads_use_them(tmp_path):
    store, table, names = FilterStore(tmp_path), Table(2000), [f"f{number}" for number in range(6)]
    for name in names:
        store.put(name, ["p1", "p2"])
    failures, before = [], sys.getswitchinterval()

    def work(seed):
        rng = random.Random(seed)
        try:
            for turn in range(150):
                if seed < 2 and turn % 3 == 0:
                    store.put(rng.choice(names), [f"p{rng.randrange(2000)}"])
                store.filter_of(table, [rng.choice(["", "~"]) + name for name in rng.sample(names, rng.randint(1, 4))])
        except Exception as error:
            failures.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not failures


def test_combinations_are_kept_within_a_limit_until_a_filter_is_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(service_filters, "_KEPT_ENTRIES", 2000)
    store, table, names = FilterStore(tmp_path), Table(100), [f"f{number}" for number in range(7)]
    for name in names:
        store.put(name, ["p1", "p2"])
    first = store.filter_of(table, names[:2])
    assert store.prepared(table, names[1::-1]) is first  # the order does not matter
    for some in itertools.combinations(names, 3):
        store.filter_of(table, some)
    assert store.prepared(table, names[:2]) is None
    kept = [some for some in itertools.combinations(names, 3) if store.prepared(table, some) is not None]
    assert len(kept) == 20
    store.delete("f6")
    for name in names[:6]:
        store.put(name, ["p1", "p2"])
    assert {len(made) for made in store._made.values()} == {sum("f6" not in some for some in kept)}


def test_a_filter_of_rows_keeps_its_labels_in_a_model_with_another_table(tagger, tmp_path):
    texts, labels = make_library()
    known = tagger.vocab_
    vocab = LabelVocab.from_names(list(known.names)[::-1], uris=list(known.uris)[::-1])
    other = Tagger(model=LinearTree(threads=1)).fit(texts, labels, vocab=vocab)
    assert (known.find("stars"), vocab.find("stars")) == (2, 3)
    settings = ServiceSettings(filters=tmp_path)
    with TestClient(create_app({"m": ServedModel(save(tagger, tmp_path / "m"))}, settings)) as client:
        assert put(client, "f", [2, 77], unknown="ignore").json()["unknown"] == 1
        other.save(tmp_path / "m", overwrite=True)
        client.portal.call(client.app.state.projects["m"].refresh)
        assert names(client, filters=["f"]) == ["stars"]
        assert client.get("/v1/filters/f").json()["unknown"] == 1


def save(tagger, folder):
    tagger.save(folder)
    return folder


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


@pytest.fixture
def damaged(tagger, tmp_path):
    """A service with the filters f and g; returns a function that damages the file of f."""
    with TestClient(create_app(tagger, ServiceSettings(filters=tmp_path))) as client:
        for name in ("f", "g"):
            put(client, name, ["trees", "water"])
        path = tmp_path / "filters" / "model" / "f.json"
        yield client, lambda damage: damage(path)


DAMAGES = {
    "empty": lambda path: cut(path, 0),
    "facts cut short": lambda path: cut(path, 5),
    "without labels": lambda path: cut(path, path.read_bytes().index(b"\n") + 1),
    "labels cut short": lambda path: cut(path, -1),
    "other values": lambda path: path.write_text('{"version": "one"}\n[1.5]'),
    "zeros": lambda path: path.write_bytes(bytes(100)),
    "labels cut short at a bracket": lambda path: path.write_bytes(path.read_bytes()[:-4] + b"]"),
    "a bracket in place of another": lambda path: path.write_bytes(path.read_bytes().replace(b"[", b"]")),
    "a byte changed": lambda path: path.write_bytes(path.read_bytes()[:-3] + b'x"]'),
    "a broken first line": lambda path: path.write_bytes(b"{" + path.read_bytes()),
    "a line break at the end": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_listed_refused_and_replaced_or_deleted(damaged, damage):
    client, apply = damaged
    assert names(client, filters=["f"])
    apply(damage)
    listed = client.get("/v1/filters").json()["filters"]
    assert [(one["name"], one["damaged"]) for one in listed] == [("f", True), ("g", False)]
    used = client.post("/v1/suggest", json={"texts": "oak", "filters": ["~f"]})
    for answer in (used, client.get("/v1/filters/f")):
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:tagwood:problem:damaged-filter")
        assert "PUT /v1/filters/f" in answer.json()["detail"]
    assert set(names(client, filters=["g"])) == {"trees", "water"}
    if damage is DAMAGES["a folder"]:
        for answer in (put(client, "f", ["stars"]), client.delete("/v1/filters/f")):
            assert (answer.status_code, answer.json()["type"]) == (507, "urn:tagwood:problem:not-stored")
            assert "The filter could not be" in answer.json()["detail"]
        return
    assert put(client, "f", ["stars"]).status_code == 200
    assert names(client, filters=["f"]) == ["stars"]
    apply(damage)
    assert client.delete("/v1/filters/f").json()["damaged"] is True
    assert [one["name"] for one in client.get("/v1/filters").json()["filters"]] == ["g"]


def test_values_that_are_no_labels_are_refused_though_their_checksum_is_right(damaged):
    client, apply = damaged
    content = b"[true]"
    header = {"version": 1, "created": "", "labels": 1, "size": len(content), "crc32": crc32(content)}
    apply(lambda path: path.write_bytes(json.dumps(header).encode() + b"\n" + content))
    answer = client.post("/v1/suggest", json={"texts": "oak", "filters": ["f"]})
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:tagwood:problem:damaged-filter")


def test_a_folder_of_filters_that_is_gone_is_made_again(damaged, tmp_path):
    client, _ = damaged
    for refill in (True, False):
        shutil.rmtree(tmp_path / "filters" / "model")
        assert client.get("/v1/filters").json() == {"filters": []}
        assert client.delete("/v1/filters/f").status_code == 404
        if refill:
            shutil.rmtree(tmp_path / "filters" / "model")
            assert put(client, "f", ["stars"]).status_code == 200
            assert names(client, filters=["f"]) == ["stars"]


def test_files_with_names_that_no_filter_has_are_not_listed(damaged):
    client, apply = damaged
    apply(lambda path: (path.with_name("a b.json").touch(), path.with_name(".x.json").touch()))
    assert [one["name"] for one in client.get("/v1/filters").json()["filters"]] == ["f", "g"]


@pytest.fixture(params=[10**9, 2**62], ids=["a billion", "beyond the numbers of JavaScript"])
def first_id(request):
    return request.param


@pytest.fixture
def products(first_id, settings):
    """A service whose labels are called by whole numbers with large gaps."""
    ids = [first_id, -5, 7, 123_456_789]
    texts, labels = make_library()
    number = dict(zip(sorted({name for row in labels for name in row}), ids, strict=True))
    tagger = Tagger(model=LinearTree(threads=1)).fit(texts, [[number[one] for one in row] for row in labels])
    with TestClient(create_app(tagger, settings), base_url="http://localhost") as client:
        yield client, ids


def suggested(client, **body):
    answer = client.post("/v1/suggest", json={"texts": "oak and elm by the sea", "k": 6, **body})
    assert answer.status_code == 200, answer.text
    return [one["id"] for one in answer.json()["results"][0]["labels"]]


def test_ids_that_are_numbers_are_taken_and_returned_as_they_were_given(products):
    client, ids = products
    assert set(suggested(client)) == set(ids)
    assert put(client, "in-stock", [ids[0], str(ids[1])]).json()["known"] == 2
    assert set(suggested(client, filters=["in-stock"])) == set(ids[:2])
    assert suggested(client, restrict=[ids[3]]) == [ids[3]] == suggested(client, restrict=[str(ids[3])])
    assert ids[0] not in suggested(client, exclude=[ids[0]])
    assert put(client, "some", [ids[0], 0, 1], unknown="ignore").json() | {"created": ""} == {
        "name": "some", "version": 1, "created": "", "labels": 3, "damaged": False, "known": 1, "unknown": 2,
    }  # fmt: skip
    card = client.get(f"/v1/labels/{ids[1]}").json()
    assert card["id"] == ids[1]
    assert {one["id"] for one in client.get("/v1/labels").json()["labels"]} == set(ids)
    why = client.post("/v1/explain", json={"text": "oak and elm", "label": ids[0]}).json()
    assert why["label"] == ids[0]
    sent = client.post("/v1/feedback", json={"text": "oak", "accepted": [ids[0]], "rejected": [ids[2]]})
    assert sent.status_code == 201
    unknown = client.post("/v1/suggest", json={"texts": "oak", "restrict": [1]})
    assert (unknown.status_code, unknown.json()["detail"]) == (404, "No label has this id; got 1.")
