"""Label names as numbers, and what finds them in texts: `NameIndex`, the search inside `NameMatcher`.

In: names of labels and texts. Out: `Matches`, the names found in each text and how they occur there.

Decisions
---------
* Words are compared folded and stemmed. The stem of every known word is computed once and stored, so a search needs no
  stemmer: the words of a text are looked up. Known are the words of training texts and names, and common endings of
  the latter; other words match nothing.
* A name is looked up by its most telling words only: those that a text must have one of to contain enough of the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._check import check_float, is_pointer
from tagwood._lazy import sparse
from tagwood.errors import InputError, MissingExtraError
from tagwood.features.words import FIRST, WordSequences
from tagwood.storage import State

LONGEST = 2000  # words of a text that are read: names of its labels occur early

_INDEX_ARRAYS: dict[str, Any] = {
    "stems": np.int32,
    "name_ptr": np.int64,
    "name_words": np.int32,
    "name_labels": np.int32,
    "weight": np.float32,
    "shared": np.int32,
    "word_ptr": np.int64,
    "by_word": np.int32,
}


def light_stem(word: str) -> str:
    """Return an English word without its plural ending; needs no package and does little harm in other languages.

    Examples
    --------
    >>> [light_stem(word) for word in ("forests", "libraries", "glass", "bus")]
    ['forest', 'library', 'glass', 'bus']
    """
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def stems_of(words: list[str], language: str | None) -> list[str]:
    """Return the stems of words by Snowball's stemmer of a language (``"english"`` or ``"en"``), or by `light_stem`."""
    if language is None:
        return [light_stem(word) for word in words]
    try:
        import Stemmer
    except ImportError as error:
        raise MissingExtraError("A stemmer", extra="stem") from error
    try:
        return list(Stemmer.Stemmer(language).stemWords(words))
    except KeyError as error:
        raise InputError(
            f"language must be one of {', '.join(Stemmer.algorithms())}",
            given=repr(language),
            hint="None works for every language, with plurals of English only.",
        ) from error


def words_of_names(names: list[str], language: str | None) -> list[str]:
    """Return the words of names, and forms of them that have the same stem.

    The forms let a text match a name that no training text has, such as the plural of a new label.

    Examples
    --------
    >>> sorted(words_of_names(["Oak", "Lily of the valley"], None))[:4]
    ['lilies', 'lily', 'lilys', 'oak']
    """
    try:
        words = WordSequences.learn(names).words() if names else []
    except InputError:  # no name has a word
        return []
    endings = ("s",) if language is None else ("s", "es", "e", "n", "en", "er")
    forms = [(word, word + ending) for ending in endings for word in words]
    forms += [(word, word[:-1] + "ies") for word in words if word.endswith("y")]
    stems = [stems_of([word for word, _ in forms], language), stems_of([form for _, form in forms], language)]
    return words + [form for (_, form), one, other in zip(forms, *stems, strict=True) if one == other]


