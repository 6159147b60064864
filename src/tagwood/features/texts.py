"""Texts on their way to the kernels: checked, then packed as UTF-8 bytes and offsets, in bounded chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood.errors import InputError
from tagwood.features.unicode import fold_text

_MAX_ROWS: Final = 8192
_MAX_CHARS: Final = 4_000_000


class PackedTexts(NamedTuple):
    """Texts as the kernels take them: row i is ``bytes[offsets[i]:offsets[i + 1]]``."""

    bytes: NDArray[np.uint8]
    offsets: NDArray[np.int64]


def check_texts(texts: Any) -> Iterable[str]:
    """Return `texts` if it is a collection or stream; its items are checked when they are packed."""
    if type(texts) is list:
        return texts
    if isinstance(texts, np.ndarray):
        if texts.ndim != 1:
            raise InputError("texts must be a flat array", given=f"{texts.ndim} dimensions")
        return texts.tolist()  # type: ignore[no-any-return]
    if isinstance(texts, str | bytes):
        raise InputError("texts must be a list of texts", given="one text", hint="Wrap it: [text].")
    if not isinstance(texts, Iterable):
        raise InputError("texts must be a list of texts", given=type(texts).__name__)
    return texts


def packed_chunks(texts: Iterable[str], folds: NDArray[np.uint32]) -> Iterator[PackedTexts]:
    r"""Yield the texts in order, a few megabytes at a time; folded as far as a table cannot do it.

    Examples
    --------
    >>> chunk, = packed_chunks(["fir", "öl"], np.empty(0, dtype=np.uint32))
    >>> chunk.bytes.tobytes(), chunk.offsets.tolist()
    (b'fir\xc3\xb6l', [0, 3, 6])
    """
    stream = iter(texts)
    start = 0
    while block := list(islice(stream, _MAX_ROWS)):
        try:
            for piece in _pieces(block):
                yield _pack(piece, folds)
        except (TypeError, AttributeError):
            _blame(block, start)
            raise
        start += len(block)


def _pieces(block: list[str]) -> Iterator[list[str]]:
    if len(block) == 1 or sum(map(len, block)) <= _MAX_CHARS:
        yield block
    else:
        yield from _pieces(block[: len(block) // 2])
        yield from _pieces(block[len(block) // 2 :])


def _pack(texts: list[str], folds: NDArray[np.uint32]) -> PackedTexts:
    if all(map(str.isascii, texts)):
        return _join("".join(texts).encode("ascii"), texts)
    rows = [text.encode("utf-8", "surrogatepass") for text in texts]
    packed = _join(b"".join(rows), rows)
    if folds.size == 0:
        return packed
    odd = _kernels.complex_rows(packed.bytes, packed.offsets, folds)
    if odd.size == 0:
        return packed
    for row in odd.tolist():
        rows[row] = fold_text(texts[row]).encode("utf-8", "surrogatepass")
    return _join(b"".join(rows), rows)


def _join(joined: bytes, rows: list[str] | list[bytes]) -> PackedTexts:
    if len(rows) == 1:
        offsets = np.array((0, len(joined)))
    else:
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)), out=offsets[1:])
    return PackedTexts(np.frombuffer(joined, dtype=np.uint8), offsets)


def _blame(block: list[Any], start: int) -> None:
    for place, text in enumerate(block, start):
        if not isinstance(text, str):
            raise InputError(
                "texts must hold str only",
                given=f"{type(text).__name__} at position {place}",
                hint="Replace missing texts by ''."
                if text is None
                else "Convert it with str() or .decode().",
            )
