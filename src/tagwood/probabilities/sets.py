"""`SetRule`: how many labels of a row to return, with a promise; `fit_set_rule` fits it on held-out rows.

In: calibrated probabilities of held-out rows and their true labels. Out: a rule that cuts later probabilities into
label sets and tells which rows need manual review.

Decisions
---------
* Precision is of all returned labels together: expected right labels / expected returned labels. A row that returns
  nothing returns nothing wrong; it is flagged for review.
* Recall is the mean over rows that have labels: a row that has few counts as much as one that has many.
* "f1" maximises the F1 of all rows together. Its best sets hold every label with a probability of at least half the F1
  that is reached, so one threshold on good probabilities is optimal. "row-f1" maximises the mean F1 of rows.
* Where one threshold does not tell the size of a set, learned sizes do: as many labels as learned cuts give for the sum
  of the row's probabilities. "f1" takes them if their F1 is above that of one threshold by two standard errors, both
  fitted on one half of the held-out rows and compared on the other.
* Thresholds are tried in a fixed order from the one where the test is strongest, for precision the promised value, for
  recall 0, until the first one fails (Learn then Test; Angelopoulos et al., 2021), so trying many costs nothing.
* The tests bet against "the mean is at most 0" (Waudby-Smith and Ramdas, 2024). Bets are the variance-adaptive ones for
  a known number of rows; the test may stop at any row (Ville). Rows are taken in an order shuffled by a fixed seed,
  because files are often sorted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import check_float, check_int
from tagwood.errors import InputError
from tagwood.metrics.matching import Match, match
from tagwood.probabilities.calibration import Floats, MonotoneCurve
from tagwood.ranking import Ranking
from tagwood.storage import State, storable

FORMS = ("precision>=0.9", "recall>=0.8", "f1", "row-f1", "threshold>=0.5", "top-5")
_SHARE = re.compile(r"(precision|recall|threshold)\s*>=\s*(\d*\.?\d+|\d+\.)(%?)")
_TOP = re.compile(r"top-(\d{1,9})")
_BOLDNESS = 0.9  # largest share of the wealth that one row can lose
_FEWEST_SIZED = 200  # held-out rows from which sizes can be learned
_SECOND_CHANCE = 0.1  # share of the error for precision tests above the promised value


@storable("SetRule")
@dataclass(frozen=True)
class SetRule:
    """Cut rankings of probabilities into label sets.

    Parameters
    ----------
    rule
        The text of the rule.
    threshold
        Labels with at least this probability are returned.
    max_size
        Most labels of a set.
    kept
        False where no threshold keeps the promise on the held-out rows: then every row is flagged. Precision rules
        return nothing, recall rules everything they have.
    review_below
        Rows whose best probability is lower are flagged.
    missed
        Mean number of true labels of a row that are not among its candidates.
    confidence
        Probability, over the draw of the held-out rows, that a promise holds.
    sizes
        Learned sizes: a set has as many labels as there are numbers here below the sum of its row's probabilities.
        Empty where the threshold decides.

    Examples
    --------
    >>> rule = SetRule("threshold>=0.5", threshold=0.5)
    >>> sets, review = rule.apply(Ranking.from_lists([[(3, 0.9), (1, 0.4)], [(2, 0.1)]], n_labels=4))
    >>> list(sets), review
    ([[(3, 0.9)], []], array([False,  True]))
    """

    rule: str
    threshold: float = 0.0
    max_size: int = 1 << 30
    kept: bool = True
    review_below: float = 0.0
    missed: float = 0.0
    confidence: float = 0.9
    sizes: tuple[float, ...] = ()

    def apply(self, probabilities: Ranking) -> tuple[Ranking, NDArray[np.bool_]]:
        """Return the ranking cut to sets, and which rows need a review."""
        kind = parse_rule(self.rule).kind
        if kind == "precision" and not self.kept:
            sets = probabilities.above(np.inf)
        elif kind == "row-f1":
            sets = probabilities.keep(_best_row_f1(probabilities, self.missed))
        elif self.sizes:
            sets = probabilities.keep(_of_learned_size(probabilities, np.array(self.sizes)))
        else:
            passing = probabilities.scores >= np.float64(self.threshold)
            sets = probabilities.keep(passing & (_places(probabilities) < self.max_size))
        review = np.diff(sets.indptr) == 0
        review |= _best(probabilities) < self.review_below
        return sets, review | (not self.kept)

    def state(self) -> State:
        """Return the stored form."""
        return State("SetRule", params=asdict(self))

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the rule; stored values are checked."""
        highest = {"threshold": 1, "review_below": None, "missed": None, "confidence": 1}
        numbers = {
            name: check_float(state.param(name, float), name, low=0, high=high) for name, high in highest.items()
        }
        size = check_int(state.param("max_size", int), "max_size", low=1)
        cuts = tuple(check_float(cut, "sizes") for cut in state.params.get("sizes", ()))
        new = cls(state.param("rule", str), max_size=size, kept=state.param("kept", bool), sizes=cuts, **numbers)
        parse_rule(new.rule)
        return new


