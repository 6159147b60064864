"""Annif's TSV: ``text<TAB><uri> <uri>`` per line, without a header.

In: one file. Out: a `Dataset` with texts; labels are known by their URIs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tagwood.data.dataset import Dataset
from tagwood.data.files import open_for_writing
from tagwood.data.records import (
    Named,
    ReadOptions,
    Record,
    build_dataset,
    flat_text,
    line_records,
    need_texts,
)
from tagwood.data.vocab import LabelVocab
from tagwood.data.vocab_files import clean_uri
from tagwood.errors import DataError, InputError


def read(path: Path, options: ReadOptions) -> Dataset:
    """Read a file."""
    return build_dataset(records(path, options), path, options, words=True)


def records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of a file."""
    return line_records(path, options, _parse)


def write(dataset: Dataset, path: Path) -> None:
    """Write a file; line breaks and tabs in texts become spaces. Labels without URI are written by name."""
    texts = need_texts(dataset, "Annif's TSV")
    uris = bracketed_uris(dataset.vocab)
    with open_for_writing(path) as file:
        for text, labels in zip(texts, dataset.label_lists(), strict=True):
            file.write(f"{flat_text(text)}\t{' '.join(uris[label] for label in labels)}\n")


def bracketed_uris(vocab: LabelVocab) -> list[str]:
    """Return ``<uri>`` for each label; the name without spaces where there is no URI."""
    words = vocab.words()
    uris = [vocab.uri(label) or words[label] for label in range(len(vocab))]
    for label, uri in enumerate(uris):
        if uri.split() != [uri] or vocab.find_word(uri) != label:
            raise InputError(
                "Annif's formats need a URI without spaces of its own for each label", given=repr(uri)
            )
    return [f"<{uri}>" for uri in uris]


def parse_uris(cell: str) -> list[Named]:
    """Return the labels of ``<uri> <uri>``."""
    labels = [Named(clean_uri(word), "") for word in cell.split()]
    if not all(label.uri for label in labels):
        raise DataError("holds an empty URI")
    return labels


def _parse(line: str) -> Record:
    text, tab, uris = line.partition("\t")
    if not tab:
        raise DataError("has no tab between text and URIs")
    return Record(text, parse_uris(uris))
