"""Names in texts against their twins, which compare every name."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference import names as reference

from tagwood import _kernels

N_WORDS = 8
WORDS = st.integers(0, N_WORDS - 1)
NAMES = st.lists(st.lists(WORDS, min_size=1, max_size=4), max_size=12)
TEXTS = st.lists(st.lists(st.integers(-1, N_WORDS - 1), max_size=15), max_size=6)
# Sums of these are exact, and none is a share of another sum that rounding could decide.
WEIGHTS = st.lists(st.sampled_from([0, 1, 2, 3]), min_size=N_WORDS, max_size=N_WORDS)
COVERAGE = st.sampled_from([0.31, 0.59, 0.77, 1.0])


def flat(rows):
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return indptr, np.array([word for row in rows for word in row], dtype=np.int32)


def matches(names, weight, min_coverage, texts, threads=1):
    index = (*flat(names), np.array(weight, dtype=np.float32))
    prefix = _kernels.prefix_words(*index, min_coverage)
    return _kernels.match_names(*index, *prefix, min_coverage, *flat(texts), threads)


@settings(max_examples=150, deadline=None)
@given(NAMES, WEIGHTS, COVERAGE)
@example([[0], [0, 0, 1]], [0] * N_WORDS, 0.59)
def test_prefix_words_equal_their_twin(names, weight, min_coverage):
    weights = np.array(weight, dtype=np.float32)
    ptr, by_word = _kernels.prefix_words(*flat(names), weights, min_coverage)
    expected = flat(reference.prefix_words(names, weights, min_coverage))
    np.testing.assert_array_equal(ptr, expected[0])
    np.testing.assert_array_equal(by_word, expected[1])


@settings(max_examples=300, deadline=None)
@given(NAMES, WEIGHTS, COVERAGE, TEXTS, st.integers(1, 2))
@example([[0, 0]], [1] * N_WORDS, 1.0, [[0, 0, 0], [0], []], 1)  # a repeated word
@example([[1], [1, 2]], [0] * N_WORDS, 0.59, [[1], [2, 1, 2], [-1]], 2)  # no weight
@example([[3]], [1] * N_WORDS, 0.59, [[], [-1, -1], [-1, 3, 3]], 1)  # one word; nothing known
@example([], [1] * N_WORDS, 0.59, [[0]], 1)
def test_the_same_names_are_found_as_by_comparing_every_name(names, weight, min_coverage, texts, threads):
    indptr, *columns = matches(names, weight, min_coverage, texts, threads)
    weights = np.array(weight, dtype=np.float32)
    expected = [reference.match_names(names, weights, min_coverage, text) for text in texts]
    assert indptr.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
    flat_expected = [match for row in expected for match in row]
    found = list(zip(*(column.tolist() for column in columns), strict=True))
    assert [(m[0], m[2], m[3]) for m in found] == [(m[0], m[2], m[3]) for m in flat_expected]
    np.testing.assert_allclose([m[1] for m in found], [m[1] for m in flat_expected], rtol=1e-6)
    np.testing.assert_allclose([m[4] for m in found], [m[4] for m in flat_expected], rtol=1e-6)


def test_names_are_found_with_any_weights():
    """Rounding may decide at the threshold itself; nothing else may differ from comparing every name."""
    rng = np.random.default_rng(0)
    names = [rng.integers(0, 60, rng.integers(1, 7)).tolist() for _ in range(300)]
    texts = [rng.integers(0, 60, rng.integers(0, 40)).tolist() for _ in range(150)]
    weight = rng.gamma(1, 3, 60).astype(np.float32)
    indptr, found, *_ = matches(names, weight, 0.6, texts)
    for row, text in enumerate(texts):
        ours = set(found[indptr[row] : indptr[row + 1]].tolist())
        surely, possibly = (
            {match[0] for match in reference.match_names(names, weight, bound, text)} for bound in (0.60001, 0.59999)
        )
        assert surely <= ours <= possibly


def test_threads_and_batches_do_not_matter():
    rng = np.random.default_rng(1)
    names = [rng.integers(0, 500, rng.integers(1, 4)).tolist() for _ in range(2000)]
    texts = [rng.integers(-1, 500, rng.integers(0, 200)).tolist() for _ in range(200)]
    weight = rng.random(500).astype(np.float32)
    whole = matches(names, weight, 0.6, texts)
    assert whole[1].size > 1000
    for ours, other in zip(whole, matches(names, weight, 0.6, texts, threads=2), strict=True):
        np.testing.assert_array_equal(ours, other)
    alone = matches(names, weight, 0.6, texts[77:78])
    for ours, other in zip(whole[1:], alone[1:], strict=True):
        np.testing.assert_array_equal(ours[whole[0][77] : whole[0][78]], other)


def test_arrays_that_do_not_fit_are_refused():
    weight = np.ones(2, dtype=np.float32)
    with pytest.raises(ValueError, match="must have a weight"):
        _kernels.prefix_words(*flat([[2]]), weight, 0.6)
    prefix = _kernels.prefix_words(*flat([[1]]), weight, 0.6)
    with pytest.raises(ValueError, match="do not fit"):
        _kernels.match_names(*flat([[1]]), weight, *prefix, 0.6, *flat([[2]]), 1)
    with pytest.raises(ValueError, match="do not fit"):
        _kernels.match_names(*flat([[1]]), weight, prefix[0][:-1], prefix[1], 0.6, *flat([[1]]), 1)
