"""Taggers, recipes and commands with a model that generates label sets."""

import json

import pytest
from library import make_library

from tagwood import SetGenerator, Tagger, load
from tagwood.cli.app import run
from tagwood.errors import InputError
from tagwood.models.base import finds_new_labels
from tagwood.recipe import Recipe, parse_recipe, recipe_of

QUICK = {
    "network__hidden": 32,
    "network__layers": 1,
    "network__dimension": 16,
    "training__epochs": 4,
    "training__batch_size": 16,
    "training__learning_rate": 0.01,
}


@pytest.fixture(scope="module")
def tagger():
    return Tagger(model=SetGenerator(threads=1).set_params(**QUICK)).fit(*make_library(400))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_names_come_back_and_labels_can_be_masked(tagger, tmp_path):
    assert tagger.tag_one("oak elm bark", k=1).names == ["trees"]
    again = load(tagger.save(tmp_path / "model"), verify=True)
    assert again.tag(["oak elm", "granite"]) == tagger.tag(["oak elm", "granite"])
    again.update_labels(mask=["trees"])
    assert "trees" not in again.tag_one("oak elm bark", k=4).names


def test_label_embeddings_start_from_the_names_of_labels(tagger):
    assert tagger.model_.module_.labels.weight.shape[0] == len(tagger.vocab_) + 2


def test_names_of_labels_are_a_start_but_teach_no_label_without_texts(tagger, tmp_path):
    assert not finds_new_labels(tagger.model_)
    again = load(tagger.save(tmp_path / "model"))
    again.label_counts_ = again.label_counts_.copy()
    again.label_counts_[:] = 0
    last = again.tag_one("oak elm bark", k=4).names[-1]
    assert again.explain("oak elm bark", last, k=1).verdict.reason == "never in training"


def test_explanations_show_where_the_decoder_looked(tagger):
    found = tagger.explain("Oak, elm and bark", "trees")
    assert found.suggested
    assert {word for word, _ in found.words} == {"Oak", "elm", "and", "bark"}
    assert all(weight >= 0 for _, weight in found.words)
    assert "where the model looked" in found.to_text()


@pytest.mark.parametrize("kind", ["otseq2set", "seq2seq", "mlc2seq", "sgm"])
def test_a_recipe_names_the_kind_of_generator(kind):
    settings = [
        f"model.kind={kind}",
        "model.network.hidden=32",
        "model.loss.transport=0.5",
        "model.training.clip=2",
    ]
    tagger = Recipe().override(settings).tagger()
    assert isinstance(tagger.model, SetGenerator)
    assert (tagger.model.kind, tagger.model.network.hidden) == (kind, 32)
    assert (tagger.model.loss.transport, tagger.model.training.clip) == (0.5, 2)
    text = f'[model]\nkind = "{kind}"\n[model.decoding]\nbeam_width = 3\n[model.loss]\ntransport = 1'
    model = parse_recipe(text).tagger().model
    assert (model.decoding.beam_width, model.loss.transport) == (3, 1)
    assert repr(parse_recipe(recipe_of(tagger).to_toml()).tagger()) == repr(tagger)
    with pytest.raises(InputError, match=f"unknown setting for the model '{kind}'; got 'C'"):
        Recipe().override([f"model.kind={kind}", "model.C=2"]).tagger()


def test_train_makes_a_generator_that_the_other_commands_use(tmp_path, capsys):
    rows = zip(*make_library(200), strict=True)
    data = tmp_path / "library.jsonl"
    data.write_text("\n".join(json.dumps({"text": text, "labels": labels}) for text, labels in rows))
    folder = str(tmp_path / "model")
    options = [word for name, value in QUICK.items() for word in ("--set", f"model.{name.replace('__', '.')}={value}")]
    assert run(["train", str(data), "-O", folder, "--model", "otseq2set", *options, "-j", "1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["metrics"]["P@1"] > 0.8
    assert run(["predict", folder, "oak elm bark", "--json"]) == 0
    assert "trees" in capsys.readouterr().out
    assert run(["show", folder]) == 0
    assert 'kind = "otseq2set"' in capsys.readouterr().out
    assert run(["explain", folder, "oak elm bark", "--label", "trees"]) == 0
    assert "where the model looked" in capsys.readouterr().out


def test_rows_without_labels_are_refused_by_the_command(tmp_path, capsys):
    data = tmp_path / "library.jsonl"
    rows = [{"text": "oak elm", "labels": ["trees"]}, {"text": "ash", "labels": []}] * 10
    data.write_text("\n".join(map(json.dumps, rows)))
    assert run(["train", str(data), "-O", str(tmp_path / "model"), "--model", "otseq2set"]) == 2
    assert "every row must have at least one label" in capsys.readouterr().err
