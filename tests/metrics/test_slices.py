"""Head, torso and tail."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tagwood.metrics import LabelCounts, frequency_slices


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