def fit_set_rule(rule: str, probabilities: Ranking, Y: Any, *, confidence: float = 0.9) -> SetRule:
    """Find the rule that keeps a promise, from rows that neither model nor calibrator were fitted on.

    The promise: whatever the model and the distribution, with probability of at least `confidence` over the draw of
    these rows, the expected precision (recall) on new rows of the same distribution is at least the promised one.

    Parameters
    ----------
    rule
        ``"precision>=0.9"``, ``"recall>=0.8"``, ``"f1"``, ``"row-f1"``, ``"threshold>=0.5"`` or ``"top-5"``.
    probabilities
        Calibrated candidates of held-out rows; some hundred rows at least for a promise. Later rows must get as many.
    Y
        (n_rows, n_labels) true labels of the same rows.
    confidence
        Probability that the promise holds. 0.99 gives slightly smaller precision sets and larger recall sets.

    Examples
    --------
    >>> right = Ranking.from_lists([[(0, 0.95), (1, 0.3)]] * 300, n_labels=2)
    >>> found = fit_set_rule("precision>=0.9", right, [[0]] * 300)
    >>> found.kept, 0.3 < found.threshold <= 0.9
    (True, True)
    """
    kind, value = parse_rule(rule)
    error = 1 - check_float(confidence, "confidence", low=0.5, high=1 - 1e-9)
    fixed = fixed_rule(rule)
    if fixed is not None:
        return replace(fixed, confidence=confidence)
    matched = match(Y, probabilities)
    scores = probabilities.scores
    if scores.size and (scores.min() < 0 or scores.max() > 1):
        raise InputError(
            "probabilities must be from 0 to 1",
            given=f"{scores.min():.3g} to {scores.max():.3g}",
            hint="Turn scores into probabilities with a Calibrator.",
        )
    if kind == "precision":
        return _fit_precision(rule, matched, value, error)
    if kind == "recall":
        return _fit_recall(rule, matched, value, error)
    missed = float(matched.n_true.sum() - matched.hits.sum()) / matched.n_rows
    half, sizes = 0.0, ()
    if kind == "f1":
        half = _best_f1(matched) / 2
        sizes = tuple(_learned_cuts(matched).tolist()) if _sizes_are_better(matched) else ()
    return SetRule(rule, threshold=half, missed=missed, confidence=confidence, sizes=sizes)


def fixed_rule(rule: str) -> SetRule | None:
    """Return the rule if it needs no held-out rows (``threshold``, ``top``); None if it has to be fitted.

    Examples
    --------
    >>> fixed_rule("threshold>=0.3").threshold, fixed_rule("top-5").max_size, fixed_rule("f1")
    (0.3, 5, None)
    """
    kind, value = parse_rule(rule)
    if kind == "top":
        return SetRule(rule, max_size=int(value))
    return SetRule(rule, threshold=value) if kind == "threshold" else None


def _fit_precision(rule: str, matched: Match, value: float, error: float) -> SetRule:
    """Lower the threshold from the promised value while right - value * returned is surely positive."""
    # The test has to allow for a row with as many wrong labels as a set may hold, which costs much where rows are few.
    limit = max(5, math.ceil(matched.n_rows**0.5 / 4))
    matched = matched.top(limit)
    rows, order = _rows(matched), shuffled(matched.n_rows)
    worth = matched.hits - value  # of one returned label

    def holds(threshold: float, error: float) -> bool:
        kept = matched.ranking.scores >= np.float64(threshold)
        gains = np.bincount(rows[kept], worth[kept], minlength=matched.n_rows)[order].astype(np.float64)
        return mean_is_positive(gains, -value * limit, error)

    down = thresholds(value, 1e-4)
    found = last_that_holds(down, lambda t: holds(t, error * (1 - _SECOND_CHANCE)))
    if found is None:  # too sure probabilities: perhaps a higher threshold holds
        up = thresholds(value + 0.75 * (1 - value), value)[:-1]
        found = last_that_holds(up, lambda t: holds(t, error * _SECOND_CHANCE))
    kept = found is not None
    return SetRule(rule, found if found is not None else 1.0, limit, kept, confidence=1 - error)


