"""Tests of labels that are called by numbers and tuples."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tagwood.data.label_ids import compact_columns, id_rows
from tagwood.data.vocab import LabelVocab, decode_id, encode_id
from tagwood.errors import InputError


def lists(made):
    rows, ends, _ = made
    return [rows[begin:end].tolist() for begin, end in pairwise(ends)]


IDS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.lists(IDS, max_size=4), min_size=1, max_size=9))
def test_numbers_come_back_as_they_were_given(labels):
    made = id_rows(labels, None, "error")
    if made is None:
        assert not any(labels)
        return
    assert [[made[2].label_id(int(row)) for row in some] for some in lists(made)] == labels
    assert len(made[2]) <= max(100_000, 10 * len({one for some in labels for one in some}))


@given(st.tuples(st.text(), IDS, st.text()))
def test_tuples_come_back_as_they_were_given(value):
    assert decode_id(encode_id(value), "tuple") == value


def test_dense_numbers_are_rows_of_the_table():
    made = id_rows([[3], [1, 3]], None, "error")
    assert (len(made[2]), made[2].id_kind) == (4, "row")
    assert lists(made) == [[3], [1, 3]]


def test_unknown_ids_are_added_skipped_or_refused():
    vocab = LabelVocab.of_ids([10**9, 7])
    assert lists(id_rows([[7, 8], [8], [10**9]], vocab, "skip")) == [[1], [], [0]]
    made = id_rows([[7, 8, 8]], vocab, "add")
    assert (lists(made), made[2].label_id(2), len(made[2])) == ([[1, 2, 2]], 8, 3)
    with pytest.raises(InputError, match="labels must be in the vocabulary; got 8"):
        id_rows([[8]], vocab, "error")


def test_many_labels_are_found_at_once():
    vocab = LabelVocab.of_ids([10**9, -5, 7])
    assert vocab.find_many(np.array([7, 8, -5, 10**9])).tolist() == [2, -1, 1, 0]
    assert vocab.find_many(["7", "8", "x"]).tolist() == [2, -1, -1]
    named = LabelVocab.from_names(["oak", "ash", "elm"], uris=["u1", "", "u3"])
    assert named.find_many(np.array(["elm", "u1", "fir"])).tolist() == [2, 0, -1]
    assert named.find_many([1, "elm", 9]).tolist() == [1, 2, -1]
    assert LabelVocab.numbered(3).find_many(["2", "3"]).tolist() == [2, -1]
    assert LabelVocab.of_ids([("a", 1), ("b", 2)]).find_many([("b", 2), ("b", 1)]).tolist() == [1, -1]
    homonyms = LabelVocab.from_names(["bank", "bank"], uris=["u1", "u2"])
    with pytest.raises(InputError, match="ambiguous"):
        homonyms.find_many(["u1", "bank"])


@pytest.mark.parametrize("bad", [1.5, True, 2**63, (), (1.5,), None])
def test_other_things_are_no_ids(bad):
    with pytest.raises(InputError, match="an id must be"):
        encode_id(bad)


def test_ids_must_differ_and_be_stored_as_numbers():
    with pytest.raises(InputError, match="ids of labels must differ"):
        LabelVocab.of_ids([3, 3])
    with pytest.raises(InputError, match="must have them as URIs"):
        LabelVocab(2, id_kind="integer")
    forged = LabelVocab.from_arrays(
        {**LabelVocab.of_ids([31, 41]).to_arrays(), "uris.blob": np.frombuffer(b"xxxx", np.uint8)}
    )
    with pytest.raises(InputError, match="the text of an id must be that of integers"):
        forged.find_many(np.array([3]))


def test_a_vocabulary_with_ids_can_be_stored():
    vocab = LabelVocab.of_ids([("shop", 1), ("shop", 2)])
    assert LabelVocab.from_arrays(vocab.to_arrays()) == vocab
    assert vocab.add_ids([("x", 9)]).label_id(2) == ("x", 9)
    with pytest.raises(InputError, match="new labels must be called by tuples"):
        vocab.add_ids([3])


def test_a_matrix_with_few_used_columns_of_a_billion_is_compacted():
    cells = np.ones(3, dtype=np.float32), (np.arange(3), np.array([10**9, 4, 10**9]))
    Y, vocab = compact_columns(sparse.csr_array(cells, shape=(3, 10**9 + 1)))
    assert (Y.toarray().tolist(), vocab.label_id(1)) == ([[0, 1], [1, 0], [0, 1]], 10**9)
    small = sparse.csr_array(np.eye(3))
    assert compact_columns(small) == (small, None)
