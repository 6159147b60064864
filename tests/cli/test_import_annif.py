"""`tagwood import-annif`: recipes that train, and a word on everything that has no match."""

import json

import pytest

from tagwood.cli.app import run
from tagwood.cli.import_annif import BACKENDS
from tagwood.recipe import read_recipe

PROJECTS = """
[yso-tfidf-en]
name=YSO TFIDF English
language=en
backend=tfidf
vocab=yso(en)
analyzer=snowball(english)
limit=100

[yso-bonsai-en]
name=YSO Bonsai
language=en
backend=omikuji
vocab=yso
analyzer=simple
cluster_balanced=False
cluster_k=100
max_depth=3
min_df=2
ngram=2

[yso-fasttext-en]
backend=fasttext
language=en
vocab=yso
dim=300
lr=0.25
epoch=30
loss=hs
chunksize=24

[yso-mllm-en]
backend=mllm
language=en
vocab=yso
analyzer=voikko(fi)

[yso-ensemble-en]
backend=nn_ensemble
language=en
vocab=yso
sources=yso-tfidf-en:0.1,yso-mllm-en:0.5
nodes=100

[yso-maui-en]
backend=maui
endpoint=http://localhost:8080/mauiservice/
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "projects.cfg"
    path.write_text(PROJECTS)
    return path


def imported(config, output, capsys, *options):
    assert run(["import-annif", str(config), "-O", str(output), "--json", *options]) == 0
    return {one["project"]: one for one in json.loads(capsys.readouterr().out)}


def test_backends_with_a_match_become_recipes_that_are_valid(config, tmp_path, capsys):
    found = imported(config, tmp_path / "r", capsys)
    written = {path.stem for path in (tmp_path / "r").iterdir()}
    assert written == {name for name, one in found.items() if one["recipe"]} == found.keys() - {"yso-maui-en"}
    for name in written:
        read_recipe(tmp_path / "r" / f"{name}.toml").tagger()
        assert found[name]["train"] in (tmp_path / "r" / f"{name}.toml").read_text()
    assert found["yso-tfidf-en"]["train"].startswith("tagwood train DATA --vocab yso --recipe yso-tfidf-en.toml")


def test_settings_are_taken_over_or_named(config, tmp_path, capsys):
    found = imported(config, tmp_path / "r", capsys)
    bonsai = read_recipe(tmp_path / "r" / "yso-bonsai-en.toml").sections
    assert bonsai["tree"] == {"arity": 100}
    assert bonsai["features"] == {"min_df": 2, "ngrams": [1, 2]}
    assert any("max_depth=3" in note for note in found["yso-bonsai-en"]["notes"])
    words = read_recipe(tmp_path / "r" / "yso-fasttext-en.toml").sections["model"]
    assert words == {"kind": "softmax-tree", "dimension": 304, "epochs": 30, "learning_rate": 0.25}
    assert found["yso-fasttext-en"]["notes"] == ["Not taken over: chunksize=24."]
    assert any("snowball(english)" in note for note in found["yso-tfidf-en"]["notes"])
    assert any("limit=100" in note for note in found["yso-tfidf-en"]["notes"])
    assert any("yso-mllm-en:0.5" in note for note in found["yso-ensemble-en"]["notes"])


def test_backends_without_a_match_say_what_to_do(config, tmp_path, capsys):
    found = imported(config, tmp_path / "r", capsys)
    assert found["yso-maui-en"]["recipe"] is None
    assert "name-matcher" in found["yso-maui-en"]["notes"][0]
    config.write_text("[x]\nbackend=secret\n")
    assert imported(config, tmp_path / "s", capsys)["x"]["notes"] == ["Annif's backend 'secret' is not known here."]


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_is_answered(backend, tmp_path, capsys):
    (tmp_path / "projects.toml").write_text(f'[p]\nbackend = "{backend}"\nvocab = "yso"\n')
    found = imported(tmp_path / "projects.toml", tmp_path / "r", capsys)["p"]
    assert found["recipe"] or found["notes"]


def test_the_table_names_all_projects_and_nothing_is_replaced(config, tmp_path, capsys):
    assert run(["import-annif", str(config), "-O", str(tmp_path / "r")]) == 0
    said = capsys.readouterr()
    assert "yso-maui-en" in said.out
    assert "5 of 6 projects have a recipe" in said.err
    assert run(["import-annif", str(config), "-O", str(tmp_path / "r")]) == 2
    assert "must not exist yet" in capsys.readouterr().err
    assert run(["import-annif", str(config), "-O", str(tmp_path / "r"), "--force"]) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no section", "must be a configuration of Annif"),
        ("", "must have sections"),
        ("[p]\nbackend=fasttext\nvocab=y\ndim=many\n", "dim must be a number; got 'many'"),
    ],
)
def test_wrong_files_get_one_sentence(text, words, tmp_path, capsys):
    (tmp_path / "projects.cfg").write_text(text)
    assert run(["import-annif", str(tmp_path / "projects.cfg"), "-O", str(tmp_path / "r")]) == 2
    assert words in capsys.readouterr().err
