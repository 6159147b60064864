"""PECOS text: ``id,id<TAB>text`` per line.

In: one file. Out: a `Dataset` with texts and label ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tagwood.data.dataset import Dataset
from tagwood.data.files import open_for_writing
from tagwood.data.records import (
    ReadOptions,
    Record,
    build_dataset,
    flat_text,
    line_records,
    need_texts,
    parse_ids,
)
from tagwood.errors import DataError


def read(path: Path, options: ReadOptions) -> Dataset:
    """Read a file."""
    return build_dataset(records(path, options), path, options)


def records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of a file."""
    return line_records(path, options, _parse)


def write(dataset: Dataset, path: Path) -> None:
    """Write a file; line breaks and tabs in texts become spaces."""
    texts = need_texts(dataset, "PECOS text")
    with open_for_writing(path) as file:
        for text, labels in zip(texts, dataset.label_lists(), strict=True):
            file.write(f"{','.join(map(str, labels))}\t{flat_text(text)}\n")


def _parse(line: str) -> Record:
    labels, tab, text = line.partition("\t")
    if not tab:
        raise DataError("has no tab between label ids and text")
    return Record(text, parse_ids(labels))
