"""Trees from coding theory: frequent labels near the root, label features ignored.

In: label frequencies. Out: a binary `LabelTree`. Huffman's tree has the smallest expected depth; Fano's is at most
one deeper and equals `build_interpolated_tree` at λ=2, γ=0.

Decisions
---------
* Fano: labels in falling order of frequency (equal ones by number) are cut where the two halves are most nearly equal;
  of equally good cuts, the one with more labels on the left. A node of labels with frequency 0 is cut in the middle.
* Huffman: of equal items, labels are joined before subtrees and older ones before younger ones, which keeps the tree
  flat; the more frequent half is on the left.
* With `max_leaf_size`, the largest subtrees that fit become leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import check_int
from tagwood.trees.balanced import tree_from_splits
from tagwood.trees.interpolated import LabelFrequencies
from tagwood.trees.label_tree import LabelTree

_F64 = NDArray[np.float64]
_I64 = NDArray[np.int64]

_TIE = 1e-9  # as in cpp/tree/split_sides.cpp: sums that differ by no more than this share are equal


def build_fano_tree(frequencies: ArrayLike, max_leaf_size: int = 1) -> LabelTree:
    """Cut labels, most frequent first, repeatedly into two halves of equal frequency.

    Parameters
    ----------
    frequencies
        (n_labels,) non-negative numbers.
    max_leaf_size
        Largest number of labels in a leaf.

    Examples
    --------
    >>> build_fano_tree([1, 8, 1, 4, 2]).label_depths().tolist()
    [4, 1, 4, 2, 3]
    """
    check_int(max_leaf_size, "max_leaf_size", low=1)
    f = LabelFrequencies(np.asarray(frequencies)).marginal
    order = np.argsort(-f, kind="stable")
    # Summed from the smallest up, so that sums over rare labels keep their precision.
    above = np.append(np.cumsum(f[order][::-1])[::-1], 0.0)
    centre = 0.5 * (above[:-1] + above[1:])
    begin, end = np.array([0]), np.array([f.size])
    splits = _Splits([], [], [])
    while begin.size:
        inner = end - begin > max_leaf_size
        cut = _fano_cuts(above, centre, begin[inner], end[inner])
        splits.add(begin, end, inner)
        # Children of a node are adjacent: (begin, cut), (cut, end).
        begin, end = np.stack([begin[inner], cut], 1).ravel(), np.stack([cut, end[inner]], 1).ravel()
    return tree_from_splits(order.astype(np.int32), *splits.arrays(), arity=2)


def build_huffman_tree(frequencies: ArrayLike, max_leaf_size: int = 1) -> LabelTree:
    """Join the two rarest labels or subtrees repeatedly: the smallest expected depth of all binary trees.

    Parameters
    ----------
    frequencies
        (n_labels,) non-negative numbers.
    max_leaf_size
        Largest number of labels in a leaf. With 1 this is Huffman's tree.

    Examples
    --------
    >>> build_huffman_tree([1, 8, 1, 4, 2]).label_depths().tolist()
    [4, 1, 4, 2, 3]
    """
    check_int(max_leaf_size, "max_leaf_size", low=1)
    f = LabelFrequencies(np.asarray(frequencies)).marginal
    children, sizes = _huffman_joins(f)
    order = np.empty(f.size, dtype=np.int32)
    node, begin = np.array([2 * f.size - 2]), np.array([0])
    splits, shown = _Splits([], [], []), np.array([True])
    while node.size:  # down to the labels; nodes below a leaf only order its labels
        size = sizes[node]
        splits.add(begin[shown], (begin + size)[shown], size[shown] > max_leaf_size)
        label = node < f.size
        order[begin[label]] = node[label]
        below = children[node[~label] - f.size]
        shown = np.repeat((shown & (size > max_leaf_size))[~label], 2)
        first = begin[~label]
        begin = np.stack([first, first + sizes[below[:, 0]]], 1).ravel()
        node = below.ravel()
    return tree_from_splits(order, *splits.arrays(), arity=2)


class _Splits(NamedTuple):
    """Binary nodes, generation by generation, in the form that `tree_from_splits` reads."""

    begin: list[_I64]
    end: list[_I64]
    inner: list[NDArray[np.bool_]]

    def add(self, begin: _I64, end: _I64, inner: NDArray[np.bool_]) -> None:
        self.begin.append(begin)
        self.end.append(end)
        self.inner.append(inner)

    def arrays(self) -> tuple[_I64, _I64, NDArray[np.int32]]:
        inner = np.concatenate(self.inner)
        left = np.where(inner, 2 * np.cumsum(inner) - 1, -1).astype(np.int32)
        return np.concatenate(self.begin), np.concatenate(self.end), left


def _fano_cuts(above: _F64, centre: _F64, begin: _I64, end: _I64) -> _I64:
    # A label is on the left if its centre lies in the left half of the node's frequency.
    total = above[begin] - above[end]
    middle = above[end] + 0.5 * total * (1 - _TIE)
    cut = centre.size - np.searchsorted(centre[::-1], middle, side="left")
    cut = np.where(total > 0, cut, (begin + end + 1) // 2)
    return np.clip(cut, begin + 1, end - 1)


def _huffman_joins(f: _F64) -> tuple[_I64, _I64]:
    """Return the children of the inner nodes n_labels.. (heavier first) and the number of labels below each node."""
    n = f.size
    rising = np.argsort(f, kind="stable")
    labels, values = rising.tolist(), f[rising].tolist()
    joined: list[float] = []  # values of the subtrees, in rising order: no heap is needed
    children, sizes = [], [1] * n
    at_label = at_joined = 0

    def rarest() -> tuple[int, float]:
        nonlocal at_label, at_joined
        if at_label < n and (at_joined == len(joined) or values[at_label] <= joined[at_joined]):
            at_label += 1
            return labels[at_label - 1], values[at_label - 1]
        at_joined += 1
        return n + at_joined - 1, joined[at_joined - 1]

    for _ in range(n - 1):
        (light, light_value), (heavy, heavy_value) = rarest(), rarest()
        children.append((heavy, light))
        joined.append(light_value + heavy_value)
        sizes.append(sizes[light] + sizes[heavy])
    return np.array(children, dtype=np.int64).reshape(-1, 2), np.array(sizes)
