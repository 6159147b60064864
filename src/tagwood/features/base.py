"""The `Encoder` protocol, label centroids, and texts as the native kernels take them.

In: texts. Out: checked texts, packed as UTF-8 bytes and offsets in bounded chunks, and the two Unicode tables of the
tokenizer.

Decisions. Words are compared after NFKC, case folding and NFKC again. The kernels fold by table, one code point at a
time; the few texts with a code point whose form depends on its neighbours (mostly combining marks) are folded by
Python first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._check import as_list, check_int, check_threads
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, check_features, check_labels, csr_parts
from tagwood.errors import InputError
from tagwood.storage import State

Features: TypeAlias = "sparse.csr_array | NDArray[np.float32]"

_FIRST_ROWS: Final = 1024  # of the first chunk; later ones are as large as the texts before allow
_MAX_ROWS: Final = 8192
_MAX_CHARS: Final = 4_000_000
SEPARATOR, WORD, UNSPACED, MARK, IGNORED = range(5)
COMPLEX: Final = 0xFFFFFFFF

_N_CLASSES: Final = 0x34000  # there is no letter, digit or mark above

# Scripts written without spaces: each character is a word, so that word n-grams are character n-grams.
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
# Where combining marks can be: not among Han, Hangul, surrogates and private use.
_MARKS: Final = ((0x0300, 0x3400), (0xA000, 0xAC00), (0xF900, 0x20000))


@runtime_checkable
class Encoder(Protocol):
    """The protocol of every encoder.

    `fit` learns from texts, forgets earlier fits and returns self; `y` is ignored and accepted for scikit-learn's
    Pipeline. `transform` changes nothing; row i of the result belongs to text i, an empty text gives a row of zeros.
    """

    @property
    def n_features(self) -> int:
        """Number of columns of the features."""
        ...

    def fit(self, texts: Iterable[str], y: object = None) -> Self:
        """Learn from `texts`."""
        ...

    def transform(self, texts: Iterable[str]) -> Features:
        """Return (n_texts, n_features) float32 features: a CSR array, or a dense array."""
        ...

    def state(self) -> State:
        """Return everything needed to rebuild this encoder."""
        ...

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the encoder that `state` was taken from."""
        ...


def takes_texts(model: object) -> bool:
    """Whether `fit` and `rank` of a model take texts instead of features: ``takes = "texts"``."""
    return getattr(model, "takes", "features") == "texts"


def label_centroids(X: Any, Y: Any, max_features: int | None = None, threads: int | None = None) -> sparse.csr_array:
    """Return V (n_labels, n_features): the sum of each label's rows of X, scaled to norm 1 (PIFA).

    Labels without rows have an empty row. With `max_features`, only that many of a label's largest features are kept;
    about 100 give equally good trees in a fraction of the time and memory. The result does not depend on `threads`.

    Examples
    --------
    >>> label_centroids([[1.0, 0.0], [0.0, 1.0]], [[0, 1], [1]]).toarray().round(3)
    array([[1.   , 0.   ],
           [0.707, 0.707]], dtype=float32)
    """
    features = csr_parts(check_features(X))
    labels = csr_parts(check_labels(Y, n_rows=features.n_rows).T.tocsr())
    limit = features.n_cols if max_features is None else check_int(max_features, "max_features", low=1)
    return centroid_parts(features, labels, limit, check_threads(threads)).to_scipy()


def centroid_parts(features: CsrParts, label_rows: CsrParts, max_features: int, threads: int) -> CsrParts:
    """Return V from checked kernel arrays; `label_rows` is Y transposed: the rows of each label."""
    indptr, indices, data = _kernels.label_centroids(*features, *label_rows[:3], max_features, threads)
    return CsrParts(indptr, indices, data, features.n_cols)


class PackedTexts(NamedTuple):
    """Texts for the kernels: row i is ``bytes[offsets[i]:offsets[i + 1]]``."""

    bytes: NDArray[np.uint8]
    offsets: NDArray[np.int64]


def check_texts(texts: Any) -> Iterable[str]:
    """Return `texts` if it is a collection or stream; its items are checked by `packed_chunks`."""
    if type(texts) is list:
        return texts
    if isinstance(texts, np.ndarray):
        if texts.ndim != 1:
            raise InputError("texts must be a flat array", given=f"{texts.ndim} dimensions")
        return texts.tolist()  # type: ignore[no-any-return]
    if any(hasattr(texts, name) for name in ("to_pylist", "to_list", "columns", "keys")):
        return as_list(texts, "texts")
    if isinstance(texts, str | bytes):
        raise InputError("texts must be a list of texts", given="one text", hint="Wrap it: [text].")
    if not isinstance(texts, Iterable):
        raise InputError("texts must be a list of texts", given=type(texts).__name__)
    return texts


