"""Wide trees from binary splits, frequent branches opened first. In: splits and frequencies. Out: a `LabelTree`.

Looking at a node costs a search about the same for 2 children as for 16, so depth pays only in wide trees. Joining
whole generations (`tree_from_splits`) would leave places free wherever a branch ends early; here each node takes the
most frequent branches apart until it has `arity` children.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from tagwood.trees.balanced import check_arity, tree_of_nodes
from tagwood.trees.label_tree import LabelTree


def join_by_frequency(
    order: NDArray[np.int32],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    left: NDArray[np.int32],
    *,
    frequency: NDArray[np.float64],
    arity: int,
) -> LabelTree:
    """Turn binary splits into a tree whose nodes have up to `arity` children, frequent labels near the root.

    The first four arrays are those of `split_labels`; `frequency` (n_labels,) says how often each label is wanted.
    Of equally frequent branches the one nearer to the root is opened first, so that equal frequencies and equal
    halves give whole generations.

    Examples
    --------
    >>> order, begin = np.arange(4, dtype=np.int32), np.array([0, 0, 1, 1, 2, 2, 3])
    >>> end = np.array([4, 1, 4, 2, 4, 3, 4])
    >>> left = np.array([1, -1, 3, -1, 5, -1, -1], dtype=np.int32)  # (0 (1 (2 3)))
    >>> tree = join_by_frequency(order, begin, end, left, frequency=np.ones(4), arity=4)
    >>> tree.label_depths().tolist()
    [1, 1, 1, 1]
    """
    check_arity(arity)
    below = np.concatenate([[0.0], np.cumsum(frequency[order])])
    mass = (below[begin] - below[end]).tolist()  # negative: a heap gives its smallest item
    lefts, starts = left.tolist(), begin.tolist()
    nodes, parents = [0], [-1]
    for at, node in enumerate(nodes):  # grows while it is read: breadth-first
        if lefts[node] >= 0:
            children = _open_branches(node, mass, lefts, arity)
            children.sort(key=starts.__getitem__)
            nodes.extend(children)
            parents.extend([at] * len(children))
    return tree_of_nodes(np.array(nodes), np.array(parents), order, begin, end, left)


def _open_branches(node: int, mass: list[float], left: list[int], arity: int) -> list[int]:
    leaves: list[int] = []
    branches = [(mass[node], node)]
    while branches and len(branches) + len(leaves) < arity:
        _, heaviest = heappop(branches)
        for child in (left[heaviest], left[heaviest] + 1):
            if left[child] >= 0:
                heappush(branches, (mass[child], child))
            else:
                leaves.append(child)
    return leaves + [branch for _, branch in branches]
