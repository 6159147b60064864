"""Training in parts gives the bits of one training, and a second start computes only what is missing."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from tree_problems import planted_problem, same_arrays

from tagwood.errors import StorageError
from tagwood.models.disentangled import CopySettings, Disentangled
from tagwood.models.linear_tree import LinearTree, Solver, training
from tagwood.models.tasks import Job, LocalRunner
from tagwood.storage.shards import ShardStore
from tagwood.storage.state import State

SMALL = {"max_leaf_size": 3, "arity": 4, "threads": 2}
MODELS = [
    LinearTree(**SMALL),
    LinearTree(**SMALL, n_trees=2, lam=0.4),
    LinearTree(**SMALL, solver=Solver(negatives="teacher+matcher")),
    Disentangled(LinearTree(**SMALL, n_trees=2), threads=2),
    Disentangled(LinearTree(**SMALL), copies="auto", threads=2),
    Disentangled(LinearTree(**SMALL), copy_settings=CopySettings(rows="training"), threads=2),
    Disentangled(LinearTree(**SMALL), retrain_matcher=False, threads=2),
]


@pytest.fixture(scope="module")
def problem():
    return planted_problem(np.random.default_rng(0), n_rows=300, n_labels=60)


@pytest.fixture(params=[200, 5_000, 10**9], ids=["small parts", "middle parts", "one part"], autouse=True)
def part_size(request, monkeypatch):
    monkeypatch.setattr(training, "_LEAST_PART", request.param)
    return request.param


class Counting(LocalRunner):
    """A runner that counts what it computes, and may stop after some parts as a killed process does."""

    def __init__(self, store=None, most=10**9):
        super().__init__(store, threads=1)
        self.computed, self.most = [], most

    def _compute(self, job, missing):
        for place, result in super()._compute(job, missing):
            self.computed.append((job.name, place))
            yield place, result
            if len(self.computed) == self.most:
                raise KeyboardInterrupt


def fit(model, problem, runner):
    return type(model)(**model.get_params(deep=False)).fit(*problem, runner=runner)


def same_model(one, two):
    return all(same_arrays(a, b) for a, b in zip(one.trees_, two.trees_, strict=True))


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{type(m).__name__}")
def test_parts_join_to_the_bits_of_one_training(model, problem):
    whole = fit(model, problem, None)
    for threads in (1, 3):
        assert same_model(whole, fit(model, problem, LocalRunner(threads=threads)))


@pytest.mark.parametrize("model", [MODELS[0], MODELS[2], MODELS[5]], ids=lambda m: f"{type(m).__name__}")
def test_parts_join_to_the_same_bits_with_rejected_labels(model, problem):
    X, Y = problem
    wrong = Y.copy()[np.random.default_rng(1).permutation(Y.shape[0])]
    plain, whole, parts = (
        type(model)(**model.get_params(deep=False)).fit(X, Y, **options)
        for options in ({}, {"rejected": wrong}, {"rejected": wrong, "runner": LocalRunner(threads=2)})
    )
    assert same_model(whole, parts)
    assert not same_model(plain, whole)


@pytest.mark.parametrize("model", MODELS[1:4], ids=lambda m: f"{type(m).__name__}")
def test_a_second_start_computes_only_what_is_missing(model, problem, tmp_path):
    whole = Counting(ShardStore(tmp_path / "whole"))
    expected = fit(model, problem, whole)
    stopped = Counting(ShardStore(tmp_path / "stopped"), most=3)
    with pytest.raises(KeyboardInterrupt):
        fit(model, problem, stopped)
    kept = len(list((tmp_path / "stopped").iterdir()))
    again = Counting(ShardStore(tmp_path / "stopped"))
    assert same_model(expected, fit(model, problem, again))
    assert len(again.computed) == len(whole.computed) - kept
    third = Counting(ShardStore(tmp_path / "stopped"))
    assert same_model(expected, fit(model, problem, third))
    assert third.computed == []


def test_shards_of_other_data_and_settings_are_not_used(problem, tmp_path):
    X, Y = problem
    store = ShardStore(tmp_path)
    fit(MODELS[0], problem, LocalRunner(store))
    for model, X_other in [(LinearTree(**SMALL, C=2.0), X), (LinearTree(**SMALL, seed=1), X), (MODELS[0], 2 * X)]:
        runner = Counting(store)
        found = fit(model, (X_other, Y), runner)
        assert any(name == "training" for name, _ in runner.computed)
        assert same_model(found, fit(model, (X_other, Y), None))


def test_an_altered_shard_is_refused_and_a_removed_one_computed_again(problem, tmp_path):
    store = ShardStore(tmp_path)
    expected = fit(MODELS[0], problem, LocalRunner(store))
    shard = sorted(tmp_path.iterdir())[0]
    raw = bytearray((shard / "arrays.safetensors").read_bytes())
    raw[-1] ^= 1
    (shard / "arrays.safetensors").write_bytes(raw)
    with pytest.raises(StorageError, match=r"a shard of unfinished work cannot be used.*Remove the folder"):
        fit(MODELS[0], problem, LocalRunner(store))
    shutil.rmtree(shard)
    runner = Counting(store)
    assert same_model(expected, fit(MODELS[0], problem, runner))
    assert len(runner.computed) == 1


def test_a_cut_has_every_node_once_and_bounds_the_work_of_a_part(problem, part_size):
    X, Y = problem
    model = LinearTree(**SMALL).fit(X, Y)
    features, labels = training.csr_parts(X), Y
    weights = training.entry_weights(labels, None, None)
    how = training.TreeTraining(features, weights, 1.0, Solver(), 0, 1)
    tree = model.trees_[0].tree
    rows = how.rows_of_nodes(tree)
    everything = np.arange(tree.n_nodes)
    parts = training._cut(how, tree, rows, 0, everything)
    nodes = [np.concatenate(list(part.levels(tree))) for part, _ in parts]
    assert sorted(np.concatenate(nodes).tolist()) == everything.tolist()
    for (_, work), mine in zip(parts, nodes, strict=True):
        assert work == how.costs(tree, rows, mine).sum()
        assert work <= part_size or mine.size == 1


def test_results_do_not_depend_on_the_order_in_which_parts_finish():
    job = Job("squares", square, 3, list(range(20)))
    assert [state.param("square", int) for state in LocalRunner(threads=4).run(job)] == [3 + i * i for i in range(20)]
    assert len(set(job.keys())) == 20
    assert job.keys() != replace(job, shared=4).keys()


def square(shared: int, part: int, threads: int) -> State:
    return State("Square", params={"square": shared + part * part})
