"""Interpolated trees: frequencies, the objective, its limits at λ=0 and λ=2, wide nodes."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference.split import first_labels, mix, node_weights
from scipy import sparse
from scipy.optimize import linprog

from tagwood import _kernels
from tagwood._sparse import check_features, csr_parts
from tagwood.errors import InputError
from tagwood.trees import (
    LabelFrequencies,
    build_balanced_tree,
    build_fano_tree,
    build_interpolated_tree,
    label_frequencies,
    lambda_grid,
)
from tagwood.trees.balanced import split_labels, tree_from_splits
from tagwood.trees.interpolated import as_frequencies, join_by_frequency

N_LABELS = 6
label_sets = st.lists(st.sets(st.integers(0, N_LABELS - 1)), min_size=1, max_size=12)


def matrix(sets):
    Y = np.zeros((len(sets), N_LABELS), dtype=np.float32)
    for row, labels in enumerate(sets):
        Y[row, list(labels)] = 1
    return sparse.csr_array(Y)


def naive_marginal(Y, p):
    """Algorithm 2 with the row's p in line 6."""
    f, f_tilde = Y.T @ p, np.zeros(Y.shape[1])
    for row, labels in enumerate(Y):
        if labels.any():
            f_tilde[np.argmax(np.where(labels > 0, f, -1))] += p[row]
    return f_tilde


def naive_greedy(Y, p):
    """Algorithm 1."""
    p, f_tilde = p.copy(), np.zeros(Y.shape[1])
    while (Y.T @ p).any():
        best = np.argmax(Y.T @ p)
        f_tilde[best] = (Y.T @ p)[best]
        p[Y[:, best] > 0] = 0
    return f_tilde


@given(label_sets, st.data(), st.sampled_from(["marginal", "greedy"]))
def test_both_constructions_follow_the_printed_algorithms(sets, data, construction):
    # Whole numbers: sums are exact, so ties are ties on both sides.
    p = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(sets), max_size=len(sets))), dtype=np.float64)
    Y = matrix(sets)
    found = label_frequencies(Y, p, construction=construction)
    naive = naive_marginal if construction == "marginal" else naive_greedy
    np.testing.assert_array_equal(found.marginal, Y.toarray().T @ p)
    np.testing.assert_array_equal(found.coding, naive(Y.toarray().astype(np.float64), p))


@given(label_sets, st.sampled_from(["marginal", "greedy"]))
def test_each_row_gives_its_whole_frequency_to_one_of_its_labels(sets, construction):
    p = np.arange(1.0, len(sets) + 1)
    found = label_frequencies(matrix(sets), p, construction=construction)
    labelled = np.array([bool(labels) for labels in sets])
    assert found.coding.sum() == p[labelled].sum()
    assert (found.coding <= found.marginal).all()


def test_the_constructions_differ_where_frequent_labels_stand_together():
    # Label 1 is frequent beside label 0 only: the greedy way leaves it one row, and gives label 2 the other ones.
    Y = [[0, 1], [0, 1], [0], [0], [1, 2], [2]]
    assert label_frequencies(Y).coding.tolist() == [4, 1, 1]
    assert label_frequencies(Y, construction="greedy").coding.tolist() == [4, 0, 2]


def test_rows_count_once_each_by_default():
    Y = [[0], [0, 1], []]
    np.testing.assert_array_equal(label_frequencies(Y).coding, label_frequencies(Y, [1, 1, 1]).coding)


@given(st.floats(0, 2), st.floats(0, 1), st.booleans(), st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_interpolated_frequencies_are_a_distribution(lam, gamma, direct, counts):
    f = LabelFrequencies(np.array(counts), np.array(counts[::-1]))
    shares = node_weights(f.marginal, f.coding, lam, gamma, direct)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)


