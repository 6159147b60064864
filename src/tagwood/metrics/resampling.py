"""Resampling of rows: confidence intervals of metrics, and `compare`, the significance of a difference.

In: the sums of metrics over rows (`measures`), or true labels and two rankings. Out: bootstrap intervals; for two
rankings a `Comparison` with the interval of the difference and the p-value of a sign-flip test. Seeded; done in blocks
of repeats, so that memory is bounded by the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tagwood._check import check_float, check_int, check_threads
from tagwood.errors import InputError
from tagwood.metrics.matching import Floats, match
from tagwood.metrics.measures import LabelSums, RowSums, prepare
from tagwood.metrics.propensity import Propensity
from tagwood.metrics.report import find_by_name, markdown_table, show
from tagwood.ranking import Ranking

_BLOCK = 4_000_000  # numbers in memory at once: repeats of a block times rows (or labels)


@dataclass(frozen=True)
class Difference:
    """One metric of two rankings: `difference` is second minus first, `low` to `high` its interval."""

    name: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`; ``comparison["P@1"]`` is the `Difference` of one metric."""

    differences: tuple[Difference, ...]
    n_rows: int
    confidence: float
    n_resamples: int

    def __getitem__(self, name: str) -> Difference:
        found: Difference = find_by_name(self.differences, name)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, lists and numbers."""
        return asdict(self)

    def to_markdown(self) -> str:
        """Return the comparison as a Markdown table."""
        header = ["metric", "first", "second", "difference", f"{100 * self.confidence:g} % interval", "p"]
        return markdown_table([header, *(_row(difference) for difference in self.differences)])


def compare(
    Y: Any,
    first: Ranking,
    second: Ranking,
    *,
    metrics: Iterable[str] | None = None,
    train_labels: Any = None,
    propensity: Propensity = "default",
    label_depths: ArrayLike | None = None,
    confidence: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
    threads: int | None = 1,
) -> Comparison:
    """Compare two rankings of the same rows.

    The interval is that of the paired bootstrap: rows are drawn with replacement, the same ones for both. The p-value
    is that of the sign-flip test: if the rankings were equally good, swapping them on a random half of the rows would
    not matter. It is the share of such swaps with a difference at least as large as the real one, and at least
    1 / (n_resamples + 1). Parameters are those of `evaluate`.

    Examples
    --------
    >>> good = Ranking.from_lists([[(0, 1.0)]] * 20, n_labels=2)
    >>> poor = Ranking.from_lists([[(1, 1.0)]] * 20, n_labels=2)
    >>> found = compare([[0]] * 20, poor, good, metrics=["P@1"])["P@1"]
    >>> found.difference, found.low, found.p_value < 0.01
    (1.0, 1.0, True)
    """
    check_float(confidence, "confidence", low=0.5, high=0.999)
    check_int(n_resamples, "n_resamples", low=10)
    matched = [match(Y, ranking, check_threads(threads)) for ranking in (first, second)]
    if first.n_labels != second.n_labels:
        raise InputError(
            "the two rankings must have the same labels", given=f"{first.n_labels:,} and {second.n_labels:,}"
        )
    inputs = prepare(
        first.n_labels, metrics, train_labels=train_labels, propensity=propensity, label_depths=label_depths
    )
    if any(name.family == "coverage" for name in inputs.names):
        raise InputError("coverage@k cannot be compared by resampling rows", hint="Use evaluate for coverage@k.")
    before, after = (list(inputs.sums(one).values()) for one in matched)
    n_rows = matched[0].n_rows
    drawn = bootstrap_values(after, n_rows, n_resamples, seed) - bootstrap_values(before, n_rows, n_resamples, seed)
    ends = intervals(drawn, confidence)
    p_values = swap_p_values(before, after, n_rows, n_resamples, seed)
    values = [[term.value() for term in terms] for terms in (before, after)]
    differences = tuple(
        Difference(str(name), old, new, new - old, float(low), float(high), float(p_value))
        for name, old, new, (low, high), p_value in zip(inputs.names, *values, ends, p_values, strict=True)
    )
    return Comparison(differences, n_rows, confidence, n_resamples)


def _row(found: Difference) -> list[str]:
    ends = f"{show(found.name, found.low)} to {show(found.name, found.high)}"
    numbers = [show(found.name, value) for value in (found.first, found.second, found.difference)]
    return [found.name, *numbers, ends, f"{found.p_value:.2g}"]


def bootstrap_values(terms: Sequence[RowSums], n_rows: int, n_repeats: int, seed: int) -> Floats:
    """Return (n_terms, n_repeats) values on rows drawn with replacement, the same draws for all."""
    blocks = [
        np.stack([term.finish(term.sums(weights)) for term in terms])
        for weights in _blocks(_draw_rows, terms, n_rows, n_repeats, seed)
    ]
    return np.concatenate(blocks, axis=1)


def intervals(values: Floats, confidence: float) -> Floats:
    """Return (n_terms, 2): the ends of the middle share `confidence` of the repeats."""
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    return np.quantile(values, ends, axis=1).T


def swap_p_values(
    first: Sequence[RowSums], second: Sequence[RowSums], n_rows: int, n_repeats: int, seed: int
) -> Floats:
    """Return the two-sided p-value of each metric by the sign-flip test that `compare` describes."""
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
    terms: Sequence[RowSums],
    n_rows: int,
    n_repeats: int,
    seed: int,
) -> Iterator[Floats]:
    widest = max([n_rows, *(term.hits.shape[1] for term in terms if isinstance(term, LabelSums))])
    size = max(1, _BLOCK // widest)
    rng = np.random.default_rng(seed)
    for begin in range(0, n_repeats, size):
        yield np.stack([draw(rng, n_rows) for _ in range(min(size, n_repeats - begin))])
