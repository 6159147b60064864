"""Labels that are called by whole numbers or tuples. In: the labels of rows. Out: rows of a label table, and the table.

Decisions: numbers from 0 on with few gaps are rows of the table themselves, so that rankings and matrices of the same
numbers agree. Numbers with large gaps, such as those of products, get a table with an entry for each number that occurs
(`LabelVocab.of_ids`): no step allocates anything in proportion to the largest number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood._lazy import sparse
from tagwood.data.vocab import LabelVocab
from tagwood.errors import InputError

_DENSE = 100_000  # up to here numbers are rows of the table, whatever the gaps
_DENSE_COLUMNS = 10_000_000  # likewise the columns of a matrix, which say themselves how many labels there are
_GAPS = 10  # beyond, at most so many rows of the table for each number that occurs


def is_dense(largest: int, n_different: int, limit: int = _DENSE) -> bool:
    """Whether numbers up to `largest`, `n_different` of them in use, are to be rows of a label table."""
    return largest < limit or largest < _GAPS * n_different


def id_rows(
    labels: Sequence[Sequence[Any]], vocab: LabelVocab | None, on_unknown: str
) -> tuple[NDArray[np.int32], NDArray[np.int64], LabelVocab] | None:
    """Return the rows of the label table for label sets of numbers or tuples, where each set ends, and the table.

    None for names, and for numbers that are rows of a given table.

    Parameters
    ----------
    labels
        The labels of each row: all numbers, or all tuples.
    vocab
        The label table; None for one of the labels that occur.
    on_unknown
        ``"error"``, ``"add"`` or ``"skip"`` for labels that are not in `vocab`.

    Examples
    --------
    >>> rows, ends, vocab = id_rows([[10**9], [5, 10**9]], None, "error")
    >>> rows.tolist(), ends.tolist(), vocab.label_id(1)
    ([1, 0, 1], [0, 1, 3], 1000000000)
    """
    flat = list(chain.from_iterable(labels))
    kinds = set(map(type, flat))
    numbers = all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds)
    if not flat or not (numbers or kinds == {tuple}) or (vocab is not None and vocab.id_kind == "row"):
        return None
    if vocab is None:
        rows, vocab = _table(flat, numbers)
    else:
        rows = vocab.find_many(flat)
        if (rows < 0).any() and on_unknown == "add":
            new = dict.fromkeys(flat[place] for place in np.flatnonzero(rows < 0))
            vocab = vocab.add_ids(new)
            rows = vocab.find_many(flat)
        if (rows < 0).any() and on_unknown == "error":
            unknown = flat[int(np.argmax(rows < 0))]
            raise InputError("labels must be in the vocabulary", given=repr(unknown), hint=f"It has {len(vocab):,}.")
    ends = np.cumsum([0, *map(len, labels)])
    kept = np.concatenate([[0], np.cumsum(rows >= 0)])
    return rows[rows >= 0].astype(np.int32), kept[ends], vocab


def _table(flat: list[Any], numbers: bool) -> tuple[NDArray[np.int64], LabelVocab]:
    if not numbers:
        vocab = LabelVocab.of_ids(dict.fromkeys(flat))
        return vocab.find_many(flat), vocab
    try:
        given = np.array(flat, dtype=np.int64)
    except OverflowError as error:
        hint = "Pass larger ones as texts: str(id)."
        raise InputError(
            "label ids must be from -2**63 to 2**63 - 1", given=str(max(flat, key=abs)), hint=hint
        ) from error
    different, place = np.unique(given, return_inverse=True)
    if different[0] >= 0 and is_dense(int(different[-1]), different.size):
        return given, LabelVocab.numbered(int(different[-1]) + 1)
    return place.astype(np.int64), LabelVocab.of_ids(different.tolist())


def compact_columns(Y: Any) -> tuple[Any, LabelVocab | None]:
    """Return a sparse matrix without its unused columns, and a table of their numbers, if nearly all are unused."""
    if not sparse.issparse(Y) or Y.ndim != 2 or Y.shape[1] <= _DENSE_COLUMNS:
        return Y, None
    cells = sparse.coo_array(Y)
    used, place = np.unique(cells.coords[1], return_inverse=True)
    if used.size == 0 or is_dense(int(used[-1]), used.size, _DENSE_COLUMNS):
        return Y, None
    small = sparse.csr_array(sparse.coo_array((cells.data, (cells.coords[0], place)), shape=(Y.shape[0], used.size)))
    return small, LabelVocab.of_ids(used.tolist())
