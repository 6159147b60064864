"""Budgets: members that take too long, are too large or too slow are left out; what is impossible is an error."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from ensemble_problem import mixed_rows
from scipy import sparse

from tagwood import Tagger
from tagwood.errors import InputError
from tagwood.models.ensemble import Budget, Ensemble
from tagwood.models.ensemble.budget import Clock, Costs
from tagwood.models.ensemble.members import Inputs, Member, Split
from tagwood.models.ensemble.training import MemberTraining, Pilot
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
    assert clock.allows(9.8)
    assert not clock.allows(10.2)
    clock.reserve(6.0)  # the second round of a member that took so long
    assert clock.allows(3.0)
    assert not clock.allows(5.0)
    assert Clock(None, 2, 0).allows(1e9)


def test_costs_name_the_limit_that_is_exceeded():
    costs = Costs(Budget(size=10, latency=1.0), [4, 4, 4], [0.1, 0.1, 0.6], 1, 0.2)
    assert costs.exceeded([0, 1, 2]) == "size"
    assert costs.exceeded([0, 1]) == ""
    assert Costs(Budget(latency=1.0), [4, 4], [0.5, 0.6], 1, 0.2).exceeded([0, 1]) == "latency"


class CountedModel:
    """A model that remembers texts, and whose training takes given seconds of a clock that it moves by itself."""

    clock = 0.0
    seen: ClassVar[set[object]] = set()

    def get_params(self, deep=True):
        return {}

    def fit(self, X, y, *, label_texts):
        cls = type(self)
        reading = 5.0 if not cls.seen else 0.0
        new = ({*X} | {*label_texts}) - cls.seen
        cls.seen = cls.seen | new
        assert y.shape == (len(X), len(label_texts))
        cls.clock += reading + 0.5 + 0.01 * sum(text.startswith("row") for text in new)
        cls.clock += 0.002 * sum(text.startswith("label") for text in new)
        return self


def test_a_pilot_tells_the_time_of_rows_and_labels_apart_from_what_is_done_once(monkeypatch):
    monkeypatch.setattr("tagwood.models.ensemble.training.perf_counter", lambda: CountedModel.clock)
    Y = sparse.csr_array((np.ones(2000, dtype=np.float32), (np.arange(2000), np.arange(2000))), shape=(2000, 3000))
    rows, labels = [f"row {i}" for i in range(2000)], [f"label {i}" for i in range(3000)]
    pilot = Pilot.of(Member("", None, CountedModel()), rows, Y, {"label_texts": labels, "progress": None})
    assert pilot == pytest.approx((0.5, 0.01, 0.002))
    assert pilot.seconds(*Y.shape) == pytest.approx(26.5)


@pytest.mark.parametrize(("remembers", "places"), [(True, [0, 1]), (False, [0])])
def test_the_time_of_texts_that_a_member_remembers_counts_once(remembers, places, monkeypatch):
    class Model(CountedModel):
        remembers_texts = remembers
        seen: ClassVar[set[object]] = set()

    class First(CountedModel):
        seen: ClassVar[set[object]] = set()

    monkeypatch.setattr("tagwood.models.ensemble.training.perf_counter", lambda: Model.clock)
    Y = sparse.csr_array(np.ones((2000, 1), dtype=np.float32))
    rows = [f"row {i}" for i in range(2000)]
    members = [Member("first", None, First()), Member("second", None, Model())]
    training = MemberTraining(
        members, Inputs([rows, rows], np.ones(2000, np.int64)), Y, {"label_texts": ["label 0"]}, lambda *_: None
    )
    # One training takes 17 s, so that of all rows 21 s, and two trainings 33 s.
    training.fit_without(Split(np.arange(1600), np.arange(1600, 2000)), Clock(27.0, rounds=2, held_out=0), 0.0)
    assert training.places == places


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
