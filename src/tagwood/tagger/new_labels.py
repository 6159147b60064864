"""`NewLabels`: labels without training rows, found by their names and judged by calibrated probabilities.

In: texts, and the ranking of the trained labels. Out: the same ranking with new labels where their probability puts
them. What is searched is built once, when labels are added.

Decisions
---------
* What evidence is worth (`NameEvidence`) is learned by hiding a tenth of the trained labels from held-out rows and
  finding them again. Where there are few hits, the weights stay close to ones learned on two library sets. The more
  often a label is used than there, the likelier is one whose name is in a text: in short texts by more than half of
  the difference in log odds, in long ones, which mention many things, by a small part. The two numbers were found with
  8 to 80 labels and 60 to 400 rows of four sets; predicted and true numbers of labels then agree within 6 %.
* A few labels that somebody adds (2 % of the trained ones) are taken to be used twice as often as an average trained
  one, more of them as often, as long as they account for no more than a tenth of all labels of texts, or for what
  training has not seen by Good and Turing's estimate (labels seen once per row), whichever is larger. Labels that were
  in the table in training without a row share that estimate alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._lazy import sparse
from tagwood.data.vocab import LabelVocab, StringTable
from tagwood.errors import InputError
from tagwood.models.name_evidence import FEATURES, Candidates, NameEvidence, WordCounts
from tagwood.models.name_matcher import CERTAIN
from tagwood.probabilities.calibration import fit_logistic, sigmoid
from tagwood.ranking import Ranking
from tagwood.storage import State

Floats = NDArray[np.float64]
_DEFAULT = (-9.2, 2.3, 0.4, 1.0, 0.9, 1.05, -1.8, 0.3, 0.12, -0.7, 1.05, 5.0, 2.1, 2.5, -0.85)
_HIDDEN = 2000  # labels that are hidden at most, and the rows they are looked for in
_HIDDEN_ROWS = 3000
_FEWEST_HITS = 10
_DEFAULT_RATE = 4e-4  # share of the rows that a label has where the default weights were learned
_RATE_WEIGHT, _RATE_WEIGHT_PER_LOG_WORD = 0.85, -0.11
_FEWEST_LABELS = 20
_SHARE = 0.1  # of all labels of texts that new labels may account for
_WANTED = 2.0  # how much more often than trained labels the few are used that somebody adds
_FEW = 0.04  # share up to which they do
_BLOCK_CELLS = 1 << 21
_CERTAIN = float(np.log(CERTAIN / (1 - CERTAIN)))


class HeldOutRows(NamedTuple):
    """Rows that were not trained on: texts, probabilities of their labels, and true labels."""

    texts: Sequence[str]
    ranking: Ranking
    truth: sparse.csr_array


@dataclass(frozen=True, eq=False)
class NameCurve:
    """What the evidence for a label without rows is worth: words of training texts, and a weight for each feature."""

    counts: WordCounts
    weights: Floats

    @classmethod
    def default(cls, texts: Sequence[str], language: str | None = None, rate: float = 0.0) -> NameCurve | None:
        """Return the curve for Taggers without held-out rows; None for texts without words.

        `rate` is the share of the rows that an average label has.
        """
        counts = WordCounts.of(texts, language)
        if counts is None:
            return None
        weights = np.array(_DEFAULT)
        some = range(0, len(texts), max(1, len(texts) // 1000))
        words = float(np.median([len(texts[row].split()) for row in some]))
        weight = max(0.0, _RATE_WEIGHT + _RATE_WEIGHT_PER_LOG_WORD * float(np.log(max(1.0, words))))
        rate = float(np.clip(rate, _DEFAULT_RATE, 0.5))
        weights[0] += weight * (np.log(rate / (1 - rate)) - np.log(_DEFAULT_RATE / (1 - _DEFAULT_RATE)))
        return cls(counts, weights)

    @classmethod
    def fit(
        cls,
        texts: Sequence[str],
        names: Sequence[Sequence[str]],
        usage: NDArray[np.int64],
        language: str | None,
        held: HeldOutRows | None,
    ) -> NameCurve | None:
        """Hide a tenth of the trained labels from held-out rows and learn to find them again by their names.

        Parameters
        ----------
        texts
            Training texts.
        names
            All names of each label.
        usage
            Number of rows of each label.
        language
            Whose endings are removed from words.
        held
            Rows to learn from; None gives the default.
        """
        trained = np.flatnonzero(usage)
        rate = float(usage.sum()) / max(1, len(texts)) / max(1, trained.size)
        default = cls.default(texts, language, rate)
        if default is None or held is None or trained.size < _FEWEST_LABELS:
            return default
        drawn = np.random.default_rng(0).permutation(trained)
        hidden = np.sort(drawn[: min(_HIDDEN, trained.size // 10)])
        visible = np.setdiff1d(trained, hidden)
        known = (visible, [" ".join(names[label]) for label in visible], held.ranking.n_labels)
        own = [names[label] for label in hidden]
        evidence = NameEvidence.build(own, [""] * hidden.size, default.counts, known)
        if evidence is None:
            return default
        rows = np.arange(min(_HIDDEN_ROWS, len(held.texts)))
        ranking = held.ranking.rows(rows)
        ranking = ranking.keep(~np.isin(ranking.labels, hidden))
        found = _in_blocks(evidence, list(held.texts[: rows.size]), ranking)
        truth = held.truth[rows]
        true = np.repeat(rows, np.diff(truth.indptr)) * np.int64(truth.shape[1]) + truth.indices
        right = np.isin(found.rows * np.int64(truth.shape[1]) + hidden[found.place], true)
        if right.sum() < _FEWEST_HITS:
            return default
        return replace(default, weights=fit_logistic(found.features, right.astype(np.float64), prior=default.weights))

    def state(self) -> State:
        """Return the stored form."""
        return State("NameCurve", arrays={"weights": self.weights}, parts={"counts": self.counts.state()})

    @classmethod
    def from_state(cls, state: State) -> NameCurve:
        """Rebuild from the stored form."""
        weights = state.array("weights", np.float64, (len(FEATURES),))
        if not np.isfinite(weights).all():
            raise InputError("the weights of stored new labels must be finite", given="others")
        return cls(WordCounts.from_state(state.part("counts")), weights)


class Usage(NamedTuple):
    """How a model's labels were used in training: rows of each label, number of rows, number of labels of the model."""

    counts: NDArray[np.int64]
    n_rows: int
    n_known: int

    def shifts(self, labels: NDArray[np.int32]) -> Floats:
        """Return what to add to the log odds of new labels, because they are used more or less than trained ones."""
        counts, n_rows = self.counts[: self.n_known], max(1, self.n_rows)
        per_row = max(counts.sum(), 1) / n_rows
        of_one = per_row / max(1, int((counts > 0).sum()))  # labels per row of an average trained label
        unseen = max(int((counts == 1).sum()), 0.5) / n_rows
        in_table = labels < self.n_known
        n_in_table, n_added = int(in_table.sum()), int((~in_table).sum())
        low = min(1.0, unseen / max(n_in_table * of_one, 1e-9))
        mass = max(n_added * of_one, 1e-9)
        high = max(min(1.0, max(unseen, _SHARE * per_row) / mass), min(_WANTED, _FEW * per_row / mass))
        return np.asarray(np.where(in_table, np.log(low), np.log(high)))


