"""Encodings of text files: UTF-8 and UTF-16 by their bytes, others by charset-normalizer.

In: a path. Out: the name of a Python codec, and whether it is a guess. A file that is UTF-8 but for some damaged lines
is UTF-8: the reader reports these lines.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tagwood.data.files import ENCODING_HINT, read_blocks, read_start
from tagwood.errors import DataError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Encodings of one byte per character that table programs write, and East Asian ones; more candidates make short texts
# ambiguous.
_CANDIDATES = ["cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1257", "mac_roman", "cp850", "koi8_r", "shift_jis"]
_CANDIDATES += ["gb18030", "big5", "euc_jp", "euc_kr"]
_COMMON = "cp1252"
_SAMPLE = 1 << 15


class Encoding(NamedTuple):
    """The codec of a file; `guessed`: its bytes would be valid in other codecs too."""

    name: str
    guessed: bool = False


def detect_encoding(path: Path) -> Encoding:
    """Return the encoding of a text file, plain or gzip."""
    start = read_start(path)
    for mark, name in _MARKS:
        if start.startswith(mark):
            return Encoding(name)
    wide = _wide_without_mark(start)
    if wide is not None:
        return Encoding(wide)
    sample = _other_bytes(read_blocks(path))
    return Encoding("utf-8") if sample is None else _guess(path, sample)


def decode_start(start: bytes, encoding: str | None) -> str:
    """Return the first bytes of a file as text, to recognise its format; a guess where they are not UTF-8."""
    if encoding is None:
        marked = next((name for mark, name in _MARKS if start.startswith(mark)), None)
        encoding = marked or _wide_without_mark(start)
    if encoding is None:
        try:
            # The start may end in the middle of a character.
            return codecs.getincrementaldecoder("utf-8")().decode(start)
        except UnicodeDecodeError:
            encoding = _COMMON
    return start.decode(encoding, errors="replace").removeprefix("\ufeff")


def _wide_without_mark(start: bytes) -> str | None:
    """Return UTF-16 with its byte order if every second byte is mostly zero, as in most texts."""
    pairs = len(start) // 2
    first, second = start[: 2 * pairs : 2].count(0), start[1 : 2 * pairs : 2].count(0)
    if pairs and max(first, second) > 0.5 * pairs and min(first, second) < 0.1 * pairs:
        return "utf-16-le" if second > first else "utf-16-be"
    return None


def _other_bytes(blocks: Iterable[bytes]) -> bytes | None:
    """Return lines with bytes that are not UTF-8, as a sample; None if the content is mostly UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    seen_utf8 = False
    for block in blocks:
        try:
            # Bytes of a character that the block before began are in the decoder.
            seen_utf8 = not decoder.decode(block).isascii() or seen_utf8
        except UnicodeDecodeError:
            if seen_utf8:
                return None
            sample = b"\n".join(_lines_beyond_ascii(block))
            text = sample.decode(errors="surrogateescape")
            wrong = sum("\udc80" <= mark <= "\udcff" for mark in text)
            right = sum(mark > "\x7f" for mark in text) - wrong
            return sample if wrong > right else None
    return None


def _lines_beyond_ascii(block: bytes) -> Iterator[bytes]:
    size = 0
    for line in block.split(b"\n"):
        if not line.isascii():
            yield line[:_SAMPLE]
            size += len(line)
        if size > _SAMPLE:
            return


def _guess(path: Path, sample: bytes) -> Encoding:
    try:
        from charset_normalizer import from_bytes
    except ImportError as error:
        hint = f"{ENCODING_HINT} It is detected after: pip install 'tagwood[files]'"
        raise DataError("is not UTF-8 text", path=path, hint=hint) from error
    found = from_bytes(sample, cp_isolation=_CANDIDATES, threshold=0.5)
    best = found.best()
    if best is None or "\0" in str(best):
        raise DataError("is not text in an encoding that can be recognised", path=path, hint=ENCODING_HINT)
    # Of encodings in which the text looks as regular, the one that most programs write; the languages that
    # charset-normalizer finds are too uncertain in titles and keywords to decide.
    common = any(_COMMON in one.could_be_from_charset for one in found if one.chaos <= best.chaos + 0.01)
    return Encoding(_COMMON if common else best.encoding, guessed=True)
