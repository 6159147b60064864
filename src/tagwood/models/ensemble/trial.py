"""Held-out rows of an `Ensemble`: which members and which fusion are used, and what each member brings.

In: candidates of held-out rows and which are right. Out: the chosen members, the fitted fusion, a report.

Decisions
---------
* Kinds of fusion and sets of members are compared by nDCG@5 of the same rows, each row ranked by a fusion that was
  fitted on other rows.
* A member, other than the first, is left out only if held-out rows are ranked better without it by at least a standard
  error of the difference: a smaller loss is chance, and members that help a little on these rows help on others. One
  that changes nothing is left out, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood.models.ensemble.budget import Costs
from tagwood.models.ensemble.fusion import (
    NEVER,
    PER_MEMBER,
    Boosted,
    Candidates,
    Fusion,
    Logistic,
    is_found,
    select_members,
)
from tagwood.ranking import Ranking

Floats = NDArray[np.float64]
KEPT = 50  # labels per held-out row that are kept
_ROWS = 2000  # held-out rows that choices are made on
_TREES = 50  # boosted trees while choosing


class MemberReport(NamedTuple):
    """What a member brings, in nDCG@5 on held-out rows.

    alone
        Of the member's own ranking.
    lost
        What all members together lose without it.
    used
        Whether it is part of the ensemble.
    seconds
        CPU time of its training, all rounds together.
    error
        Standard error of `lost`.
    reason
        Why it is not used: the limit (``"time"``, ``"size"``, ``"latency"``) that it would exceed; "" if it hurts.
    """

    name: str
    alone: float
    lost: float
    used: bool
    seconds: float
    error: float = 0.0
    reason: str = ""


class Trial(NamedTuple):
    """Candidates of held-out rows, their features, which are right, and the number of true labels of each row."""

    candidates: Candidates
    features: NDArray[np.float32]
    right: NDArray[np.bool_]
    n_true: NDArray[np.int64]

    @classmethod
    def join(cls, trials: Sequence[Trial]) -> Trial:
        """Return the rows of several trials, one after the other."""
        if len(trials) == 1:
            return trials[0]
        sizes = np.concatenate([np.diff(trial.candidates.indptr) for trial in trials])
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        label = np.concatenate([trial.candidates.label for trial in trials])
        return cls(
            Candidates(indptr, label, trials[0].candidates.n_labels),
            np.concatenate([trial.features for trial in trials]),
            np.concatenate([trial.right for trial in trials]),
            np.concatenate([trial.n_true for trial in trials]),
        )

    def rows(self, n_rows: int) -> Trial:
        """Return the first rows."""
        cells = self.candidates.rows(n_rows)
        n = cells.label.size
        return Trial(cells, self.features[:n], self.right[:n], self.n_true[:n_rows])

    def ndcg(self, scores: NDArray[Any], k: int = 5) -> Floats:
        """Return nDCG@k of each row for given scores of the candidates."""
        row = self.candidates.row
        order = np.lexsort((self.candidates.label, -scores, row))
        place = np.arange(row.size) - np.searchsorted(row, row)
        gain = np.where(place < k, self.right[order] / np.log2(place + 2.0), 0.0)
        best = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(k) + 2.0))])
        sums = np.bincount(row, weights=gain, minlength=self.n_true.size)
        found: Floats = sums / np.maximum(best[np.minimum(self.n_true, k)], 1e-9)
        return found

    def cross_fit(self, kind: str, used: Sequence[int], n_trees: int = _TREES) -> Floats:
        """Return the log odds of all candidates, each from a fusion fitted on the other half of the rows.

        What no member in use found is no candidate: that it is in the trial tells that another member found it.
        """
        features = select_members(self.features, used)
        half = np.random.default_rng(0).permutation(self.n_true.size) % 2 == 1
        found, second = is_found(features), half[self.candidates.row]
        logits = np.full(second.size, NEVER)
        for part, other in ((found & second, found & ~second), (found & ~second, found & second)):
            fusion = fit_fusion(kind, features[other], self.right[other], n_trees)
            logits[part] = fusion.logits(features[part], 1)
        return logits


class Chosen(NamedTuple):
    """The members in use, the fitted fusion, probabilities of the held-out rows, and what each member brings."""

    used: list[int]
    fusion: Fusion
    ranking: Ranking
    report: list[MemberReport]


def choose_members(
    trial: Trial,
    names: Sequence[str],
    kinds: Sequence[str],
    *,
    prune: bool,
    n_trees: int,
    costs: Costs | None = None,
) -> Chosen:
    """Choose members and fusion on held-out rows, and fit the fusion.

    Parameters
    ----------
    trial
        The held-out rows.
    names
        Name of each member.
    kinds
        Kinds of fusion to choose from: ``"boosted"``, ``"logistic"`` or both.
    prune
        Whether members may be left out.
    n_trees
        Boosted trees of the fusion.
    costs
        Of the members, and limits: while these are exceeded, the member that brings least for its cost is left out.
    """
    small = trial.rows(min(_ROWS, trial.n_true.size))
    used = list(range(len(names)))
    kind, whole = _choose_kind(small, used, kinds)
    lost, error, reasons = np.zeros(len(names)), np.zeros(len(names)), dict.fromkeys(range(len(names)), "")
    while len(used) > 1:
        without = {}
        for place in used:
            without[place] = small.ndcg(small.cross_fit(kind, [other for other in used if other != place]))
            lost[place], error[place] = _mean_and_error(whole - without[place])
        over = "" if costs is None else costs.exceeded(used)
        worst = min(used[1:], key=_value(lost, error, over, costs))
        if not over and (not prune or lost[worst] + error[worst] > 0):
            break
        used.remove(worst)
        reasons[worst] = over
        whole = without[worst]
    if len(used) == 1:
        lost[used[0]] = whole.mean()
    alone = [
        small.ndcg(np.nan_to_num(small.features[:, PER_MEMBER * place], nan=-np.inf)).mean()
        for place in range(len(names))
    ]
    report = [
        MemberReport(name, float(alone[i]), float(lost[i]), i in used, 0.0, float(error[i]), reasons[i])
        for i, name in enumerate(names)
    ]
    features = select_members(trial.features, used)
    found = is_found(features)
    fusion = fit_fusion(kind, features[found], trial.right[found], n_trees)
    ranking = trial.candidates.ranking(sigmoid(trial.cross_fit(kind, used, n_trees)), KEPT)
    return Chosen(used, fusion, ranking, report)


def _value(lost: Floats, error: Floats, over: str, costs: Costs | None) -> Callable[[int], float]:
    """Return what a member is worth: what is lost without it, for each unit of the limit that is exceeded."""
    if costs is None or not over:
        return lambda place: float(lost[place] + error[place])
    return lambda place: float(lost[place] / costs.of(over, place))


def _choose_kind(trial: Trial, used: Sequence[int], kinds: Sequence[str]) -> tuple[str, Floats]:
    """Return the kind of fusion, and nDCG@5 of each row with it; trees must win by more than a standard error."""
    gains = {kind: trial.ndcg(trial.cross_fit(kind, used)) for kind in kinds}
    if len(gains) == 1:
        return kinds[0], gains[kinds[0]]
    mean, error = _mean_and_error(gains["boosted"] - gains["logistic"])
    kind = "boosted" if mean > error else "logistic"
    return kind, gains[kind]


def _mean_and_error(differences: Floats) -> tuple[float, float]:
    return float(differences.mean()), float(differences.std() / np.sqrt(max(1, differences.size)))


def fit_fusion(kind: str, features: NDArray[np.float32], right: NDArray[np.bool_], n_trees: int) -> Fusion:
    """Fit a fusion; trees need candidates of both kinds, right and wrong ones."""
    if kind == "boosted" and 0 < right.sum() < right.size:
        return Boosted.fit(features, right, n_trees)
    return Logistic.fit(features, right)


def sigmoid(logits: Floats) -> Floats:
    """Return the probabilities of log odds."""
    found: Floats = 1 / (1 + np.exp(-logits))
    return found
