"""The label table beside a data file: what the file itself cannot say about its labels.

In: a dataset and the path it is written to. Out: ``<file>.labels.tsv`` or ``<folder>/labels.tsv``, and back.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tagwood.data.dataset import Dataset
from tagwood.data.vocab import LabelVocab
from tagwood.data.vocab_files import read_vocab, write_vocab


def table_path(path: Path, *, folder: bool) -> Path:
    """Return where the label table of a data file or folder is."""
    if folder:
        return (path.parent if path.is_file() else path) / "labels.tsv"
    return path.with_name(path.name + ".labels.tsv")


def read_beside(path: Path, *, folder: bool) -> LabelVocab | None:
    """Return the label table beside a data file, or None."""
    table = table_path(path, folder=folder)
    return read_vocab(table) if table.is_file() else None


def write_beside(vocab: LabelVocab, path: Path, *, folder: bool) -> None:
    """Write the label table of the data at `path`."""
    write_vocab(vocab, table_path(path, folder=folder))


def is_needed(dataset: Dataset, *, labels_by: str, has_width: bool) -> bool:
    """Say whether reading the data back would not give the same vocabulary without a table."""
    vocab = dataset.vocab
    if vocab.uris is not None or vocab.languages or vocab.removed is not None:
        return True
    if labels_by == "id":
        return not (vocab.names is None and (has_width or _last_label(dataset) == len(vocab) - 1))
    return vocab.names is None or not _in_order_of_appearance(dataset)


def _last_label(dataset: Dataset) -> int:
    return int(dataset.labels.indices.max(initial=-1))


def _in_order_of_appearance(dataset: Dataset) -> bool:
    labels, first = np.unique(dataset.labels.indices, return_index=True)
    return labels.size == len(dataset.vocab) and bool(np.all(np.diff(first) > 0))
