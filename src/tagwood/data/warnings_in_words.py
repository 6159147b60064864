"""Plain words for what is odd in a dataset. In: the figures of `statistics`. Out: sentences, worst first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def describe_problems(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each thing a user should know before training."""
    rows = figures["rows"]
    if rows == 0:
        yield "There are no rows."
        return
    if figures["pairs"] == 0:
        yield "No row has a label: there is nothing to learn. Is the label column the right one?"
        return
    yield from _describe_test(figures)
    yield from _describe_rows(figures, rows)
    yield from _describe_labels(figures, rows)


def _describe_test(figures: Mapping[str, Any]) -> Iterator[str]:
    test = figures["test"]
    if test is None:
        return
    if test.leaked_rows:
        yield (
            f"Test rows that also stand in the training set: {_share(test.leaked_rows, test.rows)}. "
            "Scores will look better than they are; remove these rows from one side."
        )
    if test.labels_only_in_test:
        yield (
            f"Labels that appear only in the test set: {_share(test.labels_only_in_test, test.labels_used)}, "
            f"on {test.pairs_only_in_test:,} occasions. No model can learn them from this training set."
        )
    if test.rows and test.rows_without_labels == test.rows:
        yield "No test row has a label: nothing can be measured."


def _describe_rows(figures: Mapping[str, Any], rows: int) -> Iterator[str]:
    if figures["empty_rows"]:
        yield f"Rows without content: {_share(figures['empty_rows'], rows)}. They teach nothing."
    if figures["rows_without_labels"]:
        yield f"Rows without labels: {_share(figures['rows_without_labels'], rows)}."
    if figures["duplicate_rows"]:
        yield (
            f"Rows that repeat an earlier row: {_share(figures['duplicate_rows'], rows)}, "
            f"{figures['conflicting_rows']:,} of them with other labels. Merge or drop them before splitting."
        )


def _describe_labels(figures: Mapping[str, Any], rows: int) -> Iterator[str]:
    unused = figures["labels"] - figures["labels_used"]
    if unused:
        yield f"Labels without any row: {_share(unused, figures['labels'])}. They cannot be learned here."
    if figures["tail_share"] >= 0.5:
        yield (
            f"Labels with at most 5 rows: {figures['tail_share']:.0%} of those in use, "
            f"{figures['tail_pair_share']:.0%} of all assignments. Expect weak results there, and look at "
            "propensity-scored metrics."
        )
    most = figures["rows_per_label"].most
    if rows >= 20 and most > rows / 2:
        yield f"One label stands on {most / rows:.0%} of the rows: P@1 will mostly measure that label."
    if figures["labels_per_row"].most > 1000:
        yield f"A row has {figures['labels_per_row'].most:,} labels: is the separator right?"


def _share(part: int, whole: int) -> str:
    """Return ``"3 of 1,200 (0.25 %)"``."""
    percent = 100 * part / whole
    return (
        f"{part:,} of {whole:,} ({percent:.2g} %)"
        if percent < 10
        else f"{part:,} of {whole:,} ({percent:.0f} %)"
    )
