"""`TreeBrowser`: a label tree, opened a few nodes at a time. In: node numbers. Out: sizes, largest labels, children.

Sums over the labels below a node are made once, from the deepest generation up.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from tagwood.trees.label_tree import LabelTree

_REMEMBERED = 20_000


class TreeBrowser:
    """Answers questions about the nodes of one tree.

    Parameters
    ----------
    tree
        The tree.
    counts
        (n_labels,) training rows of each label.

    Examples
    --------
    >>> browser = TreeBrowser(LabelTree.from_nested([[0, 1], [[2], [3, 4]]]), np.array([5, 1, 2, 3, 4]))
    >>> int(browser.labels_below[0]), int(browser.rows_below[2]), browser.largest(2, 2)
    (5, 9, (4, 3))
    >>> browser.descendants(0, 1, 10)
    ([0, 1, 2], True)
    """

    def __init__(self, tree: LabelTree, counts: NDArray[np.int64]) -> None:
        self.tree = tree
        self._counts = np.zeros(max(tree.n_labels, counts.size), dtype=np.int64)
        self._counts[: counts.size] = counts
        self.largest = lru_cache(_REMEMBERED)(self._largest)

    @cached_property
    def max_depth(self) -> int:
        """Depth of the deepest leaf."""
        return int(self.tree.depth.max())

    @cached_property
    def labels_below(self) -> NDArray[np.int64]:
        """(n_nodes,) number of labels below each node, copies counted."""
        return self._sums(np.diff(self.tree.label_ptr).astype(np.int64))

    @cached_property
    def rows_below(self) -> NDArray[np.int64]:
        """(n_nodes,) sum of the training rows of the labels below each node."""
        total = np.concatenate([[0], np.cumsum(self._counts[self.tree.labels])])
        return self._sums(np.diff(total[self.tree.label_ptr]))

    def children(self, node: int) -> range:
        """Return the children of a node."""
        return range(int(self.tree.child_ptr[node]), int(self.tree.child_ptr[node + 1]))

    def descendants(self, node: int, depth: int, limit: int) -> tuple[list[int], bool]:
        """Return a node and what is below it, breadth-first; False if more than `limit` are there.

        Whole generations are left out, so that no node is shown with only some of its children; the children of the
        asked node itself are cut off only at the limit.
        """
        found = [node]
        begin, end = node, node + 1
        for level in range(depth):
            begin, end = int(self.tree.child_ptr[begin]), int(self.tree.child_ptr[end])
            if len(found) + end - begin > limit:
                return found + (list(range(begin, begin + limit - 1)) if level == 0 else []), False
            found += range(begin, end)
        return found, True

    def path(self, node: int) -> list[int]:
        """Return the nodes from the root to above `node`."""
        return self.tree.path(node)[:-1]

    def leaf_labels(self, node: int) -> list[int]:
        """Return the labels of a leaf, most frequent first."""
        labels = self.tree.leaf_labels(node)
        return [int(label) for label in labels[np.argsort(-self._counts[labels], kind="stable")]]

    def _largest(self, node: int, n: int) -> tuple[int, ...]:
        """Return the `n` most frequent labels below a node; in each generation they are one stretch."""
        begin, end = node, node + 1
        best: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        while begin < end:
            labels = self.tree.labels[self.tree.label_ptr[begin] : self.tree.label_ptr[end]]
            if labels.size > n:
                labels = labels[np.argpartition(-self._counts[labels], n)[:n]]
            best = np.unique(np.concatenate([best, labels]))
            begin, end = int(self.tree.child_ptr[begin]), int(self.tree.child_ptr[end])
        order = np.lexsort((best, -self._counts[best]))[:n]
        return tuple(int(label) for label in best[order])

    def _sums(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sums over each node and all below; parents come before their children."""
        total = own.copy()
        ends = np.flatnonzero(np.diff(self.tree.depth, prepend=-1))  # first node of each generation
        bounds = [*ends.tolist(), self.tree.n_nodes]
        for level in range(len(ends) - 1, 0, -1):
            begin, end = bounds[level], bounds[level + 1]
            np.add.at(total, self.tree.parent[begin:end], total[begin:end])
        return total
