"""Sizes of label sets learned from held-out rows: least error, rising cuts, stored with the model."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tagwood
from tagwood import SetGenerator
from tagwood.errors import InputError, NotFittedError
from tagwood.neural.otseq2set.decoding import learn_size_cuts, sizes_by_cuts

MOST = 3
ROWS = st.lists(
    st.tuples(st.integers(0, 6).map(lambda tenth: tenth / 2), st.integers(0, 5)), min_size=1, max_size=7
)
TEXTS = ["oak and ash", "ash wood", "oak wood", "sea water", "salt water", "sea salt"] * 4
SETS = [[0, 1], [1], [0], [2], [2], [2]] * 4


def error(expected, sizes, cuts):
    return int(np.abs(sizes_by_cuts(expected, np.array(cuts, dtype=float)) - np.array(sizes)).sum())


@given(ROWS)
def test_no_other_cuts_have_a_smaller_error(rows):
    expected, sizes = zip(*rows, strict=True)
    cuts = learn_size_cuts(expected, sizes, MOST)
    assert cuts.shape == (MOST,)
    assert bool(np.all(np.diff(cuts) >= 0))
    values = np.unique(expected)
    places = [-1.0, *((values[:-1] + values[1:]) / 2), MOST + 1.0]
    best = min(error(expected, sizes, some) for some in combinations_with_replacement(places, MOST))
    assert error(expected, sizes, cuts) == best


@given(ROWS)
def test_no_fixed_size_has_a_smaller_error(rows):
    expected, sizes = zip(*rows, strict=True)
    found = error(expected, sizes, learn_size_cuts(expected, sizes, MOST))
    assert all(found <= sum(abs(size - fixed) for size in sizes) for fixed in range(MOST + 1))


def make(**options):
    quick = {"hidden": 16, "layers": 1, "dimension": 12, "epochs": 12, "batch_size": 8, "learning_rate": 0.02}
    return SetGenerator(**{**quick, "threads": 1, **options}).fit(TEXTS, SETS)


@pytest.fixture(scope="module", params=["otseq2set", "mlc2seq"])
def fitted(request):
    return make(kind=request.param, epochs=30)


def test_expected_sizes_follow_the_number_of_labels(fitted):
    expected = fitted.expected_sizes(TEXTS[:6])
    assert int(np.argmax(expected)) == 0
    assert expected == pytest.approx([2, 1, 1, 1, 1, 1], abs=0.4)
    assert fitted.expected_sizes([]).shape == (0,)


def test_learned_sizes_are_those_of_the_rows_they_come_from(fitted):
    texts, sets = TEXTS[:6], [[0, 1], [0, 1], [0, 1], [2], [2], [2]]
    fitted.learn_sizes(texts, sets)
    sizes = np.diff(fitted.predict(texts, sizes="learned").indptr)
    wrong = np.abs(sizes - [2, 2, 2, 1, 1, 1]).sum()
    assert wrong <= min(3, np.abs(np.diff(fitted.predict(texts).indptr) - [2, 2, 2, 1, 1, 1]).sum())


def test_labels_of_a_learned_size_are_the_first_of_the_ranking(fitted):
    fitted.learn_sizes(TEXTS[:2], [[0, 1], [0, 1]])  # every text has two labels, the most there can be
    found = fitted.predict(TEXTS[:6], sizes="learned").toarray()
    ranking = fitted.rank(TEXTS[:6], k=2)
    for row in range(6):
        assert np.flatnonzero(found[row]).tolist() == sorted(label for label, _ in ranking[row])


def test_learned_sizes_are_stored_and_dropped_by_a_new_fit(tmp_path):
    model = make(output="candidates", candidates=2)
    plain = tagwood.load(tagwood.save(model, tmp_path / "plain"))
    assert plain.size_cuts_ is None
    model.learn_sizes(TEXTS[:6], SETS[:6])
    again = tagwood.load(tagwood.save(model, tmp_path / "model"), verify=True)
    np.testing.assert_array_equal(again.size_cuts_, model.size_cuts_)
    wanted = model.predict(TEXTS[:6], sizes="learned").toarray()
    np.testing.assert_array_equal(again.predict(TEXTS[:6], sizes="learned").toarray(), wanted)
    assert model.fit(TEXTS, SETS).size_cuts_ is None


def test_sizes_that_were_not_learned_are_refused():
    model = make(epochs=1)
    with pytest.raises(NotFittedError, match=r"needs sizes that were learned.*learn_sizes"):
        model.predict(TEXTS, sizes="learned")
    with pytest.raises(InputError, match="sizes must be one of 'generated'"):
        model.predict(TEXTS, sizes="expected")
    with pytest.raises(InputError, match="at least one label"):
        model.learn_sizes(TEXTS[:2], [[], [1]])
    with pytest.raises(NotFittedError):
        SetGenerator().learn_sizes(TEXTS, SETS)
