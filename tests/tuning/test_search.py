"""`tune`: held-out rows only, time limits, searches that are stopped, killed and continued."""

import json
import sys
from dataclasses import replace

import pytest
from library import make_library

from tagwood import evaluate
from tagwood.data import Dataset
from tagwood.errors import InputError, MissingExtraError
from tagwood.recipe import Recipe, parse_recipe, read_recipe
from tagwood.tagger.fitting import training_data
from tagwood.tuning import parse_ranges, tune
from tagwood.tuning import search as module
from tagwood.tuning.search import split_rows

pytest.importorskip("optuna")

BASE = parse_recipe("[model]\nthreads = 1")
# With min_df = 1000 no feature is left: such a trial can only fail or be bad, so the search has a right answer.
RANGES = parse_ranges("[features]\nmin_df = [1, 1000]\n[model]\nC = {low = 0.1, high = 10.0, log = true}")


@pytest.fixture(scope="module")
def data():
    return training_data(*make_library(120), None, None)


def search(data, folder, **options):
    options = {"recipe": BASE, "ranges": RANGES, "minutes": 5, "max_trials": 3, "metric": "P@1"} | options
    return tune(data, folder, **options)


def test_the_first_trial_is_the_given_recipe_and_the_best_one_is_written(data, tmp_path):
    found = search(data, tmp_path / "t", max_trials=6)
    first = next(trial for trial in found.trials if trial.number == 0)
    assert first.settings == {}
    assert [trial.value for trial in found.trials] == sorted((trial.value for trial in found.trials), reverse=True)
    assert len(found.trials) + len(found.failures) == 6
    assert found.trials[0].value >= first.value
    assert read_recipe(tmp_path / "t" / "best.toml").sections == found.recipe.sections
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == [
        "best.toml",
        "ranges.toml",
        "study.log",
    ]


def test_the_value_of_a_trial_can_be_had_again_by_hand(data, tmp_path):
    found = search(data, tmp_path / "t", metric="micro-F1@2")
    split = split_rows(data, "micro-F1@2", 0.2, 0)
    assert (split.fitted.n_rows, split.held.n_rows, found.held_out) == (96, 24, 24)
    tagger = found.recipe.tagger().fit(split.fitted.texts, split.fitted.labels)
    report = evaluate(split.held.labels, tagger.rank(split.held.texts, k=2), metrics=["micro-F1@2"])
    assert report["micro-F1@2"] == found.trials[0].value


def test_filtered_pairs_do_not_count(data):
    split = split_rows(data, "P@1", 0.2, 0)
    tagger = BASE.tagger().fit(split.fitted)
    best = tagger.rank(split.held.texts, k=1)
    value = module.measure(BASE, split, lambda stage, share: None)
    held = replace(split.held, filter_pairs=best.to_sets())  # the best label of each row leaves the second the first
    others = module.measure(BASE, replace(split, held=held), lambda stage, share: None)
    second = tagger.rank(split.held.texts, k=2).without(best.to_sets())
    truth = split.held.labels - split.held.labels.multiply(best.to_sets())
    assert others == evaluate(truth, second, metrics=["P@1"])["P@1"] < value


def test_a_search_goes_on_where_it_was_and_takes_no_other(data, tmp_path):
    first = search(data, tmp_path / "t", max_trials=2)
    both = search(data, tmp_path / "t", max_trials=2, threads=1)
    assert len(both.trials) + len(both.failures) == 4
    assert {trial.number for trial in first.trials} <= {trial.number for trial in both.trials}
    assert [trial.number for trial in both.trials if not trial.settings] == [0]
    for change, word in [
        ({"metric": "P@2"}, "metric"),
        ({"seed": 1}, "seed"),
        ({"holdout": 0.5}, "share held out"),
        ({"recipe": parse_recipe("[model]\nC = 2")}, "recipe"),
        ({"ranges": parse_ranges("[model]\nC = [1, 2]")}, "ranges"),
    ]:
        with pytest.raises(InputError, match=f"holds a search with another {word}"):
            search(data, tmp_path / "t", **change)
    with pytest.raises(InputError, match="another dataset"):
        search(data.rows(range(100)), tmp_path / "t")


def test_the_number_of_threads_is_no_other_recipe(data, tmp_path):
    search(data, tmp_path / "t", max_trials=1)
    assert search(data, tmp_path / "t", max_trials=1, recipe=Recipe(), threads=1).trials


def test_an_interrupt_keeps_finished_trials_and_the_next_call_goes_on(data, tmp_path, monkeypatch):
    real, calls, seen = module.measure, [], []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search(
            data,
            tmp_path / "t",
            max_trials=9,
            ranges=parse_ranges("[model]\nC = [1, 2]"),
            each=seen.append,
        )
    assert len(seen[-1].trials) == 2
    after = search(data, tmp_path / "t", max_trials=1, ranges=parse_ranges("[model]\nC = [1, 2]"))
    assert [trial for trial in after.trials if trial.number < 3] == seen[-1].trials
    assert {trial.number for trial in after.trials} == {0, 1, 3}
    assert (tmp_path / "t" / "best.toml").is_file()


