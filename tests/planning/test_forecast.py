"""Forecasts and operating points: settings move what they should, limits are kept, refusals say what to do."""

import dataclasses

import pytest
from library import make_library

from benchmarks import synthetic
from tagwood import Dataset, LinearTree, Solver, Tagger, TfidfEncoder
from tagwood._check import BYTES, SECONDS, parse_quantity
from tagwood.errors import InputError
from tagwood.planning import Limits, choose_point, forecast_training, measure_figures
from tagwood.planning.forecast import largest_bytes, n_fits, read_coefficients, used_bytes
from tagwood.recipe import Recipe
from tagwood.tagger import SetRules
from tagwood.tagger.fitting import training_data


@pytest.fixture(scope="module")
def data():
    return training_data(*make_library(3000), None, None)


@pytest.fixture(scope="module")
def large():
    made = synthetic.power_law(3000, 10, 1500, 8000, nnz_per_row=40.0, seed=0)
    texts = [" ".join(f"w{j}" for j in made.X_train[[row]].indices) for row in range(3000)]
    return Dataset(made.Y_train, texts=texts)


def forecast(data, encoder=None, model=None, sets=SetRules(), used=100e6):  # noqa: B008
    tagger = Tagger(encoder or TfidfEncoder(threads=1), model or LinearTree(threads=1), sets=sets)
    return forecast_training(measure_figures(data, tagger.encoder), tagger, used_bytes=used)


def test_every_value_has_a_band_and_memory_counts_what_is_there(data):
    found = forecast(data)
    for name in ("peak_bytes", "cpu_seconds", "model_bytes", "latency_seconds", "batch_seconds"):
        value = getattr(found, name)
        assert 0 < value.low < value.expected < value.high
    more = forecast(data, used=300e6)
    assert more.peak_bytes.expected == pytest.approx(found.peak_bytes.expected + 200e6)
    assert found.depth == 0
    assert found.n_nodes == 1


def test_settings_move_what_they_should(data):
    plain = forecast(data)
    words = forecast(data, encoder=TfidfEncoder(ngrams=(1, 1), threads=1))
    sparse = forecast(data, model=LinearTree(solver=Solver(threshold=0.3)))
    wide = forecast(data, model=LinearTree(solver=Solver(weights="float32")))
    three = forecast(data, model=LinearTree(n_trees=3))
    once = forecast(data, sets=SetRules(holdout=0.0))
    for name in ("peak_bytes", "cpu_seconds", "model_bytes"):
        assert getattr(words, name).expected < getattr(plain, name).expected
        assert getattr(three, name).expected > getattr(plain, name).expected
    assert sparse.model_bytes.expected < plain.model_bytes.expected < wide.model_bytes.expected
    assert sparse.peak_bytes.expected < plain.peak_bytes.expected
    assert three.latency_seconds.expected > plain.latency_seconds.expected
    assert once.cpu_seconds.expected < plain.cpu_seconds.expected


def test_rows_are_trained_on_as_often_as_fit_does(data):
    figures = measure_figures(data, TfidfEncoder(threads=1))
    assert n_fits(figures, Tagger()) == pytest.approx(1.9)
    assert n_fits(figures, Tagger(sets=SetRules(refit=False))) == pytest.approx(0.9)
    assert n_fits(figures, Tagger(sets=SetRules(holdout=0.0))) == 1.0
    assert n_fits(dataclasses.replace(figures, grouped=True), Tagger()) == 1.0


def test_constants_survive_their_file(tmp_path, monkeypatch):
    known = read_coefficients()
    (tmp_path / "again.json").write_text(known.to_json(), encoding="utf-8")
    monkeypatch.setattr("tagwood.planning.forecast.FILE", tmp_path / "again.json")
    assert read_coefficients.__wrapped__() == known
    assert set(known.bands) == {"memory", "cpu", "size", "latency", "batch"}
    assert all(band >= 1 for band in known.bands.values())


def test_other_models_have_no_forecast(data):
    tagger = Tagger(model=object())
    figures = measure_figures(data, TfidfEncoder(threads=1))
    with pytest.raises(InputError, match="a forecast is made for TF-IDF features and a linear tree"):
        forecast_training(figures, tagger, used_bytes=0)


def point(data, recipe, **limits):
    def predict(changed):
        tagger = changed.tagger()
        return forecast_training(measure_figures(data, tagger.encoder), tagger, used_bytes=0)

    return choose_point(recipe, Limits(**limits), predict)


def test_without_limits_nothing_changes(data):
    found = point(data, Recipe())
    assert found.changes == ()
    assert found.loss == 0
    assert found.recipe == Recipe()


def test_a_limit_changes_as_little_as_it_takes(large):
    data, free = large, point(large, Recipe())
    size = free.forecast.model_bytes
    found = point(data, Recipe(), model_bytes=0.95 * size.high)
    assert found.changes == ("model.threshold=0.15",)
    assert found.forecast.model_bytes.high <= 0.95 * size.high
    assert found.recipe.tagger().model.solver.threshold == 0.15
    smaller = point(data, Recipe(), model_bytes=0.5 * size.high)
    assert smaller.loss > found.loss
    assert smaller.forecast.model_bytes.high <= 0.5 * size.high


def test_settings_are_never_made_larger(large):
    recipe = Recipe().override(["features.min_df=10", "model.threshold=0.4", "features.ngrams=[1,1]"])
    found = point(large, recipe, model_bytes=point(large, recipe).forecast.model_bytes.high * 0.95)
    assert found.changes
    assert found.recipe.tagger().encoder.min_df >= 10
    assert found.recipe.tagger().model.solver.threshold >= 0.4


def test_an_ensemble_may_become_one_tree(data):
    recipe = Recipe().override(["tree.n_trees=3"])
    free = point(data, recipe).forecast
    assert "tree.n_trees=1" in point(data, recipe, latency_seconds=0.5 * free.latency_seconds.high).changes


def test_limits_that_nothing_keeps_are_named(data):
    with pytest.raises(InputError, match=r"no settings are within these limits; got model size up to .*allowed 0.1 kB"):
        point(data, Recipe(), model_bytes=100)


@pytest.mark.parametrize(
    ("text", "units", "plain", "value"),
    [
        ("500MB", BYTES, "mb", 5e8),
        ("2 gb", BYTES, "mb", 2e9),
        ("1GiB", BYTES, "mb", 2**30),
        ("7", BYTES, "mb", 7e6),
        ("2ms", SECONDS, "ms", 0.002),
        ("300us", SECONDS, "ms", 3e-4),
        ("0.5", SECONDS, "ms", 5e-4),
    ],
)
def test_quantities_have_units(text, units, plain, value):
    assert parse_quantity(text, "it", units, plain) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "x", "-1GB", "0", "1 parsec", "nan", "1e9", "MB", "1GB2", "inf"])
def test_other_quantities_are_refused(text):
    with pytest.raises(InputError, match="--max-ram must be a number above 0 with a unit, such as 500MB or 4GB"):
        parse_quantity(text, "--max-ram", BYTES, "mb")


def test_memory_of_process_and_machine_is_known_here():
    assert 10e6 < used_bytes() < 100e9
    limit = largest_bytes()
    assert limit is None or limit > used_bytes()


def test_grouped_data_have_a_forecast():
    texts, labels = make_library(200)
    rows = training_data(texts, labels, [str(row // 10) for row in range(200)], None)
    assert isinstance(rows, Dataset)
    assert forecast(rows).cpu_seconds.expected > 0