def packed_chunks(texts: Iterable[str], folds: NDArray[np.uint32]) -> Iterator[PackedTexts]:
    """Yield the texts in chunks of a few megabytes; texts that the fold table cannot fold are folded."""
    stream = iter(texts)
    start, size = 0, _FIRST_ROWS
    while block := list(islice(stream, size)):
        try:
            for piece in _pieces(block):
                yield _pack(piece, folds)
        except (TypeError, AttributeError):
            _raise_type_error(block, start)
            raise
        start += len(block)
        size = max(1, min(_MAX_ROWS, _MAX_CHARS * len(block) // max(1, sum(map(len, block)))))


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


def _raise_type_error(block: list[Any], start: int) -> None:
    for place, text in enumerate(block, start):
        if not isinstance(text, str):
            raise InputError(
                "texts must contain str only",
                given=f"{type(text).__name__} at position {place}",
                hint="Replace missing texts by '', and convert others with str() or .decode().",
            )


class CharTables(NamedTuple):
    """The two tables of the text kernels."""

    classes: NDArray[np.uint8]
    folds: NDArray[np.uint32]


def fold_text(text: str) -> str:
    r"""Return the form in which words are compared: NFKC and case folding.

    Examples
    --------
    >>> fold_text("ＳＴＲＡẞＥ"), fold_text("e\u0301") == fold_text("É")
    ('strasse', True)
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def word_spans(text: str) -> list[tuple[int, int]]:
    r"""Return the (begin, end) of the words that the tokenizer finds; a character of an unspaced script is a word.

    Examples
    --------
    >>> text = "An élan, 東京"
    >>> [text[begin:end] for begin, end in word_spans(text)]
    ['An', 'élan', '東', '京']
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    known = codes < _N_CLASSES
    kinds = np.where(known, _class_table()[np.where(known, codes, 0)], SEPARATOR)
    own = (kinds != MARK) & (kinds != IGNORED)  # the others are part of what is before them
    last = np.maximum.accumulate(np.where(own, np.arange(1, codes.size + 1), 0))
    kinds = np.concatenate([[SEPARATOR], kinds])[last]
    before = np.concatenate([[SEPARATOR], kinds[:-1]])
    joins = np.where(own, (kinds == WORD) & (before == WORD), before != SEPARATOR)
    borders = np.append(np.flatnonzero(~joins), codes.size)
    words = kinds[borders[:-1]] != SEPARATOR
    return list(zip(borders[:-1][words].tolist(), borders[1:][words].tolist(), strict=True))


@cache
def char_tables(fold: bool) -> CharTables:
    """Return the tables; without `fold` texts are not changed. They are built at the first call (about 10 ms)."""
    folds = _fold_table() if fold else np.empty(0, dtype=np.uint32)
    return CharTables(_class_table(), folds)


@cache
def _class_table() -> NDArray[np.uint8]:
    everything = _chars(0, _N_CLASSES)
    classes = np.zeros(_N_CLASSES, dtype=np.uint8)
    for run in re.finditer(r"\w+", everything):
        classes[run.start() : run.end()] = WORD
    for first, last in _UNSPACED:
        # Digits belong to the words around them in every script.
        for run in re.finditer(r"[^\W\d]+", everything[first : last + 1]):
            classes[first + run.start() : first + run.end()] = UNSPACED
    classes[_mark_table()] = MARK
    for first, last in _IGNORED:
        classes[first : last + 1] = IGNORED
    classes.setflags(write=False)
    return classes


@cache
def _mark_table() -> NDArray[np.bool_]:
    """Return which code points are combining marks."""
    marks = np.zeros(_N_CLASSES, dtype=np.bool_)
    for first, stop in _MARKS:
        categories = "".join(map(unicodedata.category, _chars(first, stop))).encode("ascii")
        marks[first:stop] = np.frombuffer(categories, dtype=np.uint8)[::2] == ord("M")
    return marks


@cache
def _fold_table() -> NDArray[np.uint32]:
    folds = np.full(0x10000, COMPLEX, dtype=np.uint32)
    for first, stop in _FOLDED_ONE_BY_ONE:
        folds[first:stop] = _folds_of(first, stop)
    for first, stop in _FOLDED_TO_THEMSELVES:
        folds[first:stop] = np.arange(first, stop)
    folds.setflags(write=False)
    return folds


def _folds_of(first: int, stop: int) -> NDArray[np.uint32]:
    """Return the entries of a range of code points, which are folded in one text, a noncharacter between them."""
    folded = fold_text("\uffff".join(_chars(first, stop))).split("\uffff")
    lengths = np.fromiter(map(len, folded), dtype=np.int64, count=stop - first)
    codes = np.frombuffer("".join(folded).encode("utf-32-le"), dtype="<u4")
    starts = np.cumsum(lengths) - lengths

    def any_of(found: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.logical_or.reduceat(found, starts)

    spoken = _class_table()[codes]
    entries: NDArray[np.uint32] = codes[starts] | np.where(lengths == 2, codes[starts + (lengths > 1)] << 16, 0)
    entries[(lengths > 2) | any_of(((codes >= 0x1100) & (codes < 0x1200)) | (codes > 0xFFFF))] = COMPLEX
    silent = ~any_of(spoken != SEPARATOR)
    entries[silent] = np.where(lengths > 1, ord(" "), codes[starts])[silent]
    # Marks reorder and compose with the characters before them; so do Hangul vowels and finals (left out above).
    marks = _mark_table()
    entries[marks[first:stop] | any_of(marks[codes])] = COMPLEX
    return entries


def _chars(first: int, stop: int) -> str:
    return np.arange(first, stop, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
