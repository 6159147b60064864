"""Ranges: TOML in, checked ranges out; what does not fit is named before any row is read."""

import pytest

from tagwood.errors import InputError
from tagwood.recipe import Recipe, parse_recipe
from tagwood.tuning.study import Choice, Span, default_ranges, parse_ranges, read_ranges, with_settings


def test_lists_are_choices_and_tables_are_spans():
    ranges = parse_ranges(
        "[features]\nngrams = [[1, 1], [1, 2]]\nmin_df = {low = 1, high = 5}\n"
        "[model]\nC = {low = 0.1, high = 10, log = true}\nrare_label_weight = {low = 0.0, high = 1.0, step = 0.5}\n"
    )
    assert ranges.of == {
        "features.ngrams": Choice(([1, 1], [1, 2])),
        "features.min_df": Span(1, 5),
        "model.C": Span(0.1, 10, log=True),
        "model.rare_label_weight": Span(0.0, 1.0, step=0.5),
    }
    assert [ranges.of[name].whole for name in ("features.min_df", "model.C")] == [True, False]


def test_the_default_ranges_fit_the_recipe_and_touch_features_tree_and_model():
    ranges = default_ranges()
    ranges.check(Recipe())
    assert {name.partition(".")[0] for name in ranges} == {"features", "tree", "model"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\nCs = [1, 2]", "Did you mean 'C'?"),
        ("[mdel]\nC = [1, 2]", "Did you mean 'model'?"),
        ("[model]\nC = 3", "must be a list of values or a table with low and high"),
        ("[model]\nC = []", "must be a list of values or a table with low and high"),
        ("[model]\nC = {low = 1}", "must be a list of values or a table with low and high"),
        ("[model]\nC = {low = 1, high = 2, lgo = true}", "must be a list of values or a table"),
        ("[model]\nC = {low = 2, high = 1}", "low of model.C must be below high; got 2 and 1"),
        ("[model]\nC = {low = 'a', high = 1}", "low, high and step of model.C must be numbers"),
        ("[model]\nC = {low = 0, high = 1, log = true}", "must be above 0 and without step"),
        ("[model]\nC = {low = 1, high = 9, log = 3}", "log of model.C must be true or false; got 3"),
        ("[features]\nmin_df = {low = 1, high = 9, step = 0.5}", "step of features.min_df must be above 0"),
        ("model = 3", "must be a section"),
        ("[model", "ranges must be valid TOML"),
        ("", "ranges must name one setting or more"),
    ],
)
def test_ranges_that_do_not_fit_are_named(text, message):
    with pytest.raises(InputError) as error:
        parse_ranges(text)
    assert message in str(error.value)


def test_values_that_a_setting_cannot_take_are_found_before_the_search():
    with pytest.raises(InputError, match=r"the range of model.link: .*Did you mean 'sigmoid'"):
        parse_ranges("[model]\nlink = ['l1-hinge', 'sigmoyd']").check(Recipe())
    with pytest.raises(InputError, match=r"the range of model.C: C must be a number"):
        parse_ranges("[model]\nC = {low = -1.0, high = 1.0}").check(Recipe())


def test_files_are_named_in_errors(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text("[model]\nC = 3")
    with pytest.raises(InputError, match=r"r.toml: the range of model.C"):
        read_ranges(path)
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"r.toml must be UTF-8 text"):
        read_ranges(path)


def test_settings_of_every_type_reach_the_recipe():
    settings = {"features.ngrams": [1, 3], "model.C": 1e-05, "features.sublinear_tf": False}
    changed = with_settings(parse_recipe("[model]\nlink = 'sigmoid'"), settings | {"tree.arity": 8})
    tagger = changed.tagger()
    assert (tagger.encoder.ngrams, tagger.encoder.sublinear_tf) == ((1, 3), False)
    assert (tagger.model.C, tagger.model.arity, tagger.model.solver.link) == (1e-05, 8, "sigmoid")
