"""What the tokenizer knows of Unicode: two tables made from Python's own database.

Texts are folded: NFKC, case folding, NFKC again. The kernels fold by table, one code point at a time; the few
texts with a code point whose form depends on its neighbours (combining marks, mostly) are folded by Python
beforehand.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

SEPARATOR, WORD, UNSPACED, MARK, IGNORED = range(5)
COMPLEX: Final = 0xFFFFFFFF

_N_CLASSES: Final = 0x34000  # no letter, digit or mark stands above

# Scripts written without spaces: each character is a word of its own, and n-grams of words become character
# n-grams.
_UNSPACED: Final = (
    (0x0E01, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # ideographic iteration mark and zero
    (0x3041, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),  # Katakana extensions
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA9E0, 0xA9FF),  # Myanmar extensions
    (0xAA60, 0xAA7F),
    (0xF900, 0xFAFF),
    (0x1AFF0, 0x1B16F),  # Kana extensions
    (0x20000, _N_CLASSES - 1),  # Han extensions
)
# Invisible inside a word: soft hyphen, joiners, direction marks, variation selectors.
_IGNORED: Final = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x180B, 0x180F),
    (0x200C, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x2064),
    (0x2066, 0x2069),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
)
_FOLDED_ONE_BY_ONE: Final = ((0x00, 0x1100), (0x1200, 0x3100), (0xFB00, 0xFB07), (0xFF00, 0xFFF0))
_FOLDED_TO_THEMSELVES: Final = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xAC00, 0xD7A4))


class CharTables(NamedTuple):
    """The two tables the text kernels take."""

    classes: NDArray[np.uint8]
    folds: NDArray[np.uint32]


def fold_text(text: str) -> str:
    r"""Return the form in which words are compared: compatible characters and cases made equal.

    Examples
    --------
    >>> fold_text("ＳＴＲＡẞＥ"), fold_text("e\u0301") == fold_text("É")
    ('strasse', True)
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def word_spans(text: str) -> list[tuple[int, int]]:
    r"""Return where the words of a text stand, as the tokenizer sees them: a character of an unspaced script is a word.

    Examples
    --------
    >>> text = "An élan, 東京"
    >>> [text[begin:end] for begin, end in word_spans(text)]
    ['An', 'élan', '東', '京']
    """
    classes = _class_table()
    spans: list[tuple[int, int]] = []
    before = SEPARATOR
    for place, char in enumerate(text):
        kind = int(classes[ord(char)]) if ord(char) < _N_CLASSES else SEPARATOR
        if kind in (MARK, IGNORED):
            kind = before
            joins = before != SEPARATOR
        else:
            joins = kind == before == WORD
        if joins:
            spans[-1] = (spans[-1][0], place + 1)
        elif kind != SEPARATOR:
            spans.append((place, place + 1))
        before = kind
    return spans


@cache
def char_tables(fold: bool) -> CharTables:
    r"""Return the tables; without `fold` texts are taken as they are. Made at the first call (about 20 ms).

    Examples
    --------
    >>> tables = char_tables(True)
    >>> [int(tables.classes[ord(c)]) for c in " a東\u0301\u00ad"]
    [0, 1, 2, 3, 4]
    >>> chr(tables.folds[ord("É")])
    'é'
    """
    folds = _fold_table() if fold else np.empty(0, dtype=np.uint32)
    return CharTables(_class_table(), folds)


@cache
def _class_table() -> NDArray[np.uint8]:
    everything = np.arange(_N_CLASSES, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    classes = np.zeros(_N_CLASSES, dtype=np.uint8)
    for run in re.finditer(r"\w+", everything):
        classes[run.start() : run.end()] = WORD
    for first, last in _UNSPACED:
        span = classes[first : last + 1]
        span[span == WORD] = UNSPACED
    marks = [code for code in range(0x0300, 0x20000) if unicodedata.category(chr(code))[0] == "M"]
    classes[marks] = MARK
    for first, last in _IGNORED:
        classes[first : last + 1] = IGNORED
    # Digits belong to the words around them in every script.
    for run in re.finditer(r"\d+", everything):
        classes[run.start() : run.end()] = WORD
    classes.setflags(write=False)
    return classes


@cache
def _fold_table() -> NDArray[np.uint32]:
    folds = np.full(0x10000, COMPLEX, dtype=np.uint32)
    for first, stop in _FOLDED_ONE_BY_ONE:
        folds[first:stop] = [_fold_entry(chr(code)) for code in range(first, stop)]
    for first, stop in _FOLDED_TO_THEMSELVES:
        folds[first:stop] = np.arange(first, stop)
    folds.setflags(write=False)
    return folds


def _fold_entry(char: str) -> int:
    folded = fold_text(char)
    # Marks reorder and compose with what stands before them; Hangul vowels and finals (left out above)
    # compose too.
    if any(unicodedata.category(c)[0] == "M" or unicodedata.combining(c) for c in char + folded):
        return COMPLEX
    if not any(c == "_" or c.isalnum() or ord(c) in _IGNORED_CODES for c in folded):
        return ord(" ") if len(folded) > 1 else ord(folded)
    if len(folded) > 2 or any(0x1100 <= ord(c) < 0x1200 or ord(c) > 0xFFFF for c in folded):
        return COMPLEX
    return ord(folded[0]) | (ord(folded[1]) << 16 if len(folded) == 2 else 0)


_IGNORED_CODES: Final = frozenset(code for first, last in _IGNORED for code in range(first, last + 1))