def test_a_kill_in_the_middle_of_a_line_loses_that_line_only(data, tmp_path):
    before = search(data, tmp_path / "t", max_trials=2)
    journal = tmp_path / "t" / "study.log"
    with journal.open("ab") as file:
        file.write(b'{"op_code":4,"worker')
    (tmp_path / "t" / "best.toml").unlink()  # it was killed before it wrote this
    after = search(data, tmp_path / "t", max_trials=2)
    assert (tmp_path / "t" / "best.toml").read_text() == after.to_toml()
    assert [trial for trial in after.trials if trial.number < 2] == before.trials
    assert all(json.loads(line) for line in journal.read_text().splitlines())


def test_a_file_that_is_no_journal_is_named(data, tmp_path):
    (tmp_path / "study.log").write_text("hello\n")
    with pytest.raises(InputError, match=r"study.log must be the journal of a search"):
        search(data, tmp_path)


def test_two_searches_cannot_share_a_folder(data, tmp_path):
    def again(_):
        with pytest.raises(InputError, match="another process is searching"):
            search(data, tmp_path)

    search(data, tmp_path, max_trials=1, each=again)


def test_the_time_limit_ends_the_search_but_not_before_the_first_trial(data, tmp_path):
    found = search(data, tmp_path / "t", minutes=1e-9, max_trials=None)
    assert [trial.number for trial in found.trials] == [0]


def test_a_trial_that_outlives_the_time_is_given_up(data, tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])

    def slow(words, share):
        now[0] += 20.0 if words.startswith("trial 1") else 0.0

    ranges = parse_ranges("[model]\nC = [1, 2]")
    found = search(data, tmp_path / "t", ranges=ranges, minutes=0.5, max_trials=None, progress=slow)
    assert [trial.number for trial in found.trials] == [0]
    assert found.failures == {}


def test_trials_that_cannot_work_are_counted_and_the_search_goes_on(data, tmp_path, monkeypatch):
    real = module.measure

    def picky(recipe, *rest):
        if recipe.sections["model"].get("C") == 2:
            raise InputError("no feature is left")
        return real(recipe, *rest)

    monkeypatch.setattr(module, "measure", picky)
    ranges = parse_ranges("[model]\nC = [1, 2]")
    found = search(data, tmp_path / "t", max_trials=9, ranges=ranges)
    assert set(found.failures.values()) == {"no feature is left."}
    assert len(found.trials) + len(found.failures) == 9
    assert all(trial.settings.get("model.C") != 2 for trial in found.trials)


def test_a_given_recipe_that_does_not_work_is_an_error(data, tmp_path):
    with pytest.raises(InputError, match="at least one n-gram"):
        search(data, tmp_path / "t", recipe=parse_recipe("[features]\nmin_df = 1000"))


def test_mistakes_are_counted_downwards(data, tmp_path):
    found = search(data, tmp_path / "t", metric="hamming")
    values = [trial.value for trial in found.trials]
    assert values == sorted(values)


def test_propensity_scored_metrics_know_the_fitted_rows(data, tmp_path):
    assert 0.5 < search(data, tmp_path / "t", metric="PSP@1", max_trials=1).trials[0].value <= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": "P"}, "requires a number of labels"),
        ({"metric": "depth@5"}, "must measure the quality of labels; got depth@5"),
        ({"minutes": 0}, "minutes must be a number greater than 0"),
        ({"holdout": 0.0}, "holdout must be a number from 0.01 to 0.9"),
        ({"max_trials": 0}, "max_trials must be a whole number"),
    ],
)
def test_wrong_options_are_named_before_anything_is_written(data, tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        search(data, tmp_path / "t", **change)
    assert not (tmp_path / "t").exists()


def test_rows_without_texts_or_with_labels_of_groups_are_refused(data, tmp_path):
    with pytest.raises(InputError, match="needs texts"):
        search(Dataset([[0]] * 10, features=[[1.0]] * 10), tmp_path / "t")
    with pytest.raises(InputError, match="known for groups only"):
        search(Dataset([[0]] * 10, texts=["a"] * 10, groups=["g"] * 10), tmp_path / "t")
    with pytest.raises(InputError, match="must have labels; got 3 and 1 rows"):
        search(Dataset([[], [], [], [0]], texts=list("abcd")), tmp_path / "t")


def test_without_optuna_the_error_says_what_to_install(data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tagwood\[tune\]'"):
        search(data, tmp_path / "t")
    assert not (tmp_path / "t").exists()
