"""The merged lists of an ensemble, native against reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import search as reference_search

from tagwood import Ranking, _kernels


def lists(seed: int, n_lists: int, n_rows: int, width: int, n_labels: int):
    rng = np.random.default_rng(seed)
    labels = np.full((n_lists, n_rows, width), -1, dtype=np.int32)
    scores = np.zeros((n_lists, n_rows, width), dtype=np.float32)
    found = rng.integers(0, min(width, n_labels) + 1, (n_lists, n_rows)).astype(np.int32)
    for one in range(n_lists):
        for row in range(n_rows):
            n = found[one, row]
            labels[one, row, :n] = rng.choice(n_labels, n, replace=False)
            scores[one, row, :n] = np.sort(rng.integers(0, 5, n) / 4)[::-1]  # many ties
    return labels.ravel(), scores.ravel(), found.ravel()


@given(
    seed=st.integers(0, 10_000),
    n_lists=st.integers(1, 4),
    n_rows=st.integers(1, 6),
    width=st.integers(1, 7),
    k=st.integers(1, 9),
    threads=st.integers(1, 2),
)
def test_lists_are_merged_as_the_reference_does(seed, n_lists, n_rows, width, k, threads):
    given_lists = lists(seed, n_lists, n_rows, width, 12)
    native = _kernels.merge_lists(*given_lists, n_lists, k, threads)
    for ours, wanted in zip(native, reference_search.merge_lists(*given_lists, n_lists, k), strict=True):
        np.testing.assert_array_equal(ours, wanted)


def test_the_result_is_what_ranking_merge_gives():
    labels, scores, found = lists(3, 3, 50, 6, 20)
    rankings = [
        Ranking._of_places(*(part[one] for part in parts), 20)
        for one in range(3)
        for parts in [(labels.reshape(3, -1), scores.reshape(3, -1), found.reshape(3, -1))]
    ]
    merged = Ranking.merge(rankings).top(4)
    ours = Ranking._of_places(*_kernels.merge_lists(labels, scores, found, 3, 4, 2), 20)
    np.testing.assert_array_equal(ours.indptr, merged.indptr)
    np.testing.assert_array_equal(ours.labels, merged.labels)
    np.testing.assert_allclose(ours.scores, merged.scores, rtol=1e-6)


def test_arrays_that_do_not_fit_together_are_refused():
    labels, scores, found = lists(0, 2, 3, 4, 9)
    with pytest.raises(ValueError, match="inconsistent"):
        _kernels.merge_lists(labels[:-1], scores, found, 2, 5, 1)
