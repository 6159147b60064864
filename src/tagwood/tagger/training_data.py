"""From what users pass to `Tagger.fit` to a `Dataset`: names, ids or matrices in, label sets over one table out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from tagwood._sparse import check_labels
from tagwood.data.dataset import Dataset
from tagwood.data.records import LabelIds, Named, label_matrix
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError, InputError


def training_data(
    texts: Iterable[str], labels: Any, groups: Sequence[Any] | None, vocab: LabelVocab | None
) -> Dataset:
    """Return texts and labels as a checked `Dataset`.

    Parameters
    ----------
    texts
        One text per row.
    labels
        A matrix, label ids of each row, or label names (or URIs) of each row.
    groups
        Name of each row's group, or None.
    vocab
        The label table; default: the labels in order of first appearance, or numbers.

    Examples
    --------
    >>> data = training_data(["a", "b"], [["oak", "ash"], {"elm", "ash"}], None, None)
    >>> [data.vocab.name(label) for label in range(3)], data.label_lists()
    (['oak', 'ash', 'elm'], [[0, 1], [1, 2]])
    """
    rows = _texts(texts)
    Y, table = label_sets(labels, vocab)
    if Y.shape[0] != len(rows):
        raise InputError(
            f"labels must have one entry for each of the {len(rows):,} texts", given=f"{Y.shape[0]:,}"
        )
    names = None if groups is None else ["" if group is None else str(group) for group in groups]
    return Dataset(Y, table, texts=rows, groups=names)


def label_sets(
    labels: Any, vocab: LabelVocab | None, on_unknown: str = "error"
) -> tuple[sparse.csr_array, LabelVocab]:
    """Return labels in any accepted form as a 0/1 matrix over a label table."""
    if sparse.issparse(labels) or isinstance(labels, np.ndarray):
        Y = check_labels(labels, name="labels")
        return _widen(Y, LabelVocab.numbered(Y.shape[1]) if vocab is None else vocab)
    rows = list(labels)
    for row in rows:
        if isinstance(row, str) or not hasattr(row, "__iter__"):
            raise InputError(
                "labels must be a collection of labels for each text",
                given=repr(row)[:60],
                hint="Wrap it: [label].",
            )
    ids = LabelIds(vocab, on_unknown)
    try:
        lists = [ids.of(_in_order(row)) for row in rows]
    except DataError as error:
        raise InputError(error.reason, hint=error.hint) from error
    table = ids.vocab()
    flat = np.array([label for row in lists for label in row], dtype=np.int32)
    ends = np.cumsum([0, *(len(row) for row in lists)])
    return check_labels(label_matrix(flat, ends, len(table))), table


def _in_order(row: Iterable[Any]) -> list[int | str | Named]:
    """Return the labels of a row; those of a set sorted, since sets of strings come in another order each time."""
    items = [int(item) if isinstance(item, np.integer) else item for item in row]
    if isinstance(row, set | frozenset):
        items.sort(key=lambda item: (type(item).__name__, item))
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int | str | Named):
            raise InputError("a label must be a name, a URI or an id", given=repr(item)[:60])
    return items


def _widen(Y: sparse.csr_array, vocab: LabelVocab) -> tuple[sparse.csr_array, LabelVocab]:
    if Y.shape[1] > len(vocab):
        raise InputError(
            f"labels must have at most one column for each of the {len(vocab):,} labels of the vocabulary",
            given=f"{Y.shape[1]:,}",
        )
    Y = Y.copy()
    Y.resize(Y.shape[0], len(vocab))
    return Y, vocab


def _texts(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise InputError("texts must be one text per row", given="a single text", hint="Wrap it: [text].")
    return list(texts)
