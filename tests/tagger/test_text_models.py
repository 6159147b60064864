"""Taggers, recipes and commands with a model that reads texts itself."""

import json

import pytest
from library import WORDS, make_library

from tagwood import LinearTree, SoftmaxTree, Tagger, TfidfEncoder, load
from tagwood.cli.app import run
from tagwood.errors import InputError
from tagwood.recipe import Recipe, parse_recipe, recipe_of


def reader(**options):
    return SoftmaxTree(**{"dimension": 16, "epochs": 40, "threads": 1, **options})


@pytest.fixture(scope="module")
def tagger():
    return Tagger(model=reader()).fit(*make_library(600))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_texts_go_to_the_model_and_names_come_back(tagger):
    for topic, words in WORDS.items():
        assert tagger.tag_one(" ".join(words), k=1).names == [topic]
    assert tagger.probabilities_ is not None
    assert 0.5 < tagger.tag_one("oak elm ash", k=1)[0].score <= 1
    assert tagger.encoder_.ngrams == (1, 1)


def test_labels_are_masked_restricted_and_described(tagger, tmp_path):
    tagger = load(tagger.save(tmp_path / "model"))
    assert tagger.tag_one("oak elm", k=4, restrict=["water", "stars"]).names != []
    assert "trees" not in tagger.tag_one("oak elm", k=4, exclude=["trees"]).names
    tagger.update_labels(mask=["trees"], texts={"forestry": "felling of oak and elm"})
    names = tagger.tag_one("oak elm", k=5).names
    assert "trees" not in names
    assert "forestry" in names


def test_explanations_show_similar_texts(tagger):
    found = tagger.explain("oak elm", "trees")
    assert found.suggested
    assert found.similar[0].labels.count("trees") == 1
    assert "suggested as number 1" in found.to_text()


def test_a_saved_tagger_answers_alike(tagger, tmp_path):
    again = load(tagger.save(tmp_path / "model"), verify=True)
    texts, _ = make_library(20, seed=3)
    assert again.tag(texts) == tagger.tag(texts)


def test_labels_of_groups_become_labels_of_rows_first():
    texts, names = make_library(300, seed=2)
    groups = [str(row // 2) for row in range(300)]
    tagger = Tagger(model=reader()).fit(texts, names, groups)
    assert tagger.tag_one("granite slate quarry", k=1).names == ["stones"]


def test_a_recipe_names_the_kind_of_model():
    recipe = parse_recipe('[model]\nkind = "softmax-tree"\nepochs = 7\nthreads = 1\n[tree]\ntree = "huffman"')
    tagger = recipe.tagger()
    assert repr(tagger.model) == "SoftmaxTree(tree='huffman', epochs=7, threads=1)"
    assert repr(tagger.encoder) == "TfidfEncoder(ngrams=(1, 1), threads=1)"
    again = parse_recipe(recipe_of(tagger).to_toml()).tagger()
    assert repr(again) == repr(tagger)
    assert recipe_of(Tagger(model=SoftmaxTree())) == recipe_of(Recipe().override(["model.kind=softmax-tree"]).tagger())
    assert isinstance(Recipe().override(["model.kind=linear-tree"]).tagger().model, LinearTree)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["model.kind=softmax"],
            "kind must be one of 'linear-tree', 'softmax-tree', .*; got 'softmax'. Did you mean",
        ),
        (
            ["model.kind=softmax-tree", "model.C=2"],
            "unknown setting for the model 'softmax-tree'; got 'C'",
        ),
        (["model.kind=softmax-tree", "tree.arity=2"], "got 'arity'. Known: tree, lam, dimension"),
        (["model.epochs=2"], "unknown setting for the model 'linear-tree'; got 'epochs'"),
        (["model.kind=softmax-tree", "model.dimension=9"], "dimension must be a multiple of 8"),
    ],
)
def test_settings_of_another_model_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Recipe().override(settings).tagger()


def test_recipes_describe_known_models_only():
    class Other:
        def get_params(self):
            return {}

    with pytest.raises(
        InputError,
        match="a recipe describes TF-IDF features or a TextEncoder or both, and one of linear-tree",
    ):
        recipe_of(Tagger(TfidfEncoder(), Other()))


def test_train_makes_a_softmax_tree_that_the_other_commands_use(tmp_path, capsys):
    rows = zip(*make_library(200), strict=True)
    data = tmp_path / "library.jsonl"
    data.write_text("\n".join(json.dumps({"text": text, "labels": labels}) for text, labels in rows))
    folder = str(tmp_path / "model")
    options = ["--set", "model.epochs=40", "--set", "model.dimension=16", "-j", "1", "--json"]
    assert run(["train", str(data), "-O", folder, "--model", "softmax-tree", *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["metrics"]["P@1"] > 0.9
    assert run(["predict", folder, "oak elm bark", "--json"]) == 0
    assert "trees" in capsys.readouterr().out
    assert run(["show", folder]) == 0
    assert 'kind = "softmax-tree"' in capsys.readouterr().out
    assert run(["explain", folder, "oak elm bark", "--label", "trees"]) == 0
    assert run(["train", str(data), "-O", folder, "-f", "--model", "fasttext"]) == 2
    assert "kind must be one of 'linear-tree', 'softmax-tree'" in capsys.readouterr().err
