"""Odd values and broken bytes. In: a random generator. Out: strings for options, mutated file contents."""

from __future__ import annotations

import numpy as np

Random = np.random.Generator

ODD_STRINGS = [
    "", " ", "-", "--", "-1", "0", "1", "2", "1e308", "1e-320", "nan", "NaN", "inf", "-inf", "0.5", "1,5", "½", "٣",
    "999999999999999999999999", "-999999999999999999999", "0x10", "1_000", "True", "none", "null", "[]", "[1, 1]",
    "{}", "'", '"', "\\", "\n", "\t", "\r\n", "a\x00b", "\ufeff", "\u202e", "\ud800", "💥" * 40, "x" * 5000,
    "../..", "/proc/nothing/here", ".", "~", "C:\\", "file:///x", "%s%n", "${x}", "$(true)", "[bold]x[/bold]", "[/]",
    "<script>", "P@5", "P@0", "P@-1", "P@99999", "nDCG", "PSP@1", "micro-F1", "f1", "precision>=0.9", "recall>=1.5",
    "precision>=nan", "threshold>=x", "top-0", "top-3", "trees", "water", "jsonl", "csv", "parquet", "repository",
    "csr", "train", "test", "error", "add", "skip", "default", "amazon", "0.55,1.5", "0,0", "a,b",
]  # fmt: skip

PIECES = [
    b'\x00', b'\xff\xfe', b'\xef\xbb\xbf', b'\xed\xa0\x80', b'\xf4\x90\x80\x80', b'\r', b'\n\n', b'\t', b',',
    b';', b':', b'"', b"'", b'{', b'}', b'[', b']', b'\\', b'\\u', b'\\ud800', b'-1', b'0',
    b'99999999999999999999', b'1e999', b'nan', b'null', b'true', b'[[[[[[[[', b'{"text": 3}',
    b'{"labels": "a"}', b'__label__', b'0:0', b'5:nan', b'-3:1', b'2147483648', b'1 1 1\n', b'PAR1', b'PK\x03\x04',
    b'\x93NUMPY', b'\x1f\x8b', b'<http://x>',
]  # fmt: skip


def odd_string(random: Random) -> str:
    """Return a value that an option should not get, or just might."""
    kind = random.random()
    if kind < 0.7:
        return str(random.choice(ODD_STRINGS))
    if kind < 0.85:
        return str(random.choice([int(random.integers(-5, 50)), round(float(random.normal()), 3)]))
    letters = random.integers(1, 0x2FFF, size=int(random.integers(1, 12)))
    return "".join(map(chr, letters.tolist()))


def odd_text(random: Random) -> str:
    """Return a text that nobody would write."""
    words = ["oak", "sea", "sun", "", *ODD_STRINGS]
    chosen = random.choice(len(words), size=int(random.integers(0, 12)))
    return " ".join(words[i] for i in chosen)


def odd_bytes(random: Random, most: int = 200) -> bytes:
    """Return bytes that mean nothing."""
    return random.integers(0, 256, size=int(random.integers(0, most)), dtype=np.uint8).tobytes()


def mutate(content: bytes, random: Random) -> bytes:
    """Return the content cut, overwritten, repeated or extended at one to four places."""
    found = bytearray(content)
    for _ in range(int(random.integers(1, 5))):
        at = int(random.integers(0, len(found) + 1))
        length = int(random.integers(0, 20))
        piece = PIECES[int(random.integers(len(PIECES)))] if random.random() < 0.7 else odd_bytes(random, 8)
        match int(random.integers(5)):
            case 0:
                found[at:at] = piece
            case 1:
                found[at : at + len(piece)] = piece
            case 2:
                del found[at : at + length]
            case 3:
                del found[at:]
            case _:
                found[at:at] = found[at : at + length]
    return bytes(found)
