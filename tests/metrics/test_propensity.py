"""Propensities by their formula and against the repository; head, torso and tail."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tagwood.errors import InputError
from tagwood.metrics import PRESETS, LabelCounts, frequency_slices, inverse_propensity

COUNTS = LabelCounts(np.array([0, 1, 10, 500]), n_rows=1000)


def test_counts_come_from_any_form_of_labels():
    for labels in (
        [[0, 2], [2]],
        sparse.csr_array([[1, 0, 1], [0, 0, 1]]),
        np.array([[3.0, 0, 1], [0, 0, 1]]),
    ):
        counts = LabelCounts.of(labels)
        assert counts.counts.tolist() == [1, 0, 2]
        assert (counts.n_rows, counts.n_labels) == (2, 3)


@pytest.mark.parametrize(
    ("counts", "n_rows", "message"),
    [
        (np.array([1, -1]), 5, "one non-negative integer"),
        (np.array([1.5]), 5, "got shape (1,) of type float64"),
        (np.array([[1]]), 5, "one non-negative integer"),
        (np.array([6]), 5, "must not exceed the 5 training rows; got 6"),
        (np.array([0]), 0, "n_rows must be a whole number of at least 1"),
    ],
)
def test_impossible_counts_are_refused(counts, n_rows, message):
    with pytest.raises(InputError) as error:
        LabelCounts(counts, n_rows)
    assert message in str(error.value)


@pytest.mark.parametrize("preset", PRESETS)
def test_rare_labels_weigh_more_and_none_less_than_one(preset):
    weights = inverse_propensity(COUNTS, preset)
    assert np.all(np.diff(weights) < 0)
    assert np.all(weights > 1)
    np.testing.assert_array_equal(weights, inverse_propensity(COUNTS, PRESETS[preset]))


def test_a_label_seen_once_weighs_ln_n_under_every_constant():
    # (B + 1)^A cancels (1 + B)^-A: 1 + ln N - 1.
    for constants in [(0.1, 0.2), (0.55, 1.5), (2.0, 7.0)]:
        assert inverse_propensity(COUNTS, constants)[1] == pytest.approx(np.log(1000))


@pytest.mark.parametrize("n_rows", [1, 2])
def test_tiny_training_sets_weigh_every_label_alike(n_rows):
    assert inverse_propensity(LabelCounts(np.array([0, 1]), n_rows)).tolist() == [1.0, 1.0]


def test_given_weights_are_used_as_they_are():
    assert inverse_propensity(None, [2, 3]).tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("propensity", "message"),
    [
        (
            "amazn",
            "'amazon', or the name of a dataset; got 'amazn'. Did you mean 'amazon'?",
        ),
        ((0.5,), "the pair (A, B); got 1 numbers"),
        ((-0.5, 1.0), "A of the propensity must be a number of at least 0"),
        ((0.5, 0.0), "B of the propensity must be a number greater than 0"),
        ([1.0, 0.0], "must be greater than 0; got 0.0"),
        ([1.0, np.nan], "propensity must hold finite numbers"),
        (np.ones((2, 2)), "got ndarray of shape (2, 2)"),
        (["a"], "must be a preset, a pair (A, B) or an array"),
    ],
)
def test_unusable_propensities_are_refused(propensity, message):
    with pytest.raises(InputError) as error:
        inverse_propensity(COUNTS, propensity)
    assert message in str(error.value)


def test_presets_need_training_labels():
    with pytest.raises(InputError, match="Pass train_labels"):
        inverse_propensity(None, "default")


@given(st.lists(st.integers(0, 30), max_size=40))
def test_slices_part_the_labels_by_frequency(counts):
    counts = np.array(counts, dtype=np.int64)
    slices = frequency_slices(LabelCounts(counts, n_rows=30))
    np.testing.assert_array_equal(sum(part.mask.astype(int) for part in slices), np.ones(counts.size))
    head, torso, tail = (counts[part.mask] for part in slices)
    for common, rare in ((head, torso), (torso, tail), (head, tail)):
        if common.size and rare.size:
            assert common.min() > rare.max()
    for part in slices:
        inside = counts[part.mask]
        assert part.n_labels == inside.size
        assert (part.rarest, part.commonest) == ((inside.min(), inside.max()) if inside.size else (0, 0))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_slices_hold_a_third_of_the_occurrences_up_to_one_step(counts):
    counts = np.array(counts)
    head, torso, _ = (counts[part.mask] for part in frequency_slices(LabelCounts(counts, n_rows=30)))
    total = counts.sum()
    assert 3 * head.sum() >= total
    assert 3 * (head.sum() - counts[counts == head.min()].sum()) < total
    assert 3 * (head.sum() + torso.sum()) >= 2 * total or torso.size == 0


def test_labels_never_seen_are_tail_even_if_none_was_seen():
    slices = frequency_slices(LabelCounts(np.zeros(3, dtype=np.int64), n_rows=5))
    assert [part.n_labels for part in slices] == [0, 0, 3]


def test_datasets_choose_their_constants_by_name():
    for name, preset in (("LF-AmazonTitles-131K", "amazon"), ("eurlex_4k", "default"), ("Wiki-500K", "wikipedia")):
        assert np.array_equal(inverse_propensity(COUNTS, name), inverse_propensity(COUNTS, preset))
    with pytest.raises(InputError, match="Did you mean 'amazon-670k'"):
        inverse_propensity(COUNTS, "amazon-671k")
