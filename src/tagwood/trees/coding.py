"""Trees from coding theory: frequent labels near the root, label features ignored.

In: label frequencies. Out: a binary `LabelTree`. Huffman's tree has the smallest expected depth; Fano's is at most
one deeper and equals `build_interpolated_tree` at λ=2, γ=0.

Decisions
---------
* Fano: labels in falling order of frequency (equal ones by number) are cut where the two halves are most nearly equal;
  of equally good cuts, the one with more labels on the left. A node of labels with frequency 0 is cut in the middle.
* Huffman: of equal items, labels are joined before subtrees and older ones before younger ones, which keeps the tree
  flat; the more frequent half is on the left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood.trees.balanced import Splits, tree_from_splits
from tagwood.trees.interpolated import LabelFrequencies
from tagwood.trees.label_tree import LabelTree

_F64 = NDArray[np.float64]
_I64 = NDArray[np.int64]

_TIE = 1e-9  # as in cpp/tree/split_sides.cpp: sums that differ by no more than this share are equal


def build_fano_tree(frequencies: ArrayLike) -> LabelTree:
    """Cut labels, most frequent first, repeatedly into two halves of equal frequency; (n_labels,) frequencies.

    Examples
    --------
    >>> build_fano_tree([1, 8, 1, 4, 2]).label_depths().tolist()
    [4, 1, 4, 2, 3]
    """
    f = LabelFrequencies(np.asarray(frequencies)).marginal
    order = np.argsort(-f, kind="stable")
    # Summed from the smallest up, so that sums over rare labels keep their precision.
    above = np.append(np.cumsum(f[order][::-1])[::-1], 0.0)
    centre = 0.5 * (above[:-1] + above[1:])
    begin, end = np.array([0]), np.array([f.size])
    generations = []
    while begin.size:
        generations.append((begin, end))
        inner = end - begin > 1
        cut = _fano_cuts(above, centre, begin[inner], end[inner])
        # Children of a node are adjacent: (begin, cut), (cut, end).
        begin, end = np.stack([begin[inner], cut], 1).ravel(), np.stack([cut, end[inner]], 1).ravel()
    return _binary_tree(order.astype(np.int32), generations)


def build_huffman_tree(frequencies: ArrayLike) -> LabelTree:
    """Join the two rarest labels or subtrees repeatedly: the smallest expected depth of all binary trees.

    Examples
    --------
    >>> build_huffman_tree([1, 8, 1, 4, 2]).label_depths().tolist()
    [4, 1, 4, 2, 3]
    """
    f = LabelFrequencies(np.asarray(frequencies)).marginal
    children, sizes = _huffman_joins(f)
    order = np.empty(f.size, dtype=np.int32)
    node, begin = np.array([2 * f.size - 2]), np.array([0])
    generations = []
    while node.size:
        generations.append((begin, begin + sizes[node]))
        label = node < f.size
        order[begin[label]] = node[label]
        below, first = children[node[~label] - f.size], begin[~label]
        begin = np.stack([first, first + sizes[below[:, 0]]], 1).ravel()
        node = below.ravel()
    return _binary_tree(order, generations)


def _binary_tree(order: NDArray[np.int32], generations: list[tuple[_I64, _I64]]) -> LabelTree:
    """Return the tree of nodes over ``order[begin:end]``, given generation by generation, down to single labels."""
    begin, end = (np.concatenate(part) for part in zip(*generations, strict=True))
    inner = end - begin > 1
    left = np.where(inner, 2 * np.cumsum(inner) - 1, -1).astype(np.int32)
    return tree_from_splits(Splits(order, begin, end, left), arity=2)


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
