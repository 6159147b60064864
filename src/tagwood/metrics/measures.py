"""Metrics by name (``"P@5"``, ``"PSP@3"``, ``"micro-F1"``) as functions of sums over rows.

In: metric names in any case of letters, and a `Match`. Out: for each name a `Ratio` or `LabelSums`, with its `value`
for all rows, and `sums(weights)` and `finish` for resampling: the value when row i counts weights[i] times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import check_finite
from tagwood._lazy import sparse
from tagwood.errors import InputError
from tagwood.metrics.matching import Floats, Match, discounts
from tagwood.metrics.propensity import LabelCounts, Propensity, describe_propensity, inverse_propensity

AT_K = ("P", "R", "RP", "nDCG", "PSP", "PSR", "PSnDCG", "coverage", "depth")
"""Metrics of the first k labels of a ranking; ``@k`` is part of the name."""

SETS = (
    *(f"{how}-{what}" for how in ("micro", "macro", "weighted", "example") for what in ("P", "R", "F1")),
    "hamming",
    *("Precision", "Recall", "F1"),
)
"""Metrics of label sets; with ``@k`` the set is the first k labels, without it all returned labels."""

_ALSO_CALLED = {"Precision": "example-P", "Recall": "example-R", "F1": "example-F1"}  # names that Annif uses
_DEFAULT_METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "R@5")
_DEFAULT_PROPENSITY_METRICS = ("PSP@1", "PSP@3", "PSP@5")
_BY_FOLD = {name.casefold(): name for name in (*AT_K, *SETS)}
_FORM = re.compile(r"(?P<family>[A-Za-z0-9]+(?:-[A-Za-z0-9]+)?)(?:@(?P<k>[0-9]{1,9}))?")


@dataclass(frozen=True)
class MetricName:
    """A metric: its family and its number of labels k (None: all returned labels)."""

    family: str
    k: int | None

    def __str__(self) -> str:
        return self.family if self.k is None else f"{self.family}@{self.k}"


def parse_metric(text: str | MetricName) -> MetricName:
    """Return the metric of that name, or raise `InputError` with the most similar name.

    Examples
    --------
    >>> parse_metric("nDGC@3")
    Traceback (most recent call last):
    tagwood.errors.InputError: unknown metric 'nDGC@3'. Did you mean 'nDCG@3'?
    """
    if isinstance(text, MetricName):
        return text
    found = _FORM.fullmatch(text.strip()) if isinstance(text, str) else None
    family = _BY_FOLD.get(found["family"].casefold()) if found else None
    if found is None or family is None:
        raise InputError(f"unknown metric {text!r}", hint=_suggest(text))
    k = None if found["k"] is None else int(found["k"])
    if k == 0 or (k is None and family in AT_K):
        raise InputError(
            f"metric {family} requires a number of labels of 1 or more",
            given=repr(text),
            hint=f"For example '{family}@5'.",
        )
    return MetricName(family, k)


def parse_metrics(texts: Iterable[str | MetricName]) -> list[MetricName]:
    """Return the metrics of these names, each once, in the order given."""
    if isinstance(texts, str):
        texts = [texts]
    names = list(dict.fromkeys(map(parse_metric, texts)))
    if not names:
        raise InputError("metrics must have at least one metric", given="none", hint="For example 'P@1'.")
    return names


def _suggest(text: object) -> str:
    if isinstance(text, str):
        family, at, k = text.strip().partition("@")
        near = get_close_matches(family.casefold(), _BY_FOLD, n=1, cutoff=0.5)
        if near:
            name = _BY_FOLD[near[0]]
            k = k if k.isdigit() and int(k) else "5"
            return f"Did you mean '{name}@{k}'?" if at or name in AT_K else f"Did you mean '{name}'?"
    return f"Known metrics: {', '.join(f'{name}@k' for name in AT_K)}, {', '.join(SETS)}."


@dataclass(frozen=True, eq=False)
class Ratio:
    """A metric that is one sum over rows divided by another; 0 / 0 counts as 0."""

    over: Floats
    under: Floats

    def value(self) -> float:
        """Return the metric of all rows, each counted once."""
        return float(divide(self.over.sum(), self.under.sum()))

    def sums(self, weights: Floats) -> Floats:
        """Return the two sums, (2, n_repeats), for (n_repeats, n_rows) weights of the rows."""
        return (weights @ self._pair).T

    @cached_property
    def _pair(self) -> Floats:
        return np.column_stack([self.over, self.under])

    def finish(self, sums: Floats) -> Floats:
        """Return the (n_repeats,) values of the metric from `sums`."""
        return divide(sums[0], sums[1])


@dataclass(frozen=True, eq=False)
class LabelSums:
    """A metric of counts per label; hits, returned and true are (n_rows, n_labels) matrices of ones."""

    hits: sparse.csr_array
    returned: sparse.csr_array
    true: sparse.csr_array
    finish: Callable[[Floats], Floats]

    def value(self) -> float:
        """Return the metric of all rows, each counted once."""
        return float(self.finish(self.counts()[:, None, :])[0])

    def counts(self) -> Floats:
        """Return (3, n_labels): how often each label was hit, returned, and true."""
        parts = (self.hits, self.returned, self.true)
        return np.stack([np.bincount(p.indices, minlength=p.shape[1]).astype(np.float64) for p in parts])

    def sums(self, weights: Floats) -> Floats:
        """Return the (3, n_repeats, n_labels) counts for (n_repeats, n_rows) weights of the rows."""
        return np.stack([(part.T @ weights.T).T for part in (self.hits, self.returned, self.true)])


RowSums = Ratio | LabelSums


@dataclass(eq=False)
class _Rows:
    """The numbers per row in the formulas below, each computed once for all cutoffs."""

    match: Match
    cutoffs: Sequence[int]
    weights: Floats | None
    depths: Floats | None
    known: dict[tuple[str, bool, bool], dict[int, Floats]] = field(default_factory=dict)

    def gain(self, k: int, *, weighted: bool = False, discounted: bool = False) -> Floats:
        key = ("gain", weighted, discounted)
        if key not in self.known:
            weights = self.weights if weighted else None
            self.known[key] = self.match.gains(self.cutoffs, weights=weights, discounted=discounted)
        return self.known[key][k]

    def best(self, k: int, *, discounted: bool = False) -> Floats:
        key = ("best", True, discounted)
        if key not in self.known:
            assert self.weights is not None
            self.known[key] = self.match.best_gains(self.cutoffs, weights=self.weights, discounted=discounted)
        return self.known[key][k]

    def ideal(self, k: int) -> Floats:
        """Return the discounted sum of a ranking that begins with all true labels; 1 where there are none."""
        steps = np.cumsum(discounts(max(1, min(k, int(self.n_true.max())))))
        return steps[np.clip(self.n_true, 1, steps.size) - 1]

    def ones(self) -> Floats:
        return np.ones(self.match.n_rows)

    def labelled(self) -> Floats:
        """Return 1 for rows with true labels, else 0."""
        return (self.n_true > 0).astype(np.float64)

    @property
    def n_true(self) -> NDArray[np.int64]:
        return self.match.n_true


def _depth(rows: _Rows, k: int) -> Ratio:
    if rows.depths is None:
        raise InputError("depth@k requires the depth of each label", hint="Pass label_depths.")
    top = rows.match.ranking.top(k)
    some = np.diff(top.indptr) > 0
    deepest = np.zeros(top.n_rows)
    if some.any():
        deepest[some] = np.maximum.reduceat(rows.depths[top.labels], top.indptr[:-1][some])
    return Ratio(deepest, some.astype(np.float64))


_AT_K: dict[str, Callable[[_Rows, int], Ratio]] = {
    "P": lambda rows, k: Ratio(rows.gain(k) / k, rows.ones()),
    "R": lambda rows, k: Ratio(rows.gain(k) / np.maximum(rows.n_true, 1), rows.labelled()),
    "RP": lambda rows, k: Ratio(rows.gain(k) / np.clip(rows.n_true, 1, k), rows.labelled()),
    "nDCG": lambda rows, k: Ratio(rows.gain(k, discounted=True) / rows.ideal(k), rows.ones()),
    "PSP": lambda rows, k: Ratio(rows.gain(k, weighted=True) / k, rows.best(k) / k),
    "PSR": lambda rows, k: Ratio(
        rows.gain(k, weighted=True) / np.maximum(rows.n_true, 1), rows.best(k) / np.maximum(rows.n_true, 1)
    ),
    "PSnDCG": lambda rows, k: Ratio(
        rows.gain(k, weighted=True, discounted=True) / rows.ideal(k),
        rows.best(k, discounted=True) / rows.ideal(k),
    ),
    "depth": _depth,
}


def _set_ratio(rows: _Rows, name: MetricName) -> Ratio:
    """Return micro and example-based measures and the Hamming loss of label sets."""
    hits = rows.gain(name.k or rows.match.longest)
    sizes = np.diff(rows.match.ranking.indptr).astype(np.float64)
    returned = sizes if name.k is None else np.minimum(sizes, name.k)
    true = rows.match.n_true.astype(np.float64)
    if name.family == "hamming":
        return Ratio((returned + true - 2 * hits) / rows.match.n_labels, rows.ones())
    how, what = _ALSO_CALLED.get(name.family, name.family).split("-")
    over, under = part_of(what, np.stack([hits, returned, true]))
    return Ratio(over, under) if how == "micro" else Ratio(divide(over, under), rows.ones())


def part_of(what: str, counts: Floats) -> tuple[Floats, Floats]:
    """Return numerator and denominator of P, R or F1, from stacked (hits, returned, true)."""
    hits, returned, true = counts
    if what == "P":
        return hits, returned
    return (hits, true) if what == "R" else (2 * hits, returned + true)


def _finish(how: str, what: str, sums: Floats) -> Floats:
    """Return coverage, or a macro or weighted mean of P, R or F1, from the counts of labels."""
    if how == "coverage":
        return divide((sums[0] > 0).sum(axis=-1), (sums[2] > 0).sum(axis=-1))
    scores = divide(*part_of(what, sums))
    if how == "macro":
        return divide(scores.sum(axis=-1), (sums[1] + sums[2] > 0).sum(axis=-1))
    return divide((scores * sums[2]).sum(axis=-1), sums[2].sum(axis=-1))


def _label_sums(match: Match, name: MetricName) -> LabelSums:
    how, _, what = name.family.partition("-")
    top = match.top(name.k)
    shape = (match.n_rows, match.n_labels)
    indptr, labels, hit = top.ranking.indptr, top.ranking.labels, top.hits.astype(bool)
    hit_indptr = np.concatenate([[0], np.cumsum(hit)])[indptr]
    return LabelSums(
        _ones(labels[hit], hit_indptr, shape),
        _ones(labels, indptr, shape),
        _ones(match.true_labels, match.true_indptr, shape),
        partial(_finish, how, what),
    )


def terms_of(
    match: Match,
    names: Sequence[MetricName],
    weights: Floats | None = None,
    depths: Floats | None = None,
) -> dict[MetricName, RowSums]:
    """Return the sums of each metric; `weights` are inverse propensities."""
    cutoffs = [name.k or match.longest for name in names]
    rows = _Rows(match, cutoffs, weights, depths)
    terms: dict[MetricName, RowSums] = {}
    for name in names:
        if name.family in _AT_K and name.k is not None:
            terms[name] = _AT_K[name.family](rows, name.k)
        elif name.family.startswith(("micro", "example", "hamming")) or name.family in _ALSO_CALLED:
            terms[name] = _set_ratio(rows, name)
        else:
            terms[name] = _label_sums(match, name)
    return terms


@dataclass(frozen=True, eq=False)
class MetricInputs:
    """The metrics of an evaluation, with the label weights and depths that they need."""

    names: list[MetricName]
    counts: LabelCounts | None
    weights: Floats | None
    depths: Floats | None
    propensity: str | None

    def sums(self, matched: Match) -> dict[MetricName, RowSums]:
        """Return the sums of every metric for this match."""
        return terms_of(matched, self.names, self.weights, self.depths)


def prepare(
    n_labels: int,
    metrics: Iterable[str] | None,
    *,
    train_labels: Any = None,
    propensity: Propensity = "default",
    label_depths: ArrayLike | None = None,
) -> MetricInputs:
    """Validate the arguments of an evaluation and compute the label weights that its metrics need."""
    counts = None if train_labels is None else LabelCounts.of(train_labels)
    if counts is not None and counts.n_labels != n_labels:
        raise InputError(f"train_labels must have the {n_labels:,} labels of Y", given=f"{counts.n_labels:,}")
    if metrics is None:
        metrics = _DEFAULT_METRICS if counts is None else (*_DEFAULT_METRICS, *_DEFAULT_PROPENSITY_METRICS)
    names = parse_metrics(metrics)
    weights, words = None, None
    if any(name.family.startswith("PS") for name in names):
        weights = inverse_propensity(counts, propensity)
        words = describe_propensity(propensity)
        _check_size(weights, "propensity", n_labels)
    return MetricInputs(names, counts, weights, _check_depths(label_depths, n_labels), words)


def divide(over: Floats | float, under: Floats | float) -> Floats:
    """Divide, with 0 where both are 0; all metrics use this rule."""
    over, under = np.asarray(over, dtype=np.float64), np.asarray(under, dtype=np.float64)
    return np.divide(over, under, out=np.zeros(np.broadcast(over, under).shape), where=under != 0)


def _ones(labels: NDArray[np.int32], indptr: NDArray[np.int64], shape: tuple[int, int]) -> sparse.csr_array:
    return sparse.csr_array((np.ones(labels.size), labels, indptr), shape=shape)


def _check_depths(depths: ArrayLike | None, n_labels: int) -> Floats | None:
    if depths is None:
        return None
    values = _check_size(np.asarray(depths), "label_depths", n_labels)
    check_finite(values, "label_depths")
    return values


def _check_size(values: NDArray[Any], name: str, n_labels: int) -> Floats:
    if values.shape != (n_labels,) or values.dtype.kind not in "fiu":
        raise InputError(
            f"{name} must have one number for each of {n_labels:,} labels",
            given=f"an array of shape {values.shape}",
        )
    return np.ascontiguousarray(values, dtype=np.float64)
