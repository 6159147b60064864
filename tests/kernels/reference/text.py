"""The text kernels in plain Python: what the native ones must return.

Texts come as UTF-8 bytes with the offsets of their rows; `classes` and `folds` are the Unicode tables of
`tagwood.features`; `lengths` is (word_low, word_high, char_low, char_high, hash_bits), 0 where not wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_U8 = NDArray[np.uint8]
_U32 = NDArray[np.uint32]
_U64 = NDArray[np.uint64]
_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]
_Lengths = tuple[int, int, int, int, int]

_SEPARATOR, _WORD, _UNSPACED, _MARK, _IGNORED = range(5)
_COMPLEX = 0xFFFFFFFF
_LOW64 = (1 << 64) - 1


class _Token(NamedTuple):
    text: str
    unspaced: bool
    glued: bool


def complex_rows(text: _U8, offsets: _I64, folds: _U32) -> _I64:
    """Return the rows that hold a code point outside ASCII which `folds` has no single answer for."""
    rows = [
        row
        for row, chars in enumerate(_texts(text, offsets))
        if any(ord(c) > 0x7F and _fold(c, folds) is None for c in chars)
    ]
    return np.array(rows, dtype=np.int64)


def count_terms(
    text: _U8, offsets: _I64, classes: _U8, folds: _U32, lengths: _Lengths, threads: int
) -> tuple[_U64, _I64]:
    """Return the keys of all n-grams, rising, and the number of texts each stands in."""
    counts: Counter[int] = Counter()
    for chars in _texts(text, offsets):
        counts.update({key for key, _ in _ngrams(_tokens(chars, classes, folds), lengths)})
    keys = sorted(counts)
    return np.array(keys, dtype=np.uint64), np.array([counts[key] for key in keys], dtype=np.int64)


def merge_counts(left_keys: _U64, left_counts: _I64, right_keys: _U64, right_counts: _I64) -> tuple[_U64, _I64]:
    """Return the counts of two sets of texts together; keys rise."""
    keys, place = np.unique(np.concatenate([left_keys, right_keys]), return_inverse=True)
    counts = np.zeros(keys.size, dtype=np.int64)
    np.add.at(counts, place, np.concatenate([left_counts, right_counts]))
    return keys, counts


def build_vocabulary(keys: _U64) -> _U64:
    """Return the open-addressing table in which the features 0, 1, ... are found by their keys.

    A slot holds id + 1 in its low bits and the bits of the key above them; the search starts at the key's low
    bits.
    """
    n_slots = 1
    while n_slots < 2 * keys.size + 1:
        n_slots *= 2
    id_mask = (1 << keys.size.bit_length()) - 1
    slots = [0] * n_slots
    for feature, key in enumerate(keys.tolist()):
        at = key % n_slots
        while slots[at]:
            at = (at + 1) % n_slots
        slots[at] = (key & ~id_mask) | (feature + 1)
    return np.array(slots, dtype=np.uint64)


def spell_terms(
    text: _U8,
    offsets: _I64,
    classes: _U8,
    folds: _U32,
    lengths: _Lengths,
    slots: _U64,
    known: _U8,
    char_mark: int,
    threads: int,
) -> tuple[_I32, _I64, _U8]:
    """Return ids, rising, and spellings (offsets, bytes) of the texts' features that are not `known` yet.

    Character n-grams are spelled with the ASCII character `char_mark` in front, if it is not 0.
    """
    spellings: dict[int, bytes] = {}
    for chars in _texts(text, offsets):
        for key, (spelling, is_char) in _ngrams(_tokens(chars, classes, folds), lengths):
            feature = _find(key, slots.tolist(), known.size)
            if feature is not None and not known[feature]:
                mark = chr(char_mark) if is_char and char_mark else ""
                spellings.setdefault(feature, (mark + spelling).encode())
    ids = sorted(spellings)
    sizes = [len(spellings[feature]) for feature in ids]
    return (
        np.array(ids, dtype=np.int32),
        np.cumsum([0, *sizes], dtype=np.int64),
        np.frombuffer(b"".join(spellings[feature] for feature in ids), dtype=np.uint8),
    )


def tfidf_rows(
    text: _U8,
    offsets: _I64,
    classes: _U8,
    folds: _U32,
    lengths: _Lengths,
    slots: _U64,
    idf: _F32,
    sublinear: bool,
    threads: int,
) -> tuple[_I64, _I32, _F32]:
    """Return CSR rows: (1 + ln count, or count) · idf, scaled to norm 1, columns rising.

    Hashed features of idf 0 are left out. With hash_bits the keys themselves are the features, and `slots` is
    not used.
    """
    table = slots.tolist()
    indices: list[int] = []
    data: list[float] = []
    indptr = [0]
    for chars in _texts(text, offsets):
        counts: Counter[int] = Counter()
        for key, _ in _ngrams(_tokens(chars, classes, folds), lengths):
            feature = key if lengths[4] else _find(key, table, idf.size)
            if feature is not None and not (lengths[4] and idf[feature] == 0):
                counts[feature] += 1
        columns = sorted(counts)
        tf = np.array([counts[column] for column in columns], dtype=np.float64)
        weights = (1.0 + np.log(tf) if sublinear else tf) * idf[columns]
        norm = np.sqrt(np.square(weights).sum())
        indices += columns
        data += (weights / norm if norm > 0 else 0 * weights).tolist()
        indptr.append(len(indices))
    return (
        np.array(indptr, dtype=np.int64),
        np.array(indices, dtype=np.int32),
        np.array(data, dtype=np.float32),
    )


def _texts(text: _U8, offsets: _I64) -> Iterator[str]:
    raw = text.tobytes()
    for begin, end in pairwise(offsets.tolist()):
        yield raw[begin:end].decode("utf-8", "surrogatepass")


def _fold(char: str, folds: _U32) -> str | None:
    entry = int(folds[ord(char)]) if ord(char) < folds.size else _COMPLEX
    if entry == _COMPLEX:
        return None
    return chr(entry & 0xFFFF) + (chr(entry >> 16) if entry >> 16 else "")


def _tokens(chars: str, classes: _U8, folds: _U32) -> list[_Token]:
    """Cut a text into words: runs of word characters and marks; an unspaced character is a word."""
    tokens: list[_Token] = []
    word, unspaced, glued = "", False, False
    for char in "".join(_fold(c, folds) or c for c in chars) + " ":
        kind = int(classes[ord(char)]) if ord(char) < classes.size else _SEPARATOR
        if kind == _IGNORED:
            continue
        touches = bool(word) and unspaced
        ends = kind in (_SEPARATOR, _UNSPACED) or (kind == _WORD and unspaced)
        if ends and word:
            if unspaced or len(word) > 1:
                tokens.append(_Token(word, unspaced, glued))
            word = ""
        if kind != _SEPARATOR:
            if not word:
                unspaced, glued = kind == _UNSPACED, kind == _UNSPACED and touches
            word += char
    return tokens


def _ngrams(tokens: list[_Token], lengths: _Lengths) -> Iterator[tuple[int, tuple[str, bool]]]:
    """Yield (key, (spelling, is a character n-gram))."""
    word_low, word_high, char_low, char_high, hash_bits = lengths
    shift = 64 - hash_bits if hash_bits else 0
    for first in range(len(tokens)):
        for n in range(max(1, word_low), word_high + 1):
            gram = tokens[first : first + n]
            if len(gram) == n:
                yield _word_key(gram) >> shift, (_spell(gram), False)
    for word in "".join(token.text if token.glued else " " + token.text for token in tokens).split(" "):
        padded = f" {word} "
        for n in range(char_low, char_high + 1):
            for first in range(max(1, len(padded) - n + 1)):
                if word and n:
                    gram_text = padded[first : first + n]
                    yield _hash_bytes(gram_text.encode(), 0x1D8E4E27C47D124F) >> shift, (gram_text, True)
            if n >= len(padded):
                break


def _spell(gram: list[_Token]) -> str:
    spelling = gram[0].text
    for before, token in pairwise(gram):
        spelling += token.text if before.unspaced and token.unspaced else " " + token.text
    return spelling


def _word_key(gram: list[_Token]) -> int:
    keys = [_hash_bytes(token.text.encode(), 0x589965CC75374CC3) for token in gram]
    key = keys[0]
    for right in keys[1:]:
        key = _fold_product(key ^ 0xE7037ED1A0B428DB, right ^ 0x8EBC6AF09C88C6E3)
    return key


def _hash_bytes(raw: bytes, seed: int) -> int:
    state = seed ^ (len(raw) * 0x9E3779B97F4A7C15 & _LOW64)
    for begin in range(0, len(raw), 16):
        low = int.from_bytes(raw[begin : begin + 8], "little")
        high = int.from_bytes(raw[begin + 8 : begin + 16], "little")
        state = _fold_product(state ^ low, high ^ 0xD6E8FEB86659FD93)
    return _fold_product(state, 0xA0761D6478BD642F)


def _fold_product(a: int, b: int) -> int:
    return (a * b & _LOW64) ^ (a * b >> 64)


def _find(key: int, table: list[int], n_features: int) -> int | None:
    id_mask = (1 << n_features.bit_length()) - 1
    for tries in range(len(table)):
        slot = table[(key + tries) % len(table)]
        if slot == 0:
            return None
        if (slot ^ key) & ~id_mask == 0:
            return (slot & id_mask) - 1
    return None


def bag_rows(
    text: _U8,
    offsets: _I64,
    classes: _U8,
    folds: _U32,
    slots: _U64,
    n_words: int,
    buckets: _I32,
    longest: int,
    n_features: int,
    counts_unknown: bool,
    threads: int,
) -> tuple[_I64, _I32, _F32]:
    """Return CSR rows: what share of a text's features each one is.

    Feature 0 stands in every text, word i is feature i + 1, an n-gram of 2 to `longest` words is ``buckets`` at the top
    bits of its key; -1 and features from `n_features` on are left out. With `counts_unknown` such n-grams count as part
    of the text, so that the shares of the others are smaller.
    """
    shift = 64 - (buckets.size.bit_length() - 1)
    indptr, indices, data = [0], [], []
    for chars in _texts(text, offsets):
        tokens = _tokens(chars, classes, folds)
        found = [0]
        for token in tokens:
            word = _find(_word_key([token]), slots.tolist(), n_words)
            found += [] if word is None else [word + 1]
        for n in range(2, longest + 1 if buckets.size else 2):
            for first in range(len(tokens) - n + 1):
                found.append(int(buckets[_word_key(tokens[first : first + n]) >> shift]))
        counts = Counter(feature for feature in found if 0 <= feature < n_features)
        total = len(found) if counts_unknown else counts.total()
        indices += sorted(counts)
        data += [counts[feature] / total for feature in sorted(counts)]
        indptr.append(len(indices))
    return np.array(indptr, np.int64), np.array(indices, np.int32), np.array(data, np.float32)


def word_rows(
    text: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    classes: NDArray[np.uint8],
    folds: NDArray[np.uint32],
    slots: NDArray[np.uint64],
    n_words: int,
    longest: int,
    threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the borders of the rows, and the numbers of each text's first `longest` words, -1 for unknown ones."""
    indptr, ids = [0], []
    for chars in _texts(text, offsets):
        for token in _tokens(chars, classes, folds)[:longest]:
            word = _find(_word_key([token]), slots.tolist(), n_words)
            ids.append(-1 if word is None else word)
        indptr.append(len(ids))
    return np.array(indptr, dtype=np.int64), np.array(ids, dtype=np.int32)
