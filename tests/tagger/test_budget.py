"""Budgets: members that take too long, are too large or too slow are left out; what is impossible is an error."""

from __future__ import annotations

import pytest
from ensemble_problem import mixed_rows

from tagwood import Tagger
from tagwood.errors import InputError
from tagwood.models.ensemble import Budget, Ensemble
from tagwood.models.ensemble.budget import Clock, Costs
from tagwood.recipe import Recipe, recipe_of


@pytest.fixture(scope="module")
def rows():
    texts, labels, names = mixed_rows(600)
    return texts, [[names[label] for label in row] for row in labels]


def test_quantities_have_units_or_are_numbers():
    budget = Budget(time="1.5h", size="2MB", latency="500us")
    assert (budget.seconds, budget.bytes, budget.latency_seconds) == (5400.0, 2e6, 0.0005)
    assert Budget(time=3).seconds == 3.0
    for wrong in (Budget(time="soon"), Budget(size=-1), Budget(latency="5kg")):
        with pytest.raises(InputError, match="must be"):
            wrong.check()
    with pytest.raises(InputError, match="time must be a number above 0 with a unit, such as 90s or 10m; got 'soon'"):
        Tagger(budget=Budget(time="soon")).fit(["a"], [["b"]])


def test_a_clock_counts_all_rounds():
    clock = Clock(11.5, rounds=2, held_out=0)
    assert clock.allows(4.9)
    assert not clock.allows(5.1)
    clock.reserve(6.0)  # the second round of a member that took so long
    assert clock.allows(1.5)
    assert not clock.allows(2.5)
    assert Clock(None, 2, 0).allows(1e9)


def test_costs_name_the_limit_that_is_exceeded():
    costs = Costs(Budget(size=10, latency=1.0), [4, 4, 4], [0.1, 0.1, 0.6], 1, 0.2)
    assert costs.exceeded([0, 1, 2]) == "size"
    assert costs.exceeded([0, 1]) == ""
    assert Costs(Budget(latency=1.0), [4, 4], [0.5, 0.6], 1, 0.2).exceeded([0, 1]) == "latency"


@pytest.mark.slow
def test_without_time_the_first_member_is_alone(rows):
    tagger = Tagger(budget=Budget(time="1ms")).fit(*rows)
    assert [one.name for one in tagger.members() if one.used] == ["LinearTree"]
    assert [one.reason for one in tagger.members()] == ["", "time", "time", "time"]
    assert tagger.tag_one(rows[0][0]).names


@pytest.mark.slow
def test_members_that_bring_least_for_their_size_are_left_out(rows, tmp_path):
    whole = Tagger().fit(*rows)
    size = sum(file.stat().st_size for file in whole.save(tmp_path / "whole").iterdir())
    small = Tagger(budget=Budget(size=0.8 * size)).fit(*rows)
    assert isinstance(small.model_, Ensemble)
    assert "size" in [one.reason for one in small.members()]
    assert sum(file.stat().st_size for file in small.save(tmp_path / "small").iterdir()) < size
    again = Tagger.load(tmp_path / "small")
    assert again.budget == small.budget
    assert again.members() == small.members()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (Budget(size="1kB"), "the model must have at most 1.0 kB; got"),
        (Budget(latency="1us"), "a text must be tagged in at most 1.0 µs; got"),
    ],
)
def test_impossible_limits_are_named(rows, budget, message):
    with pytest.raises(InputError, match=message):
        Tagger(quality="fast", budget=budget).fit(*rows)


def test_recipes_have_a_budget():
    tagger = Recipe().override(["budget.time=10m", "budget.size=50MB"]).tagger()
    assert (tagger.budget.time, tagger.budget.size, tagger.budget.latency) == ("10m", "50MB", None)
    assert recipe_of(tagger).tagger().budget == tagger.budget
    with pytest.raises(InputError, match="size must be a number above 0 with a unit"):
        Recipe().override(["budget.size=small"]).tagger()
