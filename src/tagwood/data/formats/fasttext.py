"""fastText: ``__label__a __label__b text`` per line.

In: one file. Out: a `Dataset` with texts and label names. As in fastText, a word that begins with
``__label__`` is a label wherever it stands. Names have ``_`` for spaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tagwood.data.dataset import Dataset
from tagwood.data.files import open_for_writing
from tagwood.data.records import ReadOptions, Record, build_dataset, flat_text, line_records, need_texts
from tagwood.errors import DataError, InputError

PREFIX = "__label__"


def read(path: Path, options: ReadOptions) -> Dataset:
    """Read a file."""
    return build_dataset(records(path, options), path, options, words=True)


def records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of a file."""
    return line_records(path, options, _parse)


def write(dataset: Dataset, path: Path) -> None:
    """Write a file; line breaks and tabs in texts become spaces."""
    texts = need_texts(dataset, "fastText")
    words = [PREFIX + word for word in dataset.vocab.words()]
    with open_for_writing(path) as file:
        for row, (text, labels) in enumerate(zip(texts, dataset.label_lists(), strict=True)):
            if PREFIX in text:
                raise InputError(
                    f"texts must not hold {PREFIX!r} in the fastText format",
                    given=f"row {row}",
                    hint="Use jsonl.",
                )
            file.write(" ".join([*(words[label] for label in labels), flat_text(text)]) + "\n")


def _parse(line: str) -> Record:
    labels = []
    while line.startswith(PREFIX):
        word, _, line = line.partition(" ")
        labels.append(_name(word))
    if PREFIX in line:
        words = line.split()
        labels += [_name(word) for word in words if word.startswith(PREFIX)]
        line = " ".join(word for word in words if not word.startswith(PREFIX))
    return Record(line, labels)


def _name(word: str) -> str:
    name = word.removeprefix(PREFIX).strip()
    if not name:
        raise DataError(f"{PREFIX!r} has no name behind it")
    return name