@dataclass(frozen=True, eq=False)
class NameIndex:
    """The names of all labels as numbers of stems, and what finds them in a text.

    Parameters
    ----------
    words
        All words of training texts and names.
    stems
        (n_words,) number of each word's stem; -1 where no name has it.
    name_ptr, name_words
        Stems of each name, in order.
    name_labels
        (n_names,) label of each name.
    weight
        (n_stems,) inverse document frequency.
    shared
        (n_names,) how many labels have a name with the same stems.
    word_ptr, by_word
        Names that are looked up by each stem.
    min_coverage
        Share of a name's weight that must be in a text.
    """

    words: WordSequences
    stems: NDArray[np.int32]
    name_ptr: NDArray[np.int64]
    name_words: NDArray[np.int32]
    name_labels: NDArray[np.int32]
    weight: NDArray[np.float32]
    shared: NDArray[np.int32]
    word_ptr: NDArray[np.int64]
    by_word: NDArray[np.int32]
    min_coverage: float

    @classmethod
    def build(
        cls,
        words: WordSequences,
        language: str | None,
        frequency: NDArray[np.int64],
        n_texts: int,
        names: Sequence[tuple[int, str]],
        min_coverage: float,
    ) -> NameIndex:
        """Index names, given how many of `n_texts` texts have each word."""
        numbers: dict[str, int] = {}
        spelled = stems_of(words.words(), language)
        all_stems = np.array([numbers.setdefault(stem, len(numbers)) for stem in spelled], dtype=np.int32)
        borders, ids = words.rows([name for _, name in names])
        known = ids >= FIRST
        name_of = np.repeat(np.arange(len(names)), np.diff(borders))[known]
        used, words_of_names = np.unique(all_stems[ids[known] - FIRST], return_inverse=True)
        name_words = words_of_names.astype(np.int32)
        renumber = np.full(len(numbers), -1, dtype=np.int32)
        renumber[used] = np.arange(used.size)
        stems = renumber[all_stems]
        kept, sizes = np.unique(name_of, return_counts=True)  # names without a word match nothing
        name_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        labels = np.array([label for label, _ in names], dtype=np.int32)[kept]
        # Texts with a stem are at most as many as texts with its words; the sum is near enough.
        with_stem = np.bincount(stems[stems >= 0], weights=frequency[stems >= 0], minlength=used.size)
        weight = np.log1p(n_texts / (1.0 + with_stem)).astype(np.float32)
        shared = _labels_per_name(name_ptr, name_words, labels)
        prefix = _kernels.prefix_words(name_ptr, name_words, weight, min_coverage)
        return cls(words, stems, name_ptr, name_words, labels, weight, shared, *prefix, min_coverage)

    def renumbered(self, places: NDArray[np.int64]) -> NameIndex:
        """Return the index with label i as ``places[i]``, and without the labels whose place is -1."""
        sizes, kept = np.diff(self.name_ptr), places[self.name_labels] >= 0
        ptr = np.concatenate([[0], np.cumsum(sizes[kept])]).astype(np.int64)
        words = self.name_words[np.repeat(kept, sizes)]
        labels = places[self.name_labels[kept]].astype(np.int32)
        word_ptr, by_word = _kernels.prefix_words(ptr, words, self.weight, self.min_coverage)
        return replace(
            self,
            name_ptr=ptr,
            name_words=words,
            name_labels=labels,
            shared=_labels_per_name(ptr, words, labels),
            word_ptr=word_ptr,
            by_word=by_word,
        )

    def read(self, texts: Iterable[str], threads: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the borders and stems of texts; -1 is a word that no name has."""
        borders, ids = self.words.rows(texts, LONGEST, threads)
        return borders, self.stem_of[ids]

    def match(self, borders: NDArray[np.int64], stems: NDArray[np.int32], threads: int) -> Matches:
        """Find names in texts that `read` returned."""
        names = (self.name_ptr, self.name_words, self.weight, self.word_ptr, self.by_word)
        return Matches(*_kernels.match_names(*names, self.min_coverage, borders, stems, threads))

    @cached_property
    def stem_of(self) -> NDArray[np.int32]:
        """Stem of each word number, with those of padding and the unknown word."""
        return np.concatenate([np.full(FIRST, -1, dtype=np.int32), self.stems])

    @cached_property
    def one_name_each(self) -> bool:
        """Whether no label has several names."""
        return bool((np.diff(np.sort(self.name_labels)) > 0).all())  # np.unique would import numpy.ma

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in _INDEX_ARRAYS}
        params = {"min_coverage": self.min_coverage}
        return State("NameIndex", params=params, arrays=arrays, parts={"words": self.words.state()})

    @classmethod
    def from_state(cls, state: State, n_labels: int) -> NameIndex:
        """Rebuild from the stored form; arrays that would make a search read outside them are refused."""
        words = WordSequences.from_state(state.part("words"))
        arrays = {name: state.array(name, dtype, (None,)) for name, dtype in _INDEX_ARRAYS.items()}
        n_names, n_stems = arrays["name_labels"].size, arrays["weight"].size
        fits = (
            arrays["stems"].size == words.n_words - FIRST
            and _inside(arrays["stems"], -1, n_stems)
            and _inside(arrays["name_words"], 0, n_stems)
            and _inside(arrays["name_labels"], 0, n_labels)
            and _inside(arrays["by_word"], 0, n_names)
            and arrays["shared"].size == n_names
            and _inside(arrays["shared"], 1, n_labels + 1)
            and is_pointer(arrays["name_ptr"], n_names, arrays["name_words"].size, smallest=1)
            and is_pointer(arrays["word_ptr"], n_stems, arrays["by_word"].size)
            and bool(np.all(np.isfinite(arrays["weight"]) & (arrays["weight"] >= 0)))
        )
        if not fits:
            raise InputError("the arrays of stored label names must fit together", given="others")
        min_coverage = check_float(state.param("min_coverage", float), "min_coverage", low=0.3, high=1.0)
        return cls(words, **arrays, min_coverage=min_coverage)


class Matches(NamedTuple):
    """Names found in texts; see `cpp/candidates/names.hpp`."""

    indptr: NDArray[np.int64]
    names: NDArray[np.int32]
    coverage: NDArray[np.float32]
    counts: NDArray[np.int32]
    phrases: NDArray[np.int32]
    first: NDArray[np.float32]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Text of each match."""
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))

    def chosen(self, use: NDArray[np.bool_]) -> Matches:
        """Return some of the matches; `indptr` stays that of all."""
        columns: list[Any] = [column[use] for column in self[1:]]
        return Matches(self.indptr, *columns)

    @classmethod
    def joined(cls, parts: list[Matches]) -> Matches:
        """Return the matches of all parts; `indptr` is that of the first."""
        columns: list[Any] = [np.concatenate(column) for column in list(zip(*parts, strict=True))[1:]]
        return cls(parts[0].indptr, *columns)

    def features(self) -> list[NDArray[Any]]:
        """Return the first `_OF_MATCH` of `_FEATURES`, those that depend on the text."""
        frequent = np.log1p(np.maximum(self.counts, self.phrases))
        return [self.coverage, self.coverage > 0.9999, self.phrases > 0, frequent, self.first]


def texts_with(words: WordSequences, texts: list[str], threads: int) -> NDArray[np.int64]:
    """Return how many texts have each word."""
    borders, ids = words.rows(texts, LONGEST, threads)
    ones = np.ones(ids.size, dtype=np.int8)
    rows = sparse.csr_array((ones, ids, borders), shape=(len(texts), words.n_words))
    rows.sum_duplicates()
    return np.bincount(rows.indices, minlength=words.n_words)[FIRST:]


def _inside(ids: NDArray[np.int32], low: int, high: int) -> bool:
    return bool(ids.size and ids.min() >= low and ids.max() < high)


def _labels_per_name(
    name_ptr: NDArray[np.int64], name_words: NDArray[np.int32], labels: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return for each name how many labels have a name of the same words in any order."""
    if not labels.size:
        return np.empty(0, dtype=np.int32)
    # Random numbers of the words add up to a key of the name; two of a million names collide once in 10**7 models.
    random = np.random.default_rng(0).integers(0, 2**63, name_words.max() + 1, dtype=np.uint64)
    _, key = np.unique(np.add.reduceat(random[name_words], name_ptr[:-1]), return_inverse=True)
    owners = np.unique(key * (np.int64(labels.max()) + 1) + labels) // (np.int64(labels.max()) + 1)
    return np.bincount(owners)[key].astype(np.int32)
