"""`Probabilities`: calibrated scores and set rules, learned from rows that the model did not see.

In: the model's rankings of held-out rows and their true labels. Out: rankings of probabilities, label sets.

Decisions: one half of the held-out rows fits the calibration, the other half the rules, so that a promise rests on
rows that nothing else was fitted to. Both halves stay with the model: any promise can be asked for later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._sparse import check_labels
from tagwood.models.calibration import Calibrator
from tagwood.models.set_rules import SetRule, fit_set_rule
from tagwood.ranking import Ranking
from tagwood.storage import State


@dataclass
class Probabilities:
    """A calibrator with the held-out rows that set rules are fitted on."""

    calibrator: Calibrator
    held_out: Ranking
    truth: sparse.csr_array
    rules: dict[str, SetRule] = field(default_factory=dict)

    @classmethod
    def fit(cls, ranking: Ranking, Y: sparse.csr_array) -> Probabilities:
        """Learn from the rankings of held-out rows and their true labels."""
        rows = np.arange(ranking.n_rows)
        first, second = rows[::2], rows[1::2]
        calibrator = Calibrator().fit(ranking.rows(first), Y[first])
        return cls(calibrator, calibrator.transform(ranking.rows(second)), check_labels(Y[second]))

    def transform(self, ranking: Ranking) -> Ranking:
        """Return the ranking with probabilities for scores."""
        return self.calibrator.transform(ranking)

    def rule(self, promise: str) -> SetRule:
        """Return the rule that keeps a promise such as ``"precision>=0.9"``; fitted once and remembered."""
        if promise not in self.rules:
            self.rules[promise] = fit_set_rule(promise, self.held_out, self.truth)
        return self.rules[promise]

    def cut(self, ranking: Ranking, promise: str) -> tuple[Ranking, NDArray[np.bool_]]:
        """Cut a ranking of probabilities to label sets; also return which rows need a person's eye."""
        return self.rule(promise).apply(ranking)

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = {
            "indptr": self.held_out.indptr,
            "labels": self.held_out.labels,
            "scores": self.held_out.scores,
            "truth_indptr": self.truth.indptr.astype(np.int64),
            "truth_labels": self.truth.indices.astype(np.int32),
        }
        params = {"n_labels": self.held_out.n_labels}
        return State(
            "Probabilities", params=params, arrays=arrays, parts={"calibrator": self.calibrator.state()}
        )

    @classmethod
    def from_state(cls, state: State) -> Probabilities:
        """Rebuild from the stored form."""
        n_labels = state.param("n_labels", int)
        indptr = state.array("indptr", np.int64, (None,))
        labels = state.array("labels", np.int32, (None,))
        scores = state.array("scores", np.float32, (labels.size,))
        ends = state.array("truth_indptr", np.int64, (indptr.size,))
        true = state.array("truth_labels", np.int32, (None,))
        ones = np.ones(true.size, dtype=np.float32)
        truth = check_labels(sparse.csr_array((ones, true, ends), shape=(indptr.size - 1, n_labels)))
        calibrator = Calibrator.from_state(state.part("calibrator"))
        return cls(calibrator, Ranking(indptr, labels, scores, n_labels), truth)
