"""What a text says about labels of which only names are known: `NameEvidence`.

In: names of labels, words of training texts, names of trained labels; then texts and the trained labels that a model
suggests for them. Out: `Candidates`, the labels with some evidence, and `FEATURES` of each.

Decisions
---------
* Evidence is threefold: names in the text (see `NameIndex`); words that the text shares with names or description; and
  trained labels of similar names that the model suggests. Names are similar by the letters they share, four in a row:
  "Photovoltaik" and "photovoltaics" have most of them in common, and so have compounds and their parts.
* All of it is found by adding up lists that are made once, when labels are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._lazy import sparse
from tagwood.errors import InputError
from tagwood.features.words import FIRST, WordSequences
from tagwood.models.name_index import LONGEST, NameIndex, stems_of, texts_with, words_of_names
from tagwood.models.name_matcher import plain_names
from tagwood.ranking import Ranking
from tagwood.storage import State

Floats = NDArray[np.float64]
FEATURES = (
    "intercept",
    "absent",  # no name is in the text
    "coverage",
    "whole",
    "phrase",
    "count",
    "first",
    "words",
    "weight",
    "shared",
    "coverage squared",
    "cosine",
    "related",
    "related, name absent",
    "best",  # probability of the text's best trained label
)
_COVERAGE = 0.4  # share of a name's weight that must be in a text
_COUNTED = 3000  # training texts that words are counted in
_SIMILAR = 0.15  # cosine of letters from which names are similar
_MOST_SIMILAR = 30  # trained labels per new one
_RELATED = 0.05  # evidence from similar names that makes a label a candidate by itself
_ALIKE = 0.15  # cosine of words that does
_GRAM_BITS = 20
_BLOCK = 500  # new names that are compared at once
_FREQUENT_GRAM = 2000  # names; letters that more of them have tell little


class WordCounts(NamedTuple):
    """In how many of some training texts each word occurs, and the language whose endings are removed."""

    words: WordSequences
    counts: NDArray[np.int64]
    n_texts: int
    language: str | None

    @classmethod
    def of(cls, texts: Sequence[str], language: str | None) -> WordCounts | None:
        """Count the words of an even sample of texts; None where they have none."""
        some = list(texts[:: max(1, -(-len(texts) // _COUNTED))])
        try:
            words = WordSequences.learn(some, min(2, len(some)))
        except InputError:
            return None
        return cls(words, texts_with(words, some, 1), len(some), language)

    def for_names(self, names: list[str]) -> tuple[WordSequences, NDArray[np.int64]] | None:
        """Return the words of names and their other forms in texts, with their counts; None for names without words."""
        spelled = words_of_names(names, self.language)
        if not spelled:
            return None
        stems = set(stems_of(spelled, self.language))
        known = self.words.words()
        forms = [w for w, stem in zip(known, stems_of(known, self.language), strict=True) if stem in stems]
        words = WordSequences.learn([*spelled, *forms])
        counts = dict(zip(known, self.counts.tolist(), strict=True))
        return words, np.array([counts.get(word, 0) for word in words.words()], dtype=np.int64)

    def state(self) -> State:
        """Return the stored form."""
        params = {"n_texts": self.n_texts, "language": self.language}
        return State("WordCounts", params=params, arrays={"counts": self.counts}, parts={"words": self.words.state()})

    @classmethod
    def from_state(cls, state: State) -> WordCounts:
        """Rebuild from the stored form."""
        words = WordSequences.from_state(state.part("words"))
        counts = state.array("counts", np.int64, (words.n_words - FIRST,))
        language = state.params.get("language")
        return cls(words, counts, state.param("n_texts", int), None if language is None else str(language))


class Postings(NamedTuple):
    """A sparse matrix by rows: the columns and values of row i are at ``ptr[i]:ptr[i + 1]``."""

    ptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]

    @classmethod
    def of(cls, matrix: sparse.csr_array) -> Postings:
        """Take the arrays of a SciPy matrix."""
        ptr = matrix.indptr.astype(np.int64)
        return cls(ptr, matrix.indices.astype(np.int32), matrix.data.astype(np.float32))

    def renumbered(self, places: NDArray[np.int64], n_rows: int) -> Postings:
        """Return `n_rows` rows, the last ones empty, with column i as ``places[i]``; those at -1 are left out."""
        to = places[self.columns]
        ptr = np.concatenate([[0], np.cumsum(to >= 0)])[self.ptr]
        ptr = np.pad(ptr, (0, n_rows + 1 - ptr.size), mode="edge")
        return Postings(ptr, to[to >= 0].astype(np.int32), self.values[to >= 0])

    def checked(self, n_rows: int, n_columns: int) -> Postings:
        """Return the matrix, or raise `InputError` if its arrays do not fit together."""
        fits = (
            self.ptr.size == n_rows + 1
            and self.ptr[0] == 0
            and self.ptr[-1] == self.columns.size == self.values.size
            and bool(np.all(np.diff(self.ptr) >= 0))
            and (self.columns.size == 0 or (self.columns.min() >= 0 and self.columns.max() < n_columns))
            and bool(np.isfinite(self.values).all())
        )
        if not fits:
            raise InputError("the arrays of stored new labels must fit together", given="others")
        return self


class Candidates(NamedTuple):
    """New labels that may fit texts: borders of texts, then place, features and whether the text is just the name."""

    indptr: NDArray[np.int64]
    place: NDArray[np.int32]
    features: Floats
    certain: NDArray[np.bool_]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Text of each label."""
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))