def test_interpolated_frequencies_at_the_printed_points():
    f = LabelFrequencies(np.array([8.0, 1.0, 1.0]), np.array([3.0, 1.0, 0.0]))
    even, marginal, coding = np.full(3, 1 / 3), np.array([0.8, 0.1, 0.1]), np.array([0.75, 0.25, 0.0])
    cases = [
        (0, even),
        (1, (marginal + 0.1 / 3) / 1.1),
        (1.5, (0.5 * marginal + 0.5 * coding + 0.1 / 3) / 1.1),
    ]
    for lam, expected in [*cases, (2, (coding + 0.1 / 3) / 1.1)]:
        np.testing.assert_allclose(node_weights(f.marginal, f.coding, lam, 0.1, False), expected)
    shrunk = np.sqrt(marginal) * 1.5 + 0.1 / 3
    np.testing.assert_allclose(node_weights(f.marginal, f.coding, 0.5, 0.1, False), shrunk / shrunk.sum())
    np.testing.assert_allclose(node_weights(f.marginal, f.coding, 1, 0, True), (even + coding) / 2)


def test_label_sets_vectors_and_frequencies_are_told_apart():
    assert as_frequencies([[0], [0, 1]], "marginal").marginal.tolist() == [2, 1]
    assert as_frequencies([5, 2.5], "marginal").coding.tolist() == [5, 2.5]
    assert as_frequencies(np.array([5, 2]), "marginal").marginal.tolist() == [5, 2]
    given_value = LabelFrequencies(np.array([1.0]))
    assert as_frequencies(given_value, "greedy") is given_value


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: label_frequencies([[0]], [1, 2]),
            r"row_frequencies must have 1 numbers; got an array of shape \(2,\)",
        ),
        (lambda: label_frequencies([[0]], [-1]), r"row_frequencies must not be negative; got -1.0"),
        (
            lambda: label_frequencies([[0]], construction="fano"),
            "construction must be one of 'marginal', 'greedy'",
        ),
        (lambda: LabelFrequencies(np.array([np.nan])), "label frequencies must hold finite numbers"),
        (lambda: LabelFrequencies(np.array([])), "label frequencies must have one number per label"),
        (lambda: LabelFrequencies(np.ones(2), np.ones(3)), "coding must have 2 numbers"),
    ],
)
def test_misuse_of_frequencies_is_named(call, words):
    with pytest.raises(InputError, match=words):
        call()


lambdas = st.sampled_from([0.0, 0.3, 2 / 3, 1.0, 1.2, 1.7, 1.95])


def problem(n_labels, seed, n_features=5):
    rng = np.random.default_rng(seed)
    V = rng.random((n_labels, n_features)) * (rng.random((n_labels, n_features)) < 0.6)
    V /= np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-9)
    marginal = rng.zipf(1.6, n_labels) % 500
    return V, LabelFrequencies(marginal, np.where(rng.random(n_labels) < 0.5, marginal, 0))


def same_tree(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("parent", "label_ptr", "labels"))


def first_sides(V, f, lam, gamma, seed=0, max_iterations=20, direct=False):
    """Sides (+1, -1) of the labels after the root's split."""
    n = V.shape[0]
    options = (lam, gamma, direct, n - 1, max_iterations, 0.0, seed, 1)
    order, begin, end, left = _kernels.split_labels(*csr_parts(check_features(V)), f.marginal, f.coding, *options)
    sides = np.full(n, -1)
    sides[order[begin[left[0]] : end[left[0]]]] = 1
    return sides


def unit(v):
    return v / max(np.linalg.norm(v), 1e-30)


def centres(V, weights, sides):
    return unit((weights * (1 + sides)) @ V), unit((weights * (1 - sides)) @ V)


def objective(V, weights, sides, lam):
    """The paper's (4), with the best centres for the given sides."""
    plus, minus = centres(V, weights, sides)
    similarity = (1 + sides) / 2 * (V @ plus) + (1 - sides) / 2 * (V @ minus)
    return (weights * (2 - lam) * similarity + sides * max(lam - 1, 0) * weights**2).sum()


def lemma_1(beta, weights):
    """The paper's Lemma 1, fractional label included."""
    sides, taken = np.full(beta.size, -1.0), 0.0
    for label in np.argsort(-beta / weights, kind="stable"):
        if taken + weights[label] > 0.5 * weights.sum():
            sides[label] = 2 * (0.5 * weights.sum() - taken) / weights[label] - 1
            return sides
        sides[label] = 1
        taken += weights[label]
    return sides


