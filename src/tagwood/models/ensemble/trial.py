"""Held-out rows of an `Ensemble`: which members and which fusion are used, and what each member brings.

In: candidates of held-out rows and which are right. Out: the chosen members, the fitted fusion, what labels tell of
each other, a report.

Decisions
---------
* Kinds of fusion and sets of members are compared by nDCG@5 of the same rows, each row ranked by a fusion that was
  fitted on other rows.
* A member, other than the first, is left out only if held-out rows are ranked better without it by at least a standard
  error of the difference: a smaller loss is chance, and members that help a little on these rows help on others. One
  that changes nothing is left out, too.
* What labels tell of each other is used if the micro-F1 of sets by one threshold, learned and judged on different rows,
  grows by more than a standard error, and nDCG@5 does not fall.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood.models.ensemble.budget import Costs
from tagwood.models.ensemble.fusion import (
    FOUND_THINNING,
    NEVER,
    PER_MEMBER,
    Boosted,
    Candidates,
    Fusion,
    Logistic,
    is_found,
    select_members,
)
from tagwood.models.ensemble.together import LabelPairs, LabelsTogether, Told, fit_trees, tell
from tagwood.probabilities.sets import best_f1, f1_gain

Floats = NDArray[np.float64]
KEPT = 50  # labels per held-out row that are kept
_ROWS = 2000  # held-out rows that choices are made on
_TREES = 50  # boosted trees while choosing
_FOLDS = 3  # of held-out rows, to judge what labels tell of each other
TOGETHER = "labels together"


class MemberReport(NamedTuple):
    """What a member brings, in nDCG@5 on held-out rows; the last one is what labels tell of each other (`TOGETHER`).

    alone
        Of the member's own ranking; of the ranking of all, for what labels tell of each other.
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
    """Candidates of held-out rows, their features, which are right, and the number of true labels of each row.

    `pairs` are, for one block of rows after the other, the number of rows and the pairs of labels in the rows that the
    members know; empty where these are not known.
    """

    candidates: Candidates
    features: NDArray[np.float32]
    right: NDArray[np.bool_]
    n_true: NDArray[np.int64]
    pairs: tuple[tuple[int, LabelPairs], ...] = ()

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
            tuple(pair for trial in trials for pair in trial.pairs),
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
    """The members in use, the fitted fusion, log odds of the held-out candidates, and what each member brings."""

    used: list[int]
    fusion: Fusion
    logits: Floats
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
            lost[place], error[place] = mean_and_error(whole - without[place])
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
    return Chosen(used, fusion, trial.cross_fit(kind, used, n_trees), report)


class Learned(NamedTuple):
    """The second stage, or None where it does not help; log odds of all candidates with it; and what it brings."""

    together: LabelsTogether | None
    logits: Floats
    report: MemberReport


def learn_together(trial: Trial, used: Sequence[int], logits: Floats) -> Learned:
    """Learn the second stage from held-out rows, if these are better with it.

    Neither nDCG@5 nor the micro-F1 of sets may fall, and one of them must grow by more than a standard error.

    Parameters
    ----------
    trial
        The held-out rows, with the pairs of the rows that members were fitted on.
    used
        The members in use.
    logits
        Log odds of all candidates, each from a fusion that has not seen the row.
    """
    start = process_time()
    told = _tell_each(trial, select_members(trial.features, used), logits)
    right, row = trial.right[told.entries], trial.candidates.row[told.entries]
    fold = np.random.default_rng(1).permutation(trial.n_true.size)[row] % _FOLDS
    changed = logits.copy()
    for part in range(_FOLDS):
        others = right[fold != part]
        if others.all() or not others.any():
            return Learned(None, logits, MemberReport(TOGETHER, 0.0, 0.0, False, process_time() - start))
        trees = fit_trees(told.features[fold != part], others)
        changed[told.entries[fold == part]] = trees.logits(told.features[fold == part])
    with_it, without = trial.ndcg(changed), trial.ndcg(logits)
    gain, error = mean_and_error(with_it - without)
    more, chance = _set_gain(trial, logits, changed)
    better = (gain > error or more > chance) and min(gain, more) >= 0
    together = LabelsTogether(trial.pairs[-1][1], fit_trees(told.features, right)) if better else None
    report = MemberReport(TOGETHER, float(with_it.mean()), gain, better, process_time() - start, error)
    return Learned(together, changed if better else logits, report)


def _tell_each(trial: Trial, features: NDArray[np.float32], logits: Floats) -> Told:
    """Return what candidates tell of each other, by the pairs of the rows that the members of each split know."""
    told, row = [], 0
    for n_rows, pairs in trial.pairs:
        ends = trial.candidates.indptr[row : row + n_rows + 1]
        here = slice(int(ends[0]), int(ends[-1]))
        cells = Candidates(ends - ends[0], trial.candidates.label[here], trial.candidates.n_labels)
        one = tell(cells, features[here], logits[here], pairs)
        found = is_found(one.features[:, : features.shape[1]])  # by members in use
        told.append(Told(one.entries[found] + ends[0], one.features[found], one.partners[found]))
        row += n_rows
    entries, values, partners = ([getattr(one, name) for one in told] for name in Told._fields)
    return Told(np.concatenate(entries), np.concatenate(values), np.concatenate(partners))


def _set_gain(trial: Trial, before: Floats, after: Floats) -> tuple[float, float]:
    """Return by how much the micro-F1 of sets grows, and its standard error; thresholds are those of other rows."""
    row = trial.candidates.row
    second = np.random.default_rng(2).permutation(trial.n_true.size) % 2 == 1
    kept = []
    for logits in (before, after):
        chosen = np.zeros(row.size, dtype=np.bool_)
        for half in (second, ~second):
            other = ~half[row]
            best = best_f1(logits[other], trial.right[other], int(trial.n_true[~half].sum()))
            chosen[half[row]] = logits[half[row]] >= best.threshold
        kept.append(chosen)
    return f1_gain(row, trial.right, kept, trial.n_true)


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
    mean, error = mean_and_error(gains["boosted"] - gains["logistic"])
    kind = "boosted" if mean > error else "logistic"
    return kind, gains[kind]


def mean_and_error(differences: Floats) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return float(differences.mean()), float(differences.std() / np.sqrt(max(1, differences.size)))


def fit_fusion(kind: str, features: NDArray[np.float32], right: NDArray[np.bool_], n_trees: int) -> Fusion:
    """Fit a fusion; trees need candidates of both kinds, right and wrong ones."""
    if kind == "boosted" and 0 < right.sum() < right.size:
        return Boosted.fit(features, right, n_trees, FOUND_THINNING)
    return Logistic.fit(features, right)


def sigmoid(logits: Floats) -> Floats:
    """Return the probabilities of log odds."""
    found: Floats = 1 / (1 + np.exp(-logits))
    return found
