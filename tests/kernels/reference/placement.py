"""The leaves of labels in plain NumPy: chosen by gain, or accepted within limits."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_U8 = NDArray[np.uint8]

_MOVES = 2.0  # what is won by a move must be worth that many times its price


def _cost(rows: int) -> float:
    """Return what training one label on some rows costs, as a whole number."""
    return float(np.floor(16 * rows * np.sqrt(np.sqrt(rows))))


class _Copy(NamedTuple):
    """One more leaf for a label: reach per work, the work, and the leaf."""

    per_work: float
    work: float
    leaf: int


class _Placer:
    def __init__(
        self, rows_of: list[_I32], first_leaf: _I32, matched: _I32, width: int, n_nodes: int, brings_all: bool
    ) -> None:
        self.rows_of, self.matched, self.brings_all = rows_of, matched, brings_all
        self.width = width
        self.weight = np.maximum(width - np.arange(matched.shape[1]), 0)
        self.leaves_of = [[leaf] for leaf in first_leaf.tolist()]
        self.counts = np.zeros((n_nodes, matched.shape[0]), dtype=np.int64)  # labels of a row in a leaf
        self.n_labels = np.bincount(first_leaf, minlength=n_nodes).astype(np.float64)
        for rows, leaf in zip(rows_of, first_leaf, strict=True):
            self.counts[leaf, rows] += 1
        self.order = np.argsort([-rows.size for rows in rows_of], kind="stable").tolist()

    def n_rows(self, leaf: int) -> int:
        return int(np.count_nonzero(self.counts[leaf]))

    def work(self) -> float:
        return sum(float(n) * _cost(self.n_rows(leaf)) for leaf, n in enumerate(self.n_labels))

    def added_work(self, leaf: int, rows: _I32) -> float:
        """Return what one more label with some rows adds to the work of a leaf."""
        n, before = self.n_labels[leaf], self.n_rows(leaf)
        after = before + int(np.count_nonzero(self.counts[leaf, rows] == 0))
        return float((n + 1) * _cost(after) - n * _cost(before))

    def reach(self, rows: _I32, held: list[int]) -> dict[int, int]:
        """Return what each leaf reaches beyond the leaves that are held; only leaves that reach any."""
        found: dict[int, int] = {}
        for places in self.matched[rows]:
            already = int((np.isin(places, held) * self.weight).max(initial=0))
            for leaf, weight in zip(places.tolist(), self.weight.tolist(), strict=True):
                if leaf >= 0 and weight > already:
                    found[leaf] = found.get(leaf, 0) + weight - already
        return found

    def move(self, label: int, price: float) -> None:
        rows, own = self.rows_of[label], self.leaves_of[label][0]
        found = self.reach(rows, [])
        if not found:
            return
        self.counts[own, rows] -= 1
        self.n_labels[own] -= 1
        least = found.setdefault(own, 0)
        values = {}
        for leaf, reach in sorted(found.items()):
            if reach >= least:
                values[leaf] = reach + 0.5 * self.width * (leaf == own) - price * self.added_work(leaf, rows)
        best = max(values, key=lambda leaf: values[leaf])
        self.leaves_of[label][0] = best
        self.counts[best, rows] += 1
        self.n_labels[best] += 1

    def split(self, label: int, leaf: int) -> tuple[_I32, _I32]:
        """Return the rows that come to a further leaf, and those that leave the other leaves for it."""
        rows, places = self.rows_of[label], self.matched[self.rows_of[label]]
        if self.brings_all:
            return rows, rows[:0]
        here, stray = (places == leaf).any(axis=1), ~np.isin(places, self.leaves_of[label]).any(axis=1)
        return rows[here | stray], rows[here & stray]

    def saved_by(self, row: int, leaf: int) -> float:
        """Return what a leaf saves when a row leaves it that only one label brings there."""
        if self.counts[leaf, row] > 1:
            return 0.0
        return float(self.n_labels[leaf] * np.floor(20 * np.sqrt(np.sqrt(self.n_rows(leaf)))))

    def best_copy(self, label: int, price: float, least_gain: int) -> _Copy | None:
        held, best, value = self.leaves_of[label], None, 0.0
        for leaf, reach in sorted(self.reach(self.rows_of[label], held).items()):
            if reach < least_gain * self.width:
                continue
            coming, leaving = self.split(label, leaf)
            saved = sum(self.saved_by(row, other) for row in leaving for other in held)
            work = max(self.added_work(leaf, coming) - saved, 1.0)
            if reach - price * work > value:
                best, value = _Copy(reach / work, work, leaf), reach - price * work
        return best

    def add(self, label: int, leaf: int) -> None:
        coming, leaving = self.split(label, leaf)
        self.counts[leaf, coming] += 1
        self.n_labels[leaf] += 1
        for other in self.leaves_of[label]:
            self.counts[other, leaving] -= 1
        self.leaves_of[label].append(leaf)


def place_labels(
    label_ptr: _I64,
    label_rows: _I32,
    first_leaf: _I32,
    matched: _I32,
    n_places: int,
    width: int,
    n_nodes: int,
    brings_all: bool,
    price: float,
    growth: float,
    most_work: float,
    least_gain: int,
    max_copies: int,
) -> tuple[_I32, _I32]:
    """Return labels and their leaves: those that reach most rows for the work that training them costs."""
    placer = _Placer(
        np.split(label_rows, label_ptr[1:-1]),
        first_leaf,
        matched.reshape(-1, n_places),
        width,
        n_nodes,
        brings_all,
    )
    first_work, n_labels = placer.work(), first_leaf.size
    unit = price * (width * label_rows.size) / max(first_work, 1.0)
    for label in placer.order:
        placer.move(label, _MOVES * unit)
    left = most_work * first_work - placer.work()
    places = int(min(growth, max_copies) * n_labels) - n_labels
    claims: list[tuple[float, int]] = []

    def claim(label: int) -> None:
        copy = placer.best_copy(label, unit, least_gain)
        if copy and len(placer.leaves_of[label]) < max_copies:
            heapq.heappush(claims, (-copy.per_work, label))

    for label in placer.order:
        claim(label)
    while claims and places > 0:
        _, label = heapq.heappop(claims)
        copy = placer.best_copy(label, unit, least_gain)
        if copy is None:
            continue
        if claims and -claims[0][0] > copy.per_work:
            heapq.heappush(claims, (-copy.per_work, label))
            continue
        if copy.work > left:
            break
        left -= copy.work
        places -= 1
        placer.add(label, copy.leaf)
        claim(label)
    labels = np.repeat(np.arange(n_labels, dtype=np.int32), [len(leaves) for leaves in placer.leaves_of])
    return labels, np.array([leaf for leaves in placer.leaves_of for leaf in leaves], dtype=np.int32)


def accept_pairs(labels: _I32, leaves: _I32, copies: int, n_labels: int, capacity: _I64) -> _U8:
    """Return 1 for each accepted pair, in order: a label gets at most `copies` leaves, a leaf `capacity` labels."""
    left, free = [copies] * n_labels, capacity.tolist()
    accepted = np.zeros(labels.size, dtype=np.uint8)
    for pair, (label, leaf) in enumerate(zip(labels.tolist(), leaves.tolist(), strict=True)):
        if left[label] > 0 and free[leaf] > 0:
            left[label] -= 1
            free[leaf] -= 1
            accepted[pair] = 1
    return accepted