def _fit_recall(rule: str, matched: Match, value: float, error: float) -> SetRule:
    """Raise the threshold from 0 while the mean recall is surely above the promised one."""
    rows, n_true = _rows(matched), matched.n_true
    used = shuffled(matched.n_rows)
    used = used[n_true[used] > 0]
    right = matched.hits > 0
    scores, rows = matched.ranking.scores[right], rows[right]

    def recalls(threshold: float) -> Floats:
        hits = np.bincount(rows[scores >= np.float64(threshold)], minlength=matched.n_rows)
        return np.asarray(hits[used] / n_true[used])

    steps = [0.0, *thresholds(1e-4, 1 - 1e-4)]
    found = last_that_holds(steps, lambda t: mean_is_positive(recalls(t) - value, -value, error))
    below = _confidence_needed(_best(matched.ranking)[used], recalls(0.0), value)
    return SetRule(rule, found or 0.0, kept=found is not None, review_below=below, confidence=1 - error)


def _confidence_needed(best: Floats, recall: Floats, value: float) -> float:
    """Return the best probability from which on all candidates together are expected to reach the recall."""
    if best.size == 0:
        return 0.0
    curve = MonotoneCurve.fit(best, recall)
    reached = np.flatnonzero(curve.y >= value)
    return float(curve.x[reached[0]]) if reached.size else 1.0


class BestF1(NamedTuple):
    """The largest F1 of all rows together that a single threshold reaches, and the threshold."""

    value: float
    threshold: float


def best_f1(scores: NDArray[Any], hits: NDArray[Any], n_true: int) -> BestF1:
    """Return the largest F1 of entries with scores, of which some are right, by one threshold.

    Examples
    --------
    >>> best_f1(np.array([0.9, 0.2, 0.7]), np.array([True, False, True]), n_true=3)
    BestF1(value=0.8, threshold=0.7)
    """
    if scores.size == 0:
        return BestF1(0.0, 0.0)
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(hits[order], dtype=np.int64)
    last = np.diff(scores[order], append=-np.inf) != 0  # equal scores are kept together
    f1 = np.where(last, 2 * right / (np.arange(1, order.size + 1) + n_true), -1.0)
    at = int(np.argmax(f1))
    return BestF1(float(f1[at]), float(scores[order][at]))


def _best_f1(matched: Match) -> float:
    return best_f1(matched.ranking.scores, matched.hits, int(matched.n_true.sum())).value


def f1_gain(
    rows: NDArray[np.int64], hits: NDArray[Any], kept: Sequence[NDArray[np.bool_]], n_true: NDArray[np.int64]
) -> tuple[float, float]:
    """Return the difference in micro-F1 of the second of two choices of entries to the first, and its standard error.

    `rows` and `hits` (n_entries,) are the row of each entry and whether it is right; `n_true` (n_rows,) counts labels.

    Examples
    --------
    >>> both = [np.array([True, True]), np.array([True, False])]
    >>> gain, _ = f1_gain(np.array([0, 0]), np.array([1, 0]), both, np.array([1]))
    >>> round(gain, 3)
    0.333
    """
    f1, influence = [], []
    for chosen in kept:
        right = np.bincount(rows, hits * chosen, minlength=n_true.size)
        size = np.bincount(rows, chosen, minlength=n_true.size) + n_true
        f1.append(2 * right.sum() / max(1.0, size.sum()))
        influence.append((2 * right - f1[-1] * size) / max(1e-9, size.mean()))
    return float(f1[1] - f1[0]), float((influence[1] - influence[0]).std() / np.sqrt(n_true.size))


