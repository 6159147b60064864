"""safetensors files: what is written is read back, what is odd is refused, and no bytes crash."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import numpy as safetensors

from tagwood.storage.state import DTYPES
from tagwood.storage.tensors import map_tensor, read_header, write_tensors

ARRAYS = {
    **{f"a_{name}": np.arange(7).astype(dtype) for name, dtype in DTYPES.items()},
    "empty": np.zeros((3, 0, 2), dtype=np.int64),
    "scalar": np.array(2.5, dtype=np.float32),
    "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "strided": np.arange(20, dtype=np.int32)[::3],
    "big_endian": np.arange(5, dtype=">i4"),
    "part/inner": np.ones((2, 2), dtype=np.float16),
}


def as_file(header, data=b""):
    raw = json.dumps(header).encode() if not isinstance(header, bytes) else header
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw + data


def read(buffer):
    return {name: map_tensor(buffer, tensor) for name, tensor in read_header(buffer).items()}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype.newbyteorder("="), name
        np.testing.assert_array_equal(found[name], array)
        assert found[name].shape == array.shape


def test_every_dtype_and_layout_comes_back_equal_aligned_and_read_only(tmp_path):
    write_tensors(tmp_path / "x", ARRAYS)
    found = read((tmp_path / "x").read_bytes())
    assert_same(found, ARRAYS)
    for array in found.values():
        assert array.flags.aligned
        assert array.flags.c_contiguous
        assert not array.flags.writeable


def test_the_safetensors_package_reads_our_files_and_we_read_its(tmp_path):
    write_tensors(tmp_path / "x", ARRAYS)
    assert_same(safetensors.load_file(tmp_path / "x"), ARRAYS)
    native = {name: np.ascontiguousarray(a, dtype=a.dtype.newbyteorder("=")) for name, a in ARRAYS.items()}
    assert_same(read(safetensors.save(native, metadata={"from": "elsewhere"})), native)


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    "file, reason",
    [
        (b"", "too few"),
        (b"1234567", "too few"),
        (b"\xff" * 8, "header has a length"),
        (as_file(b"[]"), "not a JSON object"),
        (as_file(b"{"), "not valid JSON"),
        (as_file(b'{"a": 1, "a": 2}'), "twice"),
        (as_file({"a": entry()}), "end at byte"),
        (as_file({"a": entry()}, b"0" * 9), "end at byte"),
        (as_file({"a": entry(offsets=(4, 12))}, b"0" * 12), "the end of the previous one"),
        (as_file({"a": entry(), "b": entry()}, b"0" * 8), "the end of the previous one"),
        (as_file({"a": entry(), "b": entry(offsets=(4, 12))}, b"0" * 12), "the end of the previous one"),
        (as_file({"a": entry(offsets=(8, 0))}, b"0" * 8), "does not fit"),
        (as_file({"a": entry(offsets=(0, 4))}, b"0" * 4), "does not fit"),
        (as_file({"a": entry(offsets=(-8, 0))}), "from 0 up"),
        (as_file({"a": entry(shape=(-2,))}, b"0" * 8), "from 0 up"),
        (as_file({"a": entry(shape=(True, 2))}, b"0" * 8), "from 0 up"),
        (as_file({"a": entry(shape=(2.0,))}, b"0" * 8), "from 0 up"),
        (as_file({"a": entry(shape=(2**70,))}, b"0" * 8), "from 0 up"),
        (as_file({"a": entry(shape=(2**40, 2**40, 0), offsets=(0, 0))}), "invalid shape"),
        (as_file({"a": entry(shape=(1,) * 40, dtype="U8", offsets=(0, 1))}, b"0"), "invalid shape"),
        (as_file({"a": entry(offsets=(0, 4, 8))}, b"0" * 8), "3 numbers instead of 2"),
        (as_file({"a": entry(dtype="BF16")}, b"0" * 8), "unknown dtype"),
        (as_file({"a": {**entry(), "x": 1}}, b"0" * 8), "must be dtype, shape and data_offsets"),
        (as_file({"a": 3}), "must be dtype, shape and data_offsets"),
        (as_file({"a": entry("U8", (1,), (0, 1)), "b": entry(offsets=(1, 9))}, b"0" * 9), "not aligned"),
        (as_file(b"[" * 100_000), "nested too deeply"),
        (as_file(b'{"a": NaN}'), "not JSON"),
    ],
)  # fmt: skip
def test_an_odd_header_is_refused_with_its_reason(file, reason):
    with pytest.raises(ValueError, match=reason):
        read(file)


def test_the_smallest_good_file_is_read():
    assert_same(read(as_file({})), {})
    assert_same(read(as_file({"a": entry()}, bytes(8))), {"a": np.zeros(2, dtype=np.float32)})


numbers = st.one_of(st.integers(-2, 40), st.integers(), st.booleans(), st.floats(), st.text(max_size=2))
entries = st.fixed_dictionaries(
    {
        "dtype": st.one_of(st.sampled_from(["F32", "U8", "BOOL", "I64"]), numbers),
        "shape": st.one_of(st.lists(numbers, max_size=4), numbers),
        "data_offsets": st.one_of(st.lists(numbers, max_size=3), numbers),
    }
)
headers = st.one_of(
    st.binary(max_size=200), st.dictionaries(st.text(max_size=3), st.one_of(entries, numbers), max_size=3)
)


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_are_read_or_refused_but_never_crash(raw):
    with contextlib.suppress(ValueError):
        read(raw)


@given(headers, st.binary(max_size=40))
@settings(max_examples=300, deadline=None)
def test_arbitrary_headers_are_read_or_refused_but_never_crash(header, data):
    raw = as_file(header, data)
    try:
        found = read(raw)
    except ValueError:
        return
    assert sum(array.nbytes for array in found.values()) == len(data)


@given(st.integers(0, 10**6), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_a_flipped_header_byte_never_maps_memory_outside_the_file(place, flip):
    raw = bytearray(as_file({"a": entry(), "b": entry("U8", (3,), (8, 11))}, bytes(range(11))))
    raw[place % len(raw)] ^= flip
    try:
        found = read(bytes(raw))
    except ValueError:
        return
    assert sum(array.nbytes for array in found.values()) == 11
