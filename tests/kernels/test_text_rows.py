"""The native parser of sparse text rows returns what its plain twin returns, on good and on broken text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import rows as reference

from tagwood import _kernels

number = st.one_of(
    st.floats(width=32).map(lambda x: f"{x:.9g}"),
    st.floats(width=64).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(r"[+-]?[0-9]{0,30}\.?[0-9]{0,30}([eE][+-]?[0-9]{1,4})?", fullmatch=True),
    st.sampled_from(["1e400", "-1e400", "1e-400", "3.5e38", "0.1_0", "0x1p3", "", "1e", "+-1", "１"]),
)
token = st.tuples(st.integers(0, 12).map(str) | st.sampled_from(["-1", "99999999999999999999", ""]), number)
line = st.tuples(
    st.lists(st.integers(0, 11).map(str) | st.sampled_from(["", "x", "-1", "2.0"]), max_size=3).map(",".join),
    st.lists(token.map(":".join), max_size=3),
    st.sampled_from([" ", "  ", "\t"]),
    st.sampled_from(["\n", "\r\n", " \n", ""]),
).map(lambda parts: parts[2].join([parts[0], *parts[1]]) + parts[3])
text = st.one_of(st.lists(line, max_size=4).map(lambda lines: "".join(lines).encode()), st.binary(max_size=60))


def parse(function, content, last=True, max_rows=100, n_labels=10, n_features=10):
    buffer = np.frombuffer(content, dtype=np.uint8)
    *arrays, places = function(buffer, last, max_rows, n_labels, n_features)
    return [array.tolist() for array in arrays], places


@given(content=text, last=st.booleans(), max_rows=st.integers(0, 4))
def test_native_parser_equals_its_twin(content, last, max_rows):
    native = parse(_kernels.parse_rows, content, last, max_rows)
    assert native == parse(reference.parse_rows, content, last, max_rows)


@given(values=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20))
def test_nine_digits_bring_a_float32_back(values):
    content = " " + " ".join(f"{column}:{value:.9g}" for column, value in enumerate(values))
    (_, _, _, _, read), (_, problem, _) = parse(_kernels.parse_rows, content.encode(), n_features=20)
    assert problem == 0
    assert read == values


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"1,,2 3:4", 1),
        (b"1, 2:4", 1),
        (b"a 2:4", 1),
        (b"-1 2:4", 1),
        (b"10 2:4", 2),
        (b"99999999999999999999999 2:4", 2),
        (b"1 2", 3),
        (b"1 -2:3", 3),
        (b"1 2.0:3", 3),
        (b"1 10:3", 4),
        (b"1 2:", 5),
        (b"1 2:x", 5),
        (b"1 2:3:4", 5),
        (b"1 2:3,4", 5),
        (b"1 2:inf", 6),
        (b"1 2:-nan", 6),
        (b"1 2:1e39", 6),
        (b"1 2:1" + b"0" * 400, 6),
        (b"1 2:\x00", 5),
    ],
)
def test_each_mistake_has_its_problem_and_leaves_no_row(content, problem):
    arrays, (consumed, found, _) = parse(_kernels.parse_rows, b"3 1:1\n" + content + b"\n")
    assert found == problem
    assert consumed == len(b"3 1:1\n")
    assert arrays == [[1], [3], [1], [1], [1.0]]


@pytest.mark.parametrize(
    ("content", "labels", "features"),
    [
        (b"1,2 3:1 4:2\r\n", [1, 2], [3, 4]),
        (b" 3:1 \n", [], [3]),
        (b"3:1\n", [], [3]),
        (b"1\n", [1], []),
        (b"\n", [], []),
        (b"\t\n", [], []),
        (b"1 3:1", [1], [3]),
    ],
)
def test_blank_labels_spaces_and_line_ends_are_read(content, labels, features):
    arrays, (consumed, problem, _) = parse(_kernels.parse_rows, content)
    assert (arrays[1], arrays[3], problem, consumed) == (labels, features, 0, len(content))


def test_an_open_last_line_waits_for_the_rest():
    arrays, (consumed, problem, _) = parse(_kernels.parse_rows, b"1 2:3\n1 2:", last=False)
    assert (arrays[0], consumed, problem) == ([1], 6, 0)