def learn_size_cuts(expected: ArrayLike, sizes: ArrayLike, most: int) -> NDArray[np.float64]:
    """Return thresholds for the sizes from 1 to `most` that minimize the mean absolute error of the sizes.

    `expected` and `sizes` (n_rows,) are the expected and the true numbers of labels.

    Examples
    --------
    >>> learn_size_cuts([0.5, 0.9, 1.1, 1.8], [1, 1, 2, 2], most=3).tolist()
    [-1.0, 1.0, 4.0]
    """
    values = np.asarray(expected, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    values, true = values[order], np.asarray(sizes, dtype=np.int64)[order]
    # A threshold before place i of the sorted rows; there is none between equal values.
    middles = np.concatenate([[-1.0], (values[:-1] + values[1:]) / 2, [most + 1.0]])
    possible = np.concatenate([[True], values[:-1] < values[1:], [True]])
    cuts = np.empty(most)
    for size in range(1, most + 1):
        enough = true >= size
        below = np.concatenate([[0], np.cumsum(enough)])  # rows with this many labels below the threshold
        above = np.concatenate([np.cumsum(~enough[::-1])[::-1], [0]])  # rows with fewer labels above it
        cuts[size - 1] = middles[int(np.argmin(np.where(possible, below + above, true.size + 1)))]
    return cuts


def sizes_by_cuts(expected: ArrayLike, cuts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the number of thresholds below each expected number of labels."""
    return np.searchsorted(cuts, np.asarray(expected, dtype=np.float64), side="left").astype(np.int64)


def _learned_cuts(matched: Match) -> Floats:
    longest = max(1, int(np.diff(matched.ranking.indptr).max(initial=1)))
    return learn_size_cuts(_expected_sizes(matched.ranking), matched.n_true, longest)


def _expected_sizes(probabilities: Ranking) -> Floats:
    total = np.concatenate([[0.0], np.cumsum(probabilities.scores, dtype=np.float64)])
    return np.asarray(np.diff(total[probabilities.indptr]))


def _of_learned_size(probabilities: Ranking, cuts: Floats) -> NDArray[np.bool_]:
    wanted = sizes_by_cuts(_expected_sizes(probabilities), cuts)
    return np.asarray(_places(probabilities) < np.repeat(wanted, np.diff(probabilities.indptr)))


def _sizes_are_better(matched: Match) -> bool:
    """Whether learned sizes have a higher F1 than a threshold on rows that neither was fitted on, beyond chance."""
    if matched.n_rows < _FEWEST_SIZED:
        return False
    second = shuffled(matched.n_rows) % 2 == 1
    rows = _rows(matched)
    kept = np.zeros((2, rows.size), dtype=np.bool_)  # by threshold, by learned sizes
    for part in (second, ~second):
        own, other = np.flatnonzero(part), np.flatnonzero(~part)
        fitted = matched.rows(other)
        ranking = matched.ranking.rows(own)
        here = part[rows]
        kept[0, here] = ranking.scores >= np.float64(_best_f1(fitted) / 2)
        kept[1, here] = _of_learned_size(ranking, _learned_cuts(fitted))
    gain, error = f1_gain(rows, matched.hits, list(kept), matched.n_true)
    return gain > 2 * error


def _best_row_f1(probabilities: Ranking, missed: float) -> NDArray[np.bool_]:
    """Mark the first labels of each row up to the size with the largest expected F1, taken as a ratio of means."""
    indptr, sizes = probabilities.indptr, np.diff(probabilities.indptr)
    if probabilities.labels.size == 0:
        return np.zeros(0, dtype=bool)
    total = np.concatenate([[0.0], np.cumsum(probabilities.scores, dtype=np.float64)])
    place = _places(probabilities)
    expected = total[1:] - np.repeat(total[indptr[:-1]], sizes)
    n_true = np.repeat(total[indptr[1:]] - total[indptr[:-1]] + missed, sizes)
    f1 = 2 * expected / (place + 1 + n_true)
    filled = sizes > 0
    most = np.repeat(np.maximum.reduceat(f1, indptr[:-1][filled]), sizes[filled])
    # Expected F1 rises to one peak, because probabilities fall: the labels up to the first peak are the set.
    peak = np.full(filled.sum(), np.iinfo(np.int64).max)
    row = np.repeat(np.arange(peak.size), sizes[filled])
    at_peak = (f1 >= most) & (expected > 0)
    np.minimum.at(peak, row[at_peak], place[at_peak])
    return np.asarray((place <= peak[row]) & (most > 0))


def _rows(matched: Match) -> NDArray[np.int64]:
    return np.repeat(np.arange(matched.n_rows), np.diff(matched.ranking.indptr))


def _places(probabilities: Ranking) -> NDArray[np.int64]:
    """Return the place of each entry in its row, from 0."""
    starts = np.repeat(probabilities.indptr[:-1], np.diff(probabilities.indptr))
    return np.arange(probabilities.labels.size) - starts


def _best(probabilities: Ranking) -> Floats:
    """Return the best probability of each row, 0 where it has no candidate."""
    best = np.zeros(probabilities.n_rows)
    filled = np.diff(probabilities.indptr) > 0
    best[filled] = probabilities.scores[probabilities.indptr[:-1][filled]]
    return best


class RuleText(NamedTuple):
    """A parsed rule: its kind and, where it has one, its number."""

    kind: str
    value: float


def parse_rule(text: Any) -> RuleText:
    """Return the kind and number of a rule, or raise `InputError` with the nearest form.

    Examples
    --------
    >>> parse_rule("precision >= 0.9"), parse_rule("top-5")
    (RuleText(kind='precision', value=0.9), RuleText(kind='top', value=5.0))
    """
    plain = text.strip().lower() if isinstance(text, str) else ""
    if plain in ("f1", "row-f1"):
        return RuleText(plain, 0.0)
    if found := _TOP.fullmatch(plain):
        if int(found[1]) >= 1:
            return RuleText("top", float(found[1]))
        hint = "Such as 'top-5'."
        raise InputError("a top rule must return one label or more", given=repr(text), hint=hint)
    if found := _SHARE.fullmatch(plain):
        value = float(found[2]) / (100 if found[3] else 1)
        if 0 < value < 1 or (found[1] == "threshold" and value in (0, 1)):
            return RuleText(found[1], value)
        hint = f"Write a share such as '{found[1]}>=0.9'."
        raise InputError(f"the number of a {found[1]} rule must be between 0 and 1", given=repr(text), hint=hint)
    near = get_close_matches(plain, FORMS, n=1, cutoff=0.3)
    forms = ", ".join(map(repr, FORMS[:-1])) + f" or {FORMS[-1]!r}"
    given = repr(text) if isinstance(text, str) else type(text).__name__
    guess = f"Did you mean {near[0]!r}?" if near else None
    raise InputError(f"a set rule must be like {forms}", given=given, hint=guess)


def mean_is_positive(gains: Floats, lowest: float, error: float) -> bool:
    """Test whether independent gains have a mean above 0; if they do not, return True with probability <= `error`.

    `gains` (n_rows,) are equally distributed; `lowest` is their lower bound, a negative number fixed without looking.

    Examples
    --------
    >>> mean_is_positive(np.tile([0.3, -0.2], 500), lowest=-0.2, error=0.1)
    True
    >>> mean_is_positive(np.tile([0.3, -0.2], 20), lowest=-0.2, error=0.1)
    False
    """
    if gains.size == 0:
        return False
    count = np.arange(1, gains.size + 1)
    mean = np.cumsum(gains) / (count + 1)
    # Spread known before each row; it starts as if one row with a quarter of the range had been seen.
    spread = (lowest**2 / 16 + np.cumsum((gains - mean) ** 2)) / (count + 1)
    before = np.concatenate([[lowest**2 / 16], spread[:-1]])
    wanted = np.sqrt(2 * np.log(1 / error) / (gains.size * before))
    bets = np.minimum(wanted, _BOLDNESS / -lowest)
    wealth = np.cumsum(np.log1p(bets * gains))
    return bool(wealth.max() >= np.log(1 / error))


def last_that_holds(settings: Sequence[float], holds: Callable[[float], bool]) -> float | None:
    """Return the last setting before the first that does not hold; None if the first does not.

    With tests of error δ the returned setting breaks its promise with a chance of at most δ, however many there are:
    the first setting that truly breaks it has to be passed by mistake.

    Examples
    --------
    >>> last_that_holds([1, 2, 3, 4], lambda x: x != 3)
    2
    """
    found = None
    for setting in settings:
        if not holds(setting):
            break
        found = setting
    return found


def shuffled(n_rows: int) -> NDArray[np.int64]:
    """Return the order in which rows are tested."""
    return np.random.default_rng(0).permutation(n_rows)


def thresholds(start: float, stop: float, step: float = 0.02) -> list[float]:
    """Return probabilities from `start` to `stop`, evenly spaced in log odds, about `step` apart.

    Examples
    --------
    >>> [round(t, 2) for t in thresholds(0.9, 0.5, step=1.1)]
    [0.9, 0.75, 0.5]
    """
    low, high = (np.log(p) - np.log1p(-p) for p in (start, stop))
    odds = np.linspace(low, high, max(2, round(abs(high - low) / step) + 1))
    return [float(t) for t in 1.0 / (1.0 + np.exp(-odds))]
