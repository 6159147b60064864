"""Evidence for labels without rows, and joined rankings, against their twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import name_evidence as reference
from scipy import sparse

from tagwood import _kernels

N_WORDS, N_LABELS, N_TRAINED = 7, 5, 4
LEAST = (0.59, 0.3, 0.4)


def flat(rows, dtype=np.int32):
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return indptr, np.array([one for row in rows for one in row], dtype=dtype)


def postings(matrix):
    rows = sparse.csr_array(matrix)
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(np.float32)


def ranking(rows):
    indptr, labels = flat([[label for label, _ in row] for row in rows])
    return indptr, labels, flat([[score for _, score in row] for row in rows], np.float32)[1]


def random_case(seed):
    rng = np.random.default_rng(seed)
    names = [rng.integers(0, N_WORDS, rng.integers(1, 4)).tolist() for _ in range(8)]
    weight = rng.gamma(2, 2, N_WORDS).astype(np.float32)
    tables = [rng.random(shape) * (rng.random(shape) < 0.4) for shape in ((N_WORDS, N_LABELS), (N_TRAINED, N_LABELS))]
    bags, related = (table.astype(np.float32) for table in tables)
    texts = [rng.integers(-1, N_WORDS, rng.integers(0, 9)).tolist() for _ in range(6)]
    suggested = [
        sorted(
            zip(rng.permutation(N_TRAINED)[:n].tolist(), rng.random(n).tolist(), strict=True), key=lambda one: -one[1]
        )
        for n in rng.integers(0, N_TRAINED, 6)
    ]
    return (
        names,
        rng.integers(0, N_LABELS, 8).tolist(),
        rng.integers(1, 4, 8).tolist(),
        weight,
        bags,
        related,
        texts,
        suggested,
    )


def evidence(names, labels, shared, weight, bags, related, texts, suggested):
    index = (*flat(names), weight)
    prefix = _kernels.prefix_words(*index, LEAST[0])
    arrays = [np.array(values, dtype=np.int32) for values in (labels, shared)]
    tables = (postings(bags), postings(related))
    found = (N_LABELS, *tables, LEAST[1:], *flat(texts), ranking(suggested))
    return _kernels.find_evidence((*index, *prefix), LEAST[0], *arrays, *found)


@pytest.mark.parametrize("seed", range(60))
def test_evidence_equals_its_twin(seed):
    case = random_case(seed)
    indptr, labels, features, certain = evidence(*case)
    features = features.reshape(-1, 15)
    for row, (text, own) in enumerate(zip(*case[-2:], strict=True)):
        expected = reference.find_evidence(*case[:-2], text, own, LEAST)
        part = slice(indptr[row], indptr[row + 1])
        assert labels[part].tolist() == list(expected)
        assert certain[part].astype(bool).tolist() == [certain for _, certain in expected.values()]
        wanted = np.array([columns for columns, _ in expected.values()], dtype=float).reshape(-1, 15)
        np.testing.assert_allclose(features[part], wanted, rtol=1e-5, atol=1e-6)


def test_texts_do_not_influence_each_other():
    case = random_case(3)
    together = evidence(*case)
    alone = [evidence(*case[:-2], [text], [own]) for text, own in zip(*case[-2:], strict=True)]
    for place in (1, 2, 3):
        np.testing.assert_array_equal(together[place], np.concatenate([one[place] for one in alone]))


SCORES = st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0])
ROW = st.lists(st.tuples(st.integers(0, 9), SCORES), max_size=6, unique_by=lambda one: one[0])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(ROW, ROW), min_size=1, max_size=4), st.integers(1, 7))
def test_joined_rankings_equal_their_twin(rows, k):
    first = [sorted(one, key=lambda pair: (-pair[1], pair[0])) for one, _ in rows]
    second = [other for _, other in rows]
    indptr, labels, scores = _kernels.join_rankings(*ranking(first), *ranking(second), k)
    pairs = list(zip(labels.tolist(), scores.tolist(), strict=True))
    expected = [reference.join_rankings(one, other, k) for one, other in zip(first, second, strict=True)]
    assert [pairs[indptr[row] : indptr[row + 1]] for row in range(len(rows))] == expected


def test_arrays_that_do_not_fit_together_are_refused():
    case = list(random_case(0))
    case[-1] = [[(N_TRAINED, 0.5)]] * 6
    with pytest.raises(ValueError, match="fit together"):
        evidence(*case)
    with pytest.raises(ValueError, match="fit together"):
        _kernels.join_rankings(*ranking([[(0, 1.0)]]), *ranking([[], []]), 1)
