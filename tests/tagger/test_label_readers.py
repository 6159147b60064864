"""Taggers, recipes and commands with models that read texts and the texts of labels: PRIME and its relatives."""

import json
import subprocess
import sys
from importlib import import_module

import pytest
from library import WORDS, make_library

from tagwood import Tagger, load
from tagwood.cli.app import run
from tagwood.errors import InputError, MissingExtraError
from tagwood.neural.encoders.pretrained import PretrainedModule
from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.neural.prime.model import PrototypeModel
from tagwood.neural.prime.settings import PrototypeTraining
from tagwood.recipe import FEATURE_KEYS, LIGHT, MODELS, Recipe, parse_recipe, recipe_of


def reader(**options):
    settings = {"encoder": "bag", "centroids": "momentum", "epochs": 3, "batch_size": 64, "threads": 1}
    return PrototypeModel(**{**settings, **options})


@pytest.fixture(scope="module")
def tagger():
    return Tagger(model=reader()).fit(*make_library(400))


def test_label_names_are_given_to_models_that_read_them():
    seen = {}

    class Listener(PrototypeModel):
        def fit(self, texts, Y, *, label_texts=None, progress=None):
            seen.update(texts=texts, label_texts=label_texts, n_labels=Y.shape[1])
            return super().fit(texts, Y, label_texts=label_texts)

    texts, labels = make_library(60)
    Tagger(model=Listener(encoder="bag", centroids="none", epochs=1, threads=1)).fit(texts, labels)
    assert sorted(seen["label_texts"]) == sorted(WORDS)
    assert seen["n_labels"] == len(WORDS)
    assert seen["texts"] == texts


def test_texts_go_to_the_model_and_names_come_back(tagger):
    for topic, words in WORDS.items():
        assert tagger.tag_one(" ".join(words), k=1).names == [topic]
    assert "trees" not in tagger.tag_one("oak elm", k=4, exclude=["trees"]).names
    assert tagger.tag_one("oak elm", k=4, restrict=["water"]).names == ["water"]


def test_explanations_name_words_and_near_training_texts(tagger):
    found = tagger.explain("oak elm granite", "trees")
    weights = dict(found.words)
    assert set(weights) == {"oak", "elm", "granite"}
    assert weights["oak"] > weights["granite"]
    assert found.similar[0].labels.count("trees") == 1
    assert "what the score loses without them" in found.to_text()
    assert found.to_dict()["words"][0]["weight"] == max(weights.values())
    assert "read_words" not in found.to_dict()
    assert "oak" in found.to_html()


def test_nearest_texts_are_those_of_the_models_own_encoder(tagger, tmp_path):
    again = load(tagger.save(tmp_path / "model"))
    for one in (tagger, again):
        assert one.examples_.encoder is one.model_.encoder_
    assert again.explain("oak elm", "trees").similar == tagger.explain("oak elm", "trees").similar


def test_new_labels_are_taken_in_by_the_model(tagger, tmp_path):
    grown = load(tagger.save(tmp_path / "model"))
    grown.update_labels(texts={"oaks": "oak oak elm"})
    assert grown.model_.n_labels_ == len(WORDS) + 1 == len(grown.vocab_)
    assert len(grown.new_labels_.labels) == 0
    assert "oaks" in grown.tag_one("oak elm", k=3).names
    verdict = grown.explain("granite slate", "oaks", k=1).verdict
    assert verdict.reason == "beyond the limit"
    again = load(grown.save(tmp_path / "grown"))
    assert again.tag(["oak elm"], k=5) == grown.tag(["oak elm"], k=5)


def test_every_kind_has_a_model_that_its_name_describes():
    for name, kind in MODELS.items():
        model = Recipe().override([f"model.kind={name}"]).tagger().model
        assert [other for other, one in MODELS.items() if one.describes(model)] == [name]
        assert "kind" not in kind.parameters() or name in LIGHT


def test_recipes_describe_parts_of_neural_models():
    text = """
[model]
kind = "prime-lite"
epochs = 4
threads = 1
[model.training]
clip = 0.5
[model.encoder]
encoder = "small"
layers = 1
"""
    model = parse_recipe(text).tagger().model
    assert (model.preset, model.epochs, model.training.clip) == ("prime-lite", 4, 0.5)
    assert model.training.batch_size == PrototypeModel(preset="prime-lite").resolved_settings().training.batch_size
    assert repr(model.encoder) == "TextEncoder(encoder='small', layers=1)"
    tagger = parse_recipe(text).tagger()
    again = parse_recipe(recipe_of(tagger).to_toml()).tagger()
    assert repr(again.model) == repr(model)
    changed = Recipe().override(["model.kind=prime", "model.training.clip=0.25", "model.training.patience=2"])
    assert changed.tagger().model.training.clip == 0.25
    assert changed.tagger().model.training.patience == 2


