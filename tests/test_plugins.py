"""The page "Write your own": its package is installed and goes through train, predict, save and load."""

import json
import re
import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import tagwood
from tagwood import LinearTree, Tagger
from tagwood.cli.app import run
from tagwood.errors import InputError
from tagwood.plugins import load_plugin, plugin_class, plugin_name, plugin_names
from tagwood.recipe import Recipe, parse_recipe, recipe_of
from tagwood.service.app import create_app
from tagwood.storage import state as stored

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "docs/examples/library.csv"
ENCODER = """
import numpy as np
from tagwood._check import Params
from tagwood.storage import State


class Shapes(Params):
    n_features = 64

    def __init__(self, letters=1):
        self.letters = letters

    def fit(self, texts, y=None):
        return self

    def transform(self, texts):
        rows = [np.bincount([ord(w[0]) % 64 for w in t.split()], minlength=64) for t in texts]
        return np.array(rows, dtype=np.float32).reshape(-1, 64)

    def state(self):
        return State("Shapes", params={"letters": self.letters})

    @classmethod
    def from_state(cls, state):
        return cls(state.param("letters", int))
"""


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    """The package of the page, installed into a folder of its own."""
    page = (ROOT / "docs/how-to/write-your-own.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page, re.S)
    toml = re.search(r"```toml\n(.*?)```", page, re.S)
    points = re.sub(r'\[project\.entry-points\."(.*?)"\]', r"[\1]", toml[1]).replace('"', "")
    folder = tmp_path / "site"
    info = folder / "nearest-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "nearest.py").write_text("\n".join(code), encoding="utf-8")
    (folder / "shapes.py").write_text(ENCODER, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nearest\nVersion: 1.0\n")
    extra = "\n[tagwood.encoders]\nshapes = shapes:Shapes\nbroken = no_such_module:Broken\n"
    (info / "entry_points.txt").write_text(points + extra)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in ("nearest", "shapes"):
        sys.modules.pop(name, None)
    for kind in ("Nearest", "Shapes"):
        stored._classes.pop(kind, None)


def test_names_are_found_without_an_import(package):
    assert "nearest" in plugin_names("models")
    assert plugin_names("trees") == ["halves"]
    assert "nearest" not in sys.modules
    assert plugin_class("NoSuchClass") is None
    cls = plugin_class("Nearest")
    assert load_plugin("models", "nearest") is cls
    assert plugin_name("models", cls) == "nearest"


def test_a_model_goes_through_train_predict_save_and_load(tmp_path, capsys):
    folder = tmp_path / "model"
    arguments = ["train", str(LIBRARY), "-O", str(folder), "--model", "nearest", "--set", "model.power=2.0"]
    assert run([*arguments, "-j", "1"]) == 0
    capsys.readouterr()
    assert run(["predict", str(folder), "bees in the forest", "-l", "1", "--json", "-j", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"][0]["label"] == "Beekeeping"
    stored._classes.pop("Nearest")  # as in a new process
    tagger = tagwood.load(folder)
    assert type(tagger.model_).__name__ == "Nearest"
    assert tagger.model_.power == 2.0
    again = parse_recipe(recipe_of(tagger).to_toml())
    assert again.sections["model"]["kind"] == "nearest"
    assert repr(again.tagger().model) == "Nearest(power=2.0)"
    with TestClient(create_app(tagger)) as client:
        answer = client.post("/v1/suggest", json={"texts": "bees in the forest", "k": 1}).json()
    assert "Beekeeping" in json.dumps(answer)


def test_an_encoder_is_known_to_recipes_and_storage(tmp_path):
    recipe = Recipe({"features": {"kind": "shapes", "letters": 2}, "model": {"threads": 1}})
    texts = ["oak ash elm", "sea tide salt", "oak elm", "salt sea"] * 5
    tagger = recipe.tagger().fit(texts, [["tree"], ["water"]] * 10)
    loaded = Tagger.load(tagger.save(tmp_path / "model"))
    assert loaded.encoder_.letters == 2
    assert loaded.tag(texts[:2], 1) == tagger.tag(texts[:2], 1)
    assert recipe_of(loaded).sections["features"] == {"kind": "shapes", "letters": 2}
    with pytest.raises(InputError, match="unknown setting for the features 'shapes'; got 'ngrams'"):
        Recipe({"features": {"kind": "shapes", "ngrams": [1, 1]}}).tagger()


def test_a_tree_builder_is_known_to_the_linear_tree(tmp_path, capsys):
    folder = tmp_path / "model"
    assert run(["train", str(LIBRARY), "-O", str(folder), "--tree", "halves", "-j", "1"]) == 0
    tree = Tagger.load(folder).model_.trees_[0].tree
    assert tree.n_leaves == 2
    with pytest.raises(InputError, match="lam must be left out with tree='halves'"):
        LinearTree(tree="halves", lam=1.0).check_params()
    assert run(["train", str(LIBRARY), "-O", str(tmp_path / "m"), "--tree", "halve"]) == 2
    assert "Did you mean 'halves'?" in capsys.readouterr().err


def test_mistakes_are_named(capsys, tmp_path):
    with pytest.raises(InputError, match="no installed package registers 'nearer'"):
        load_plugin("models", "nearer")
    with pytest.raises(InputError, match=r"no_such_module:Broken, registered as 'broken'.*must be importable"):
        load_plugin("encoders", "broken")
    assert run(["train", str(LIBRARY), "-O", str(tmp_path / "m"), "--model", "nearst"]) == 2
    assert "Did you mean 'nearest'?" in capsys.readouterr().err
    assert run(["train", str(LIBRARY), "-O", str(tmp_path / "m"), "--model", "nearest", "--set", "model.C=1"]) == 2
    assert "unknown setting for the model 'nearest'; got 'C'" in capsys.readouterr().err