@dataclass(frozen=True, eq=False)
class NameEvidence:
    """What is known about labels by their names alone: an index of the names, their words, and similar trained labels.

    Labels have places from 0 to ``n - 1`` here.
    """

    n: int
    index: NameIndex
    bags: Postings  # stem -> labels with it in a name or the description
    related: Postings  # trained label -> labels with similar names

    @classmethod
    def build(
        cls,
        names: Sequence[Sequence[str]],
        texts: Sequence[str],
        counts: WordCounts,
        trained: tuple[NDArray[np.int64], Sequence[str], int],
    ) -> NameEvidence | None:
        """Index labels.

        Parameters
        ----------
        names, texts
            All names of each label, and a text that describes it, which may be empty.
        counts
            Words of training texts.
        trained
            Ids of the trained labels, all names of each as one text, and the number of labels of the model.
        """
        described = [[*own, text] if text.strip() else list(own) for own, text in zip(names, texts, strict=True)]
        pairs = plain_names(described)
        words = counts.for_names([name for _, name in pairs])
        if words is None or not pairs:
            return None
        index = NameIndex.build(words[0], counts.language, words[1], counts.n_texts, pairs, _COVERAGE)
        ids, spelled, n_known = trained
        return cls(
            len(names),
            index,
            Postings.of(_bags(index, len(names))),
            Postings.of(_similar_names([" ".join(own) for own in names], spelled, ids, n_known)),
        )

    def only(self, kept: NDArray[np.int64], n_known: int) -> NameEvidence | None:
        """Return what is known about the labels at some places, in rising order, beside a model of `n_known` labels.

        Labels that the model learned since are not compared with them; only a training or new names do that.
        """
        if kept.size == self.n and n_known == self.related.ptr.size - 1:
            return self
        places = np.full(self.n, -1, dtype=np.int64)
        places[kept] = np.arange(kept.size)
        index = self.index.renumbered(places)
        if index.name_labels.size == 0:
            return None
        bags = self.bags.renumbered(places, index.weight.size)
        return NameEvidence(kept.size, index, bags, self.related.renumbered(places, n_known))

    def candidates(self, texts: list[str], ranking: Ranking) -> Candidates:
        """Return the labels with some evidence, given the trained labels that the model suggests."""
        index = self.index
        arrays = (index.name_ptr, index.name_words, index.weight, index.word_ptr, index.by_word)
        indptr, places, features, certain = _kernels.find_evidence(
            arrays,
            index.min_coverage,
            index.name_labels,
            index.shared,
            self.n,
            self.bags,
            self.related,
            (_ALIKE, _RELATED),
            *index.read(texts, 1),
            (ranking.indptr, ranking.labels, ranking.scores),
        )
        return Candidates(indptr, places, features.reshape(-1, len(FEATURES)), certain.view(np.bool_))

    def matched_words(self, text: str, place: int) -> list[str]:
        """Return the words of a text that a label's names or description have, in the order of the text."""
        index = self.index
        _, ids = index.words.rows([text], LONGEST)
        stems = index.stem_of[ids]
        rows = np.repeat(np.arange(index.weight.size), np.diff(self.bags.ptr))
        known = np.isin(stems, rows[self.bags.columns == place])
        words = index.words.words()
        return [words[i - FIRST] for i in dict.fromkeys(ids[known].tolist())]

    def similar_labels(self, place: int, ranking: Ranking, n: int = 3) -> list[int]:
        """Return the suggested labels of one row whose names are most similar to that of a label here."""
        gain = []
        for label, score in ranking[0]:
            own = slice(self.related.ptr[label], self.related.ptr[label + 1])
            value = self.related.values[own][self.related.columns[own] == place].sum() * np.sqrt(score)
            gain.append((float(value), label))
        return [label for value, label in sorted(gain, reverse=True)[:n] if value > 0]

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = {}
        for name in ("bags", "related"):
            arrays |= {f"{name}_{part}": array for part, array in getattr(self, name)._asdict().items()}
        return State("NameEvidence", arrays=arrays, parts={"index": self.index.state()})

    @classmethod
    def from_state(cls, state: State, n: int, n_known: int) -> NameEvidence:
        """Rebuild from the stored form, for `n` labels beside a model of `n_known` labels."""
        index = NameIndex.from_state(state.part("index"), n)

        def postings(name: str, n_rows: int) -> Postings:
            ptr = state.array(f"{name}_ptr", np.int64, (n_rows + 1,))
            columns = state.array(f"{name}_columns", np.int32, (None,))
            return Postings(ptr, columns, state.array(f"{name}_values", np.float32, (None,))).checked(n_rows, n)

        return cls(n, index, postings("bags", index.weight.size), postings("related", n_known))


