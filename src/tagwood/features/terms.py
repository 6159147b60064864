"""Learn which n-grams of a corpus become features, their idf and their spelling. In: texts. Out: `Terms`.

Texts are read twice: once to count n-grams by their 64-bit keys, once to spell the chosen ones. So memory
holds 16 bytes for every different n-gram and the spelling of the features only. The result does not depend on
the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood.errors import InputError
from tagwood.features.texts import PackedTexts, packed_chunks
from tagwood.features.unicode import char_tables

Lengths = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Analysis:
    """How a text becomes weighted n-grams; `lengths` is words low, high, characters low, high, hash bits."""

    lengths: Lengths
    fold: bool
    sublinear: bool

    @property
    def hash_bits(self) -> int:
        """Bits of a hashed feature; 0 means a vocabulary."""
        return self.lengths[4]

    @property
    def char_mark(self) -> int:
        """What character n-grams are spelled with in front: ``~`` beside words, nothing alone."""
        return ord("~") if self.lengths[1] and self.lengths[3] else 0


class Limits(NamedTuple):
    """Which n-grams become features; whole numbers count texts, other numbers are shares of them."""

    min_df: int | float
    max_df: int | float
    max_features: int | None


@dataclass(frozen=True, eq=False)
class Terms:
    """The features of a fitted encoder, most frequent first.

    Parameters
    ----------
    slots
        uint64 table in which the kernels find a feature by its key; empty when hashing.
    idf
        (n_features,) float32; 0 for hashed features outside the limits.
    spelling
        uint8, the terms' UTF-8 bytes one after the other.
    offsets
        (n_features + 1,) int64 borders of the terms in `spelling`; (1,) when hashing.
    n_texts
        Number of texts it was learned from.
    """

    slots: NDArray[np.uint64]
    idf: NDArray[np.float32]
    spelling: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    n_texts: int


def learn_terms(
    texts: Iterable[str],
    analysis: Analysis,
    limits: Limits,
    threads: int,
    also: Callable[[PackedTexts, Terms], None] | None = None,
) -> Terms:
    """Count, choose and spell the terms of `texts`.

    `texts` may be a stream when hashing; otherwise it is read twice. `also` is called in the second reading
    with each chunk and the terms, still without spelling, so that a caller need not read a third time.
    """
    folds = char_tables(analysis.fold).folds
    keys, counts, n_texts = count_ngrams(packed_chunks(texts, folds), analysis, threads)
    if n_texts == 0:
        raise InputError("texts must hold at least one text", given="none")
    low, high = _thresholds(limits, n_texts)
    kept = (counts >= low) & (counts <= high)
    if not kept.any():
        raise InputError(
            f"at least one n-gram must stand in {low:g} to {high:g} of the {n_texts:,} texts",
            given=f"{keys.size:,} n-grams, none of them in so many",
            hint="Lower min_df or raise max_df."
            if keys.size
            else "Are the texts empty, or of one-letter words?",
        )
    if analysis.hash_bits:
        return _hashed_terms(keys[kept], counts[kept], n_texts, limits, analysis.hash_bits)
    keys, counts = keys[kept], counts[kept]
    order = np.lexsort((keys, -counts))[: limits.max_features]
    slots = _kernels.build_vocabulary(keys[order])
    bare = Terms(slots, _idf(counts[order], n_texts), np.empty(0, np.uint8), np.zeros(1, np.int64), n_texts)
    spelling, offsets = _spell(packed_chunks(texts, folds), bare, analysis, threads, also)
    return Terms(slots, bare.idf, spelling, offsets, n_texts)


def count_ngrams(
    chunks: Iterable[PackedTexts], analysis: Analysis, threads: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
    """Return the keys of all n-grams, rising, in how many texts each stands, and the number of texts."""
    tables = char_tables(analysis.fold)
    heap: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = [
        (np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))
    ]
    n_texts = 0
    for chunk in chunks:
        n_texts += chunk.offsets.size - 1
        heap.append(_kernels.count_terms(*chunk, *tables, analysis.lengths, threads))
        # Like a binary counter: neighbours of similar size are merged, so each count moves only log(chunks)
        # times.
        while len(heap) > 1 and heap[-2][0].size <= 2 * heap[-1][0].size:
            heap.append(_kernels.merge_counts(*heap.pop(), *heap.pop()))
    while len(heap) > 1:
        heap.append(_kernels.merge_counts(*heap.pop(), *heap.pop()))
    return *heap[0], n_texts


def _thresholds(limits: Limits, n_texts: int) -> tuple[float, float]:
    low = limits.min_df if isinstance(limits.min_df, int) else limits.min_df * n_texts
    high = limits.max_df if isinstance(limits.max_df, int) else limits.max_df * n_texts
    return max(1, low), high


def _idf(counts: NDArray[np.int64], n_texts: int) -> NDArray[np.float32]:
    # Smoothed as scikit-learn does: as if one more text held every term.
    return (np.log((1 + n_texts) / (1 + counts)) + 1).astype(np.float32)


def _hashed_terms(
    features: NDArray[np.uint64], counts: NDArray[np.int64], n_texts: int, limits: Limits, hash_bits: int
) -> Terms:
    best = np.lexsort((features, -counts))[: limits.max_features]
    idf = np.zeros(1 << hash_bits, dtype=np.float32)
    idf[features[best]] = _idf(counts[best], n_texts)
    nothing = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    return Terms(nothing[0], idf, nothing[1], nothing[2], n_texts)


def _spell(
    chunks: Iterable[PackedTexts],
    terms: Terms,
    analysis: Analysis,
    threads: int,
    also: Callable[[PackedTexts, Terms], None] | None,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    tables = char_tables(analysis.fold)
    known = np.zeros(terms.idf.size, dtype=np.uint8)
    spellings: list[bytes] = [b""] * terms.idf.size
    for chunk in chunks:
        ids, borders, raw = _kernels.spell_terms(
            *chunk, *tables, analysis.lengths, terms.slots, known, analysis.char_mark, threads
        )
        known[ids] = 1
        blob, places = raw.tobytes(), borders.tolist()
        for feature, begin, end in zip(ids.tolist(), places[:-1], places[1:], strict=True):
            spellings[feature] = blob[begin:end]
        if also is not None:
            also(chunk, terms)
    offsets = np.zeros(len(spellings) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, spellings), dtype=np.int64, count=len(spellings)), out=offsets[1:])
    return np.frombuffer(b"".join(spellings), dtype=np.uint8), offsets
