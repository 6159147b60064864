"""Statistics of a dataset before training: sizes, label frequencies, duplicates, leaks, and warnings.

In: a `Dataset` and optionally a test set. Out: `DatasetStatistics`, which ``tagwood check`` shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood._sparse import csr_parts
from tagwood.data.dataset import Dataset

_TAIL = 5  # labels on at most this many rows are the tail


@dataclass(frozen=True)
class Spread:
    """Mean and quantiles of a count."""

    mean: float
    least: int
    quarter: float
    median: float
    three_quarters: float
    most: int

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> Spread:
        """Summarise counts; all zero if there are none."""
        if counts.size == 0:
            return cls(0.0, 0, 0.0, 0.0, 0.0, 0)
        quarter, median, three_quarters = map(float, np.quantile(counts, [0.25, 0.5, 0.75]))
        return cls(float(counts.mean()), int(counts.min()), quarter, median, three_quarters, int(counts.max()))


@dataclass(frozen=True)
class TestStatistics:
    """How a test set relates to its training set.

    `leaked_rows` are test rows whose text or features are also in the training set. `labels_only_in_test` cannot be
    learned; `pairs_only_in_test` is how often they occur.
    """

    __test__ = False  # not a test class for pytest

    rows: int
    rows_without_labels: int
    labels_used: int
    leaked_rows: int
    labels_only_in_test: int
    pairs_only_in_test: int


@dataclass(frozen=True)
class DatasetStatistics:
    """The figures of `compute_statistics`.

    `labels` counts the vocabulary, `labels_used` those on at least one row; `rows_per_label` is over used
    labels. `tail_labels` are used labels on at most 5 rows, `tail_share` their share of the used labels, and
    `tail_pair_share` their share of all pairs of row and label. `empty_rows` have no text and no features.
    `duplicate_rows` repeat the text or features of an earlier row; `conflicting_rows` do so with other
    labels.
    """

    rows: int
    labels: int
    labels_used: int
    pairs: int
    features: int | None
    groups: int | None
    labels_per_row: Spread
    rows_per_label: Spread
    words_per_row: Spread | None
    singleton_labels: int
    tail_labels: int
    tail_share: float
    tail_pair_share: float
    empty_rows: int
    rows_without_labels: int
    duplicate_rows: int
    conflicting_rows: int
    test: TestStatistics | None
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return asdict(self) | {"warnings": list(self.warnings)}


def compute_statistics(data: Dataset, test: Dataset | None = None) -> DatasetStatistics:
    """Compute the statistics of a training set.

    A `test` set must have the same label ids (read it with ``vocab=data.vocab, on_unknown="add"``).

    Examples
    --------
    >>> data = Dataset([[0], [0, 1], []], texts=["ash", "oak", "ash"])
    >>> found = compute_statistics(data)
    >>> found.labels_per_row.mean, found.rows_without_labels, found.duplicate_rows, found.conflicting_rows
    (1.0, 1, 1, 1)
    """
    used, rows_per_label = np.unique(data.labels.indices, return_counts=True)
    per_row = np.diff(data.labels.indptr).astype(np.int64)
    keys = list(_row_keys(data))
    duplicates, conflicts = _count_duplicates(data, keys)
    tail = rows_per_label[rows_per_label <= _TAIL]
    pairs = int(data.labels.nnz)
    words = None if data.texts is None else [len(text.split()) for text in data.texts]
    figures: dict[str, Any] = {
        "rows": data.n_rows,
        "labels": data.n_labels,
        "labels_used": used.size,
        "pairs": pairs,
        "features": None if data.features is None else int(data.features.shape[1]),
        "groups": None if data.groups is None else len(data.group_codes()[1]),
        "labels_per_row": Spread.of(per_row),
        "rows_per_label": Spread.of(rows_per_label),
        "words_per_row": None if words is None else Spread.of(np.array(words, dtype=np.int64)),
        "singleton_labels": int((rows_per_label == 1).sum()),
        "tail_labels": tail.size,
        "tail_share": tail.size / max(1, used.size),
        "tail_pair_share": int(tail.sum()) / max(1, pairs),
        "empty_rows": sum(key == b"" for key in keys),
        "rows_without_labels": int((per_row == 0).sum()),
        "duplicate_rows": duplicates,
        "conflicting_rows": conflicts,
        "test": None if test is None else _compare(used, keys, test),
    }
    return DatasetStatistics(**figures, warnings=tuple(_describe_problems(figures)))


def _compare(used: NDArray[np.int64], keys: list[bytes], test: Dataset) -> TestStatistics:
    known = set(keys) - {b""}
    in_test, counts = np.unique(test.labels.indices, return_counts=True)
    new = ~np.isin(in_test, used)
    return TestStatistics(
        rows=test.n_rows,
        rows_without_labels=int((np.diff(test.labels.indptr) == 0).sum()),
        labels_used=in_test.size,
        leaked_rows=sum(key in known for key in _row_keys(test)),
        labels_only_in_test=int(new.sum()),
        pairs_only_in_test=int(counts[new].sum()),
    )


def _row_keys(data: Dataset) -> Iterator[bytes]:
    """Yield a 16-byte hash of the content of each row; empty bytes for an empty row.

    White space in texts does not count; rows without texts are compared by their features.
    """
    if data.texts is not None:
        for text in data.texts:
            words = " ".join(text.split())
            yield hashlib.blake2b(words.encode(errors="replace"), digest_size=16).digest() if words else b""
    elif data.features is not None:
        parts = csr_parts(data.features)
        for begin, end in pairwise(parts.indptr.tolist()):
            content = parts.indices[begin:end].tobytes() + parts.data[begin:end].tobytes()
            yield hashlib.blake2b(content, digest_size=16).digest() if content else b""
    else:
        yield from (b"\0%d" % row for row in range(data.n_rows))


def _count_duplicates(data: Dataset, keys: list[bytes]) -> tuple[int, int]:
    first: dict[bytes, int] = {}
    duplicates = conflicts = 0
    indptr, indices = data.labels.indptr, data.labels.indices
    for row, key in enumerate(keys):
        earlier = first.setdefault(key, row)
        if key and earlier != row:
            duplicates += 1
            mine = indices[indptr[row] : indptr[row + 1]]
            conflicts += not np.array_equal(mine, indices[indptr[earlier] : indptr[earlier + 1]])
    return duplicates, conflicts


def _describe_problems(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each problem, the worst first."""
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
            f"Test rows that are also in the training set: {_share(test.leaked_rows, test.rows)}. "
            "Scores will be too good; remove these rows from one side."
        )
    if test.labels_only_in_test:
        yield (
            f"Labels that appear only in the test set: {_share(test.labels_only_in_test, test.labels_used)}, "
            f"with {test.pairs_only_in_test:,} assignments. No model can learn them from this training set."
        )
    if test.rows and test.rows_without_labels == test.rows:
        yield "No test row has a label: there is nothing to measure."


def _describe_rows(figures: Mapping[str, Any], rows: int) -> Iterator[str]:
    if figures["empty_rows"]:
        yield f"Rows without content: {_share(figures['empty_rows'], rows)}. Nothing can be learned from them."
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
        yield f"Labels without any row: {_share(unused, figures['labels'])}. They cannot be learned."
    if figures["tail_share"] >= 0.5:
        yield (
            f"Labels with at most 5 rows: {figures['tail_share']:.0%} of those in use, "
            f"{figures['tail_pair_share']:.0%} of all assignments. Expect weak results there, and look at "
            "propensity-scored metrics."
        )
    most = figures["rows_per_label"].most
    if rows >= 20 and most > rows / 2:
        yield f"One label is on {most / rows:.0%} of the rows: P@1 will mostly measure that label."
    if figures["labels_per_row"].most > 1000:
        yield f"A row has {figures['labels_per_row'].most:,} labels: is the separator right?"


def _share(part: int, whole: int) -> str:
    """Return ``"3 of 1,200 (0.25 %)"``."""
    percent = 100 * part / whole
    return f"{part:,} of {whole:,} ({percent:{'.2g' if percent < 10 else '.0f'}} %)"
