"""Recipes: TOML in, a Tagger out; mistakes are named with the nearest right word."""

import pytest

from tagwood import Disentangled, LinearTree, Solver, Tagger, TfidfEncoder
from tagwood.errors import InputError
from tagwood.recipe import KEYS, Recipe, parse_recipe, read_recipe, recipe_of
from tagwood.tagger import GroupRule, SetRules

TEXT = """
[features]
ngrams = [1, 1]
min_df = 3

[groups]
method = "eagle-0"

[tree]
arity = 8
lam = 0.5

[model]
C = 0.5
threads = 1
weights = "float16"
seed = 7
keep_texts = 10

[sets]
rule = "precision>=0.9"
"""


def test_sections_become_the_parts_of_a_tagger():
    tagger = parse_recipe(TEXT).tagger()
    assert repr(tagger.encoder) == "TfidfEncoder(ngrams=(1, 1), min_df=3, threads=1)"
    model = LinearTree(arity=8, lam=0.5, C=0.5, solver=Solver(weights="float16"), seed=7, threads=1)
    assert repr(tagger.model) == repr(model)
    assert tagger.groups == GroupRule(method="eagle-0")
    assert tagger.sets == SetRules(rule="precision>=0.9")
    assert (tagger.keep_texts, tagger.seed) == (10, 7)


def test_an_empty_recipe_gives_the_defaults():
    assert recipe_of(Recipe().tagger()) == recipe_of(Tagger())


def test_the_recipe_of_a_tagger_makes_the_same_tagger():
    tagger = parse_recipe(TEXT).tagger()
    again = parse_recipe(recipe_of(tagger).to_toml()).tagger()
    assert repr(again) == repr(tagger)


def test_every_setting_of_every_part_has_a_key():
    assert set(recipe_of(Tagger()).sections["features"]) == set(TfidfEncoder().get_params(deep=False)) - {"threads"}
    flat = {key for keys in KEYS.values() for key in keys}
    assert set(LinearTree().get_params(deep=False)) - {"solver"} <= flat


@pytest.mark.parametrize(
    ("setting", "section", "key", "value"),
    [
        ("tree.lam=0.5", "tree", "lam", 0.5),
        ("features.ngrams=[1, 3]", "features", "ngrams", [1, 3]),
        ("sets.rule=precision>=0.9", "sets", "rule", "precision>=0.9"),
        ("model.link = sigmoid", "model", "link", "sigmoid"),
        ('model.link="sigmoid"', "model", "link", "sigmoid"),
    ],
)
def test_overrides_take_toml_values_and_plain_words(setting, section, key, value):
    assert Recipe().override([setting]).sections[section][key] == value


def test_copies_in_tree_make_a_tree_with_copies():
    settings = ["tree.copies=auto", "tree.copies_growth=1.2", "tree.arity=4", "model.C=2", "model.seed=5"]
    tagger = Recipe().override(settings).tagger()
    model = tagger.model
    assert isinstance(model, Disentangled)
    assert (model.copies, model.copy_settings.growth, model.base.arity, model.base.C, model.seed) == (
        "auto",
        1.2,
        4,
        2,
        5,
    )
    again = parse_recipe(recipe_of(tagger).to_toml()).tagger()
    assert repr(again.model) == repr(
        Disentangled(model.base_tree(), copies="auto", copy_settings=model.copy_settings, seed=5)
    )
    assert "copies" not in recipe_of(Tagger()).sections["tree"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["tree.arty=3"], r"\[tree\] must have only known keys; got 'arty'. Did you mean 'arity'"),
        (["modl.C=3"], "must have only known sections; got 'modl'. Did you mean 'model'"),
        (["model.arity=3"], r"got 'arity'. It belongs to \[tree\]"),
        (["tree.lam"], "a setting must be section.key=value; got 'tree.lam'"),
        (["lam=1"], "a setting must be section.key=value"),
        (["tree.lam=9"], "lam must be a number from 0 to 2; got 9"),
        (["model.link=sigmid"], "Did you mean 'sigmoid'"),
        (["tree.copies=0"], "copies must be"),
        (["tree.copies=2", "model.kind=softmax-tree"], "unknown setting for the model 'softmax-tree'"),
        (["model.C=much"], "C must be a number"),
        (["features.ngrams=3"], "ngrams must be a pair"),
        (["sets.rule=precisio>=0.9"], "got 'precisio>=0.9'"),
    ],
)
def test_mistakes_are_named_before_anything_is_read(settings, message):
    with pytest.raises(InputError, match=message):
        Recipe().override(settings).tagger()


@pytest.mark.parametrize(
    ("kind", "settings", "model"),
    [
        (
            "neighbours",
            ["model.n_neighbours=7", "model.power=3.5"],
            "Neighbours(n_neighbours=7, power=3.5, threads=1)",
        ),
        ("centroids", ["model.max_features=50"], "Centroids(max_features=50, threads=1)"),
        ("name-matcher", ["model.min_coverage=0.7"], "NameMatcher(min_coverage=0.7, threads=1)"),
    ],
)
def test_models_of_rows_and_names(kind, settings, model):
    recipe = Recipe().override([f"model.kind={kind}", "model.threads=1", "model.seed=3", *settings])
    tagger = recipe.tagger()
    assert repr(tagger.model) == model
    assert tagger.seed == 3
    assert repr(parse_recipe(recipe_of(tagger).to_toml()).tagger()) == repr(tagger)
    with pytest.raises(InputError, match=f"unknown setting for the model '{kind}'; got 'C'"):
        recipe.override(["model.C=2"]).tagger()


def test_broken_files_are_named(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text("[tree\n")
    with pytest.raises(InputError, match=r"recipe\.toml: a recipe must be valid TOML"):
        read_recipe(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="must be UTF-8 text"):
        read_recipe(path)
    path.write_text("tree = 3\n")
    with pytest.raises(InputError, match=r"\[tree\] of a recipe must be a section; got 3"):
        read_recipe(path)
