"""Matching of labels with steps: equal to trying all, both schemes, the choice of the scheme."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tagwood.errors import InputError
from tagwood.neural.otseq2set.loss import choose_scheme, match_labels


def best_by_trying(p: np.ndarray, steps: int) -> float:
    """Return the largest sum of probabilities over all ways to give each label a step of its own."""
    labels = range(p.shape[1])
    return max(sum(p[s, j] for j, s in enumerate(way)) for way in permutations(range(steps), len(labels)))


@pytest.mark.parametrize("scheme", ["all", "first-n"])
@given(seed=st.integers(0, 10_000), n_steps=st.integers(1, 6), equal=st.booleans())
@settings(max_examples=40, deadline=None)
def test_matching_is_as_good_as_the_best_of_all_ways(scheme, seed, n_steps, equal):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, n_steps + 1, 3)
    p = rng.integers(0, 3, (3, n_steps, n_steps)) / 2 if equal else rng.random((3, n_steps, n_steps))
    found = match_labels(torch.from_numpy(p), torch.from_numpy(sizes), scheme).numpy()
    for row, size in enumerate(sizes):
        steps = n_steps if scheme == "all" else size
        matched = np.flatnonzero(found[row] >= 0)
        assert sorted(found[row, matched]) == list(range(size))
        assert matched.max() < steps
        total = p[row, matched, found[row, matched]].sum()
        assert total == pytest.approx(best_by_trying(p[row, :, :size], steps))


def test_first_n_leaves_later_steps_alone():
    p = torch.tensor([[[0.1], [0.9]]])
    sizes = torch.tensor([1])
    assert match_labels(p, sizes, "all").tolist() == [[-1, 0]]
    assert match_labels(p, sizes, "first-n").tolist() == [[0, -1]]


def test_probabilities_that_are_not_numbers_are_named():
    with pytest.raises(InputError, match="logits must be finite; got NaN or infinity"):
        match_labels(torch.tensor([[[float("nan")]]]), torch.tensor([1]))


@pytest.mark.parametrize(
    ("sizes", "scheme"),
    [
        ([1, 1, 1, 2, 9], "first-n"),  # a long tail of large sets, as in AmazonCat-13K
        ([7, 7, 7, 6, 1], "all"),  # most sets near the largest, as in Amazon-670K
        ([1, 2], "all"),  # half and half
        ([3, 3, 3], "first-n"),  # all at the mean
    ],
)
def test_scheme_follows_the_shape_of_the_set_sizes(sizes, scheme):
    assert choose_scheme(sizes) == scheme


def test_scheme_of_no_rows_is_refused():
    with pytest.raises(InputError, match="sizes must name one row or more"):
        choose_scheme([])
