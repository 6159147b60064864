"""Tests of learning from new rows without a full training."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import blocks as reference_blocks
from scipy import sparse
from tree_problems import planted_problem

from tagwood import _kernels
from tagwood.errors import InputError
from tagwood.metrics import evaluate
from tagwood.models.disentangled import Disentangled
from tagwood.models.linear_tree import LinearTree, Solver
from tagwood.models.linear_tree.training import WEIGHT_DTYPES
from tagwood.models.linear_tree.weights import read_node


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 999), st.integers(1, 40), st.sampled_from(sorted(WEIGHT_DTYPES)))
def test_weights_are_packed_as_the_twin_does(seed, n_columns, dtype):
    rng = np.random.default_rng(seed)
    W = np.where(rng.random((n_columns, 50)) < 0.3, rng.normal(size=(n_columns, 50)), 0).astype(np.float32)
    cells = sparse.csr_array(W)
    columns = np.repeat(np.arange(n_columns, dtype=np.int32), np.diff(cells.indptr))
    ends, sizes = np.array([0, cells.nnz]), np.array([n_columns])
    made = _kernels.pack_blocks(ends, cells.indices, columns, cells.data, sizes, 50, WEIGHT_DTYPES[dtype])
    buckets, remainders, counts, out_columns, weights, scale = reference_blocks.write_block(W.astype(np.float64), dtype)
    assert made[1].tolist() == buckets.tolist()
    assert made[4].tolist() == remainders.tolist()
    assert made[5].tolist() == counts.tolist()
    assert made[7].tolist() == out_columns.tolist()
    assert made[8].tolist() == weights.view(np.uint8).tolist()
    assert made[9].tolist() == pytest.approx(np.ravel(scale).tolist())


def test_entries_outside_a_block_are_refused():
    one, values = np.zeros(1, dtype=np.int32), np.ones(1, dtype=np.float32)
    ends, sizes = np.array([0, 1]), np.array([1])
    for bad in (
        (ends, one + 9, one, values, sizes),
        (ends, one, one + 1, values, sizes),
        (ends + 1, one, one, values, sizes),
        (ends, one, one, values, np.array([1, 1])),
    ):
        with pytest.raises(ValueError, match="pack_blocks"):
            _kernels.pack_blocks(*bad, 5, 0)


@pytest.fixture(scope="module")
def problem():
    return planted_problem(n_rows=600, n_labels=30, n_features=90)


def fit(X, Y, **options):
    return LinearTree(arity=4, max_leaf_size=5, threads=1, **options).fit(X, Y)


@pytest.mark.parametrize("weights", sorted(WEIGHT_DTYPES))
def test_only_classifiers_of_labels_with_new_rows_change(problem, weights):
    X, Y = problem
    model = fit(X[:590], Y[:590], solver=Solver(weights=weights))
    before = model.trees_[0]
    model.update(X[590:], Y[590:], X[:590], Y[:590])
    after, changed = model.trees_[0], np.unique(Y[590:].indices)
    assert after.tree.labels.tolist() == before.tree.labels.tolist()
    for node in range(before.tree.n_nodes):
        old, new = (read_node(one, node, X.shape[1]).toarray() for one in (before, after))
        labels = before.tree.leaf_labels(node)
        same = ~np.isin(labels, changed) if labels.size else slice(None)
        assert new[same] == pytest.approx(old[same], abs=0.02 * max(1.0, np.abs(old).max(initial=0)))


def test_an_update_is_about_as_good_as_a_full_training(problem):
    X, Y = problem
    test, rest = slice(0, 200), slice(200, 600)
    full = fit(X[rest], Y[rest])
    model = fit(X[200:560], Y[200:560]).update(X[560:], Y[560:], X[200:560], Y[200:560])
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
        found.append(model.update(X[500:], Y[500:], X[:500], Y[:500]).rank(X, 5))
    assert found[0].scores.tolist() == found[1].scores.tolist()


def test_misuse_is_refused(problem):
    X, Y = problem
    with pytest.raises(InputError, match="X must have the 90 features"):
        fit(X, Y).update(X[:5, :80], Y[:5], X[:, :80], Y)
    copies = Disentangled(LinearTree(arity=4, max_leaf_size=5, threads=1), copies=2, threads=1).fit(X, Y)
    if any(tree.tree.has_copies for tree in copies.trees_):
        with pytest.raises(InputError, match="without copies"):
            copies.update(X[:5], Y[:5], X, Y)
