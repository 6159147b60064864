"""A dataset checks itself, gives its parts, and has a fingerprint of its content."""

import numpy as np
import pytest
from scipy import sparse

from tagwood.data import Dataset, LabelVocab
from tagwood.errors import InputError

TREES = LabelVocab.from_names(["ash", "oak", "elm"])


@pytest.fixture
def data():
    return Dataset(
        [[0], [1, 0], [], [2]],
        TREES,
        texts=["a", "b", "c", "d"],
        features=sparse.csr_array(np.arange(8, dtype=np.float64).reshape(4, 2)),
        groups=["g", "h", "g", ""],
        ids=["1", "2", "3", "4"],
    )


def test_matrices_are_canonical_and_narrow(data):
    assert data.labels.toarray().tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert (data.labels.dtype, data.features.dtype) == (np.float32, np.float32)
    assert (data.labels.indices.dtype, data.features.indices.dtype) == (np.int32, np.int32)
    assert data.label_lists() == [[0], [0, 1], [], [2]]


@pytest.mark.parametrize("index", [[3, 1], np.array([3, 1]), np.array([False, True, False, True])])
def test_rows_come_in_the_order_asked_for(data, index):
    part = data.rows(index)
    order = sorted if np.asarray(index).dtype == bool else list
    assert part.texts == order(["d", "b"])
    assert part.ids == order(["4", "2"])
    assert sorted(part.groups) == ["", "h"]
    assert part.features.shape == (2, 2)
    assert part.vocab is data.vocab


def test_no_rows_and_wrong_rows(data):
    assert data.rows([]).n_rows == 0
    with pytest.raises(InputError, match="rows must be numbers below 4 or a mask"):
        data.rows([9])


def test_splits_are_disjoint_whole_and_repeatable():
    data = Dataset([[0]] * 50, ids=[str(row) for row in range(50)])
    train, test = data.split(0.2, seed=3)
    assert (train.n_rows, test.n_rows) == (40, 10)
    assert sorted(train.ids + test.ids, key=int) == data.ids
    assert train.ids == sorted(train.ids, key=int)
    assert data.split(0.2, seed=3)[1].ids == test.ids
    assert data.split(0.2, seed=4)[1].ids != test.ids


def test_group_codes_number_groups_by_first_appearance(data):
    codes, names = data.group_codes()
    assert (codes.tolist(), names) == ([0, 1, 0, -1], ["g", "h"])


def test_labels_can_be_replaced_over_the_same_vocabulary(data):
    other = data.with_labels([[2], [], [], [0]])
    assert other.label_lists() == [[2], [], [], [0]]
    assert other.labels.shape == (4, 3)
    with pytest.raises(InputError, match="one row for each of the 4 rows"):
        data.with_labels([[0]])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"texts": ["a"]}, "texts must have one entry for each of the 2 rows; got 1"),
        ({"texts": "ab"}, "texts must be one string per row; got a single string"),
        ({"texts": ["a", 3]}, "texts must be strings; got int 3"),
        ({"ids": ["1"]}, "ids must have one entry"),
        ({"groups": ["1"]}, "groups must have one entry"),
        ({"features": np.ones((3, 1))}, "features must have one entry for each of the 2 rows; got 3"),
        ({"features": np.array([[np.nan], [1]])}, "features must hold finite numbers"),
    ],
)
def test_parts_that_do_not_fit_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        Dataset([[0], [1]], **wrong)


def test_labels_must_fit_the_vocabulary():
    with pytest.raises(InputError, match="one column for each of the 3 labels of the vocabulary; got 4"):
        Dataset([[3]], TREES)
    with pytest.raises(InputError, match="one column for each of the 3 labels"):
        Dataset(sparse.csr_array((1, 2)), TREES)


def test_the_fingerprint_sees_every_part(data):
    same = Dataset(data.labels, TREES, texts=data.texts, features=data.features, groups=data.groups, ids=data.ids)
    assert same.fingerprint() == data.fingerprint()
    others = [
        data.rows([0, 1, 3, 2]),
        data.with_labels([[0], [1], [], [2]]),
        Dataset(data.labels, TREES, texts=["a", "b", "cd", ""], features=data.features, groups=data.groups),
        Dataset(data.labels, TREES, texts=["a", "b", "c", "d"]),
        Dataset(data.labels, LabelVocab.from_names(["ash", "oak", "yew"]), texts=["a", "b", "c", "d"]),
        Dataset(data.labels, TREES, features=data.features),
        Dataset(data.labels, TREES, features=data.features * 2),
    ]
    prints = [other.fingerprint() for other in [data, *others]]
    assert len(set(prints)) == len(prints)
