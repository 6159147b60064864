"""The EAGLE experiment: filters of its runs, and rounds that learn from out-of-fold scores only."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import sparse

from experiments.eagle import __main__ as eagle
from experiments.eagle import xmc
from experiments.eagle.grouping import random_groups
from experiments.eagle.problems import Problem
from tagwood import LinearTree

N_LABELS, SIZE = 6, 4


@pytest.fixture(scope="module")
def problem():
    """Rows of one label each, and a feature of its own that makes each row unlike the others."""
    labels = np.random.default_rng(0).integers(0, N_LABELS, 160)
    Y = sparse.csr_array(np.eye(N_LABELS)[labels])
    X = sparse.csr_array(np.hstack([np.eye(N_LABELS)[labels], 0.5 * np.eye(160)]).astype(np.float32))
    return Problem(X[:120], Y[:120], X[120:], Y[120:])


def test_no_model_ranks_rows_of_groups_it_was_trained_on(problem, monkeypatch):
    groups = random_groups(120, SIZE, seed=1)
    learned, ranked = {}, []
    fit, rank = LinearTree.fit, LinearTree.rank

    def groups_of(X):
        own = sparse.csr_array(X)[:, N_LABELS : N_LABELS + 120].indices
        return set(groups.indices[own].tolist())

    def watched_fit(self, X, *args, **options):
        learned[id(self)] = (self, groups_of(X))
        return fit(self, X, *args, **options)

    def watched_rank(self, X, *args, **options):
        ranked.append((groups_of(X), groups_of(X) & learned[id(self)][1]))
        return rank(self, X, *args, **options)

    monkeypatch.setattr(LinearTree, "fit", watched_fit)
    monkeypatch.setattr(LinearTree, "rank", watched_rank)
    found = xmc.measure(problem, groups, {"method": "eagle-0", "rounds": 2})
    assert found["P@1"] > 90
    assert set().union(*(rows for rows, _ in ranked)) == set(range(30))  # scores of all training rows were asked for
    assert all(not seen for _, seen in ranked)


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run the experiment's command with parts that cost nothing."""

    def call(*arguments):
        jobs = [(f"table2|delicious|R-{size}|0|auto", lambda size=size: {"size": size}) for size in (4, 10)]
        monkeypatch.setattr(eagle, "jobs", lambda part, store, quick: iter([jobs]))
        monkeypatch.setattr(eagle, "page_blocks", lambda store, out: [" ".join(store)])
        monkeypatch.setattr(sys, "argv", ["eagle", "table2", "--out", str(tmp_path), *arguments])
        eagle.main()
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("words", ["delicious R-10 0", "delicious|R-10|0"])
def test_a_filter_runs_only_the_jobs_whose_key_contains_it(run, words):
    out = run("--only", words)
    assert "table2 delicious R-10 0 auto {'size': 10" in out
    assert "R-4" not in out


def test_a_filter_that_no_key_contains_is_an_error_with_the_known_keys(run, capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        run("--only", "R-5")
    assert stopped.value.code == 2
    shown = capsys.readouterr().err
    assert "no key contains 'R-5'; keys begin with: table2 delicious R-4, table2 delicious R-10" in shown
    assert not list(tmp_path.iterdir())
