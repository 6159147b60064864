"""`GroupedLabels`: built from names, checked, spread; and the files with labels per group."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from tagwood.errors import DataError, InputError
from tagwood.groups import GroupedLabels, read_group_labels


def test_rows_may_be_in_several_groups_or_in_none():
    grouped = GroupedLabels.from_groups(["a", ["b", "a"], "", None, []], {"a": [1]})
    assert grouped.names == ("a", "b")
    assert grouped.sample_groups.toarray().tolist() == [[1, 0], [1, 1], [0, 0], [0, 0], [0, 0]]
    assert grouped.group_labels.toarray().tolist() == [[0, 1], [0, 0]]
    assert (grouped.n_rows, grouped.n_groups, grouped.n_labels) == (5, 2, 2)


def test_a_group_named_twice_in_a_row_counts_once():
    assert GroupedLabels.from_groups([["a", "a"]], {"a": [0]}).sample_groups.nnz == 1


def test_from_rows_unites_the_labels_of_a_group_and_keeps_rows_without_a_group():
    grouped = GroupedLabels.from_rows(["a", "a", "", ""], [[0], [0, 2], [1], []])
    assert grouped.names == ("a", "")
    assert grouped.spread().toarray().tolist() == [[1, 0, 1], [1, 0, 1], [0, 1, 0], [0, 0, 0]]


def test_group_numbers_work_as_names():
    grouped = GroupedLabels.from_groups(np.array([7, 7, 3]), {7: [0], 3: [1]})
    assert grouped.names == ("7", "3")
    assert grouped.spread().toarray().tolist() == [[1, 0], [1, 0], [0, 1]]


def test_spread_counts_a_label_of_two_groups_once():
    assert GroupedLabels([[0, 1]], [[0], [0]]).spread().toarray().tolist() == [[1]]


def test_lists_of_numbers_may_leave_out_groups_without_rows():
    assert GroupedLabels([[1], []], [[0], [1], [0]]).spread().toarray().tolist() == [[0, 1], [0, 0]]


def test_repr_tells_the_sizes():
    text = repr(GroupedLabels.from_groups(["a", "a"], {"a": [4]}))
    assert text == "GroupedLabels(2 rows in 1 groups of 2.0 on average, 5 labels)"


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (
            lambda: GroupedLabels(np.eye(1), np.ones((2, 1))),
            "one row for each of the 1 groups of sample_groups; got 2 rows",
        ),
        (
            lambda: GroupedLabels([[0]], [[0]], ("a", "b")),
            "names must have one name for each of the 1 groups; got 2 names",
        ),
        (
            lambda: GroupedLabels.from_groups(["a"], {"b": [0]}),
            "must have rows; got 1 without, the first is 'b'",
        ),
        (lambda: GroupedLabels.from_groups("abc", {}), "one group name per row; got str"),
        (lambda: GroupedLabels.from_rows(["a", "b"], [[0]]), "one row for each of the 2 rows"),
    ],
)
def test_misuse_is_named(build, words):
    with pytest.raises(InputError, match=words):
        build()


def test_group_file_with_tabs_and_json_joins_lines_of_a_group(tmp_path):
    path = tmp_path / "boxes.tsv"
    path.write_text('A\tsea\tships\n\n{"group": "B", "labels": ["sea", 7]}\r\nA\tships\tropes\nC\n')
    assert read_group_labels(path) == {"A": ["sea", "ships", "ropes"], "B": ["sea", "7"], "C": []}


def test_group_file_may_be_gzip(tmp_path):
    path = tmp_path / "boxes.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"group": 12, "labels": ["a"]}\n'))
    assert read_group_labels(str(path)) == {"12": ["a"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("A\tx\n\tx\n", "line 2: the group has no name"),
        ('{"group": "A"}\n', "line 1: 'group' and a list 'labels' are required"),
        ('{"labels": []}\n', "line 1: 'group' and a list 'labels' are required"),
        ('{"group": "A", "labels": [[1]]}\n', "line 1: labels must be strings or ids"),
        ('\n{"group": \n', "line 2: is not JSON"),
    ],
)
def test_bad_lines_are_named(tmp_path, content, words):
    path = tmp_path / "boxes.txt"
    path.write_text(content)
    with pytest.raises(DataError, match=words):
        read_group_labels(path)
