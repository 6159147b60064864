"""Weights of rows and of positive entries: what they mean for the classifiers."""

from dataclasses import replace

import numpy as np
import pytest
from reference import blocks as reference_blocks
from reference import train as reference_train
from scipy import sparse
from tree_problems import planted_problem, same_arrays

from tagwood import LinearTree, Solver
from tagwood.errors import InputError
from tagwood.metrics.propensity import inverse_propensity
from tagwood.models.linear_tree.training import entry_weights
from tagwood.trees.label_tree import LabelTree

HINGE = Solver(tolerance=1e-4, max_sweeps=3000, threshold=0.0, weights="float32")
TIGHT = {"hinge": HINGE, "logistic": replace(HINGE, loss="logistic")}
LEAF = LabelTree.from_nested(list(range(6)))


@pytest.fixture(scope="module")
def problem():
    return planted_problem(n_rows=30, n_labels=6, n_features=12)


def fit(X, Y, solver="hinge", tree=LEAF, **options):
    return LinearTree(solver=TIGHT[solver], rare_label_weight=0.0, threads=1).fit(X, Y, tree=tree, **options)


def weights_of(model, node=0):
    W, b = reference_blocks.read_node(model.trees_[0].arrays, node, model.n_features_)
    return np.column_stack([W, b])


def best_weights(X, Y, label, costs):
    with_bias = np.column_stack([X.toarray(), np.ones(X.shape[0])]).astype(np.float64)
    y = np.where(Y.toarray()[:, label] > 0, 1.0, -1.0)
    return reference_train.train_output(with_bias, y, costs, reference_train.SQUARED_HINGE)


@pytest.mark.parametrize("solver", TIGHT)
@pytest.mark.parametrize("tree", [LEAF, LabelTree.from_nested([[0, 1, 2], [3, 4, 5]])])
def test_a_row_of_weight_2_counts_as_two_rows(problem, solver, tree):
    X, Y = problem
    weight = np.ones(30)
    weight[:7] = 2
    weighted = fit(X, Y, solver, tree, sample_weight=weight)
    twice = np.concatenate([np.arange(30), np.arange(7)])
    repeated = fit(X[twice], Y[twice], solver, tree)
    for node in range(tree.n_nodes):
        np.testing.assert_allclose(weights_of(weighted, node), weights_of(repeated, node), atol=3e-3)
    assert np.abs(weights_of(weighted) - weights_of(fit(X, Y, solver, tree))).max() > 0.01


def test_the_weight_of_a_row_multiplies_the_cost(problem):
    X, Y = problem
    weighted = fit(X, Y, sample_weight=np.full(30, 0.25))
    cheaper = LinearTree(C=0.25, rare_label_weight=0.0, solver=TIGHT["hinge"], threads=1).fit(X, Y, tree=LEAF)
    np.testing.assert_allclose(weights_of(weighted), weights_of(cheaper), atol=3e-3)


def test_weights_of_entries_count_for_their_label_only(problem):
    X, Y = problem
    entry = Y.copy()
    entry.data[:] = np.random.default_rng(0).uniform(0.5, 4, entry.nnz)
    model = fit(X, Y, sample_weight=entry)
    for label in range(6):
        costs = np.where(Y.toarray()[:, label] > 0, entry.toarray()[:, label], 1.0).astype(np.float64)
        np.testing.assert_allclose(weights_of(model)[label], best_weights(X, Y, label, costs), atol=3e-3)


def test_an_inner_node_takes_the_largest_weight_of_the_labels_below(problem):
    X, Y = problem
    entry = Y.copy()
    entry.data[:] = np.random.default_rng(1).uniform(0.5, 4, entry.nnz)
    model = fit(X, Y, tree=LabelTree.from_nested([[0, 1, 2], [3, 4, 5]]), sample_weight=entry)
    below = entry.toarray()[:, 3:].max(axis=1)
    costs = np.where(below > 0, below, 1.0).astype(np.float64)
    any_label = sparse.csr_array((below > 0).astype(np.float32)[:, None])
    np.testing.assert_allclose(weights_of(model)[1], best_weights(X, any_label, 0, costs), atol=3e-3)


def test_weights_of_1_change_nothing(problem):
    X, Y = problem
    plain = fit(X, Y)
    for weight in (np.ones(30), [1] * 30, Y):
        np.testing.assert_allclose(weights_of(fit(X, Y, sample_weight=weight)), weights_of(plain), atol=1e-4)


@pytest.mark.parametrize("tail", [0.5, 1.0])
def test_tail_weights_are_inverse_propensities_with_a_mean_of_1(problem, tail):
    _, Y = problem
    label_rows, weighted, leaves, rows = entry_weights(Y, None, tail)
    assert not weighted
    assert rows.size == 0
    assert np.all(label_rows.data == 1)
    wanted = np.repeat(inverse_propensity(Y) ** tail, np.diff(label_rows.indptr))
    np.testing.assert_allclose(leaves, wanted / wanted.mean(), rtol=1e-5)
    assert leaves.mean() == pytest.approx(1, rel=1e-5)


def test_rare_labels_weigh_more_by_default_unless_there_is_a_hub():
    rare = sparse.csr_array(np.eye(8, dtype=np.float32)[[0, 0, 1, 2, 3, 4, 5, 6, 7]])
    assert entry_weights(rare, None, None).leaf_weights.tolist() == entry_weights(rare, None, 1.0).leaf_weights.tolist()
    hub = sparse.csr_array(np.eye(8, dtype=np.float32)[[0, 0, 0, 1, 2, 3, 4, 5]])
    assert entry_weights(hub, None, None).leaf_weights.size == 0


def test_tail_weights_multiply_the_weights_of_entries(problem):
    _, Y = problem
    entry = Y * 3
    tail, both = entry_weights(Y, None, 1.0), entry_weights(Y, entry, 1.0)
    np.testing.assert_allclose(both.leaf_weights, 3 * tail.leaf_weights, rtol=1e-6)
    np.testing.assert_array_equal(both.label_rows.data, 3)


def test_tail_raises_the_scores_of_rare_labels():
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.random((200, 10)).astype(np.float32))
    Y = np.zeros((200, 2), dtype=np.float32)
    Y[:, 0] = rng.random(200) < 0.9
    Y[:, 1] = rng.random(200) < 0.05
    plain, tail = (LinearTree(rare_label_weight=t, threads=1).fit(X, Y) for t in (0.0, 1.0))
    pairs = [(row, 1) for row in range(200)]
    assert tail.score_labels(X, pairs).mean() > plain.score_labels(X, pairs).mean()
    assert not same_arrays(plain.trees_[0], tail.trees_[0])


@pytest.mark.parametrize(
    "weight",
    [np.ones(29), np.ones((30, 1)), np.zeros(30), -np.ones(30), np.full(30, np.nan), np.full(30, np.inf)],
)
def test_row_weights_that_do_not_fit_are_refused(problem, weight):
    with pytest.raises(InputError, match="sample_weight must hold one positive number for each of the 30 rows; got"):
        fit(*problem, sample_weight=weight)


def test_entry_weights_that_do_not_fit_are_refused(problem):
    X, Y = problem
    with pytest.raises(InputError, match=r"sample_weight must have the shape of Y, \(30, 6\); got \(29, 6\)"):
        fit(X, Y, sample_weight=Y[:-1])
    for bad in (Y * 0, -Y, Y * np.float32(np.nan), Y * np.float32(np.inf)):
        with pytest.raises(InputError, match="sample_weight must hold a positive number for each entry of Y"):
            fit(X, Y, sample_weight=bad)
