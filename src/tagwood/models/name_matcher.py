"""`NameMatcher`: labels whose names occur in the text. The only model that knows a label before any row has it.

In: texts, label sets and the names of each label. Out: a `Ranking` of probabilities. It follows Maui and Annif's MLLM:
find names, describe each match by a few features, and learn from training texts how much each feature counts.

Decisions
---------
* Words are compared folded and stemmed. The stem of every word of the training texts and names is computed once, so a
  fitted model needs no stemmer: a new text's words are looked up. Words seen in neither match nothing.
* A name matches if words with at least `min_coverage` of its weight are in the text, in any order. A word's weight is
  its inverse document frequency, so "of" and "the" hardly count, and no list of stop words is needed.
* The strongest feature is how often a label was right when its name matched before (keyphraseness). It is counted on
  one half of the rows and weighted on the other, so that the weights do not rely on rows counted twice.
* A qualifier in brackets, as in "Mercury (planet)", is not part of the name as it occurs in texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._check import check_float, check_int, check_threads
from tagwood.errors import InputError, MissingExtraError
from tagwood.features.base import check_texts
from tagwood.features.words import FIRST, WordSequences
from tagwood.models.base import FittedModel, allowed_labels, check_text_rows
from tagwood.ranking import Ranking
from tagwood.storage import State, storable
from tagwood.storage.state import pack_strings, unpack_strings

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
_FEATURES = ("coverage", "whole", "phrase", "count", "first", "words", "weight", "shared", "right", "seen")
_QUALIFIER = re.compile(r"\s*[(<\[][^)>\]]*[)>\]]")
_SAMPLE = 3000  # texts that weights are learned from
_COUNTED = 5000  # texts that word frequencies are counted in
_LONGEST = 2000  # words of a text that are read: names of its labels stand early


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

    @classmethod
    def build(
        cls,
        words: WordSequences,
        spelled: list[str],
        frequency: NDArray[np.int64],
        n_texts: int,
        names: Sequence[tuple[int, str]],
        min_coverage: float,
    ) -> NameIndex:
        """Index names; `spelled` are the stems of the words, `frequency` the texts that each word is in."""
        numbers: dict[str, int] = {}
        all_stems = np.array([numbers.setdefault(stem, len(numbers)) for stem in spelled], dtype=np.int32)
        borders, ids = words.rows([name for _, name in names])
        known = ids >= FIRST
        name_of = np.repeat(np.arange(len(names)), np.diff(borders))[known]
        used, name_words = np.unique(all_stems[ids[known] - FIRST], return_inverse=True)
        renumber = np.full(len(numbers) + 1, -1, dtype=np.int32)
        renumber[used] = np.arange(used.size)
        stems = renumber[all_stems]
        kept, rows = np.unique(name_of, return_inverse=True)  # names without a word match nothing
        name_ptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=kept.size))]).astype(np.int64)
        labels = np.array([label for label, _ in names], dtype=np.int32)[kept]
        # Texts with a stem are at most as many as texts with its words; the sum is near enough.
        with_stem = np.bincount(stems[stems >= 0], weights=frequency[stems >= 0], minlength=used.size)
        weight = np.log1p(n_texts / (1.0 + with_stem)).astype(np.float32)
        words_of_names: NDArray[np.int32] = name_words.astype(np.int32)
        shared = _labels_per_key(name_ptr, words_of_names, labels)
        prefix = _kernels.prefix_words(name_ptr, words_of_names, weight, min_coverage)
        return cls(words, stems, name_ptr, words_of_names, labels, weight, shared, *prefix)

    def match(self, texts: Iterable[str], min_coverage: float, threads: int) -> Matches:
        """Find names in texts."""
        borders, ids = self.words.rows(texts, _LONGEST, threads)
        stems = np.where(ids >= FIRST, self.stems[np.maximum(ids - FIRST, 0)], -1).astype(np.int32)
        names = (self.name_ptr, self.name_words, self.weight, self.word_ptr, self.by_word)
        return Matches(*_kernels.match_names(*names, min_coverage, borders, stems, threads))

    @cached_property
    def size(self) -> NDArray[np.int64]:
        """Number of words of each name."""
        return np.diff(self.name_ptr)

    @cached_property
    def total(self) -> NDArray[np.float32]:
        """Weight of each name."""
        if not self.name_words.size:
            return np.empty(0, dtype=np.float32)
        return np.add.reduceat(self.weight[self.name_words], self.name_ptr[:-1])

    def state(self) -> State:
        """Return the stored form."""
        own = {name: getattr(self, name) for name in _INDEX_ARRAYS}
        words = self.words
        return State(
            "NameIndex",
            arrays={"slots": words.slots, "spelling": words.spelling, "offsets": words.offsets, **own},
        )

    @classmethod
    def from_state(cls, state: State, n_labels: int) -> NameIndex:
        """Rebuild from the stored form; arrays that would make a search read outside them are refused."""
        offsets = state.array("offsets", np.int64, (None,))
        words = WordSequences(
            state.array("slots", np.uint64, (None,)), state.array("spelling", np.uint8, (None,)), offsets
        )
        arrays = {name: state.array(name, dtype, (None,)) for name, dtype in _INDEX_ARRAYS.items()}
        n_names, n_stems = arrays["name_labels"].size, arrays["weight"].size
        fits = (
            arrays["stems"].size == offsets.size - 1
            and _inside(arrays["stems"], -1, n_stems)
            and _inside(arrays["name_words"], 0, n_stems)
            and _inside(arrays["name_labels"], 0, n_labels)
            and _inside(arrays["by_word"], 0, n_names)
            and arrays["shared"].size == n_names
            and _borders(arrays["name_ptr"], n_names, arrays["name_words"].size)
            and _borders(arrays["word_ptr"], n_stems, arrays["by_word"].size)
            and bool(np.all(np.isfinite(arrays["weight"])))
        )
        if not fits:
            raise InputError("the arrays of stored label names must fit together", given="others")
        return cls(words, **arrays)


class Matches(NamedTuple):
    """Names found in texts; see `cpp/names/matches.hpp`."""

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

    def some(self, use: NDArray[np.bool_]) -> Matches:
        """Return chosen matches; `indptr` is not kept up."""
        names, counts, phrases = self.names[use], self.counts[use], self.phrases[use]
        return Matches(self.indptr, names, self.coverage[use], counts, phrases, self.first[use])


@storable("NameMatcher")
class NameMatcher(FittedModel):
    """Rank labels by how well their names match a text.

    Parameters
    ----------
    language
        Language of texts and names for Snowball's stemmer (``"english"``, ``"de"``, ...; needs the extra ``stem``).
        None removes English plural endings only and needs nothing.
    min_coverage
        Share of a name's weight that must be in a text, from 0.3 to 1. Less finds more labels by a part of their name.
    threads
        Default all cores. The result does not depend on it.

    Attributes
    ----------
    weights_ : dict of the learned weight of each feature
    n_labels_ : int

    Examples
    --------
    >>> texts = ["an oak tree", "oaks in a wood", "salt in the sea", "the sea", "a wood"]
    >>> y = [[0], [0], [1], [1], []]
    >>> model = NameMatcher(threads=1).fit(texts, y, label_texts=["Oak", "Sea", "Fir tree"])
    >>> model.rank(["a fir tree by the sea"], k=3).labels.tolist()
    [1, 2]
    """

    takes = "texts"
    index_: NameIndex
    names_: list[tuple[int, str]]
    frequency_: NDArray[np.int64]
    right_: NDArray[np.float32]
    seen_: NDArray[np.float32]

    def __init__(
        self, *, language: str | None = None, min_coverage: float = 0.6, threads: int | None = None
    ) -> None:
        self.language = language
        self.min_coverage = min_coverage
        self.threads = threads

    def fit(
        self, texts: Iterable[str], y: Any, *, label_texts: Sequence[str | Sequence[str]] | None = None
    ) -> Self:
        """Learn which matches are right.

        Parameters
        ----------
        texts
            One text per row.
        y
            (n_rows, n_labels) label sets; labels without rows are found, too.
        label_texts
            The name of each label, or all its names: of several languages, alternative names, notation.
        """
        self._check_params()
        rows, Y = check_text_rows(texts, y)
        if label_texts is None:
            raise InputError(
                "a NameMatcher needs the names of the labels",
                given="none",
                hint="Pass label_texts, or use it in a Tagger, which knows them.",
            )
        names = _all_names(label_texts)
        self.n_labels_ = max(int(Y.shape[1]), len(label_texts))
        self.names_ = names
        self._index(
            WordSequences.learn([*rows, *(name for _, name in names)], threads=check_threads(self.threads)),
            rows,
        )
        self._learn(rows, Y)
        return self

    def add_labels(self, texts: Sequence[str | Sequence[str]]) -> Self:
        """Add labels by their names, with the next free ids; they are found from now on."""
        self._check_fitted()
        new = [(self.n_labels_ + label, name) for label, name in _all_names(texts)]
        self.n_labels_ += len(texts)
        self.names_ = [*self.names_, *new]
        known = self.index_.words
        words = WordSequences.learn([*known.words(), *(name for _, name in new)])
        place = {word: i for i, word in enumerate(known.words())}
        old = np.array([place.get(word, -1) for word in words.words()])
        self.frequency_ = np.where(old >= 0, self.frequency_[old], 0)
        self.index_ = self._build(words)
        self.right_ = np.append(self.right_, np.full(len(texts), self.prior_, dtype=np.float32))
        self.seen_ = np.append(self.seen_, np.zeros(len(texts), dtype=np.float32))
        return self

    def rank(
        self,
        texts: Iterable[str],
        k: int = 5,
        *,
        restrict: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
    ) -> Ranking:
        """Return the best `k` labels of each text with the probability that the match is right.

        Parameters
        ----------
        texts
            One text per row.
        k
            Labels per text; texts get fewer where fewer names match.
        restrict, exclude
            Label ids that may, or may not, be returned.
        """
        self._check_fitted()
        check_int(k, "k", low=1)
        rows = list(check_texts(texts))
        found = self.index_.match(rows, self.min_coverage, check_threads(self.threads))
        logits = self._features(found) @ self.coefficients_ + self.intercept_
        labels, at = self.index_.name_labels[found.names], found.rows
        allowed = allowed_labels(restrict, exclude, self.n_labels_)
        if allowed is not None:
            use = allowed[labels]
            labels, at, logits = labels[use], at[use], logits[use]
        order = np.lexsort((labels, -logits, at))
        cells = at[order] * self.n_labels_ + labels[order]
        best = order[np.sort(np.unique(cells, return_index=True)[1])]  # a label's best name
        indptr = np.concatenate([[0], np.cumsum(np.bincount(at[best], minlength=len(rows)))]).astype(np.int64)
        scores = (1 / (1 + np.exp(-logits[best]))).astype(np.float32)
        return Ranking.from_trusted(indptr, labels[best], scores, self.n_labels_).top(k)

    def predict(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return the label sets: labels with a probability of at least 0.5."""
        return self.rank(texts, k=50).above(0.5).to_sets()

    def matched_words(self, text: str, label: int) -> list[tuple[str, float]]:
        """Return the words of a label's best matching name that are in the text, with their weights."""
        self._check_fitted()
        found = self.index_.match([text], self.min_coverage, 1)
        own = np.flatnonzero(self.index_.name_labels[found.names] == label)
        if not own.size:
            return []
        logits = self._features(found)[own] @ self.coefficients_
        name = found.names[own[int(np.argmax(logits))]]
        stems = self.index_.name_words[self.index_.name_ptr[name] : self.index_.name_ptr[name + 1]]
        _, ids = self.index_.words.rows([text], _LONGEST)
        words = self.index_.words.words()
        spelled: dict[str, float] = {}
        for word in ids[ids >= FIRST] - FIRST:
            stem = self.index_.stems[word]
            if stem in stems:
                spelled.setdefault(words[word], float(self.index_.weight[stem]))
        return list(spelled.items())

    def state(self) -> State:
        """Return the stored form."""
        self._check_fitted()
        blob, offsets = pack_strings(name for _, name in self.names_)
        arrays: dict[str, NDArray[Any]] = {
            "names": blob,
            "name_offsets": offsets,
            "name_labels": np.array([label for label, _ in self.names_], dtype=np.int32),
            "frequency": self.frequency_,
            "right": self.right_,
            "seen": self.seen_,
            "coefficients": self.coefficients_,
        }
        params = {
            "init": self.get_params(deep=False),
            "n_labels": self.n_labels_,
            "n_texts": self.n_texts_,
            "intercept": self.intercept_,
            "prior": self.prior_,
        }
        return State("NameMatcher", params=params, arrays=arrays, parts={"index": self.index_.state()})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild from the stored form."""
        model = cls(**state.param("init", dict))
        model._check_params()
        model.n_labels_ = check_int(state.param("n_labels", int), "n_labels", low=1)
        model.n_texts_ = check_int(state.param("n_texts", int), "n_texts", low=1)
        model.intercept_ = check_float(state.param("intercept", float), "intercept")
        model.prior_ = check_float(state.param("prior", float), "prior", low=0, high=1)
        model.index_ = NameIndex.from_state(state.part("index"), model.n_labels_)
        labels = state.array("name_labels", np.int32, (None,))
        if labels.size and (labels.min() < 0 or labels.max() >= model.n_labels_):
            raise InputError("names must belong to labels of the model", given="others")
        names = unpack_strings(
            state.array("names", np.uint8, (None,)), state.array("name_offsets", np.int64, (None,))
        )
        model.names_ = list(zip(labels.tolist(), names, strict=True))
        model.frequency_ = state.array("frequency", np.int64, (model.index_.stems.size,))
        model.right_ = state.array("right", np.float32, (model.n_labels_,))
        model.seen_ = state.array("seen", np.float32, (model.n_labels_,))
        model.coefficients_ = state.array("coefficients", np.float64, (len(_FEATURES),))
        return model

    @property
    def weights_(self) -> dict[str, float]:
        """Learned weight of each feature of a match."""
        return dict(zip(_FEATURES, self.coefficients_.tolist(), strict=True))

    def _check_params(self) -> None:
        check_float(self.min_coverage, "min_coverage", low=0.3, high=1.0)
        if self.language is not None and not isinstance(self.language, str):
            raise InputError("language must be the name of a language or None", given=repr(self.language))
        check_threads(self.threads)

    def _index(self, words: WordSequences, rows: list[str]) -> None:
        sample = rows[:: -(-len(rows) // _COUNTED)]
        borders, ids = words.rows(sample, _LONGEST, check_threads(self.threads))
        at = np.repeat(np.arange(len(sample)), np.diff(borders))[ids >= FIRST]
        cells = np.unique(at * np.int64(words.n_words) + (ids[ids >= FIRST] - FIRST))
        self.n_texts_ = len(sample)
        self.frequency_ = np.bincount(cells % words.n_words, minlength=words.n_words - FIRST).astype(np.int64)
        self.index_ = self._build(words)

    def _build(self, words: WordSequences) -> NameIndex:
        stems = stems_of(words.words(), self.language)
        return NameIndex.build(words, stems, self.frequency_, self.n_texts_, self.names_, self.min_coverage)

    def _learn(self, rows: list[str], Y: sparse.csr_array) -> None:
        """Count how often labels are right where their name matches, and weigh the features of a match."""
        from sklearn.linear_model import LogisticRegression

        found = self.index_.match(rows, self.min_coverage, check_threads(self.threads))
        labels, at = self.index_.name_labels[found.names], found.rows
        true = np.asarray(Y[at, labels]).ravel() > 0 if at.size else np.empty(0, dtype=bool)
        first = at % 2 == 0
        self._count(labels[first], true[first])
        # No more texts than needed, every second of them.
        sample = ~first & (at < 2 * _SAMPLE)
        features = self._features(found.some(sample))
        self.coefficients_, self.intercept_ = np.zeros(len(_FEATURES)), -3.0
        if 0 < true[sample].sum() < sample.sum():
            learned = LogisticRegression(C=1.0, max_iter=500).fit(features, true[sample])
            self.coefficients_, self.intercept_ = (
                learned.coef_[0].astype(np.float64),
                float(learned.intercept_[0]),
            )
        else:
            self.coefficients_[_FEATURES.index("coverage")] = 2.0
        self._count(labels, true)

    def _count(self, labels: NDArray[np.int32], true: NDArray[np.bool_]) -> None:
        seen = np.bincount(labels, minlength=self.n_labels_)
        right = np.bincount(labels[true], minlength=self.n_labels_)
        self.prior_ = float((true.sum() + 1) / (true.size + 10))
        self.seen_ = seen.astype(np.float32)
        self.right_ = ((right + 5 * self.prior_) / (seen + 5)).astype(np.float32)

    def _features(self, found: Matches) -> NDArray[np.float64]:
        index = self.index_
        labels = index.name_labels[found.names]
        right = self.right_[labels]
        columns = [
            found.coverage,
            found.coverage > 0.9999,
            found.phrases > 0,
            np.log1p(np.maximum(found.counts, found.phrases)),
            found.first,
            np.log1p(index.size[found.names]),
            index.total[found.names],
            np.log(index.shared[found.names]),
            np.log(right / (1 - right)),
            np.log1p(self.seen_[labels]),
        ]
        return np.column_stack(columns).astype(np.float64)


def _all_names(label_texts: Sequence[str | Sequence[str]]) -> list[tuple[int, str]]:
    """Return (label, name) pairs, each once, without qualifiers."""
    pairs: dict[tuple[int, str], None] = {}
    for label, names in enumerate(label_texts):
        for name in [names] if isinstance(names, str) else names:
            plain = _QUALIFIER.sub("", name).strip() or name.strip()
            if plain:
                pairs[label, plain] = None
    return list(pairs)


def _inside(ids: NDArray[np.int32], low: int, high: int) -> bool:
    return not ids.size or bool(ids.min() >= low and ids.max() < high)


def _borders(ptr: NDArray[np.int64], n: int, end: int) -> bool:
    return ptr.size == n + 1 and ptr[0] == 0 and ptr[-1] == end and bool(np.all(ptr[1:] >= ptr[:-1]))


def _labels_per_key(
    name_ptr: NDArray[np.int64], name_words: NDArray[np.int32], labels: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return for each name how many labels have a name of the same words in any order."""
    owners: dict[bytes, set[int]] = {}
    keys = [np.sort(name_words[begin:end]).tobytes() for begin, end in pairwise(name_ptr)]
    for key, label in zip(keys, labels.tolist(), strict=True):
        owners.setdefault(key, set()).add(label)
    return np.array([len(owners[key]) for key in keys], dtype=np.int32)
