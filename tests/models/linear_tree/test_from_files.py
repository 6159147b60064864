"""Training from features in files: the bits of training in memory, for any part of them that is in memory at a time."""

from __future__ import annotations

import numpy as np
import pytest
from tree_problems import planted_problem

from tagwood._sparse import check_features, csr_parts
from tagwood.errors import InputError
from tagwood.features.stored import open_rows, writing_rows
from tagwood.models.disentangled import Disentangled
from tagwood.models.linear_tree import LinearTree, Solver, training
from tagwood.models.tasks import LocalRunner
from tagwood.storage.shards import ShardStore

SMALL = {"max_leaf_size": 8, "arity": 4, "threads": 2}


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    X, Y = planted_problem(0, n_rows=600, n_labels=120, n_features=150)
    rows, folder = csr_parts(check_features(X)), tmp_path_factory.mktemp("work") / "features-1"
    with writing_rows(folder) as writer:
        writer.add(rows)
        writer.finish(rows.n_cols, "planted")
    return X, Y, folder


def assert_same(one, other):
    for tree, twin in zip(one.trees_, other.trees_, strict=True):
        for array, again in zip(tree.arrays, twin.arrays, strict=True):
            np.testing.assert_array_equal(array, again)


@pytest.mark.parametrize("most", [10, 500, 4000, 10**7])
@pytest.mark.parametrize(
    "settings", [{}, {"n_trees": 2}, {"rare_label_weight": 0.0, "solver": Solver(loss="logistic")}]
)
def test_a_model_from_files_has_the_bits_of_memory(problem, most, settings, monkeypatch):
    monkeypatch.setattr(training, "_LEAST_PART", 3000)
    X, Y, folder = problem
    weight = np.linspace(0.5, 2, Y.shape[0]) if "n_trees" in settings else None
    here = LinearTree(**SMALL, **settings).fit(X, Y, sample_weight=weight)
    there = LinearTree(**SMALL, **settings).fit(open_rows(folder, most), Y, sample_weight=weight)
    assert_same(here, there)


def test_a_training_from_files_is_resumed(problem, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "_LEAST_PART", 3000)
    X, Y, folder = problem
    store = ShardStore(tmp_path)

    def stop(stage, share):
        if share > 0.5 and stage == "training":
            raise KeyboardInterrupt

    runner = LocalRunner(store, 2, together=True)
    with pytest.raises(KeyboardInterrupt):
        LinearTree(**SMALL).fit(open_rows(folder, 1000), Y, runner=runner, progress=stop)
    kept, shares = len(store), []
    assert kept > 3
    there = LinearTree(**SMALL).fit(
        open_rows(folder, 1000), Y, runner=runner, progress=lambda stage, share: shares.append((stage, share))
    )
    assert_same(LinearTree(**SMALL).fit(X, Y), there)
    assert min(share for stage, share in shares if stage == "training") > 0.5


@pytest.mark.parametrize(
    "model",
    [
        LinearTree(tree="auto"),
        LinearTree(solver=Solver(negatives="teacher+matcher")),
        Disentangled(LinearTree()),
    ],
)
def test_what_needs_all_features_in_memory_is_refused(problem, model):
    with pytest.raises(InputError, match=r"features in files are for a LinearTree.*Train other models in memory"):
        model.fit(open_rows(problem[2], 1000), problem[1])
