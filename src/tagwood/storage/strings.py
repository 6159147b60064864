"""Lists of strings as two arrays, so that vocabularies are stored next to weights without pickle.

In: a list of str. Out: a uint8 blob of UTF-8 bytes and int64 offsets into it, and back.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood.errors import InputError


def pack_strings(strings: Iterable[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pack strings into one blob of UTF-8 bytes and the (n + 1,) offsets of their borders.

    Examples
    --------
    >>> blob, offsets = pack_strings(["fir", "", "öl"])
    >>> blob.size, offsets.tolist()
    (6, [0, 3, 3, 6])
    >>> unpack_strings(blob, offsets)
    ['fir', '', 'öl']
    """
    encoded = [_encode(place, text) for place, text in enumerate(strings)]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def unpack_strings(blob: NDArray[Any], offsets: NDArray[Any]) -> list[str]:
    """Return the strings that `pack_strings` packed; raise `InputError` for other arrays."""
    if blob.dtype != np.uint8 or blob.ndim != 1 or offsets.dtype != np.int64 or offsets.ndim != 1:
        raise InputError(
            "packed strings must be a flat uint8 blob and flat int64 offsets",
            given=f"{blob.dtype} of shape {blob.shape} and {offsets.dtype} of shape {offsets.shape}",
        )
    if not offsets.size or offsets[0] != 0 or offsets[-1] != blob.size or np.any(np.diff(offsets) < 0):
        raise InputError(f"offsets of packed strings must rise from 0 to the blob's size {blob.size:,}")
    raw, borders = blob.tobytes(), offsets.tolist()
    try:
        if raw.isascii():  # then bytes and letters have the same places, and one decode serves all
            text = raw.decode("ascii")
            return [text[begin:end] for begin, end in pairwise(borders)]
        return [raw[begin:end].decode("utf-8") for begin, end in pairwise(borders)]
    except UnicodeDecodeError as error:
        raise InputError("packed strings must be valid UTF-8", given=str(error)) from error


def _encode(place: int, text: str) -> bytes:
    if not isinstance(text, str):
        raise InputError("pack_strings takes strings", given=f"{type(text).__name__} at place {place}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            "strings to store must be valid text",
            given=f"{text[:40]!r} at place {place}",
            hint="It holds a lone surrogate; read the file again with the right encoding.",
        ) from error
