"""Serving on Ray: a model in shards answers as the whole one does, over HTTP and handles, while it is replaced too."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import urllib.error
import urllib.request

import pytest
from library import make_library

pytest.importorskip("ray", reason="Ray is not installed: pip install 'tagwood[scale]'")
pytest.importorskip("starlette")

from tagwood import Tagger
from tagwood.errors import InputError, StorageError, TagwoodError
from tagwood.models.centroids import Centroids
from tagwood.models.disentangled import Disentangled
from tagwood.models.ensemble import Ensemble
from tagwood.models.linear_tree import LinearTree
from tagwood.scale import serving
from tagwood.scale.serving import Router, Shard, build_app, split_model

pytestmark = pytest.mark.filterwarnings("ignore")
SMALL = {"max_leaf_size": 1, "arity": 2, "threads": 1}


def trained(folder, seed=0):
    members = [LinearTree(**SMALL, n_trees=2, seed=seed), Disentangled(LinearTree(**SMALL), threads=1), Centroids()]
    return (
        Tagger(model=Ensemble(members, threads=1, prune=False)).fit(*make_library(600)).save(folder / f"model-{seed}")
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def shards(model):
    return split_model(model, model.parent / "shards", 2)


@pytest.fixture(scope="module")
def serve(connected):
    from ray import serve

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    yield serve, f"http://127.0.0.1:{port}/"
    serve.shutdown()


def expected(folder, texts, k):
    tags = Tagger.load(folder).tag(texts, k)
    return [[{"label": tag.name, "uri": tag.uri, "score": tag.score} for tag in row] for row in tags]


def post(url, content):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_shards_answer_as_the_whole_model_and_refuse_bad_requests(model, shards, serve):
    ray_serve, url = serve
    handle = ray_serve.run(build_app({"model": str(shards), "cpus": 0.1}), name="sharded", route_prefix="/")
    texts, _ = make_library(300, seed=5)
    assert handle.tag.remote(texts, 4).result() == expected(model, texts, 4)
    status, found = post(url, {"texts": texts[:3], "k": 2})
    assert (status, found["labels"]) == (200, expected(model, texts[:3], 2))
    with urllib.request.urlopen(url) as answer:
        assert json.loads(answer.read()) == {"model": "shards", "labels": 4}
    for bad in (b"no JSON", {"text": "oak"}, {"texts": "oak"}, {"texts": [1]}, {"texts": ["oak"], "k": 0}):
        status, found = post(url, bad)
        assert status == 422
        assert found["detail"]


@pytest.mark.parametrize("replicas", [1, 2])
def test_other_folders_under_the_same_name_replace_a_model_and_every_request_is_answered_by_one(
    model, shards, serve, tmp_path, replicas
):
    ray_serve, url = serve
    other = trained(tmp_path, seed=7)
    options = {"replicas": replicas, "shard_replicas": replicas, "cpus": 0.1}
    ray_serve.run(build_app({"model": str(shards), **options}), name="sharded", route_prefix="/")
    texts, _ = make_library(20, seed=6)
    right = [expected(folder, texts, 3) for folder in (model, other)]
    assert right[0] != right[1]
    stop, answers = threading.Event(), []

    def ask() -> None:
        while not stop.is_set():
            answers.append(post(url, {"texts": texts, "k": 3}))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        new = split_model(other, tmp_path / "shards", 2)
        ray_serve.run(build_app({"model": str(new), **options}), name="sharded", route_prefix="/")
    finally:
        stop.set()
        asking.join()
    answers.append(post(url, {"texts": texts, "k": 3}))
    assert answers[-1] == (200, {"labels": right[1]})
    assert {status for status, _ in answers} == {200}
    assert all(found["labels"] in right for _, found in answers)  # never of both
    ray_serve.delete("sharded")


def test_replicas_of_a_whole_model_answer_alike(model, serve):
    ray_serve, url = serve
    app = build_app({"model": str(model), "replicas": 2, "cpus": 0.1})
    ray_serve.run(app, name="whole", route_prefix="/whole")
    texts, _ = make_library(10, seed=8)
    for _ in range(5):
        assert post(url + "whole", {"texts": texts})[1]["labels"] == expected(model, texts, 5)


def test_a_shard_of_another_split_is_not_used(shards, monkeypatch):
    monkeypatch.setattr(serving, "_TRIES", 2)
    monkeypatch.setattr(serving, "_PAUSE", 0.0)
    local = [Shard(str(shards / f"shard-{number}")) for number in range(2)]
    router = Router(str(shards), *map(LocalHandle, local))
    texts, _ = make_library(5, seed=9)
    assert [tags.names for tags in router.tagger.tag(texts)]
    local[1].split = "another"
    with pytest.raises(TagwoodError, match="all shards must answer, and be of the split of their router"):
        router.tagger.tag(texts)


def test_a_router_follows_its_shards_to_another_split(model, shards, tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "_PAUSE", 0.0)
    other = trained(tmp_path, seed=7)
    new = split_model(other, tmp_path / "shards", 2)
    handles = [LocalHandle(Shard(str(shards / f"shard-{number}"))) for number in range(2)]
    router = Router(str(shards), *handles)
    texts, _ = make_library(5, seed=9)
    assert asyncio.run(router.tag(texts, 3)) == expected(model, texts, 3)
    for number, handle in enumerate(handles):
        handle.shard = Shard(str(new / f"shard-{number}"))
    assert asyncio.run(router.tag(texts, 3)) == expected(other, texts, 3)
    assert len(router.opened) == 2
    handles[0].shard = Shard(str(shards / "shard-0"))
    monkeypatch.setattr(serving, "_UPDATE", 0.0)
    with pytest.raises(TagwoodError, match="all shards must answer, and be of the split of their router"):
        asyncio.run(router.tag(texts, 3))


class LocalHandle:
    """A shard in this process with the interface of a Serve handle."""

    def __init__(self, shard):
        self.shard, self.open = shard, self

    def remote(self, *arguments):
        self.answer = self.shard.open(*arguments)
        return self

    def result(self, timeout_s):
        return self.answer


def test_refusals_say_what_to_do(model, shards, tmp_path):
    with pytest.raises(StorageError, match="is not a complete folder of shards"):
        serving.read_split(tmp_path)
    with pytest.raises(InputError, match="the application takes model=FOLDER"):
        build_app({"folder": "x"})
    with pytest.raises(StorageError):
        build_app({"model": str(tmp_path)})
    with pytest.raises(InputError, match="exists already"):
        split_model(model, shards, 2)
    with pytest.raises(InputError, match="a tree for 9 shards"):
        split_model(model, tmp_path / "nine", 9)
    assert not (tmp_path / "nine").exists()
    flat = Tagger(model=Centroids(threads=1)).fit(*make_library(100)).save(tmp_path / "flat")
    with pytest.raises(InputError, match="a model in shards must have a linear tree; got Centroids"):
        split_model(flat, tmp_path / "none", 2)


def test_an_altered_shard_is_refused(model, tmp_path):
    folder = split_model(model, tmp_path / "shards", 2) / "shard-0" / "tree-0" / "arrays.safetensors"
    raw = bytearray(folder.read_bytes())
    raw[-1] ^= 1
    folder.write_bytes(raw)
    with pytest.raises(StorageError, match="altered or damaged"):
        Shard(str(tmp_path / "shards" / "shard-0"))
