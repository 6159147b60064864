"""Words as integers: `WordSequences` for models that read words in order, `WordBags` for those that average them.

In: texts. Out: the word numbers of each text, or CSR rows of the shares of words and hashed word n-grams. Words are
those of the TF-IDF tokenizer.

Decisions for bags. N-grams are hashed into buckets; a bucket without training n-grams is not a feature and costs no
memory. In new texts an unknown n-gram counts like a feature whose embedding is zero, as fastText's untrained buckets
do. Feature 0 is in every text, so that no text is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._check import is_pointer
from tagwood._sparse import CsrParts
from tagwood.errors import InputError
from tagwood.features.base import char_tables, check_texts, packed_chunks
from tagwood.features.tfidf import Analysis, TermLimits, count_ngrams, learn_terms, stack_rows
from tagwood.storage import State
from tagwood.storage.state import unpack_strings

UNKNOWN = 1  # 0 is padding
FIRST = 2  # number of the most frequent word
_ROWS_FOR_THREADS = 64


@dataclass(frozen=True, eq=False)
class WordSequences:
    """The vocabulary of a model, most frequent word first.

    Examples
    --------
    >>> words = WordSequences.learn(["fir and oak", "oak"])
    >>> words.n_words, words.words()[0]
    (5, 'oak')
    >>> borders, ids = words.rows(["Oak or oak", ""])
    >>> borders.tolist(), ids.tolist()
    ([0, 3, 4], [2, 1, 2, 1])
    """

    slots: NDArray[np.uint64]  # hash table of the words, for the kernel
    # spelling, offsets: UTF-8 bytes of the words, and their offsets
    spelling: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @classmethod
    def learn(
        cls, texts: Sequence[str], min_count: int = 1, *, most: int | None = None, threads: int = 1
    ) -> WordSequences:
        """Choose the words that occur in at least `min_count` texts, at most `most` of them."""
        analysis = Analysis((1, 1, 0, 0, 0), fold=True, sublinear=False)
        try:
            terms = learn_terms(texts, analysis, TermLimits(min_count, 1.0, most), threads)
        except InputError as error:
            if "n-gram" not in error.expected:
                raise
            raise _no_words(min_count) from error
        return cls(terms.slots, terms.spelling, terms.offsets)

    @property
    def n_words(self) -> int:
        """Number of words, with padding (0) and the unknown word (1)."""
        return int(self.offsets.size) - 1 + FIRST

    def words(self) -> list[str]:
        """Return the spellings; word i has number i + 2."""
        return unpack_strings(self.spelling, self.offsets)

    def rows(
        self, texts: Iterable[str], longest: int = 1 << 30, threads: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the offsets and numbers of the first `longest` words of each text; no words are one unknown word."""
        tables = char_tables(True)
        borders, numbers = [np.zeros(1, dtype=np.int64)], [np.empty(0, dtype=np.int32)]
        for chunk in packed_chunks(check_texts(texts), tables.folds):
            n_threads = 1 if chunk.offsets.size <= _ROWS_FOR_THREADS else threads
            indptr, ids = _kernels.word_rows(*chunk, *tables, self.slots, self.n_words - FIRST, longest, n_threads)
            if type(texts) is list and len(texts) == 1 and ids.size:  # the rest takes as long as the kernel
                return indptr, ids + np.int32(FIRST)
            sizes = np.diff(indptr)
            if not sizes.all():
                ids = np.insert(ids, indptr[:-1][sizes == 0], -1)
                sizes = np.maximum(1, sizes)
                indptr = np.concatenate([[0], np.cumsum(sizes)])
            borders.append(borders[-1][-1] + indptr[1:])
            numbers.append(ids + np.int32(FIRST))  # -1 becomes UNKNOWN
        return np.concatenate(borders), np.concatenate(numbers)

    def counts(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """Return the number of words in each text, known or not."""
        tables = char_tables(True)
        found = [np.empty(0, dtype=np.int64)]
        for chunk in packed_chunks(check_texts(texts), tables.folds):
            indptr, _ = _kernels.word_rows(*chunk, *tables, self.slots, self.n_words - FIRST, 1 << 30, 1)
            found.append(np.diff(indptr))
        return np.concatenate(found)

    def state(self) -> State:
        """Return the stored form."""
        return State("WordSequences", arrays=dict(vars(self)))

    @classmethod
    def from_state(cls, state: State) -> WordSequences:
        """Rebuild from the stored form; the kernel relies on the bounds checked here."""
        slots = state.array("slots", np.uint64, (None,))
        spelling = state.array("spelling", np.uint8, (None,))
        offsets = state.array("offsets", np.int64, (None,))
        n_words = offsets.size - 1
        spelled = n_words >= 1 and is_pointer(offsets, n_words, spelling.size)
        if not spelled or slots.size != 1 << (2 * n_words).bit_length():
            raise InputError("the arrays of stored word sequences must fit together")
        return cls(slots, spelling, offsets)


@dataclass(frozen=True, eq=False)
class WordBags:
    """The words and buckets that are features.

    Examples
    --------
    >>> bags = WordBags.learn(["fir fir oak", "oak fir"], min_count=2)
    >>> bags.n_words, bags.n_features
    (2, 3)
    >>> bags.rows(["oak, oak: birch"]).data.round(3)
    array([0.333, 0.667], dtype=float32)
    >>> bags.rows(["oak, oak: birch"], new=True).data.round(3)  # two unknown pairs
    array([0.2, 0.4], dtype=float32)
    """

    slots: NDArray[np.uint64]  # hash table of the words, for the kernels: word i is feature i + 1
    n_words: int
    # (2**bits,) feature of each bucket of n-grams, -1 for none; empty without n-grams
    buckets: NDArray[np.int32]
    longest: int  # largest number of words in an n-gram
    n_features: int

    @classmethod
    def learn(
        cls,
        texts: Sequence[str],
        min_count: int = 1,
        *,
        longest: int = 2,
        bits: int = 21,
        threads: int = 1,
    ) -> WordBags:
        """Choose features: words, and buckets of n-grams, that occur in `min_count` texts or more.

        Both are numbered by falling frequency, so that frequent ones are close in memory.
        """
        words = _frequent(texts, (1, 1, 0, 0, 0), min_count, threads)
        if words.size == 0:
            raise _no_words(min_count)
        buckets = np.empty(0, dtype=np.int32)
        used = np.empty(0, dtype=np.uint64)
        if longest > 1:
            used = _frequent(texts, (2, longest, 0, 0, bits), min_count, threads)
            buckets = np.full(1 << bits, -1, dtype=np.int32)
            buckets[used] = np.arange(words.size + 1, words.size + 1 + used.size, dtype=np.int32)
        slots = _kernels.build_vocabulary(words)
        return cls(slots, words.size, buckets, longest, 1 + words.size + used.size)

    def rows(self, texts: Iterable[str], threads: int = 1, *, new: bool = False) -> CsrParts:
        """Return (n_texts, n_features) shares of the features in each text.

        In `new` texts unknown n-grams count too, so that a text with few known ones has a smaller norm.
        """
        tables = char_tables(True)
        pieces = [
            CsrParts(
                *_kernels.bag_rows(
                    *chunk,
                    *tables,
                    self.slots,
                    self.n_words,
                    self.buckets,
                    self.longest,
                    self.n_features,
                    new,
                    1 if chunk.offsets.size <= _ROWS_FOR_THREADS else threads,
                ),
                self.n_features,
            )
            for chunk in packed_chunks(check_texts(texts), tables.folds)
        ]
        return pieces[0] if len(pieces) == 1 else stack_rows(pieces, self.n_features)

    def state(self) -> State:
        """Return the stored form."""
        params = {"n_words": self.n_words, "longest": self.longest, "n_features": self.n_features}
        return State("WordBags", params=params, arrays={"slots": self.slots, "buckets": self.buckets})

    @classmethod
    def from_state(cls, state: State) -> WordBags:
        """Rebuild from the stored form; the kernels rely on the bounds checked here only."""
        slots, buckets = state.array("slots", np.uint64, (None,)), state.array("buckets", np.int32, (None,))
        numbers: list[int] = [state.param(name, int) for name in ("n_words", "longest", "n_features")]
        n_words, longest, n_features = numbers
        fits = (
            1 <= n_words < n_features <= np.iinfo(np.int32).max
            and slots.size == 1 << (2 * n_words).bit_length()
            and 1 <= longest <= 5
            and buckets.size & (buckets.size - 1) == 0
            and (longest == 1) == (buckets.size == 0)
        )
        if not fits:
            raise InputError("the arrays of stored word bags must fit together")
        return cls(slots, n_words, buckets, longest, n_features)


def _no_words(min_count: int) -> InputError:
    return InputError(
        f"at least one word must occur in {min_count} texts or more",
        given="none",
        hint="Lower min_count, or check that the texts are not empty.",
    )


def _frequent(texts: Sequence[str], lengths: Any, least: int, threads: int) -> NDArray[np.uint64]:
    """Return the keys of the n-grams in at least `least` texts, most frequent first."""
    analysis = Analysis(lengths, fold=True, sublinear=False)
    keys, counts, _ = count_ngrams(packed_chunks(texts, char_tables(True).folds), analysis, threads)
    kept = counts >= least
    keys, counts = keys[kept], counts[kept]
    return keys[np.lexsort((keys, -counts))]