@given(st.integers(2, 60), st.integers(0, 10**6), st.integers(1, 8), st.sampled_from([2, 4, 16]))
def test_at_0_the_tree_is_the_balanced_one(n_labels, seed, max_leaf_size, arity):
    V, f = problem(n_labels, seed)
    shape = {"max_leaf_size": max_leaf_size, "arity": arity, "seed": seed, "threads": 1}
    for direct in (False, True):
        tree = build_interpolated_tree(V, f, lam=0, direct=direct, **shape)
        assert same_tree(tree, build_balanced_tree(V, **shape))


@given(st.lists(st.integers(0, 20), min_size=2, max_size=60), st.booleans())
def test_at_2_without_smoothing_the_tree_is_the_fano_tree(counts, direct):
    V, _ = problem(len(counts), len(counts))
    tree = build_interpolated_tree(V, counts, lam=2, gamma=0, max_leaf_size=1, direct=direct)
    assert same_tree(tree, build_fano_tree(counts))


def test_near_2_the_general_objective_leads_to_the_fano_tree():
    # λ=2 skips the features; just below, the alternation runs in full and must agree.
    counts = 3 ** np.arange(7)
    V, _ = problem(7, 1)
    tree = build_interpolated_tree(V, counts, lam=2 - 1e-9, gamma=0, max_leaf_size=1)
    assert same_tree(tree, build_fano_tree(counts))


@given(st.integers(3, 40), st.integers(0, 10**6), lambdas)
def test_the_objective_never_falls_from_step_to_step(n_labels, seed, lam):
    V, f = problem(n_labels, seed)
    weights = node_weights(f.marginal, f.coding, lam, 0.1, False)
    steps = [first_sides(V, f, lam, 0.1, seed, steps) for steps in range(1, 9)]
    values = [objective(V, weights, sides, lam) for sides in steps]
    assert np.diff(values).min() >= -1e-5  # the kernel sums in single precision


@given(st.integers(2, 12), st.integers(0, 10**6))
def test_the_sides_of_lemma_1_are_optimal(n_labels, seed):
    rng = np.random.default_rng(seed)
    weights, beta = rng.dirichlet(np.ones(n_labels)) + 1e-3, rng.normal(size=n_labels)
    best = linprog(-beta, A_eq=weights[None], b_eq=[0], bounds=(-1, 1))
    sides = lemma_1(beta, weights)
    assert weights @ sides == pytest.approx(0, abs=1e-12)
    assert beta @ sides == pytest.approx(-best.fun, abs=1e-9)


@given(st.integers(3, 25), st.integers(0, 10**6), lambdas)
def test_a_step_of_the_splitter_is_the_rounded_optimum_of_the_linear_program(n_labels, seed, lam):
    V, f = problem(n_labels, seed)
    weights = node_weights(f.marginal, f.coding, lam, 0.1, False)
    a, b = first_labels(n_labels, mix(seed))
    beta = weights * (2 - lam) / 2 * (V @ (V[a] - V[b])) + max(lam - 1, 0) * weights**2
    assume(np.diff(np.sort(beta / weights)).min() > 1e-5)  # ties are another test's subject
    program = linprog(-beta, A_eq=weights[None], b_eq=[0], bounds=(-1, 1))
    whole = np.abs(program.x) > 1 - 1e-9
    assert (~whole).sum() <= 1
    assume(np.abs(program.x).min() > 1e-6)
    np.testing.assert_array_equal(first_sides(V, f, lam, 0.1, seed, 1), np.sign(program.x))


@given(st.integers(2, 30), st.integers(0, 10**6), lambdas, st.sampled_from([0.0, 0.1]), st.booleans())
def test_no_node_is_empty_and_every_label_is_kept(n_labels, seed, lam, gamma, direct):
    V, f = problem(n_labels, seed)
    tree = build_interpolated_tree(V, f, lam=lam, gamma=gamma, direct=direct, max_leaf_size=1, threads=1)
    assert sorted(tree.labels.tolist()) == list(range(n_labels))
    assert (np.diff(tree.label_ptr)[tree.leaves] == 1).all()
    assert tree.n_nodes == 2 * n_labels - 1