def _bags(index: NameIndex, n_labels: int) -> sparse.csr_array:
    """Return (n_stems, n_labels) weights of the words of each label's names, of length 1."""
    labels = np.repeat(index.name_labels, np.diff(index.name_ptr))
    ones = np.ones(labels.size, dtype=np.float32)
    cells = (ones, (index.name_words, labels))
    bags = sparse.csr_array(sparse.coo_array(cells, shape=(index.weight.size, n_labels)))
    bags.sum_duplicates()
    bags.data = np.repeat(index.weight, np.diff(bags.indptr))
    lengths = np.sqrt(np.bincount(bags.indices, bags.data.astype(np.float64) ** 2, minlength=n_labels))
    bags.data = (bags.data / np.maximum(lengths, 1e-9)[bags.indices]).astype(np.float32)
    return bags


def _similar_names(
    new: Sequence[str], trained: Sequence[str], ids: NDArray[np.int64], n_known: int
) -> sparse.csr_array:
    """Return (n_known, n_new) squared cosines of the letters of names, by groups of four, the largest of each name."""
    own, others = _letters(new), _letters(trained)
    frequency = np.bincount(others.indices, minlength=1 << _GRAM_BITS)
    telling = np.log((1 + len(trained)) / (1 + frequency)).astype(np.float32)
    for matrix in (own, others):
        matrix.data *= telling[matrix.indices]
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        lengths = np.sqrt(np.bincount(rows, matrix.data.astype(np.float64) ** 2, minlength=matrix.shape[0]))
        matrix.data /= np.maximum(lengths, 1e-9)[rows].astype(np.float32)
    others.data[frequency[others.indices] > _FREQUENT_GRAM] = 0
    others.eliminate_zeros()
    by_gram = sparse.csr_array(others.T)
    blocks = [_similar_pairs(own[begin : begin + _BLOCK] @ by_gram) for begin in range(0, len(new), _BLOCK)]
    row = np.concatenate([block[0] + _BLOCK * number for number, block in enumerate(blocks)])
    column, cosine = (np.concatenate(part) for part in list(zip(*blocks, strict=True))[1:])
    return sparse.csr_array(sparse.coo_array((cosine**2, (ids[column], row)), shape=(n_known, len(new))))


def _similar_pairs(cosines: sparse.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Return rows, columns and values of the largest cosines of each row, of those that are large enough."""
    large = np.flatnonzero(cosines.data >= _SIMILAR)
    row = np.searchsorted(cosines.indptr, large, side="right") - 1
    column, value = cosines.indices[large], cosines.data[large]
    order = np.lexsort((column, -value, row))
    order = order[np.arange(order.size) - np.searchsorted(row, row) < _MOST_SIMILAR]
    return row[order], column[order], value[order]


def _letters(texts: Sequence[str]) -> sparse.csr_array:
    """Return hashed counts of each four letters in a row, without case; a name begins and ends with a space."""
    joined = "\n".join(f" {' '.join(text.split())} " for text in texts).lower().encode(errors="replace")
    data = np.frombuffer(joined + b"\n\n\n", dtype=np.uint8).astype(np.uint32)
    parts = [data[step : data.size - 3 + step] for step in range(4)]
    inside = np.all([part != 10 for part in parts], axis=0)
    grams = (parts[0] << 24 | parts[1] << 16 | parts[2] << 8 | parts[3])[inside]
    hashed = (grams * np.uint32(0x9E3779B1)) >> np.uint32(32 - _GRAM_BITS)
    rows = np.cumsum(data == 10)[: inside.size][inside]
    shape = (len(texts), 1 << _GRAM_BITS)
    cells = (np.ones(hashed.size, dtype=np.float32), (rows, hashed.astype(np.int64)))
    found = sparse.csr_array(sparse.coo_array(cells, shape=shape))
    found.sum_duplicates()
    found.data = np.log1p(found.data)
    return found
