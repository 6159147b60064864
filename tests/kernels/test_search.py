"""Search kernels against brute force, and on damaged models."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import blocks as reference_blocks
from reference import search as reference
from tree_problems import random_rows, random_tree, random_weights, trained_block

from tagwood import _kernels
from tagwood.models.label_filter import LabelFilter
from tagwood.models.linear_tree.weights import LINKS, SearchPlan, TreeWeights, assemble, read_node
from tagwood.trees.label_tree import LabelTree

NO_MASK = np.empty(0, dtype=np.uint8)
DTYPES = ["float32", "float16", "int8"]
PRECISION = {"rtol": 3e-5, "atol": 3e-6}

# Examples are always the same: scores closer than float32 tells may be ranked differently by the twin.
fixed = settings(derandomize=True, deadline=None, max_examples=60)


def search(
    kernel,
    model,
    X,
    k=5,
    *,
    exact=False,
    width=10,
    max_nodes=0,
    copies=reference.MAX,
    allowed=None,
    threads=1,
):
    masks = (NO_MASK, NO_MASK)
    if allowed is not None:
        masks = (allowed.astype(np.uint8), model.tree.nodes_with(allowed).astype(np.uint8))
    merge = copies if model.tree.has_copies else 0
    head = model.head
    return kernel.search(*head, *X, exact, k, width, max_nodes, merge, *masks, threads)


def assert_same_places(native, twin, k):
    np.testing.assert_array_equal(native[2], twin[2])
    np.testing.assert_array_equal(native[0].reshape(-1, k), twin[0].reshape(-1, k))
    np.testing.assert_allclose(native[1], twin[1], **PRECISION)


@st.composite
def models(draw, links=tuple(LINKS), dtypes=("float32",), max_labels=30):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    tree = random_tree(rng, draw(st.integers(1, max_labels)), draw(st.integers(0, 4)))
    n_features = draw(st.integers(1, 12))
    model = random_weights(rng, tree, n_features, draw(st.sampled_from(links)), draw(st.sampled_from(dtypes)))
    return model, random_rows(rng, draw(st.integers(0, 6)), n_features), rng


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 300), st.sampled_from([0.0, 0.02, 0.5, 1.0]))
@settings(deadline=None, max_examples=30)
def test_what_is_written_to_a_block_is_read_from_it(seed, n_columns, n_features, density):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(n_columns, n_features)) * (rng.random((n_columns, n_features)) < density)
    *block, scale = reference_blocks.write_block(W.astype(np.float32), "float32")
    columns, features, values = reference_blocks.read_block(*block, float(scale[0]), n_features)
    back = np.zeros_like(W)
    back[columns, features] = values
    np.testing.assert_array_equal(back, W.astype(np.float32))


@settings(deadline=None, max_examples=50)
@given(models(dtypes=DTYPES))
def test_margins_equal_the_twin(problem):
    model, X, _ = problem
    n_outputs = np.diff(model.tree.child_ptr) + np.diff(model.tree.label_ptr)
    nodes = np.repeat(np.arange(model.tree.n_nodes), n_outputs).astype(np.int32)
    outputs = np.concatenate([np.arange(n) for n in n_outputs]).astype(np.int32)
    wanted = (np.arange(X.n_rows + 1) * nodes.size, np.tile(nodes, X.n_rows), np.tile(outputs, X.n_rows))
    head = (*model.head[:3], *X)
    native = _kernels.margins(*head, *wanted, 1)
    np.testing.assert_allclose(native, reference.margins(*head, *wanted, 1), rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=30)
@given(models(dtypes=DTYPES))
def test_opened_nodes_equal_the_twin(problem):
    model, X, _ = problem
    tree = model.tree
    sizes = np.tile(np.diff(tree.child_ptr) + np.diff(tree.label_ptr), X.n_rows)
    nodes = np.tile(np.arange(tree.n_nodes, dtype=np.int32), X.n_rows)
    scores = -np.linspace(0, 2, nodes.size, dtype=np.float32)
    out_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    wanted = (np.arange(X.n_rows + 1) * tree.n_nodes, nodes, scores, out_ptr)
    for native, twin in zip(
        _kernels.open_nodes(*model.head, *X, *wanted, 1),
        reference.open_nodes(*model.head, *X, *wanted, 1),
        strict=True,
    ):
        np.testing.assert_allclose(native, twin, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n_features", [1, 2, 3, 255, 256, 257, 65535, 65536, 70_000, 1 << 20])
@pytest.mark.parametrize("dtype", DTYPES)
def test_margins_are_right_in_feature_spaces_of_any_size(n_features, dtype):
    rng = np.random.default_rng(n_features)
    used = np.unique(np.concatenate([rng.integers(0, n_features, 200), [0, n_features - 1]]))
    W = np.zeros((3, n_features))
    W[:, used] = rng.normal(size=(3, used.size)) * (rng.random((3, used.size)) < 0.3)
    model = assemble(LabelTree.from_nested([0, 1, 2]), [trained_block(0, W, np.ones(3), dtype)], "sigmoid", dtype)
    stored, _ = reference_blocks.read_node(model.arrays, 0, n_features)
    # Half of the features are in the block, half are not.
    features = np.unique(np.concatenate([used[::2], rng.integers(0, n_features, 100)])).astype(np.int32)
    values = rng.normal(size=features.size).astype(np.float32)
    row = (np.array([0, features.size]), features, values, n_features)
    wanted = (np.array([0, 3]), np.zeros(3, np.int32), np.arange(3, dtype=np.int32))
    native = _kernels.margins(model.arrays, 3, 3, *row, *wanted, 1)
    np.testing.assert_allclose(native, stored[:, features] @ values + 1, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(stored, W, atol={"float32": 1e-6, "float16": 2e-3, "int8": 0.02}[dtype])
    np.testing.assert_array_equal(read_node(model, 0, n_features).toarray(), stored)


@fixed
@given(
    models(dtypes=DTYPES),
    st.integers(1, 8),
    st.integers(1, 12),
    st.sampled_from([reference.MEAN, reference.MAX]),
)
def test_beams_equal_the_twin(problem, width, k, copies):
    model, X, _ = problem
    options = {"width": width, "copies": copies}
    assert_same_places(search(_kernels, model, X, k, **options), search(reference, model, X, k, **options), k)


@fixed
@given(models(), st.integers(1, 8))
def test_leaves_of_beams_equal_the_twin(problem, width):
    model, X, _ = problem
    head = model.head
    leaves, scores = _kernels.beam_leaves(*head, *X, width, 1)
    twin_leaves, twin_scores = reference.beam_leaves(*head, *X, width, 1)
    np.testing.assert_array_equal(leaves, twin_leaves)
    np.testing.assert_allclose(scores, twin_scores, **PRECISION)


@settings(deadline=None, max_examples=100)
@given(models(dtypes=DTYPES), st.integers(1, 12), st.booleans())
def test_exact_search_equals_brute_force_over_all_labels(problem, k, masked):
    model, X, rng = problem
    allowed = rng.random(model.tree.n_labels) < 0.5 if masked else None
    labels, scores, found, evaluated, bound, _ = search(_kernels, model, X, k, exact=True, allowed=allowed)
    n_labels = model.tree.n_labels
    every = search(reference, model, X, n_labels, exact=True, allowed=allowed)
    all_labels, all_scores = every[0].reshape(-1, n_labels), every[1].reshape(-1, n_labels)
    np.testing.assert_array_equal(found, np.minimum(every[2], k))
    assert not bound.any()
    assert np.all((evaluated >= 1) & (evaluated <= model.tree.n_nodes))
    for row in range(X.n_rows):
        mine, mine_scores = labels.reshape(-1, k)[row, : found[row]], scores.reshape(-1, k)[row, : found[row]]
        assert np.unique(mine).size == mine.size
        assert np.all(np.diff(mine_scores) <= 0)
        np.testing.assert_allclose(mine_scores, all_scores[row, : mine.size], **PRECISION)
        score_of = dict(zip(all_labels[row].tolist(), all_scores[row].tolist(), strict=True))
        np.testing.assert_allclose(mine_scores, [score_of[label] for label in mine.tolist()], **PRECISION)


@settings(deadline=None, max_examples=60)
@given(models(), st.integers(1, 12))
def test_exact_search_has_the_very_scores_of_a_beam_that_keeps_every_node(problem, k):
    model, X, _ = problem
    exact = search(_kernels, model, X, k, exact=True)
    beam = search(_kernels, model, X, k, width=model.tree.n_nodes)
    np.testing.assert_array_equal(exact[1], beam[1])
    np.testing.assert_array_equal(exact[2], beam[2])


@fixed
@given(models(links=("sigmoid",)), st.integers(1, 12))
def test_outputs_are_those_of_the_nodes_that_were_evaluated(problem, k):
    model, X, _ = problem
    tree = model.tree
    sizes = np.diff(tree.child_ptr) + np.diff(tree.label_ptr)
    k = min(k, tree.n_labels)
    _, scores, _, evaluated, _, outputs = search(_kernels, model, X, k, exact=True)
    nodes = reference.node_scores(*model.head, *X)
    needed = nodes > np.log(scores.reshape(-1, k)[:, -1:])  # a node below the last label is not opened
    np.testing.assert_array_equal(evaluated, needed.sum(axis=1))
    np.testing.assert_array_equal(outputs, needed @ sizes)
    for exact in (False, True):
        most = tree.n_labels + tree.has_copies  # with one more than there are, the search does not stop early
        everything = search(_kernels, model, X, most, exact=exact, width=tree.n_nodes)
        assert everything[5].tolist() == [sizes.sum()] * X.n_rows


@settings(deadline=None, max_examples=60)
@given(models(max_labels=60), st.integers(1, 6), st.integers(1, 12))
def test_a_budget_is_kept_and_its_bound_holds(problem, k, max_nodes):
    model, X, _ = problem
    labels, scores, found, evaluated, bound, _ = search(_kernels, model, X, k, exact=True, max_nodes=max_nodes)
    full = search(_kernels, model, X, k, exact=True)
    assert np.all(evaluated <= max_nodes)
    for row in range(X.n_rows):
        span = slice(row * k, (row + 1) * k)
        seen, best = labels[span][: found[row]], full[1][span][: full[2][row]]
        missed = ~np.isin(full[0][span][: full[2][row]], seen)
        if bound[row] == 0:
            np.testing.assert_array_equal(scores[span], full[1][span])
        else:
            assert np.all(best[missed] <= bound[row])
            assert evaluated[row] == max_nodes
    rich = search(_kernels, model, X, k, exact=True, max_nodes=model.tree.n_nodes)
    np.testing.assert_array_equal(rich[1], full[1])
    assert not rich[4].any()


def test_beams_do_not_know_what_they_missed():
    rng = np.random.default_rng(0)
    model = random_weights(rng, random_tree(rng, 9), 4)
    assert search(_kernels, model, random_rows(rng, 3, 4))[4].tolist() == [-1, -1, -1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("n_copies", [0, 30])
def test_rows_together_get_the_bits_of_rows_alone_for_any_number_of_threads(dtype, exact, n_copies):
    rng = np.random.default_rng(1)
    model = random_weights(rng, random_tree(rng, 200, n_copies), 30, "sigmoid", dtype)
    X = random_rows(rng, 2500, 30)  # more than the kernel takes at once
    together = search(_kernels, model, X, 7, exact=exact)
    for threads in (2, 3):
        for one, many in zip(together, search(_kernels, model, X, 7, exact=exact, threads=threads), strict=True):
            np.testing.assert_array_equal(one, many)
    for row in range(0, 2500, 61):
        span = slice(X.indptr[row], X.indptr[row + 1])
        single = (np.array([0, span.stop - span.start]), X.indices[span], X.data[span], X.n_cols)
        alone = search(_kernels, model, single, 7, exact=exact)
        for place, (part, whole) in enumerate(zip(alone, together, strict=True)):
            if place == 3 and not exact:  # nodes evaluated: a beam visits up to three leaves of a row in one go
                assert part[0] <= whole[row] <= part[0] + 2
            elif place == 5 and not exact:
                assert part[0] <= whole[row] <= part[0] + 2 * model.head[2]
            else:
                np.testing.assert_array_equal(part, whole.reshape(2500, -1)[row])


@pytest.mark.parametrize("exact", [False, True])
def test_nodes_with_more_outputs_than_a_block_holds(exact):
    rng = np.random.default_rng(2)
    tree = LabelTree.from_nested([rng.permutation(600).tolist(), list(range(600, 900))])
    model = random_weights(rng, tree, 10, density=0.3)
    assert model.arrays.scales.size == 1 + 3 + 2
    X = random_rows(rng, 4, 10)
    native = search(_kernels, model, X, 900, exact=exact)
    twin = search(reference, model, X, 900, exact=exact)
    np.testing.assert_array_equal(np.sort(native[0].reshape(4, -1)), np.sort(twin[0].reshape(4, -1)))
    np.testing.assert_allclose(native[1], twin[1], rtol=2e-4, atol=1e-6)


def test_an_empty_row_is_scored_by_the_biases():
    rng = np.random.default_rng(3)
    model = random_weights(rng, random_tree(rng, 12), 5, "sigmoid")
    empty = (np.zeros(2, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 5)
    for exact in (False, True):
        options = {"exact": exact, "width": 100}
        native, twin = (
            search(_kernels, model, empty, 12, **options),
            search(reference, model, empty, 12, **options),
        )
        assert_same_places(native, twin, 12)
        assert native[2][0] == 12


def test_nothing_allowed_means_nothing_found():
    rng = np.random.default_rng(4)
    model = random_weights(rng, random_tree(rng, 12), 5)
    for exact in (False, True):
        found = search(_kernels, model, random_rows(rng, 3, 5), 4, exact=exact, allowed=np.zeros(12, dtype=bool))
        assert found[2].tolist() == [0, 0, 0]
        assert set(found[0].tolist()) == {-1}


LONG = ("buckets", "remainders", "counts", "columns", "weights", "scales", "bias", "labels")


def forge(rng, array):
    kind = rng.integers(3)
    if kind == 0 or array.size == 0:
        return np.frombuffer(rng.bytes(array.nbytes), dtype=array.dtype).copy()
    if kind == 1:
        return np.full_like(array, np.frombuffer(b"\xff" * array.itemsize, dtype=array.dtype)[0])
    return rng.permutation(array)


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 10**9),
    n_labels=st.integers(1, 400),
    n_features=st.sampled_from([1, 5, 300, 70_000]),
    dtype=st.sampled_from(["float32", "float16", "int8"]),
    link=st.sampled_from(list(LINKS)),
    changed=st.sets(st.sampled_from(LONG), min_size=1),
    n_copies=st.sampled_from([0, 30]),
)
def test_forged_arrays_never_crash(seed, n_labels, n_features, dtype, link, changed, n_copies):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n_labels, n_copies)
    model = random_weights(rng, tree, min(n_features, 300), link, dtype, density=0.1)
    forged = {name: forge(rng, getattr(model.arrays, name)) for name in sorted(changed)}
    arrays = model.arrays._replace(**forged)
    X = random_rows(rng, 5, min(n_features, 300))._replace(n_cols=n_features)
    bad = TreeWeights(tree, arrays, model.link)
    masks = [None, LabelFilter(rng.random(n_labels) < 0.5)]
    for exact, merge, mask in product((False, True), ("mean", "max"), masks):
        found = bad.search(X, 6, SearchPlan(exact, 7, 0, merge, mask), 1)
        assert not np.isnan(found.scores).any()
        assert np.all((found.found >= 0) & (found.found <= 6))
        used = np.arange(6) < found.found[:, None]
        labels = found.labels.reshape(-1, 6)[used]
        assert np.all((labels >= 0) & (labels < n_labels))
    leaves, _ = bad.leaves(X, 7, 1)
    assert np.all((leaves >= -1) & (leaves < tree.n_nodes))
    first = np.zeros(5, dtype=np.int32)
    assert _kernels.margins(arrays, n_labels, bad.head[2], *X, np.arange(6), first, first, 1).size == 5