class Reason(NamedTuple):
    """Why a new label fits a text: log odds without and with evidence, words of its names, suggested similar labels."""

    base: float
    log_odds: float
    words: list[str]
    similar: list[int]


@dataclass(frozen=True, eq=False)
class NewLabels:
    """The labels without training rows that are switched on; see the module.

    Parameters
    ----------
    curve
        What evidence is worth.
    labels
        Their ids, rising.
    texts
        A description of each; empty where there is none.
    shifts
        Added to the log odds of each.
    evidence
        What finds them; None where there are no labels with a name.
    on
        Which of them are not masked.
    """

    curve: NameCurve
    labels: NDArray[np.int32]
    texts: StringTable
    shifts: Floats
    evidence: NameEvidence | None
    on: NDArray[np.bool_]

    @classmethod
    def build(
        cls, curve: NameCurve, labels: Iterable[int], texts: Mapping[int, str], vocab: LabelVocab, usage: Usage
    ) -> NewLabels:
        """Index labels by their names in a label table and their descriptions."""
        ids = np.array(sorted(labels), dtype=np.int32)
        described = StringTable.from_strings(texts.get(label, "") for label in ids.tolist())
        evidence = None
        if ids.size:
            names = vocab.label_names()
            trained = np.flatnonzero(usage.counts[: usage.n_known])
            known = (trained, [" ".join(names[label]) for label in trained], usage.n_known)
            evidence = NameEvidence.build([names[label] for label in ids], list(described), curve.counts, known)
        return cls(curve, ids, described, usage.shifts(ids), evidence, ~vocab.removed_mask()[ids])

    def only(self, labels: Iterable[int], vocab: LabelVocab, usage: Usage) -> NewLabels:
        """Return some of these labels, with those masked that a table masks; much faster than `build`."""
        ids = np.array(sorted(labels), dtype=np.int32)
        kept = np.searchsorted(self.labels, ids)
        texts, on = self.texts, ~vocab.removed_mask()[ids]
        if kept.size < len(texts):
            texts = StringTable.from_strings(texts[place] for place in kept.tolist())
        evidence = None if self.evidence is None else self.evidence.only(kept, usage.n_known)
        return replace(self, labels=ids, texts=texts, shifts=usage.shifts(ids), evidence=evidence, on=on)

    def descriptions(self) -> dict[int, str]:
        """Return the descriptions by label id."""
        return {label: text for label, text in zip(self.labels.tolist(), self.texts, strict=True) if text}

    def join(self, ranking: Ranking, texts: list[str], k: int, allowed: NDArray[np.bool_] | None) -> Ranking:
        """Return the best `k` labels of each text among those of a ranking and the new ones.

        Parameters
        ----------
        ranking
            Of trained labels, as many of each text as are known.
        texts
            One per row.
        k
            Labels per row.
        allowed
            (n_labels,) which labels may be returned; None for all that are not masked.
        """
        if self.evidence is None:
            return ranking.top(k)
        found = _in_blocks(self.evidence, texts, ranking)
        labels, scores = self.labels[found.place], np.empty(0, dtype=np.float32)
        if labels.size:
            scores = sigmoid(self._logits(found)).astype(np.float32)
            if allowed is not None or not self._all_on:
                scores[~self.on[found.place] if allowed is None else ~(self.on[found.place] & allowed[labels])] = 0
        # A model may find some of them by itself, as PRIME does; its own score stays.
        present = (ranking.indptr, ranking.labels, ranking.scores)
        joined = _kernels.join_rankings(*present, found.indptr, labels, scores, k)
        return Ranking.from_trusted(*joined, ranking.n_labels)

    def explain(self, text: str, label: int, ranking: Ranking) -> Reason:
        """Return why a label fits a text, given the ranking of trained labels of the text."""
        place = int(np.searchsorted(self.labels, label))
        base = float(self.curve.weights[0] + self.curve.weights[1] + self.shifts[place])
        if self.evidence is None:
            return Reason(base, base, [], [])
        found = self.evidence.candidates([text], ranking)
        at = np.flatnonzero(found.place == place)
        similar = self.evidence.similar_labels(place, ranking)
        if at.size == 0:
            return Reason(base, base, [], similar)
        words = self.evidence.matched_words(text, place)
        return Reason(base, float(self._logits(found)[at[0]]), words, similar)

    def _logits(self, found: Candidates) -> Floats:
        logits: Floats = found.features @ self.curve.weights + self.shifts[found.place]
        if found.certain.any():
            logits[found.certain] = np.maximum(logits[found.certain], _CERTAIN)
        return logits

    @cached_property
    def _all_on(self) -> bool:
        return bool(self.on.all())

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = {"blob": self.texts.blob, "offsets": self.texts.offsets}
        arrays |= {"labels": self.labels, "shifts": self.shifts}
        parts = {"curve": self.curve.state()}
        if self.evidence is not None:
            parts["evidence"] = self.evidence.state()
        return State("NewLabels", arrays=arrays, parts=parts)

    @classmethod
    def from_state(cls, state: State, vocab: LabelVocab, n_known: int) -> NewLabels:
        """Rebuild from the stored form, the label table, and the number of labels of the model."""
        labels = state.array("labels", np.int32, (None,))
        if labels.size and (labels[0] < 0 or labels[-1] >= len(vocab) or np.any(np.diff(labels) <= 0)):
            raise InputError("stored new labels must be labels of the table, in order", given="others")
        shifts = state.array("shifts", np.float64, labels.shape)
        offsets = state.array("offsets", np.int64, (labels.size + 1,))
        texts = StringTable(state.array("blob", np.uint8, (None,)), offsets)
        evidence = None
        if "evidence" in state.parts:
            evidence = NameEvidence.from_state(state.part("evidence"), labels.size, n_known)
        curve = NameCurve.from_state(state.part("curve"))
        return cls(curve, labels, texts, shifts, evidence, ~vocab.removed_mask()[labels])


def _in_blocks(evidence: NameEvidence, texts: list[str], ranking: Ranking) -> Candidates:
    """Return the candidates of all rows, found for so many rows at a time that all pairs of row and label fit."""
    size = max(1, _BLOCK_CELLS // max(1, evidence.n))
    if len(texts) <= size:
        return evidence.candidates(texts, ranking)
    parts = []
    for begin in range(0, len(texts), size):
        rows = np.arange(begin, min(begin + size, len(texts)))
        parts.append(evidence.candidates(texts[begin : begin + size], ranking.rows(rows)))
    sizes = np.concatenate([np.diff(part.indptr) for part in parts])
    columns = [np.concatenate(column) for column in list(zip(*parts, strict=True))[1:]]
    return Candidates(np.concatenate([[0], np.cumsum(sizes)]), *columns)
