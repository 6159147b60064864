"""`evaluate` and `evaluate_sets`: true labels and a ranking (or label sets) in, a `Report` out.

Every metric by name in one pass over the ranking; definitions are in docs/reference/metrics.md and, as code, in
`terms`.

Decisions
---------
Rows without true labels. What the Extreme Classification Repository defines follows it: such a row counts 0
in the mean of P@k and nDCG@k, and adds nothing above or below the line of PSP@k, PSR@k and PSnDCG@k. R@k and
RP@k are undefined there (0 / 0), so their mean is over the other rows. Example-based measures follow
scikit-learn: 0. Rows with fewer than k returned labels: P@k still divides by k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import check_finite, check_float, check_int, check_threads
from tagwood._sparse import check_labels
from tagwood.errors import InputError
from tagwood.metrics.matching import Floats, Match, match
from tagwood.metrics.measures import SETS, LabelSums, MetricName, Terms, parse_metrics, terms_of
from tagwood.metrics.propensity import LabelCounts, describe_propensity, inverse_propensity
from tagwood.metrics.report import Measure, Report, SliceReport
from tagwood.ranking import Ranking

# SECTION metrics.slices
# Head, torso and tail: labels by how often they stand in the training data.
#
# In: `LabelCounts`. Out: three masks over the labels; `evaluate(slices=True)` reports each metric for each of
# them.


SLICE_NAMES = ("head", "torso", "tail")


@dataclass(frozen=True, eq=False)
class LabelSlice:
    """Labels of similar frequency.

    Parameters
    ----------
    name
        ``"head"``, ``"torso"`` or ``"tail"``.
    mask
        (n_labels,) whether a label belongs to it.
    rarest, commonest
        Smallest and largest number of training rows of its labels; 0 and 0 if it has none.
    """

    name: str
    mask: NDArray[np.bool_]
    rarest: int
    commonest: int

    @property
    def n_labels(self) -> int:
        """Number of labels in the slice."""
        return int(self.mask.sum())


def frequency_slices(train_labels: LabelCounts) -> tuple[LabelSlice, LabelSlice, LabelSlice]:
    """Cut the labels into head, torso and tail, each with about a third of all label occurrences in training.

    A label is in the head if the labels that are more frequent than it make up less than a third of the
    occurrences, in the torso below two thirds, and in the tail otherwise; so labels of equal frequency stay
    together. Labels that never stand in the training data are in the tail.

    Examples
    --------
    >>> slices = frequency_slices(LabelCounts(np.array([0, 60, 20, 20, 20]), n_rows=60))
    >>> [(s.name, s.n_labels, s.rarest, s.commonest) for s in slices]
    [('head', 1, 60, 60), ('torso', 3, 20, 20), ('tail', 1, 0, 0)]
    """
    counts = train_labels.counts
    values, group, size = np.unique(counts, return_inverse=True, return_counts=True)
    volume = (values * size)[::-1].cumsum()[::-1]  # occurrences of labels at least as frequent
    above = (volume - values * size)[group]
    total = int(counts.sum())
    place = np.where(3 * above < total, 0, np.where(3 * above < 2 * total, 1, 2))
    place[counts == 0] = 2
    head, torso, tail = (_slice(name, place == i, counts) for i, name in enumerate(SLICE_NAMES))
    return head, torso, tail


def _slice(name: str, mask: NDArray[np.bool_], counts: NDArray[np.int64]) -> LabelSlice:
    inside = counts[mask]
    low, high = (int(inside.min()), int(inside.max())) if inside.size else (0, 0)
    return LabelSlice(name, mask, low, high)


# SECTION metrics.resampling
# Resampling of rows: how far a metric could be off by the luck of the test rows, and whether a gain is real.
#
# In: the terms of metrics (`terms`) over the same rows. Out: confidence intervals from the bootstrap, and for
# two rankings the interval of the difference and the p-value of a sign-flip test. Seeded; done in blocks of
# repeats, so that memory stays bounded by the rows.


_BLOCK = 4_000_000  # numbers held at once: repeats of a block times rows (or labels)


def bootstrap_values(terms: Sequence[Terms], n_rows: int, n_repeats: int, seed: int) -> Floats:
    """Return (n_terms, n_repeats) values on rows drawn with replacement, the same draws for all."""
    blocks = [
        np.stack([term.finish(term.sums(weights)) for term in terms])
        for weights in _blocks(_draw_rows, terms, n_rows, n_repeats, seed)
    ]
    return np.concatenate(blocks, axis=1)


def intervals(values: Floats, confidence: float) -> Floats:
    """Return (n_terms, 2): between which values the middle share `confidence` of the repeats lies.

    Examples
    --------
    >>> intervals(np.arange(101.0)[None, :], 0.9)
    array([[ 5., 95.]])
    """
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    return np.quantile(values, ends, axis=1).T


def swap_p_values(
    first: Sequence[Terms], second: Sequence[Terms], n_rows: int, n_repeats: int, seed: int
) -> Floats:
    """Return the two-sided p-value of each metric under "it does not matter which ranking a row came from".

    Each repeat swaps the two rankings on a random half of the rows. The p-value is the share of repeats, the
    real assignment counted as one of them, whose difference is at least as large as the real one.
    """
    real = np.array([b.value() - a.value() for a, b in zip(first, second, strict=True)])
    # Sums in another order differ in the last bits; a tie must count as a tie.
    limit = np.abs(real) * (1 - 1e-9) - 1e-12
    extreme = np.zeros(len(first), dtype=np.int64)
    for swap in _blocks(_draw_swaps, first, n_rows, n_repeats, seed):
        stay = 1.0 - swap
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            new_a = a.finish(a.sums(stay) + b.sums(swap))
            new_b = b.finish(b.sums(stay) + a.sums(swap))
            extreme[i] += np.count_nonzero(np.abs(new_b - new_a) >= limit[i])
    return (extreme + 1) / (n_repeats + 1)


def _draw_rows(rng: np.random.Generator, n_rows: int) -> Floats:
    return np.bincount(rng.integers(n_rows, size=n_rows), minlength=n_rows).astype(np.float64)


def _draw_swaps(rng: np.random.Generator, n_rows: int) -> Floats:
    return rng.integers(2, size=n_rows).astype(np.float64)


def _blocks(
    draw: Callable[[np.random.Generator, int], Floats],
    terms: Sequence[Terms],
    n_rows: int,
    n_repeats: int,
    seed: int,
) -> Iterator[Floats]:
    widest = max([n_rows, *(term.hits.shape[1] for term in terms if isinstance(term, LabelSums))])
    size = max(1, _BLOCK // widest)
    rng = np.random.default_rng(seed)
    for begin in range(0, n_repeats, size):
        yield np.stack([draw(rng, n_rows) for _ in range(min(size, n_repeats - begin))])


Propensity = str | tuple[float, float] | ArrayLike

DEFAULT_METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "R@5")
DEFAULT_PROPENSITY_METRICS = ("PSP@1", "PSP@3", "PSP@5")
DEFAULT_SET_METRICS = ("micro-P", "micro-R", "micro-F1", "macro-F1", "weighted-F1", "example-F1", "hamming")


@dataclass(frozen=True, eq=False)
class Settings:
    """What an evaluation needs besides the rows: metrics, and label weights and depths where needed."""

    names: list[MetricName]
    counts: LabelCounts | None
    weights: Floats | None
    depths: Floats | None
    propensity: str | None

    def terms(self, laid: Match) -> dict[MetricName, Terms]:
        """Return the terms of every metric for this match."""
        return terms_of(laid, self.names, self.weights, self.depths)


def evaluate(
    Y: Any,
    ranking: Ranking,
    *,
    metrics: Iterable[str] | None = None,
    train_labels: Any = None,
    propensity: Propensity = "default",
    label_depths: ArrayLike | None = None,
    confidence: float | None = None,
    n_resamples: int = 1000,
    slices: bool = False,
    seed: int = 0,
    threads: int | None = 1,
) -> Report:
    """Measure a ranking against the true labels.

    Parameters
    ----------
    Y
        (n_rows, n_labels) true labels, 0/1: sparse, dense, or one collection of label ids per row.
    ranking
        What a model returned for the same rows.
    metrics
        Names such as ``"P@5"``, ``"nDCG@3"``, ``"PSP@5"``, ``"micro-F1"``, ``"macro-F1@5"``. Default: P@1,
        P@3, P@5, nDCG@5, R@5, and PSP@1, PSP@3, PSP@5 if `train_labels` is given.
    train_labels
        (n_train, n_labels) training labels, or their `LabelCounts`. Needed by PSP, PSR, PSnDCG and `slices`.
    propensity
        ``"default"``, ``"wikipedia"``, ``"amazon"``, a pair (A, B), or an array of inverse propensities.
    label_depths
        (n_labels,) depth of each label in its tree, for ``"depth@k"``.
    confidence
        Level of bootstrap confidence intervals, for example 0.95; default none. Coverage gets none: a
        resample always holds fewer distinct labels than the rows it was drawn from.
    n_resamples
        Bootstrap repeats. 1,000 is enough for two digits.
    slices
        Also measure head, torso and tail labels (see `frequency_slices`): the truth is cut down to the slice,
        the ranking stays as it is, so P@k adds up over the slices; label-set metrics look at the slice's
        labels only.
    seed
        Seed of the bootstrap.
    threads
        Threads to use; None means all cores. The values do not depend on it.

    Examples
    --------
    >>> ranking = Ranking.from_lists([[(2, 0.9), (1, 0.5)], [(0, 0.8)]], n_labels=3)
    >>> report = evaluate([[0, 2], [1]], ranking, metrics=["P@1", "R@2"])
    >>> report["P@1"], report["R@2"]
    (0.5, 0.25)
    """
    laid = match(Y, ranking, check_threads(threads))
    settings = prepare(
        laid.n_labels, metrics, train_labels=train_labels, propensity=propensity, label_depths=label_depths
    )
    terms = settings.terms(laid)
    if confidence is None:
        measures = tuple(Measure(str(name), term.value()) for name, term in terms.items())
    else:
        check_float(confidence, "confidence", low=0.5, high=0.999)
        measures = _with_intervals(
            terms, laid.n_rows, confidence, check_int(n_resamples, "n_resamples", low=10), seed
        )
    return Report(
        measures,
        n_rows=laid.n_rows,
        n_labels=laid.n_labels,
        n_rows_without_labels=int(np.count_nonzero(laid.n_true == 0)),
        propensity=settings.propensity,
        confidence=confidence,
        slices=_slice_reports(laid, settings) if slices else (),
    )


def evaluate_sets(
    Y: Any,
    predicted: Any,
    *,
    metrics: Iterable[str] = DEFAULT_SET_METRICS,
    confidence: float | None = None,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Report:
    """Measure predicted label sets, an (n_rows, n_labels) matrix of 0 and 1, against the true labels.

    Takes the label-set metrics only; everything else is as in `evaluate`.

    Examples
    --------
    >>> evaluate_sets(np.array([[1, 0, 1], [0, 1, 0]]), np.array([[1, 1, 0], [0, 1, 0]]))["micro-F1"]
    0.6666666666666666
    """
    names = parse_metrics(metrics)
    for name in names:
        if name.family not in SETS or name.k is not None:
            raise InputError(
                f"label sets have no order, so they have no {name}", hint="Give a Ranking to evaluate."
            )
    ranking = _unordered(predicted, Y)
    return evaluate(
        Y, ranking, metrics=map(str, names), confidence=confidence, n_resamples=n_resamples, seed=seed
    )


def prepare(
    n_labels: int,
    metrics: Iterable[str] | None,
    *,
    train_labels: Any = None,
    propensity: Propensity = "default",
    label_depths: ArrayLike | None = None,
) -> Settings:
    """Check the settings of an evaluation and work out what its metrics need."""
    counts = None if train_labels is None else LabelCounts.of(train_labels)
    if counts is not None and counts.n_labels != n_labels:
        raise InputError(f"train_labels must have the {n_labels:,} labels of Y", given=f"{counts.n_labels:,}")
    if metrics is None:
        metrics = DEFAULT_METRICS if counts is None else (*DEFAULT_METRICS, *DEFAULT_PROPENSITY_METRICS)
    names = parse_metrics(metrics)
    weights, words = None, None
    if any(name.needs_counts for name in names):
        weights = inverse_propensity(counts, propensity)
        words = describe_propensity(propensity)
        if weights.size != n_labels:
            raise InputError(
                f"propensity must have one number for each of {n_labels:,} labels", given=f"{weights.size:,}"
            )
    return Settings(names, counts, weights, _check_depths(label_depths, n_labels), words)


def _with_intervals(
    terms: dict[MetricName, Terms], n_rows: int, confidence: float, n_resamples: int, seed: int
) -> tuple[Measure, ...]:
    drawn = [name for name in terms if name.family != "coverage"]
    ends: dict[MetricName, NDArray[np.float64]] = {}
    if drawn:
        values = bootstrap_values([terms[name] for name in drawn], n_rows, n_resamples, seed)
        ends = dict(zip(drawn, intervals(values, confidence), strict=True))
    return tuple(
        Measure(str(name), term.value(), *(map(float, ends[name]) if name in ends else ()))
        for name, term in terms.items()
    )


def _slice_reports(laid: Match, settings: Settings) -> tuple[SliceReport, ...]:
    if settings.counts is None:
        raise InputError(
            "slices need to know how often each label stands in the training data", hint="Pass train_labels."
        )
    return tuple(_slice_report(laid, settings, part) for part in frequency_slices(settings.counts))


def _slice_report(laid: Match, settings: Settings, part: LabelSlice) -> SliceReport:
    values: dict[MetricName, float] = {}
    for of_sets in (False, True):
        names = [n for n in settings.names if (n.family in SETS) == of_sets and n.family != "depth"]
        cut = laid.restricted(part.mask, ranking_too=of_sets)
        terms = terms_of(cut, names, settings.weights) if names else {}
        values |= {name: term.value() for name, term in terms.items()}
    measures = tuple(Measure(str(name), values[name]) for name in settings.names if name in values)
    return SliceReport(part.name, part.n_labels, part.rarest, part.commonest, measures)


def _unordered(predicted: Any, Y: Any) -> Ranking:
    if isinstance(predicted, Ranking):
        return predicted
    sets = check_labels(predicted, name="predicted")
    n_labels = sets.shape[1]
    if isinstance(predicted, list | tuple):  # lists of ids: the width is that of Y
        n_labels = max(n_labels, check_labels(Y).shape[1])
    return Ranking(sets.indptr, sets.indices, np.ones(sets.indices.size, dtype=np.float32), n_labels)


def _check_depths(depths: ArrayLike | None, n_labels: int) -> Floats | None:
    if depths is None:
        return None
    values = np.asarray(depths)
    if values.shape != (n_labels,) or values.dtype.kind not in "fiu":
        raise InputError(
            f"label_depths must hold one number for each of {n_labels:,} labels",
            given=f"an array of shape {values.shape}",
        )
    values = np.ascontiguousarray(values, dtype=np.float64)
    check_finite(values, "label_depths")
    return values
