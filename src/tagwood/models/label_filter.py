"""`LabelFilter`: a prepared set of labels that searches may, or may not, return.

In: label ids or a mask. Out: the masks that kernels read. Preparing costs time in proportion to the number of labels;
a search with a prepared filter costs about as much as one without, because a filter keeps what it computed: which nodes
of a tree have allowed labels below them, its complement, and what is left of it without another filter.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood.data.vocab import RowNames
from tagwood.errors import InputError
from tagwood.trees.label_tree import LabelTree


class LabelFilter:
    """A set of labels; combine sets with ``&``, ``|`` and ``~``.

    A Tagger makes one from names or ids (`Tagger.label_filter`). It never changes, and may be used by several threads.

    Parameters
    ----------
    mask
        (n_labels,) bool: True for the labels in the set.
    later
        Whether labels that are added to the label table later, with ids from n_labels on, are in the set.
    n_unknown
        Number of given labels that were not found and left out.
    rows
        What the rows of the label table are called by, to refuse a filter for other rows; None: they are not checked.

    Examples
    --------
    >>> in_stock, sold = LabelFilter.of([0, 2, 3], 5), LabelFilter.of([3], 5)
    >>> (in_stock & ~sold).ids.tolist(), len(in_stock | sold), 3 in in_stock
    ([0, 2], 3, True)
    """

    def __init__(
        self, mask: NDArray[np.bool_], *, later: bool = False, n_unknown: int = 0, rows: RowNames | None = None
    ) -> None:
        self.mask = np.array(mask, dtype=np.bool_)  # a copy: the caller's may change
        self.mask.flags.writeable = False
        self.later = later
        self.n_unknown = n_unknown
        self.rows = rows
        self._fitting = rows  # the table that was found to fit last
        self._nodes: WeakKeyDictionary[LabelTree, NDArray[np.uint8]] = WeakKeyDictionary()
        self._without: WeakKeyDictionary[LabelFilter, LabelFilter] = WeakKeyDictionary()
        self._resized: dict[int, LabelFilter] = {}

    @classmethod
    def of(cls, labels: ArrayLike | LabelFilter, n_labels: int, name: str = "labels") -> LabelFilter:
        """Return the set of given label ids, or of the labels where a boolean mask of n_labels is True."""
        if isinstance(labels, LabelFilter):
            return labels.resized(n_labels)
        array = np.atleast_1d(np.asarray(labels))
        if array.dtype == np.bool_:
            if array.shape != (n_labels,):
                expected = f"{name} as a mask must have one entry for each of the {n_labels:,} labels"
                raise InputError(expected, given=f"shape {array.shape}")
            return cls(array)
        mask = np.zeros(n_labels, dtype=np.bool_)
        if array.size:
            if array.ndim != 1 or array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= n_labels:
                raise InputError(f"{name} must hold label ids from 0 to {n_labels - 1}")
            mask[array] = True
        return cls(mask)

    @property
    def n_labels(self) -> int:
        """Number of labels that the mask covers."""
        return self.mask.size

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """Ids of the labels in the set, rising."""
        return np.flatnonzero(self.mask)

    @cached_property
    def blocked(self) -> NDArray[np.uint8]:
        """(n_labels,) 1 for labels outside the set, as kernels take it."""
        return (~self.mask).view(np.uint8)

    @cached_property
    def complement(self) -> LabelFilter:
        """The labels outside the set."""
        return LabelFilter(~self.mask, later=not self.later, rows=self.rows)

    def nodes(self, tree: LabelTree) -> NDArray[np.uint8]:
        """Return (n_nodes,) 1 for nodes of a tree over n_labels labels with a label of the set below them."""
        found = self._nodes.get(tree)
        if found is None:
            found = self._nodes[tree] = tree.nodes_with(self.mask).view(np.uint8)
        return found

    def without(self, other: LabelFilter) -> LabelFilter:
        """Return the labels of the set that are not in another one; computed once for each pair."""
        found = self._without.get(other)
        if found is None:
            found = self._without[other] = self & other.complement
        return found

    def resized(self, n_labels: int) -> LabelFilter:
        """Return the set for a table of another size."""
        if n_labels == self.n_labels:
            return self
        found = self._resized.get(n_labels)
        if found is None:
            more = np.full(max(0, n_labels - self.n_labels), self.later)
            mask = np.append(self.mask[:n_labels], more)
            found = LabelFilter(mask, later=self.later, n_unknown=self.n_unknown, rows=self.rows)
            self._resized = {n_labels: found}  # models of one Tagger have one or two sizes
        return found

    def fits(self, rows: RowNames) -> bool:
        """Whether a label table has the rows that the filter was made for, and perhaps more after them."""
        if self.rows is None or rows is self._fitting:
            return True
        if not rows.continues(self.rows):
            return False
        self._fitting = rows
        return True

    def _common_rows(self, other: LabelFilter) -> RowNames | None:
        """Return the rows of the larger table of two filters; raise `InputError` if the tables differ."""
        if self.rows is None or other.rows is None or self.rows is other.rows:
            return other.rows if self.rows is None else self.rows
        smaller, rows = (self, other.rows) if self.rows.size <= other.rows.size else (other, self.rows)
        if not smaller.fits(rows):
            hint = "Prepare both with label_filter(labels) of the same Tagger."
            raise InputError("filters that are combined must be made for the same labels", given="others", hint=hint)
        return rows

    def __and__(self, other: LabelFilter) -> LabelFilter:
        if not isinstance(other, LabelFilter):
            return NotImplemented
        size = max(self.n_labels, other.n_labels)
        joined = self.resized(size).mask & other.resized(size).mask
        return LabelFilter(joined, later=self.later and other.later, rows=self._common_rows(other))

    def __or__(self, other: LabelFilter) -> LabelFilter:
        if not isinstance(other, LabelFilter):
            return NotImplemented
        size = max(self.n_labels, other.n_labels)
        joined = self.resized(size).mask | other.resized(size).mask
        return LabelFilter(joined, later=self.later or other.later, rows=self._common_rows(other))

    def __invert__(self) -> LabelFilter:
        return self.complement

    def __contains__(self, label: int) -> bool:
        if not isinstance(label, int | np.integer):
            hint = "Look them up first: tagger.vocab_.find(name)."
            raise InputError("a LabelFilter holds ids of labels", given=repr(label)[:60], hint=hint)
        return bool(self.mask[label]) if 0 <= label < self.n_labels else self.later and label >= 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes the set again, for other processes; what searches computed with it is left out."""
        return partial(LabelFilter, later=self.later, n_unknown=self.n_unknown, rows=self.rows), (self.mask,)

    def __len__(self) -> int:
        return self.ids.size

    def __bool__(self) -> bool:
        return True  # an empty set still filters

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the ids, for models that take arrays only."""
        return np.array(self.ids, dtype=dtype)

    def __repr__(self) -> str:
        unknown = f", {self.n_unknown:,} unknown ones left out" if self.n_unknown else ""
        return f"LabelFilter({len(self):,} of {self.n_labels:,} labels{unknown})"


def allowed_labels(
    restrict: ArrayLike | LabelFilter | None, exclude: ArrayLike | LabelFilter | None, n_labels: int
) -> LabelFilter | None:
    """Return the labels that may be returned, of n_labels; None if all may."""
    out = None if exclude is None else LabelFilter.of(exclude, n_labels, "exclude")
    if restrict is None:
        return None if out is None else out.complement
    only = LabelFilter.of(restrict, n_labels, "restrict")
    return only if out is None else only.without(out)
