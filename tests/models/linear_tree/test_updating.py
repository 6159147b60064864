"""Tests of learning from new rows without a full training."""

import numpy as np
import pytest
from scipy import sparse
from tree_problems import planted_problem

from tagwood.errors import InputError
from tagwood.metrics import evaluate
from tagwood.models.disentangled import CopySettings, Disentangled
from tagwood.models.linear_tree import LinearTree, Solver
from tagwood.models.linear_tree.training import WEIGHT_DTYPES, LabelUsage
from tagwood.models.linear_tree.weights import read_node


@pytest.fixture(scope="module")
def problem():
    return planted_problem(n_rows=600, n_labels=30, n_features=90)


def fit(X, Y, **options):
    return LinearTree(arity=4, max_leaf_size=5, threads=1, **options).fit(X, Y)


@pytest.mark.parametrize("weights", sorted(WEIGHT_DTYPES))
def test_only_leaves_with_new_rows_change_and_no_bias(problem, weights):
    X, Y = problem
    model = fit(X[:590], Y[:590], solver=Solver(weights=weights))
    before = model.trees_[0]
    model.update(X[590:], Y[590:])
    after, changed = model.trees_[0], np.unique(Y[590:].indices)
    assert after.tree.labels.tolist() == before.tree.labels.tolist()
    assert after.arrays.bias.tolist() == before.arrays.bias.tolist()
    moved = []
    for node in range(before.tree.n_nodes):
        old, new = (read_node(one, node, X.shape[1]).toarray() for one in (before, after))
        if np.isin(before.tree.leaf_labels(node), changed).any():
            moved.append(np.abs(new - old).max())
        else:
            assert new.tolist() == old.tolist()
    assert max(moved) > 0.1


def test_rows_that_a_label_knows_already_change_nothing(problem):
    X, Y = problem
    model = fit(X, Y, C=100.0, solver=Solver(weights="float32", tolerance=1e-3))
    before = model.rank(X, 5)
    fits = np.flatnonzero(np.diff(Y.indptr) == 1)
    sure = [row for row in fits if before[row][0][0] in Y[[row]].indices and before[row][0][1] > 0.999]
    model.update(X[sure[:20]], Y[sure[:20]])
    assert model.rank(X, 5).scores == pytest.approx(before.scores, abs=0.05)


def test_an_update_is_about_as_good_as_a_full_training(problem):
    X, Y = problem
    test, rest = slice(0, 200), slice(200, 600)
    full = fit(X[rest], Y[rest])
    model = fit(X[200:560], Y[200:560]).update(X[560:], Y[560:])
    good, found = (evaluate(Y[test], one.rank(X[test], 5), metrics=["nDCG@5"])["nDCG@5"] for one in (full, model))
    assert found > good - 0.02


@pytest.mark.parametrize("n_trees", [1, 2])
def test_new_labels_are_found_and_the_model_can_be_stored(problem, n_trees):
    X, Y = problem
    new = np.flatnonzero(np.asarray(Y[:, 28:].sum(axis=1)).ravel() > 0)
    old = np.setdiff1d(np.arange(600), new)
    model = fit(X[old], sparse.csr_array(Y[old][:, :28]), n_trees=n_trees)
    model.update(X[new], Y[new], X[old], Y[old])
    assert model.n_labels_ == 30
    assert [tree.tree.n_labels for tree in model.trees_] == [30] * n_trees
    found = model.rank(X[new], 5)
    own = [bool({28, 29} & {label for label, _ in found[row]}) for row in range(new.size)]
    assert np.mean(own) > 0.6  # 0.75 after a full training
    again = LinearTree.from_state(model.state())
    assert again.rank(X, 5).labels.tolist() == model.rank(X, 5).labels.tolist()


def test_a_new_label_without_rows_is_not_returned(problem):
    X, Y = problem
    model = fit(X, Y)
    wider = sparse.csr_array(sparse.hstack([Y[:5], sparse.csr_array((5, 2))]))
    model.update(X[:5], wider, X, Y)
    assert model.n_labels_ == 32
    assert model.rank(X, 32, beam_width=50).labels.max() < 30


def test_updates_are_the_same_for_any_number_of_threads(problem):
    X, Y = problem
    found = []
    for threads in (1, 2):
        model = fit(X[:500], Y[:500])
        model.threads = threads
        found.append(model.update(X[500:], Y[500:]).rank(X, 5))
    assert found[0].scores.tolist() == found[1].scores.tolist()


def test_only_rows_of_the_leaves_of_new_labels_are_needed(problem):
    X, Y = problem
    new = np.flatnonzero(np.asarray(Y[:, 29:].sum(axis=1)).ravel() > 0)
    old = np.setdiff1d(np.arange(600), new)
    some, everything = (fit(X[old], sparse.csr_array(Y[old][:, :29])) for _ in range(2))
    needed = some.rows_to_update(X[new], Y[new], Y[old])
    assert 0 < needed.size < old.size
    assert some.rows_to_update(X[old[:9]], Y[old[:9]], Y[old]).size == 0
    counts = LabelUsage(np.bincount(Y[old].indices, minlength=30), old.size)
    some.update(X[new], Y[new], X[old][needed], Y[old][needed], usage=counts)
    everything.update(X[new], Y[new], X[old], Y[old], usage=counts)
    assert some.rank(X, 5).scores.tolist() == everything.rank(X, 5).scores.tolist()


@pytest.mark.parametrize("bring", ["matched", "all"])
def test_labels_with_copies_learn_in_the_leaves_that_rows_reach(problem, bring):
    X, Y = problem
    base = LinearTree(arity=4, max_leaf_size=5, threads=1)
    model = Disentangled(base, copies=2, copy_settings=CopySettings(bring=bring), threads=1).fit(X[:560], Y[:560])
    assert model.trees_[0].tree.has_copies
    full = Disentangled(base, copies=2, copy_settings=CopySettings(bring=bring), threads=1).fit(X[:560], Y[:560])
    wider = sparse.csr_array(sparse.hstack([Y[560:], sparse.csr_array(np.ones((40, 1), dtype=np.float32))]))
    model.update(X[560:], wider, X[:560], Y[:560])
    assert model.n_labels_ == 31
    assert 30 in model.rank(X[560:], 5).labels
    known = range(30)
    good, found = (
        np.mean([one[0][0] in Y[[i]].indices for i, one in enumerate(m.rank(X[:560], 1, restrict=known))])
        for m in (full, model)
    )
    assert found > good - 0.05
    again = Disentangled.from_state(model.state())
    assert again.rank(X, 5).labels.tolist() == model.rank(X, 5).labels.tolist()


def test_misuse_is_refused(problem):
    X, Y = problem
    model = fit(X, Y)
    with pytest.raises(InputError, match="X must have the 90 features"):
        model.update(X[:5, :80], Y[:5])
    wider = sparse.csr_array(np.eye(5, 31, 26, dtype=np.float32))
    with pytest.raises(InputError, match="earlier rows"):
        model.update(X[:5], wider)
