"""Kernels of the softmax tree against their twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import softmax as reference
from softmax_problems import random_bags, random_binary_tree, random_softmax

from tagwood import _kernels
from tagwood.models.softmax_tree import label_leaves, label_paths, number_decisions

quick = settings(deadline=None, max_examples=60)
EVERYTHING = np.empty(0, dtype=np.uint8)


@st.composite
def problems(draw):
    """A generator, a tree, a model over it, rows, and the dimension."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n_labels, n_features = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    # Below, at and beside the width of the blocks that the kernels keep in registers.
    dimension = draw(st.sampled_from([8, 24, 64, 72, 128]))
    tree = random_binary_tree(rng, n_labels)
    seen = rng.random(n_labels) < draw(st.sampled_from([0.5, 1.0]))
    model = random_softmax(rng, tree, n_features, dimension, seen)
    return rng, tree, model, random_bags(rng, draw(st.integers(0, 40)), n_features), dimension


@quick
@given(problems(), st.integers(1, 3), st.booleans())
def test_an_epoch_moves_embeddings_as_the_twin_does(problem, n_labels_per_row, empty_rows):
    rng, tree, model, X, dimension = problem
    paths = label_paths(tree, model.decision)
    sizes = rng.integers(0 if empty_rows else 1, n_labels_per_row + 1, size=X.n_rows)
    sets = [rng.choice(tree.n_labels, min(size, tree.n_labels), replace=False) for size in sizes]
    indptr = np.cumsum([0, *(chosen.size for chosen in sets)], dtype=np.int64)
    labels = np.concatenate([*sets, []]).astype(np.int32)
    order = rng.permutation(X.n_rows).astype(np.int32)
    results = []
    for kernels in (_kernels, reference):
        inputs, outputs = model.inputs.copy(), model.outputs.copy()
        kernels.softmax_epoch(inputs, outputs, dimension, *X[:3], indptr, labels, *paths, order, 0.3, 0.1, 1)
        results.append((inputs, outputs))
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


@quick
@given(problems(), st.integers(1, 14), st.booleans(), st.integers(1, 2))
def test_the_search_finds_what_the_twin_finds(problem, k, restricted, threads):
    rng, tree, model, X, dimension = problem
    nodes = EVERYTHING
    if restricted:
        nodes = tree.nodes_with(rng.random(tree.n_labels) < 0.5).view(np.uint8)
    found = _kernels.softmax_search(model, dimension, *X[:3], k, nodes, threads)
    wanted = reference.softmax_search(model, dimension, *X[:3], k, nodes, 1)
    np.testing.assert_array_equal(found[2], wanted[2])
    np.testing.assert_allclose(found[1], wanted[1], rtol=2e-4, atol=1e-7)
    # A label may stand in the place of another, also of one behind the last place, only where their scores are level.
    every = reference.softmax_search(model, dimension, *X[:3], tree.n_labels, nodes, 1)
    for at in np.flatnonzero(found[0] != wanted[0]):
        labels, scores = (part.reshape(-1, tree.n_labels)[at // k] for part in every[:2])
        score = scores[np.flatnonzero(labels == found[0][at])]
        np.testing.assert_allclose(score, wanted[1][at : at + 1], rtol=2e-4, atol=1e-7)


@quick
@given(problems())
def test_the_search_agrees_with_scores_of_all_labels(problem):
    _, tree, model, X, dimension = problem
    n = tree.n_labels
    leaves = np.tile(label_leaves(tree), X.n_rows)
    ends = n * np.arange(X.n_rows + 1, dtype=np.int64)
    scores = _kernels.softmax_scores(model, dimension, *X[:3], ends, leaves, 1)
    wanted = reference.softmax_scores(model, dimension, *X[:3], ends, leaves, 1)
    np.testing.assert_allclose(scores, wanted, rtol=2e-4, atol=1e-7)
    labels, found, counts, _ = _kernels.softmax_search(model, dimension, *X[:3], n, EVERYTHING, 1)
    assert np.all(counts == n)
    table = scores.reshape(-1, n)
    np.testing.assert_allclose(
        np.take_along_axis(table, labels.reshape(-1, n), axis=1).ravel(), found, rtol=1e-4, atol=1e-9
    )
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-4)


def test_the_best_label_costs_no_more_decisions_than_the_depth_of_the_tree_asks_for():
    rng = np.random.default_rng(1)
    tree = random_binary_tree(rng, 30)
    model = random_softmax(rng, tree, 5, 8, np.ones(30, dtype=bool))
    model.outputs[:] *= 100  # every decision is sure
    X = random_bags(rng, 20, 5)
    labels, _, _, evaluated = _kernels.softmax_search(model, 8, *X[:3], 1, EVERYTHING, 1)
    full = np.diff(X.indptr) > 0
    np.testing.assert_array_equal(evaluated[full], tree.label_depths()[labels[full]])


@pytest.mark.parametrize("column", [-1, 7, 2**31 - 1])
def test_columns_that_are_no_features_give_an_answer_without_reading_elsewhere(column):
    rng = np.random.default_rng(0)
    tree = random_binary_tree(rng, 6)
    model = random_softmax(rng, tree, 7, 8, np.ones(6, dtype=bool))
    bad = np.array([column], dtype=np.int32)
    rows = np.array([0, 1], dtype=np.int64), bad, np.ones(1, dtype=np.float32)
    labels, *_ = _kernels.softmax_search(model, 8, *rows, 6, EVERYTHING, 1)
    assert sorted(labels.tolist()) == list(range(6))


@pytest.mark.parametrize("decision", [-(2**31), 99, 2**31 - 1])
def test_decisions_without_a_vector_are_even(decision):
    rng = np.random.default_rng(0)
    tree = random_binary_tree(rng, 2)
    model = random_softmax(rng, tree, 3, 8, np.ones(2, dtype=bool))
    forged = model._replace(decision=np.array([decision, -3, -3], dtype=np.int32))
    rows = random_bags(rng, 3, 3)
    _, scores, _, _ = _kernels.softmax_search(forged, 8, *rows[:3], 2, EVERYTHING, 1)
    np.testing.assert_allclose(scores, 0.5, rtol=1e-6)


def test_wrong_array_types_are_refused_rather_than_copied():
    rng = np.random.default_rng(0)
    tree = random_binary_tree(rng, 4)
    model = random_softmax(rng, tree, 3, 8, np.ones(4, dtype=bool))
    rows = random_bags(rng, 2, 3)
    with pytest.raises(TypeError):
        _kernels.softmax_search(model._replace(inputs=model.inputs.astype(np.float64)), 8, *rows[:3], 1, EVERYTHING, 1)
    paths = label_paths(tree, number_decisions(tree, np.ones(4, dtype=bool)))
    model.inputs.flags.writeable = False
    labels = np.arange(3, dtype=np.int64), np.zeros(2, dtype=np.int32)
    order = np.arange(2, dtype=np.int32)
    with pytest.raises(TypeError):
        _kernels.softmax_epoch(model.inputs, model.outputs, 8, *rows[:3], *labels, *paths, order, 1.0, 0.0, 1)