@pytest.mark.parametrize("kind", ["text-encoder", "both"])
def test_features_of_a_network_are_named_in_recipes(kind):
    settings = [f"features.kind={kind}", "features.encoder=bag", "features.dimension=64", "model.threads=1"]
    if kind == "both":
        settings += ["features.ngrams=[1, 1]", "features.weights=[2, 1]"]
    tagger = Recipe().override([*settings, "model.seed=5"]).tagger()
    network = tagger.encoder if kind == "text-encoder" else tagger.encoder.encoders[1]
    assert repr(network) == "TextEncoder(encoder='bag', dimension=64, seed=5, threads=1)"
    again = parse_recipe(recipe_of(tagger).to_toml()).tagger()
    assert repr(recipe_of(again)) == repr(recipe_of(tagger))
    texts, labels = make_library(60)
    assert tagger.fit(texts, labels).tag_one("oak elm bark", k=1).names == ["trees"]


def test_the_keys_of_a_network_are_those_of_its_class():
    assert set(TextEncoder().get_params()) - {"seed", "threads"} <= set(FEATURE_KEYS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["model.kind=prime", "model.arity=3"], "unknown setting for the model 'prime'; got 'arity'"),
        (["model.kind=prime", "tree.arity=3"], "unknown setting for the model 'prime'; got 'arity'"),
        (["model.kind=prime", "model.preset=ngame"], "unknown setting for the model 'prime'; got 'preset'"),
        (["model.kind=prime", "model.traning_.epochs=3"], "Did you mean 'training'"),
        (["model.kind=prime", "model.training.speed=3"], "unknown setting for training; got 'speed'"),
        (["model.kind=prime", "model.seed.x=3"], "seed must be a single value"),
        (["model.kind=prime", "model.epochs=3", "model.epochs.x=3"], "must be inside a table"),
        (["model.kind=prime", "model.epochs=-1"], "epochs must be"),
        (["model.kind=prim"], "Did you mean 'prime'"),
        (["features.kind=text"], "kind of features must be one of 'tfidf', 'text-encoder', 'both'"),
        (
            ["features.encoder=bag"],
            "unknown setting for the features 'tfidf'; got 'encoder'",
        ),
        (["features.kind=text-encoder", "features.min_df=2"], "got 'min_df'"),
        (["features.kind=both", "features.weights=[1]"], "one number for each of the 2"),
        (["features.kind=both", "features.dimension=9"], "dimension must be"),
        (
            ["features.kind=text-encoder", "features.encoder=bert-base"],
            "or a folder with weights; got 'bert-base'",
        ),
    ],
)
def test_mistakes_are_named_before_anything_is_read(settings, message):
    with pytest.raises(InputError, match=message):
        Recipe().override(settings).tagger()


def test_train_makes_a_model_that_the_other_commands_use(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = zip(*make_library(200), strict=True)
    data = tmp_path / "library.jsonl"
    data.write_text("\n".join(json.dumps({"text": text, "labels": labels}) for text, labels in rows))
    folder = str(tmp_path / "model")
    options = ["encoder=bag", "centroids=momentum", "epochs=6", "batch_size=32"]
    sets = [word for one in options for word in ("--set", f"model.{one}")]
    assert run(["train", str(data), "-O", folder, "--model", "prime", *sets, "-j", "1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["metrics"]["P@1"] > 0.9
    assert run(["predict", folder, "oak elm bark", "--json"]) == 0
    assert "trees" in capsys.readouterr().out
    assert run(["show", folder]) == 0
    assert 'kind = "prime"' in capsys.readouterr().out
    assert run(["explain", folder, "oak elm bark", "--label", "trees"]) == 0
    assert "oak" in capsys.readouterr().out


def test_without_the_extra_the_error_names_it(tmp_path):
    data = tmp_path / "library.jsonl"
    data.write_text('{"text": "oak", "labels": ["tree"]}\n')
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from tagwood.cli.app import run\n"
        f"sys.exit(run(['train', {str(data)!r}, '-O', {str(tmp_path / 'm')!r}, '--model', 'prime']))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "pip install 'tagwood[neural]'" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("missing", "module"),
    [
        ("tokenizers", "encoders.tokens"),
        ("faiss", "prime.label_index"),
    ],
)
def test_a_part_of_the_extra_that_is_missing_is_named(missing, module, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, f"tagwood.neural.{module}", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'tagwood\[neural\]'"):
        import_module(f"tagwood.neural.{module}")


def test_other_networks_than_bert_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tagwood\[neural\]'"):
        PretrainedModule.of_config("{}")


def test_torch_is_imported_only_for_kinds_that_need_it():
    code = (
        "import sys\n"
        "from tagwood.recipe import Recipe, recipe_of\n"
        "recipe_of(Recipe().tagger())\n"
        "Recipe({'model': {'kind': 'prime', 'epochs': 3}})\n"
        "assert 'torch' not in sys.modules\n"
        "Recipe({'model': {'kind': 'prime'}}).tagger()\n"
        "assert 'torch' in sys.modules and 'transformers' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_training_settings_can_be_changed_one_by_one():
    model = Recipe().override(["model.kind=dual-encoder", "model.training.patience=3"]).tagger().model
    assert model.training == PrototypeTraining(patience=3)
