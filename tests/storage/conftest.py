"""Toy models and folders for the tests of storage."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from tagwood import Ranking
from tagwood.errors import StorageError
from tagwood.storage import State, load, restore, save, storable
from tagwood.storage.folder import OPENING


@storable("ToyLinear")
class ToyLinear:
    """Scores are X @ weights: enough of a model to rank, and to go wrong."""

    def __init__(self, weights, bias=0.0):
        self.weights = weights
        self.bias = bias

    def rank(self, X, k=5):
        scores = np.asarray(sparse.csr_array(X) @ self.weights) + np.float32(self.bias)
        return Ranking.from_csr(sparse.csr_array(scores.astype(np.float32)), k=k)

    def state(self):
        return State("ToyLinear", params={"bias": self.bias}, arrays={"weights": self.weights})

    @classmethod
    def from_state(cls, state):
        return cls(state.array("weights", np.float32, (None, None)), state.param("bias", float))


@storable("ToyTagger")
class ToyTagger:
    """A container: its model is a part whose class it does not know; it ranks texts by their length."""

    def __init__(self, model, names):
        self.model = model
        self.names = names

    def rank(self, texts, k=5):
        X = np.zeros((len(texts), self.model.weights.shape[0]), dtype=np.float32)
        X[:, 0] = [len(text) for text in texts]
        return self.model.rank(X, k)

    def state(self):
        return State("ToyTagger", {"names": self.names}, parts={"model": self.model.state()})

    @classmethod
    def from_state(cls, state):
        return cls(restore(state.part("model")), state.param("names", list))


def edit_manifest(folder: Path, change, *, new_checksum: bool) -> None:
    """Apply `change` to the parsed manifest; with `new_checksum`, the checksum is updated, too."""
    path = folder / "manifest.json"
    value = json.loads(path.read_bytes())
    change(value)
    raw = json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"
    if new_checksum:
        rest = raw[len(OPENING) + 64 :]
        raw = raw[: len(OPENING)] + hashlib.sha256(rest).hexdigest().encode() + rest
    path.write_bytes(raw)


def rehash(folder: Path, name: str) -> None:
    """Make the manifest agree with the changed bytes of a file, so that only deeper checks can refuse it."""
    raw = (folder / name).read_bytes()

    def change(value):
        value["files"][name] |= {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}

    edit_manifest(folder, change, new_checksum=True)


def fields_of(folder: Path) -> list[tuple[str, ...]]:
    """Return the path of every field of the manifest."""
    return list(every_field(json.loads((folder / "manifest.json").read_bytes())))


def every_field(value, path=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from every_field(item, (*path, key))


def set_field(value, path, new):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new(value[path[-1]])


def drop_field(value, path):
    for key in path[:-1]:
        value = value[key]
    del value[path[-1]]


def refuse(folder: Path, match: str | None = None) -> str:
    """Check that `load` refuses the folder with an error that names it and a next step; return its text."""
    with pytest.raises(StorageError, match=match) as caught:
        load(folder)
    assert str(folder) in str(caught.value)
    assert caught.value.hint
    return str(caught.value)


@pytest.fixture
def refused():
    return refuse


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Keep stamps out of the home folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "tagwood" / "verified"


@pytest.fixture
def toys():
    """The toy classes and the tools to tamper with folders."""
    return SimpleNamespace(
        Linear=ToyLinear,
        Tagger=ToyTagger,
        make=make_model,
        edit_manifest=edit_manifest,
        rehash=rehash,
        fields=fields_of,
        set_field=set_field,
        drop_field=drop_field,
    )


def make_model(seed=0, n_features=6, n_labels=9):
    rng = np.random.default_rng(seed)
    return ToyLinear(rng.normal(size=(n_features, n_labels)).astype(np.float32), bias=0.25)


@pytest.fixture
def model():
    return make_model()


@pytest.fixture
def rows():
    return sparse.random_array((4, 6), density=0.5, format="csr", dtype=np.float32, rng=np.random.default_rng(1))


@pytest.fixture
def saved(tmp_path, model, rows):
    """A saved model of three files."""
    model.seed = 7
    return save(model, tmp_path / "model", golden=rows, notes="für später")


@pytest.fixture
def copy_of(tmp_path):
    """Return a function that copies a model folder to a fresh place."""
    places = iter(range(10**6))

    def copy(folder: Path) -> Path:
        return Path(shutil.copytree(folder, tmp_path / f"copy-{next(places)}"))

    return copy
