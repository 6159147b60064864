import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.split import node_weights
from scipy import sparse

from tagwood.errors import InputError
from tagwood.trees import LabelFrequencies, label_frequencies
from tagwood.trees.interpolated import as_frequencies

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
    p = np.array(
        data.draw(st.lists(st.integers(0, 4), min_size=len(sets), max_size=len(sets))), dtype=np.float64
    )
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
def test_misuse_is_named(call, words):
    with pytest.raises(InputError, match=words):
        call()
