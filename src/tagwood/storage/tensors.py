"""safetensors files and strict JSON: the two formats of a model folder.

A safetensors file is 8 bytes with the length of the header, a JSON header, and the raw little-endian arrays without
gaps. It is written in one pass and mapped into memory after a strict check of the header. Functions raise ValueError;
`load` adds the name of the file and what to do.

Decisions: the header is parsed here, not by the safetensors package, because mapping needs only the offsets and a
file of any size then opens in microseconds. Arrays are sorted by falling item size, and the data start at a multiple
of 64, so every array is aligned. Tests exchange files with the safetensors package in both directions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tagwood.storage.state import Json

_CODES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "F16": "float16",
    "U32": "uint32", "I32": "int32", "F32": "float32", "U64": "uint64", "I64": "int64", "F64": "float64",
}  # fmt: skip
_CODE_OF = {name: code for code, name in _CODES.items()}
_MAX_HEADER = 64 << 20
_MAX_ELEMENTS = 1 << 56
_MAX_DIMENSIONS = 32
_ALIGN = 64


def parse_json(raw: bytes) -> Json:
    """Parse UTF-8 JSON; raise ValueError for duplicate keys, NaN, infinity and deep nesting.

    Examples
    --------
    >>> parse_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: it has the key 'a' twice
    """
    try:
        value: Json = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text ({error.reason} at byte {error.start:,})") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not valid JSON ({error})") from None
    return value


def render_json(value: Any) -> bytes:
    """Return `value` as indented UTF-8 JSON with a final newline."""
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False).encode("utf-8") + b"\n"


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    values: dict[str, Json] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"it has the key {key!r} twice")
        values[key] = value
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it contains {name}, which is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"it contains {text}, which is too large for a float")
    return number


class Tensor(NamedTuple):
    """Position of one array: `begin` and `end` count from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def write_tensors(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write `arrays` to a new file."""
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Json] = {}
    place = 0
    for name in order:
        array = arrays[name]
        end = place + array.nbytes
        code = _CODE_OF[array.dtype.name]
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [place, end]}
        place = end
    raw = json.dumps(header, separators=(",", ":")).encode("ascii")
    raw += b" " * (-(8 + len(raw)) % _ALIGN)
    with path.open("xb") as file:
        file.write(len(raw).to_bytes(8, "little"))
        file.write(raw)
        for name in order:
            if arrays[name].size:
                dtype = arrays[name].dtype.newbyteorder("<")
                flat = np.ascontiguousarray(arrays[name], dtype=dtype).reshape(-1)
                file.write(flat.view(np.uint8).data)


def read_header(buffer: Any) -> dict[str, Tensor]:
    """Return the arrays of the safetensors file in `buffer` (bytes or a memory map).

    Raises ValueError unless every array has a known dtype, a valid shape and aligned offsets that match both, and
    the arrays cover the rest of the file without gaps or overlaps.
    """
    size = len(buffer)
    if size < 8:
        raise ValueError(f"it has {size} bytes, too few for a safetensors file")
    length = int.from_bytes(buffer[:8], "little")
    if length > min(_MAX_HEADER, size - 8):
        raise ValueError(f"its header has a length of {length:,} bytes, in a file of {size:,} bytes")
    header = parse_json(bytes(buffer[8 : 8 + length]))
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    header.pop("__metadata__", None)
    tensors = {name: _read_entry(name, entry, 8 + length) for name, entry in header.items()}
    place = 8 + length
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1][2:]):
        if tensor.begin != place:
            raise ValueError(f"array '{name}' starts at byte {tensor.begin:,}, not at the end of the previous one")
        place = tensor.end
    if place != size:
        raise ValueError(f"its arrays end at byte {place:,}, but the file has {size:,} bytes")
    return tensors


def map_tensor(buffer: Any, tensor: Tensor) -> NDArray[Any]:
    """Return the array as a read-only view of `buffer`; nothing is read until it is used."""
    dtype = np.dtype(tensor.dtype).newbyteorder("<")
    if tensor.begin == tensor.end:
        array: NDArray[Any] = np.empty(tensor.shape, dtype=dtype)
    else:
        array = np.ndarray(tensor.shape, dtype=dtype, buffer=buffer, offset=tensor.begin)
    array.flags.writeable = False
    return array


def _read_entry(name: str, entry: Json, data: int) -> Tensor:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"the header entry of array '{name}' must be dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in _CODES:
        raise ValueError(f"array '{name}' has the unknown dtype {code!r}")
    sizes = _counts(shape, f"shape of array '{name}'")
    borders = _counts(offsets, f"data_offsets of array '{name}'")
    if len(borders) != 2:
        raise ValueError(f"the data_offsets of array '{name}' has {len(borders)} numbers instead of 2")
    begin, end = borders
    if len(sizes) > _MAX_DIMENSIONS or math.prod(size or 1 for size in sizes) > _MAX_ELEMENTS:
        raise ValueError(f"array '{name}' has an invalid shape")
    width = np.dtype(_CODES[code]).itemsize
    if end - begin != math.prod(sizes) * width:
        raise ValueError(f"array '{name}' takes {end - begin:,} bytes, which does not fit its dtype and shape")
    if (data + begin) % width:
        raise ValueError(f"array '{name}' is not aligned to its dtype")
    return Tensor(_CODES[code], sizes, data + begin, data + end)


def _counts(value: Json, what: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise ValueError(f"the {what} is not a list")
    for item in value:
        if type(item) is not int or item < 0 or item > _MAX_ELEMENTS:
            raise ValueError(f"the {what} contains {str(item)[:40]!r} instead of an int from 0 up")
    return tuple(value)  # type: ignore[arg-type]
