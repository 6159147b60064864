"""What `SetGenerator.fit` is given, checked and brought into the form of the training loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood.errors import InputError
from tagwood.features.texts import check_texts
from tagwood.models.text_rows import check_text_rows

ORDERS = ("given", "frequency")


def check_set_rows(texts: Iterable[str], Y: Any) -> tuple[list[str], sparse.csr_array]:
    """Return texts and label sets that a set network can be trained on: each row has at least one label."""
    rows, labels = check_text_rows(texts, Y)
    empty = np.flatnonzero(np.diff(labels.indptr) == 0)
    if empty.size:
        raise InputError(
            "every row must have at least one label, because a generator of label sets learns nothing from "
            "rows without any",
            given=f"{empty.size:,} rows without labels, the first is row {empty[0]}",
            hint="Leave them out: keep = Y.sum(axis=1) > 0.",
        )
    return rows, labels


def check_label_texts(label_texts: Sequence[str] | None, n_labels: int) -> list[str] | None:
    """Return the texts of labels, one for each, or None."""
    if label_texts is None:
        return None
    found = list(check_texts(label_texts))
    if len(found) != n_labels:
        raise InputError(
            f"label_texts must hold one text for each of the {n_labels:,} labels", given=f"{len(found):,}"
        )
    return found


def ordered_labels(Y: sparse.csr_array, order: str, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return borders and labels of each row in the order in which they are generated, at most so many of a row.

    ``"given"`` is by rising label number; ``"frequency"`` puts frequent labels first. Of larger sets the first ones in
    that order are kept.

    Examples
    --------
    >>> borders, labels = ordered_labels(sparse.csr_array([[1, 1, 1], [0, 0, 1]]), "frequency", most=2)
    >>> borders.tolist(), labels.tolist()
    ([0, 2, 3], [2, 0, 2])
    """
    row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    labels = Y.indices.astype(np.int64)
    counts = np.bincount(labels, minlength=Y.shape[1])
    rank = -counts[labels] if order == "frequency" else np.zeros(labels.size)
    sequence = np.lexsort((labels, rank, row))
    labels, row = labels[sequence], row[sequence]
    place = np.arange(labels.size) - np.repeat(Y.indptr[:-1], np.diff(Y.indptr))
    kept = place < most
    borders = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=Y.shape[0]))])
    return borders.astype(np.int64), labels[kept]
