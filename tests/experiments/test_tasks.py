"""Runs of experiments: the same results here and on a cluster."""

from __future__ import annotations

import os

import pytest

from experiments.tasks import run_calls, run_seeds
from tagwood.errors import InputError


def calls(n: int):
    return [lambda number=number: (number * number, os.getpid()) for number in range(n)]


@pytest.mark.filterwarnings("ignore")
def test_runs_on_a_cluster_are_tasks_with_the_results_of_runs_here():
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'tagwood[scale]'")
    here, there = (dict(run_calls(calls(6), cluster)) for cluster in (None, "local"))
    assert [here[place].result[0] for place in range(6)] == [there[place].result[0] for place in range(6)]
    assert {run.result[1] for run in here.values()} == {os.getpid()}
    assert os.getpid() not in {run.result[1] for run in there.values()}


def test_seeds_are_given_by_setting_and_in_order(monkeypatch):
    from experiments import tasks

    def backwards(given, cluster):
        yield from reversed(list(run_calls(given)))

    monkeypatch.setattr(tasks, "run_calls", backwards)
    squares = calls(6)
    found = run_seeds([squares[:1], squares[1:4], squares[4:]], "there")
    assert [[square for square, _ in results] for results in found] == [[0], [1, 4, 9], [16, 25]]


def test_an_address_that_does_not_answer_is_one_sentence():
    pytest.importorskip("ray")
    with pytest.raises(InputError, match=r"a Ray cluster must answer at 127\.0\.0\.1:1"):
        list(run_calls(calls(1), "127.0.0.1:1"))
