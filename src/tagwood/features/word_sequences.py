"""`WordSequences`: texts to sequences of word numbers, for models that read words in order.

In: texts. Out: the numbers of each text's words. Words are those of the TF-IDF tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood.errors import InputError
from tagwood.features.terms import Analysis, Limits, learn_terms
from tagwood.features.texts import check_texts, packed_chunks
from tagwood.features.unicode import char_tables
from tagwood.storage import State
from tagwood.storage.strings import unpack_strings

UNKNOWN = 1  # 0 is padding
FIRST = 2  # number of the most frequent word
_ROWS_FOR_THREADS = 64


@dataclass(frozen=True, eq=False)
class WordSequences:
    """The words a model knows, most frequent first.

    Parameters
    ----------
    slots
        uint64 table in which the kernel finds a word by its key.
    spelling, offsets
        UTF-8 bytes of the words one after the other, and their borders.

    Examples
    --------
    >>> words = WordSequences.learn(["fir and oak", "oak"])
    >>> words.n_words, words.words()[0]
    (5, 'oak')
    >>> borders, ids = words.rows(["Oak or oak", ""])
    >>> borders.tolist(), ids.tolist()
    ([0, 3, 4], [2, 1, 2, 1])
    """

    slots: NDArray[np.uint64]
    spelling: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @classmethod
    def learn(
        cls, texts: Sequence[str], min_count: int = 1, *, most: int | None = None, threads: int = 1
    ) -> WordSequences:
        """Choose the words that stand in at least `min_count` texts, at most so many."""
        analysis = Analysis((1, 1, 0, 0, 0), fold=True, sublinear=False)
        try:
            terms = learn_terms(texts, analysis, Limits(min_count, 1.0, most), threads)
        except InputError as error:
            if "n-gram" not in error.expected:
                raise
            raise InputError(
                f"at least one word must stand in {min_count} texts or more",
                given="none",
                hint="Lower min_count, or check that the texts are not empty.",
            ) from error
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
        """Return borders and numbers of the first `longest` words of each text.

        A text without words is one unknown word, so that no text is empty.
        """
        tables = char_tables(True)
        borders, numbers = [np.zeros(1, dtype=np.int64)], [np.empty(0, dtype=np.int32)]
        for chunk in packed_chunks(check_texts(texts), tables.folds):
            n_threads = 1 if chunk.offsets.size <= _ROWS_FOR_THREADS else threads
            indptr, ids = _kernels.word_rows(
                *chunk, *tables, self.slots, self.n_words - FIRST, longest, n_threads
            )
            empty = np.flatnonzero(np.diff(indptr) == 0)
            ids = np.insert(ids, indptr[empty], -1)
            sizes = np.maximum(1, np.diff(indptr))
            borders.append(borders[-1][-1] + np.cumsum(sizes))
            numbers.append(np.where(ids < 0, UNKNOWN, ids + FIRST).astype(np.int32))
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
        arrays: dict[str, NDArray[Any]] = {
            "slots": self.slots,
            "spelling": self.spelling,
            "offsets": self.offsets,
        }
        return State("WordSequences", arrays=arrays)

    @classmethod
    def from_state(cls, state: State) -> WordSequences:
        """Rebuild from the stored form; the kernel keeps inside the bounds checked here."""
        slots = state.array("slots", np.uint64, (None,))
        spelling, offsets = (
            state.array("spelling", np.uint8, (None,)),
            state.array("offsets", np.int64, (None,)),
        )
        n_words = offsets.size - 1
        if n_words < 1 or slots.size != 1 << (2 * n_words).bit_length():
            raise InputError("the arrays of stored word sequences must fit together")
        return cls(slots, spelling, offsets)