@pytest.mark.parametrize("frequencies", [[0, 0, 0], [0, 0, 5], [5, 0, 0]])
@pytest.mark.parametrize("lam", [0.5, 1.0, 1.5, 2.0])
def test_labels_without_rows_or_features_find_a_place(frequencies, lam):
    tree = build_interpolated_tree(np.zeros((3, 2)), frequencies, lam=lam, gamma=0, max_leaf_size=1)
    assert tree.n_leaves == 3


@pytest.mark.parametrize("lam", [0.5, 1.0, 1.5, 2.0])
def test_threads_do_not_matter_and_seeds_do(lam):
    V, f = problem(6000, 0, n_features=20)  # large enough for nodes that all threads share
    trees = [build_interpolated_tree(V, f, lam=lam, seed=3, threads=threads) for threads in (1, 2, 5)]
    assert same_tree(trees[0], trees[1])
    assert same_tree(trees[0], trees[2])
    assert same_tree(trees[0], build_interpolated_tree(V, f, lam=lam, seed=4)) == (lam == 2)


def test_larger_lambdas_bring_frequent_labels_nearer_to_the_root():
    V, f = problem(2000, 1)
    f = LabelFrequencies(f.marginal)
    trees = [build_interpolated_tree(V, f, lam=lam, max_leaf_size=1, threads=1) for lam in (0, 1, 2)]
    depths = [f.marginal @ tree.label_depths() / f.marginal.sum() for tree in trees]
    assert depths[0] > depths[1] + 0.5
    assert depths[1] > depths[2]


def test_label_sets_are_counted_in_the_asked_way():
    V, _ = problem(4, 0)
    Y = [[0, 1], [0, 1], [0], [1, 2], [2], [3]]
    for construction in ("marginal", "greedy"):
        counted = label_frequencies(Y, construction=construction)
        tree = build_interpolated_tree(V, Y, lam=2, gamma=0, max_leaf_size=1, frequencies=construction)
        assert same_tree(tree, build_fano_tree(counted.coding))


@pytest.mark.parametrize(("n_labels", "arity"), [(256, 16), (64, 4), (512, 8), (7, 2), (5, 8)])
def test_equal_frequencies_and_halves_join_into_whole_generations(n_labels, arity):
    V, _ = problem(n_labels, 0)
    even = np.ones(n_labels)
    splits = split_labels(csr_parts(check_features(V)), even, even, max_leaf_size=1)
    assert same_tree(join_by_frequency(splits, even, arity), tree_from_splits(splits, arity=arity))


def test_wide_nodes_spend_their_places_on_frequent_branches():
    V, f = problem(500, 2)
    binary = build_interpolated_tree(V, f, lam=1, max_leaf_size=4)
    wide = build_interpolated_tree(V, f, lam=1, max_leaf_size=4, arity=16)
    children = np.diff(wide.child_ptr)
    assert children.max() == 16
    leaves = [{tuple(tree.leaf_labels(leaf).tolist()) for leaf in tree.leaves} for tree in (binary, wide)]
    assert leaves[0] == leaves[1]
    splits = split_labels(csr_parts(check_features(V)), f.marginal, f.coding, lam=1.0, gamma=0.1, max_leaf_size=4)
    whole = tree_from_splits(splits, arity=16)
    assert f.marginal @ wide.label_depths() < f.marginal @ whole.label_depths()


def test_the_grid_runs_from_0_towards_2():
    grid = lambda_grid()
    assert grid[0] == 0
    assert grid[2] == 1
    assert (np.diff(grid) > 0).all()
    assert 1.9999 < grid[-1] < 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lam": 2.1}, "lam must be a number from 0 to 2; got 2.1"),
        ({"gamma": -1}, "gamma must be a number of at least 0"),
        ({"frequencies": "greedi"}, "Did you mean 'greedy'"),
        ({"arity": 3, "lam": 1}, "arity must be a power of two; got 3"),
        ({"max_leaf_size": 0}, "max_leaf_size must be a whole number of at least 1"),
    ],
)
def test_misuse_is_named(options, words):
    with pytest.raises(InputError, match=words):
        build_interpolated_tree(np.eye(4), [1, 2, 3, 4], **options)
    with pytest.raises(InputError, match="for each of the 4 labels of V; got 3"):
        build_interpolated_tree(np.eye(4), [1, 2, 3])
    with pytest.raises(InputError, match="finite and not negative"):
        lambda_grid([-1])
