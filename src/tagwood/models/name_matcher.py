"""`NameMatcher`: labels whose names occur in the text. The only model that knows a label before any row has it.

In: texts, label sets and the names of each label. Out: a `Ranking` of probabilities. It follows Maui and Annif's MLLM:
find names, describe each match by a few features, and learn from training texts how much each feature counts.

Decisions
---------
* Words are learned from an even sample of `_LEARNED` texts and from all names; their frequencies from fewer texts. Both
  change the ranking little and save half the time.
* A name matches if words with at least `min_coverage` of its weight are in the text, in any order. A word's weight is
  its inverse document frequency, so "of" and "the" hardly count, and no list of stop words is needed.
* The strongest feature is how often a label was right when its name matched before (keyphraseness). It is counted on
  one half of the rows and weighted on the other, so that the weights do not rely on rows counted twice.
* For labels without rows, that they were never right is no evidence: they get the share of names that match as often.
* A text that is nothing but a label's name has that label, with the probability `CERTAIN`. Training texts do not show
  that, because they are longer.
* A qualifier in brackets, as in "Mercury (planet)", is not part of the name as it occurs in texts.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import check_float, check_int, check_threads
from tagwood._lazy import sparse
from tagwood.errors import InputError
from tagwood.features.base import check_texts
from tagwood.features.words import FIRST, WordSequences
from tagwood.models.base import FittedModel, check_text_rows
from tagwood.models.label_filter import LabelFilter, allowed_labels
from tagwood.models.name_index import LONGEST, Matches, NameIndex, stems_of, texts_with, words_of_names
from tagwood.probabilities.calibration import fit_logistic, sigmoid
from tagwood.ranking import Ranking
from tagwood.storage import State, storable
from tagwood.storage.state import pack_strings, unpack_strings

# Features of a match, then features of a name.
_FEATURES = ("coverage", "whole", "phrase", "count", "first", "words", "weight", "shared", "right", "seen")
_QUALIFIER = re.compile(r"\s*[(<\[][^)>\]]*[)>\]]")
_OF_MATCH = 5
CERTAIN = 0.99
_LEARNED = 10_000  # texts that words are learned from
_COUNTED = 3000  # texts that word frequencies are counted in
_WEIGHED = 3000  # texts that weights are learned from, and the most matches in them
_PAIRS = 500_000
_BLOCK = 2048  # texts that are matched at a time while learning


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
    >>> model = NameMatcher(threads=1).fit(texts, y, label_names=["Oak", "Sea", "Fir tree"])
    >>> model.rank(["a fir tree by the sea"], k=3).labels.tolist()
    [1, 2]
    """

    takes = "texts"
    index_: NameIndex
    names_: list[tuple[int, str]]
    frequency_: NDArray[np.int64]
    right_: NDArray[np.float32]
    seen_: NDArray[np.float32]
    bias_: NDArray[np.float64]  # of each name: what does not depend on the text

    def __init__(self, *, language: str | None = None, min_coverage: float = 0.6, threads: int | None = None) -> None:
        self.language = language
        self.min_coverage = min_coverage
        self.threads = threads

    def fit(self, texts: Iterable[str], y: Any, *, label_names: Sequence[str | Sequence[str]] | None = None) -> Self:
        """Learn which matches are right.

        Parameters
        ----------
        texts
            One text per row.
        y
            (n_rows, n_labels) label sets; labels without rows are found, too.
        label_names
            The name of each label, or all its names: of several languages, alternative names, notation. Labels whose
            name is empty are never found.
        """
        self._check_params()
        stems_of([], self.language)  # complains now, not after reading all texts
        rows, Y = check_text_rows(texts, y)
        if label_names is None:
            raise InputError(
                "a NameMatcher needs the names of the labels",
                given="none",
                hint="Pass label_names, or use it in a Tagger, which knows them.",
            )
        names, n_names = plain_names(label_names), len(label_names)
        if n_names < Y.shape[1]:
            raise InputError(
                f"label_names must hold the names of all {Y.shape[1]:,} labels",
                given=f"{n_names:,}",
                hint="Use an empty text for labels without a name.",
            )
        threads = check_threads(self.threads)
        spelled = words_of_names([name for _, name in names], self.language)
        if not spelled:
            raise InputError("at least one label must have a name with a word", given="none")
        words = WordSequences.learn([*_sample(rows, _LEARNED), *spelled], threads=threads)
        counted = _sample(rows, _COUNTED)
        self.n_labels_, self.names_, self.n_texts_ = n_names, names, len(counted)
        self.frequency_ = texts_with(words, counted, threads)
        self.index_ = self._build(words)
        self._learn(rows, Y, threads)
        return self

    def add_labels(self, label_names: Sequence[str | Sequence[str]]) -> NDArray[np.int64]:
        """Add labels by their names, given as in `fit`, and return their ids; they are found from now on."""
        self._check_fitted()
        new = [(self.n_labels_ + label, name) for label, name in plain_names(label_names)]
        ids = np.arange(self.n_labels_, self.n_labels_ + len(label_names))
        self.n_labels_ += ids.size
        self.right_ = np.append(self.right_, np.full(ids.size, np.median(self.right_), dtype=np.float32))
        self.seen_ = np.append(self.seen_, np.full(ids.size, np.median(self.seen_), dtype=np.float32))
        self._add_names(new)
        return ids

    def add_names(self, names: Mapping[int, Sequence[str]]) -> None:
        """Add further names of labels that the model has, by label id; those that it knows already change nothing."""
        self._check_fitted()
        check = {check_int(label, "label", low=0, high=self.n_labels_ - 1): own for label, own in names.items()}
        labels, known = list(check), set(self.names_)
        pairs = [(labels[place], name) for place, name in plain_names(list(check.values()))]
        self._add_names([pair for pair in pairs if pair not in known])

    def _add_names(self, new: list[tuple[int, str]]) -> None:
        known = self.index_.words.words()
        words = WordSequences.learn([*known, *words_of_names([name for _, name in new], self.language)])
        counts = dict(zip(known, self.frequency_.tolist(), strict=True))
        self.frequency_ = np.array([counts.get(word, 0) for word in words.words()], dtype=np.int64)
        self.names_ = [*self.names_, *new]
        self.index_ = self._build(words)
        self.bias_ = self._name_bias()

    def rank(
        self,
        texts: Iterable[str],
        k: int = 5,
        *,
        restrict: ArrayLike | LabelFilter | None = None,
        exclude: ArrayLike | LabelFilter | None = None,
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
        threads = check_threads(self.threads)
        borders, stems = self.index_.read(check_texts(texts), threads)
        found = self.index_.match(borders, stems, threads)
        logits = self._logits(found)
        labels, at = self.index_.name_labels[found.names], found.rows
        whole = np.diff(self.index_.name_ptr)[found.names] == np.diff(borders)[at]
        whole &= (found.phrases > 0) & (found.coverage > 0.9999)
        logits[whole] = np.maximum(logits[whole], np.log(CERTAIN / (1 - CERTAIN)))
        allowed = allowed_labels(restrict, exclude, self.n_labels_)
        if allowed is not None:
            use = allowed.mask[labels]
            labels, at, logits = labels[use], at[use], logits[use]
        best = np.lexsort((labels, -logits, at))
        if not self.index_.one_name_each:  # keep the best name of each label
            cells = at[best] * self.n_labels_ + labels[best]
            best = best[np.sort(np.unique(cells, return_index=True)[1])]
        sizes = np.bincount(at[best], minlength=found.indptr.size - 1)
        place = np.arange(best.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        best = best[place < k]
        indptr = np.concatenate([found.indptr[:1], np.cumsum(np.minimum(sizes, k))])
        scores = sigmoid(logits[best]).astype(np.float32)
        return Ranking.from_trusted(indptr, labels[best], scores, self.n_labels_)

    def predict(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return the label sets: labels with a probability of at least 0.5."""
        return self.rank(texts, k=50).above(0.5).to_sets()

    def explain_text(self, text: str, label: int) -> list[tuple[str, float]]:
        """Return the words of a text that match a label's names, with what the label's score loses without each.

        Forms of one word, such as "tree" and "trees", share their loss evenly.
        """
        self._check_fitted()
        check_int(label, "label", low=0, high=self.n_labels_ - 1)
        index = self.index_
        _, ids = index.words.rows([text], LONGEST)
        names = np.flatnonzero(index.name_labels == label)
        own = [index.name_words[index.name_ptr[name] : index.name_ptr[name + 1]] for name in names]
        stems = index.stem_of[ids]
        # One variant of the text without each stem, after the text itself.
        left_out = np.intersect1d(stems, np.concatenate([*own, np.empty(0, dtype=np.int32)]))
        variants = np.stack([stems, *(np.where(stems == stem, np.int32(-1), stems) for stem in left_out)])
        found = index.match(np.arange(len(variants) + 1) * stems.size, variants.ravel(), 1)
        right = index.name_labels[found.names] == label
        scores = np.zeros(len(variants))
        np.maximum.at(scores, found.rows[right], sigmoid(self._logits(found))[right])
        if scores[0] == 0:
            return []
        words = index.words.words()
        forms = [dict.fromkeys(words[i - FIRST] for i in ids[stems == stem]) for stem in left_out]
        losses = (scores[0] - scores[1:]).tolist()
        return [(word, loss / len(some)) for some, loss in zip(forms, losses, strict=True) for word in some]

    def matched_name(self, text: str, label: int) -> str | None:
        """Return the name of a label that matches a text best; None if none does."""
        self._check_fitted()
        check_int(label, "label", low=0, high=self.n_labels_ - 1)
        index = self.index_
        found = index.match(*index.read([text], 1), 1)
        right = np.flatnonzero(index.name_labels[found.names] == label)
        if right.size == 0:
            return None
        best = found.names[right[np.argmax(self._logits(found)[right])]]
        first = bisect_left(self.names_, label, key=itemgetter(0))
        last = bisect_right(self.names_, label, key=itemgetter(0))
        names = [name for _, name in self.names_[first:last]]
        # Names without a word are not in the index.
        borders, ids = index.words.rows(names)
        known = [name for name, at in zip(names, pairwise(borders), strict=True) if (ids[slice(*at)] >= FIRST).any()]
        return known[int(np.searchsorted(np.flatnonzero(index.name_labels == label), best))]

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
        model.index_ = NameIndex.from_state(state.part("index"), model.n_labels_)
        labels = state.array("name_labels", np.int32, (None,))
        names = unpack_strings(state.array("names", np.uint8, (None,)), state.array("name_offsets", np.int64, (None,)))
        if labels.size != len(names) or np.any((labels < 0) | (labels >= model.n_labels_)):
            raise InputError("stored names must belong to labels of the model", given="others")
        model.names_ = list(zip(labels.tolist(), names, strict=True))
        model.frequency_ = state.array("frequency", np.int64, (model.index_.stems.size,))
        model.right_ = state.array("right", np.float32, (model.n_labels_,))
        model.seen_ = state.array("seen", np.float32, (model.n_labels_,))
        model.coefficients_ = state.array("coefficients", np.float64, (len(_FEATURES),))
        numbers = np.concatenate([model.right_, model.seen_, model.coefficients_])
        if not np.all(np.isfinite(numbers)) or np.any((model.right_ <= 0) | (model.right_ >= 1)):
            raise InputError("stored numbers of a NameMatcher must be finite, and shares between 0 and 1")
        model.bias_ = model._name_bias()
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

    def _build(self, words: WordSequences) -> NameIndex:
        return NameIndex.build(
            words, self.language, self.frequency_, self.n_texts_, self.names_, float(self.min_coverage)
        )

    def _learn(self, rows: list[str], Y: sparse.csr_array, threads: int) -> None:
        """Count how often labels are right where their name matches, and weigh the features of a match."""
        n_labels = self.n_labels_
        used = np.bincount(Y.indices, minlength=n_labels) > 0
        seen, right = np.zeros((2, n_labels), dtype=np.int64), np.zeros((2, n_labels), dtype=np.int64)
        drawn = np.random.default_rng(0).permutation(len(rows))  # even: counted first; odd and small: weighed
        kept, outcomes = [], []
        for begin in range(0, len(rows), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            found = self.index_.match(*self.index_.read(rows[block], threads), threads)
            labels, at = self.index_.name_labels[found.names], found.rows
            true = np.isin(at * n_labels + labels, _cells(Y[block], n_labels))
            draw = drawn[begin + at]
            for half in (0, 1):
                own = draw % 2 == half
                seen[half] += np.bincount(labels[own], minlength=n_labels)
                right[half] += np.bincount(labels[own & true], minlength=n_labels)
            weighed = (draw % 2 == 1) & (draw < 2 * _WEIGHED) & used[labels]
            kept.append(found.chosen(weighed))
            outcomes.append(true[weighed])
        self._count(seen[0], right[0], used)
        self._weigh(Matches.joined(kept), np.concatenate(outcomes))
        self._count(seen.sum(axis=0), right.sum(axis=0), used)
        self.bias_ = self._name_bias()

    def _weigh(self, found: Matches, true: NDArray[np.bool_]) -> None:
        """Learn the weights of features from matches and whether they are right."""
        if not 0 < true.sum() < true.size:  # nothing to tell apart: a whole name is as right as before
            self.coefficients_ = np.array([float(name in ("coverage", "right")) for name in _FEATURES])
            self.intercept_ = -1.0
            return
        some = np.zeros(true.size, dtype=bool)
        some[:: -(-true.size // _PAIRS)] = True
        found = found.chosen(some)
        columns = [np.ones(found.names.size), *found.features(), *self._name_features(found.names)]
        learned = fit_logistic(np.column_stack(columns).astype(np.float64), true[some].astype(np.float64))
        self.coefficients_, self.intercept_ = learned[1:], float(learned[0])

    def _count(self, seen: NDArray[np.int64], right: NDArray[np.int64], used: NDArray[np.bool_]) -> None:
        """Set how often names matched, and the share of right matches, drawn towards that of names as frequent."""
        size = np.log2(1 + seen).astype(np.int64)
        prior = (right[used].sum() + 1) / (seen[used].sum() + 10)
        of_size = np.bincount(size, weights=right * used) + 10 * prior
        expected = (of_size / (np.bincount(size, weights=seen * used) + 10))[size]
        self.seen_ = seen.astype(np.float32)
        self.right_ = ((right + 5 * expected) / (seen * used + 5)).astype(np.float32)

    def _name_features(self, names: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the features of names that do not depend on the text, in the order of `_FEATURES`."""
        index = self.index_
        labels = index.name_labels[names]
        right = self.right_[labels].astype(np.float64)
        total = np.add.reduceat(index.weight[index.name_words], index.name_ptr[:-1])
        return [
            np.log1p(np.diff(index.name_ptr)[names]),
            total[names],
            np.log(index.shared[names]),
            np.log(right / (1 - right)),
            np.log1p(self.seen_[labels]),
        ]

    def _name_bias(self) -> NDArray[np.float64]:
        columns = self._name_features(np.arange(self.index_.name_labels.size))
        bias: NDArray[np.float64] = np.column_stack(columns) @ self.coefficients_[_OF_MATCH:]
        return bias + self.intercept_

    def _logits(self, found: Matches) -> NDArray[np.float64]:
        logits = self.bias_[found.names]
        for column, weight in zip(found.features(), self.coefficients_.tolist(), strict=False):
            logits += column * weight
        return logits


def plain_names(label_names: Sequence[str | Sequence[str]]) -> list[tuple[int, str]]:
    """Return (label, name) pairs, each once, without qualifiers."""
    pairs: dict[tuple[int, str], None] = {}
    for label, names in enumerate(check_texts(label_names)):
        for name in names if isinstance(names, Iterable) and not isinstance(names, str) else [names]:
            if not isinstance(name, str):
                raise InputError("names of labels must be texts", given=f"{name!r} for label {label}")
            plain = _QUALIFIER.sub("", name).strip() or name.strip()
            if plain:
                pairs[label, plain] = None
    return list(pairs)


def _cells(Y: sparse.csr_array, n_labels: int) -> NDArray[np.int64]:
    """Return row * n_labels + label of each entry."""
    cells: NDArray[np.int64] = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr)) * n_labels + Y.indices
    return cells


def _sample(rows: list[str], most: int) -> list[str]:
    return rows[:: -(-len(rows) // most)]
