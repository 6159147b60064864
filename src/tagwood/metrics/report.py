"""`Report`: the measured values of one evaluation, and how they are shown.

In: values from `evaluate`. Out: JSON with plain numbers; Markdown and a rich table with percentages, as in papers
(except depths and the Hamming loss).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tagwood.errors import InputError
from tagwood.metrics.measures import parse_metric

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Measure:
    """The value of a metric, and the ends of its confidence interval if there is one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class SliceReport:
    """The measures of one slice of the labels, those with `rarest` to `commonest` training rows."""

    name: str
    n_labels: int
    rarest: int
    commonest: int
    measures: tuple[Measure, ...]


@dataclass(frozen=True)
class Report:
    """The result of `evaluate`.

    Examples
    --------
    >>> report = Report((Measure("P@1", 0.5),), n_rows=2, n_labels=3, n_rows_without_labels=0)
    >>> report["p@1"]
    0.5
    >>> print(report.to_markdown())
    | metric | value |
    |---|---:|
    | P@1 | 50.00 |
    <BLANKLINE>
    2 rows, 3 labels
    """

    measures: tuple[Measure, ...]  # one per metric, in the given order; ``report["P@1"]`` is the value of one
    # n_rows, n_labels: shape of Y
    n_rows: int
    n_labels: int
    # Rows of Y without true labels; see `evaluation` for their effect on each metric
    n_rows_without_labels: int
    propensity: str | None = None  # description of the propensities; None if no metric needed them
    confidence: float | None = None  # level of the intervals, or None
    slices: tuple[SliceReport, ...] = ()  # head, torso and tail, if requested

    def __getitem__(self, name: str) -> float:
        return self.measure(name).value

    def measure(self, name: str) -> Measure:
        """Return the measure of that name, with its interval."""
        found: Measure = find_by_name(self.measures, name)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, lists and numbers; values are fractions, not percentages."""
        plain = asdict(self)
        plain["measures"] = _plain(self.measures)
        plain["slices"] = [{**asdict(part), "measures": _plain(part.measures)} for part in self.slices]
        return plain

    def to_json(self, indent: int | None = 2) -> str:
        """Return the report as JSON."""
        return json.dumps(self.to_dict(), indent=indent)

    def to_markdown(self) -> str:
        """Return the report as a Markdown table with a line about the rows below it."""
        return f"{markdown_table(self._cells())}\n\n{self.summary()}"

    def to_table(self) -> Table:
        """Return the report as a rich table."""
        from rich.table import Table

        header, *rows = self._cells()
        table = Table(caption=self.summary(), caption_justify="left")
        for i, title in enumerate(header):
            table.add_column(title, justify="right" if i else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        return table

    def summary(self) -> str:
        """Return one line about the rows, labels and slices."""
        parts = [f"{self.n_rows:,} rows", f"{self.n_labels:,} labels"]
        if self.n_rows_without_labels:
            parts.append(f"{self.n_rows_without_labels:,} rows without labels")
        if self.propensity is not None:
            parts.append(f"propensities: {self.propensity}")
        for part in self.slices:
            span = f"{part.rarest:,} to {part.commonest:,}"
            parts.append(f"{part.name}: {part.n_labels:,} labels with {span} training rows")
        return "; ".join(parts) if len(parts) > 2 else ", ".join(parts)

    def _cells(self) -> list[list[str]]:
        header = ["metric", "value"]
        if self.confidence is not None:
            header.append(f"{100 * self.confidence:g} % interval")
        header += [part.name for part in self.slices]
        return [header, *(self._row(measure) for measure in self.measures)]

    def _row(self, measure: Measure) -> list[str]:
        cells = [measure.name, show(measure.name, measure.value)]
        if self.confidence is not None:
            ends = [show(measure.name, end) for end in (measure.low, measure.high) if end is not None]
            cells.append(" – ".join(ends))
        for part in self.slices:
            values = [show(m.name, m.value) for m in part.measures if m.name == measure.name]
            cells.append(values[0] if values else "")
        return cells


def find_by_name(values: Sequence[Any], name: str) -> Any:
    """Return the value of a metric by its name in any case, or raise `InputError`."""
    wanted = str(parse_metric(name))
    for value in values:
        if value.name == wanted:
            return value
    known = ", ".join(value.name for value in values)
    raise InputError(f"the measured metrics are {known}", given=repr(wanted), hint="Name it in metrics=[...].")


def markdown_table(cells: Sequence[Sequence[str]]) -> str:
    """Return rows of cells, the header first, as a Markdown table with numbers aligned to the right."""
    header, *rows = (f"| {' | '.join(row)} |" for row in cells)
    return "\n".join([header, f"|---|{'---:|' * (len(cells[0]) - 1)}", *rows])


def show(name: str, value: float) -> str:
    """Return a value as tables show it.

    Examples
    --------
    >>> show("P@1", 0.91666), show("depth@5", 12.3456), show("hamming", 0.00012345)
    ('91.67', '12.35', '0.0001234')
    """
    metric = parse_metric(name)
    if metric.family == "hamming":
        return f"{value:.4g}"
    return f"{value:.2f}" if metric.family == "depth" else f"{100 * value:.2f}"


def _plain(measures: Sequence[Measure]) -> dict[str, dict[str, float]]:
    return {
        m.name: {key: number for key, number in asdict(m).items() if key != "name" and number is not None}
        for m in measures
    }
