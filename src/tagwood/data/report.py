"""`ReadReport`: what readers used, and all that they left out, so that the counts add up to the input.

In: filled by the readers. Out: plain values for ``--json``, lines for people, and warnings where a guess is doubtful.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

_SHOWN = 5
_NAMES = {"\t": "tabs", ";": "';'", ",": "','", "|": "'|'", " ": "spaces"}


@dataclass
class FileReport:
    """How one file was read; empty where that does not apply to its format."""

    path: str = ""
    format: str = ""
    encoding: str = ""
    encoding_guessed: bool = False
    delimiter: str = ""
    text_columns: list[str] = field(default_factory=list)
    label_column: str = ""
    label_separator: str = ""
    id_column: str = ""
    group_column: str = ""
    unused_columns: list[str] = field(default_factory=list)
    rows: int = 0  # without bad and blank ones
    blank_rows: int = 0
    warnings: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Return one line for people."""
        parts = [self.format]
        if self.delimiter:
            parts.append(f"columns separated by {_NAMES.get(self.delimiter, repr(self.delimiter))}")
        if self.encoding:
            parts.append(self.encoding + (" (guessed)" if self.encoding_guessed else ""))
        if self.text_columns:
            parts.append(f"text from {' + '.join(self.text_columns)}")
        if self.label_column:
            split = _NAMES.get(self.label_separator, repr(self.label_separator))
            parts.append(f"labels from {self.label_column}" + (f" split at {split}" if self.label_separator else ""))
        for what, column in (("id", self.id_column), ("group", self.group_column)):
            parts += [f"{what} from {column}"] if column else []
        if self.unused_columns:
            parts.append(f"not used: {shown(self.unused_columns)}")
        return f"{self.path}: {', '.join(parts)}"


@dataclass
class ReadReport:
    """What was read and what was left out.

    Every line of the input is one of `rows`, `bad_lines` and `blank_rows` (of each file); every label named in a row is
    one of `labels_used`, `labels_repeated` in the row, `labels_unknown` and `labels_filtered`. `labels_removed` are
    used ones that the vocabulary marks as removed. `rows_lost_labels` have labels in the file, all of them unknown.
    """

    files: list[FileReport] = field(default_factory=list)
    rows: int = 0
    bad_lines: int = 0
    labels: int = 0
    labels_used: int = 0
    labels_repeated: int = 0
    labels_unknown: int = 0
    unknown_examples: list[str] = field(default_factory=list)
    labels_removed: int = 0
    labels_filtered: int = 0
    rows_without_labels: int = 0
    rows_lost_labels: int = 0
    duplicate_ids: int = 0
    duplicate_examples: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return all counts as plain values."""
        return asdict(self) | {"warnings": list(self.warnings())}

    def lines(self) -> Iterator[str]:
        """Yield how each file was read, and the counts."""
        yield from (file.line() for file in self.files[:_SHOWN])
        if len(self.files) > _SHOWN:
            yield f"and {len(self.files) - _SHOWN:,} more files"
        blank = sum(file.blank_rows for file in self.files)
        left_out = {"bad": self.bad_lines, "blank": blank}
        rows = [f"{self.rows:,} rows", *(f"{count:,} {what} left out" for what, count in left_out.items() if count)]
        labels = [f"{self.labels_used:,} labels on them"]
        more = {"repeated in their row": self.labels_repeated, "unknown": self.labels_unknown}
        more["marked as removed"] = self.labels_removed
        more["removed by the filter file"] = self.labels_filtered
        labels += [f"{count:,} {what}" for what, count in more.items() if count]
        yield f"Read {', '.join(rows + labels)}."

    def warnings(self) -> Iterator[str]:
        """Yield a sentence for each doubtful guess and each kind of loss."""
        for file in self.files:
            if file.encoding_guessed:
                yield f"{file.path}: the encoding {file.encoding} is a guess. If letters look wrong, use --encoding."
            yield from (f"{file.path}: {warning}" for warning in file.warnings)
        if self.labels_unknown:
            yield (
                f"Labels that are not in the vocabulary: {self.labels_unknown:,}, "
                f"such as {shown(self.unknown_examples)}. They were left out; --on-unknown add keeps them."
            )
        if self.rows_lost_labels:
            yield f"Rows that lost all their labels, because none is in the vocabulary: {self.rows_lost_labels:,}."
        if self.labels_removed:
            yield f"Labels that the vocabulary marks as removed: {self.labels_removed:,}. They are not suggested."
        if self.duplicate_ids:
            some = shown(self.duplicate_examples)
            yield f"Rows with the id of an earlier row: {self.duplicate_ids:,}, such as {some}."


def shown(names: Iterable[str], most: int = _SHOWN) -> str:
    """Return the first names of many.

    Examples
    --------
    >>> shown("abcd", 2)
    'a, b, ...'
    """
    some = [name if len(name) <= 60 else name[:57] + "..." for name in names]
    return ", ".join(some[:most]) + (", ..." if len(some) > most else "")
