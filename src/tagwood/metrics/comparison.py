"""`compare`: two rankings of the same rows, and whether the difference between them is more than luck.

In: true labels and two rankings. Out: for each metric both values, the difference (second minus first) with a
paired-bootstrap interval, and the p-value of a sign-flip permutation test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from tagwood._check import check_float, check_int, check_threads
from tagwood.errors import InputError
from tagwood.metrics.evaluation import Propensity, bootstrap_values, intervals, prepare, swap_p_values
from tagwood.metrics.matching import Floats, match
from tagwood.metrics.measures import parse_metric
from tagwood.metrics.report import show
from tagwood.ranking import Ranking

if TYPE_CHECKING:
    from rich.table import Table


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
    """What `compare` found; ``comparison["P@1"]`` is the `Difference` of one metric."""

    differences: tuple[Difference, ...]
    n_rows: int
    confidence: float
    n_resamples: int

    def __getitem__(self, name: str) -> Difference:
        wanted = str(parse_metric(name))
        for difference in self.differences:
            if difference.name == wanted:
                return difference
        raise InputError(
            f"this comparison has {', '.join(d.name for d in self.differences)}",
            given=repr(wanted),
            hint="Name it in compare(..., metrics=[...]).",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, lists and numbers."""
        return asdict(self)

    def to_json(self, indent: int | None = 2) -> str:
        """Return the comparison as JSON."""
        return json.dumps(self.to_dict(), indent=indent)

    def to_markdown(self) -> str:
        """Return the comparison as a Markdown table."""
        header, *rows = self._cells()
        rule = "|".join(["---", *["---:"] * (len(header) - 1)])
        return "\n".join(
            [f"| {' | '.join(header)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)]
        )

    def to_table(self) -> Table:
        """Return the comparison as a rich table."""
        from rich.table import Table

        header, *rows = self._cells()
        table = Table(*header, caption=f"{self.n_rows:,} rows", caption_justify="left")
        for row in rows:
            table.add_row(*row)
        return table

    def _cells(self) -> list[list[str]]:
        header = ["metric", "first", "second", "difference", f"{100 * self.confidence:g} % interval", "p"]
        return [header, *(_row(difference) for difference in self.differences)]


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

    The interval comes from the paired bootstrap: rows are drawn with replacement, the same ones for both. The
    p-value comes from the sign-flip test: if the rankings were equally good, swapping them on a random half
    of the rows would not matter; it is the share of such swaps with a difference at least as large as the
    real one, never below 1 / (n_resamples + 1). Parameters are those of `evaluate`.

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
    laid = [match(Y, ranking, check_threads(threads)) for ranking in (first, second)]
    if first.n_labels != second.n_labels:
        raise InputError(
            "the two rankings must have the same labels", given=f"{first.n_labels:,} and {second.n_labels:,}"
        )
    settings = prepare(
        first.n_labels, metrics, train_labels=train_labels, propensity=propensity, label_depths=label_depths
    )
    if any(name.family == "coverage" for name in settings.names):
        raise InputError(
            "coverage@k cannot be compared by resampling rows", hint="Use evaluate for coverage@k."
        )
    before, after = (list(settings.terms(one).values()) for one in laid)
    n_rows = laid[0].n_rows
    drawn = bootstrap_values(after, n_rows, n_resamples, seed) - bootstrap_values(
        before, n_rows, n_resamples, seed
    )
    ends = intervals(drawn, confidence)
    p_values = swap_p_values(before, after, n_rows, n_resamples, seed)
    differences = tuple(
        _difference(str(name), before[i].value(), after[i].value(), ends[i], float(p_values[i]))
        for i, name in enumerate(settings.names)
    )
    return Comparison(differences, n_rows, confidence, n_resamples)


def _difference(name: str, first: float, second: float, ends: Floats, p_value: float) -> Difference:
    return Difference(name, first, second, second - first, float(ends[0]), float(ends[1]), p_value)


def _row(found: Difference) -> list[str]:
    ends = f"{show(found.name, found.low)} to {show(found.name, found.high)}"
    numbers = [show(found.name, value) for value in (found.first, found.second, found.difference)]
    return [found.name, *numbers, ends, f"{found.p_value:.2g}"]
