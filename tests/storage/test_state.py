"""States, packed strings and the registry: what can be stored, and what is refused beforehand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tagwood
from tagwood.errors import InputError
from tagwood.storage import State, pack_strings, restore, storable, unpack_strings
from tagwood.storage.state import MODULES, class_of


def test_numpy_scalars_and_tuples_become_plain_json():
    state = State("X", params={"a": np.float32(0.5), "b": (np.int64(1), np.True_), "c": {"d": None}})
    assert state.params == {"a": 0.5, "b": [1, True], "c": {"d": None}}
    assert [type(item) for item in state.params["b"]] == [int, bool]


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), b"x", {1: 2}, {1}, np.zeros(2), "\ud800", {"\ud800": 1}, 1 << 5000],
)  # fmt: skip
def test_a_parameter_that_json_cannot_hold_is_refused_by_name(value):
    with pytest.raises(InputError, match=r"params of X\['deep'\]\[1\] must be"):
        State("X", params={"deep": [0, value]})


def test_a_parameter_that_holds_itself_is_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(InputError, match="at most 16 deep"):
        State("X", params={"loop": loop})


@pytest.mark.parametrize("name", ["", "a b", "a/b", "..", "ä", "x" * 65, 3, "a\n"])
def test_names_are_plain(name):
    one = np.zeros(1)
    for make in (
        lambda: State(name),
        lambda: State("X", arrays={name: one}),
        lambda: State("X", parts={name: State("Y")}),
        lambda: storable(name),
    ):
        with pytest.raises(InputError, match="letters, digits and underscores"):
            make()


@pytest.mark.parametrize("array", [[1, 2], np.array(["a"]), np.array([None]), np.zeros(2, dtype=complex), 3.0])
def test_an_array_that_cannot_be_stored_is_refused_by_name(array):
    with pytest.raises(InputError, match="array 'w' of X must be a NumPy array"):
        State("X", arrays={"w": array})


def test_a_part_must_be_a_state():
    with pytest.raises(InputError, match=r"part 'm' of X must be a State; got dict. Call its state\(\) method"):
        State("X", parts={"m": {}})


def test_readers_give_the_value_or_say_what_is_missing():
    state = State("X", {"n": 3, "flag": True}, {"w": np.zeros((2, 3), dtype=np.float32)}, {"p": State("Y")})
    assert state.param("n", int) == 3
    assert isinstance(state.param("n", float), float)
    assert state.array("w", np.float32, (2, None)).shape == (2, 3)
    assert state.part("p").kind == "Y"
    for call, reason in [
        (lambda: state.param("m", int), "needs the parameter 'm'"),
        (lambda: state.param("flag", int, float), "'flag' of X must be int or float; got True"),
        (lambda: state.array("v", np.float32), "needs the array 'v'"),
        (lambda: state.array("w", np.float64), "must be float64 of any shape; got float32"),
        (lambda: state.array("w", np.float32, (3, None)), r"shape \(3, any\); got float32 of shape \(2, 3\)"),
        (lambda: state.array("w", np.float32, (None,)), "got float32 of shape"),
        (lambda: state.part("q"), "needs the part 'q'"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=reason):
            call()


@given(st.lists(st.text()))
def test_packed_strings_come_back(strings):
    assert unpack_strings(*pack_strings(strings)) == strings


@pytest.mark.parametrize(
    "blob, offsets",
    [
        (b"abc", []), (b"abc", [0, 2]), (b"abc", [1, 3]), (b"abc", [0, 4, 3]), (b"abc", [0, 2, 1, 3]),
        ("ä".encode(), [0, 1, 2]), (b"\xff", [0, 1]),
    ],
)  # fmt: skip
def test_arrays_that_are_no_packed_strings_are_refused(blob, offsets):
    with pytest.raises(InputError, match="packed strings"):
        unpack_strings(np.frombuffer(blob, dtype=np.uint8), np.array(offsets, dtype=np.int64))


def test_packed_strings_of_the_wrong_dtype_are_refused():
    blob, offsets = pack_strings(["a"])
    with pytest.raises(InputError, match=r"uint8 blob and flat int64 offsets; got uint8 .* int32"):
        unpack_strings(blob, offsets.astype(np.int32))


@pytest.mark.parametrize("strings, reason", [([1], "int at place 0"), (["a", "\ud800"], "at place 1")])
def test_what_is_no_text_is_not_packed(strings, reason):
    with pytest.raises(InputError, match=reason):
        pack_strings(strings)


def test_a_kind_belongs_to_one_class(toys):
    with pytest.raises(InputError, match="kind 'ToyLinear' must belong to one class"):
        storable("ToyLinear")(toys.Tagger)
    assert storable("ToyLinear")(toys.Linear) is toys.Linear


def test_an_unknown_kind_is_no_class():
    assert class_of("os") is None
    with pytest.raises(InputError, match="must be of a known kind; got 'os'"):
        restore(State("os"))


def test_the_table_names_exactly_the_storable_classes_of_the_package():
    root = Path(tagwood.__file__).parent
    found = {
        kind: ".".join(["tagwood", *path.relative_to(root).with_suffix("").parts])
        for path in root.rglob("*.py")
        for kind in re.findall(r'^@storable\("(\w+)"\)', path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    assert found == MODULES
