"""`tagwood check`: check data before training. In: a dataset, perhaps a test set. Out: statistics, warnings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagwood.cli import common
from tagwood.cli.reading import Reading, say_report, say_skipped, with_reading

if TYPE_CHECKING:
    from tagwood.data.statistics import DatasetStatistics, Spread


@with_reading
def check(
    data: Annotated[list[Path], typer.Argument(metavar="DATA", help="Files or folders in any supported format.")],
    test: Annotated[Path | None, typer.Option(help="Test set to compare with: leaked rows, unknown labels.")] = None,
    data_format: common.FormatOption = None,
    vocab: common.VocabOption = None,
    groups: common.GroupsOption = None,
    json: common.JsonFlag = False,
    *,
    reading: Reading,
) -> None:
    """Show how files are read and statistics of the dataset, and warn about doubtful guesses, duplicates and leaks.

    Labels that are not in --vocab are counted and left out.
    """
    from tagwood.data import read_vocab
    from tagwood.data.statistics import compute_statistics

    table = None if vocab is None else read_vocab(vocab)
    unknown = "error" if table is None else "skip"
    train, report = reading.read(data, data_format, vocab=table, on_unknown=unknown, groups=groups)
    other, of_test = None, None
    if test is not None:
        options: dict[str, Any] = {"on_unknown": "add", "split": "test" if test.is_dir() else None}
        other, of_test = reading.read(test, data_format, vocab=train.vocab, **options)
    found = compute_statistics(train, other)
    for one in (report, of_test):
        if one is not None:
            say_report(one)
    if report.labels_unknown:
        common.say("! train stops at labels that are not in the vocabulary, unless --on-unknown is add or skip.")
    say_skipped(reading)
    if json:
        reports = {"reading": report.to_dict(), "reading_test": None if of_test is None else of_test.to_dict()}
        common.print_json(found.to_dict() | {"bad_lines": reading.bad.count} | reports)
        return
    skipped = {"skipped lines": reading.bad.count} if reading.skip_bad else {}
    common.print_data(common.facts_table(facts_of(found) | skipped))
    for warning in found.warnings:
        common.say(f"! {warning}")


def facts_of(found: DatasetStatistics) -> dict[str, Any]:
    """Return the statistics as names and values for a table."""
    facts: dict[str, Any] = {
        "rows": found.rows,
        "labels": f"{found.labels:,} ({found.labels_used:,} in use)",
        "labels per row": _spread(found.labels_per_row),
        "rows per label": _spread(found.rows_per_label),
        "labels on at most 5 rows": f"{found.tail_labels:,} ({found.tail_share:.0%} of those in use)",
        "labels on one row": found.singleton_labels,
        "empty rows": found.empty_rows,
        "rows without labels": found.rows_without_labels,
        "duplicate rows": f"{found.duplicate_rows:,} ({found.conflicting_rows:,} with other labels)",
    }
    if found.features is not None:
        facts["features"] = found.features
    if found.words_per_row is not None:
        facts["words per row"] = _spread(found.words_per_row)
    if found.groups is not None:
        facts["groups"] = found.groups
    if found.test is not None:
        facts |= {
            "test rows": found.test.rows,
            "test rows also in training": found.test.leaked_rows,
            "labels only in test": found.test.labels_only_in_test,
            "test rows without labels": found.test.rows_without_labels,
        }
    return facts


def _spread(spread: Spread) -> str:
    quarters = f"{spread.quarter:g} / {spread.median:g} / {spread.three_quarters:g}"
    return f"{spread.mean:.2f} on average; from {spread.least:,} to {spread.most:,}, quartiles {quarters}"
