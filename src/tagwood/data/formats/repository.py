"""The extreme classification repository's text format: ``N D L``, then ``l1,l2 f:v f:v`` per row.

In: one file. Out: a `Dataset` with features. A row without labels starts with a space or with its first
feature; an empty line is a row without labels and features. Features that stand twice in a row are added up.
"""

from __future__ import annotations

from pathlib import Path

from tagwood.data.dataset import Dataset
from tagwood.data.formats.sparse_text import read_sparse_text, write_sparse_text
from tagwood.data.records import ReadOptions, with_vocab
from tagwood.errors import InputError


def read(path: Path, options: ReadOptions) -> Dataset:
    """Read a repository file."""
    rows = read_sparse_text(path, options.bad, with_labels=True)
    labels, vocab = with_vocab(rows.labels(), path, options)
    return Dataset(labels, vocab, features=rows.features())


def write(dataset: Dataset, path: Path) -> None:
    """Write a repository file."""
    if dataset.features is None:
        raise InputError("the repository format holds features, but this dataset has none")
    header = f"{dataset.n_rows} {dataset.features.shape[1]} {dataset.n_labels}"
    write_sparse_text(path, dataset.features, dataset.labels, header)
