"""`LabelTree`: the tree in which models search, as flat arrays for the kernels.

Tree builders create it; it knows labels by number only, and no model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood.errors import InputError
from tagwood.storage import State

_ARRAYS = ("parent", "label_ptr", "labels")
_I32 = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class LabelTree:
    """A tree over labels: nodes in breadth-first order, leaves at any depth, labels in leaves.

    Every label is in at least one leaf; it may be in several (copies).

    Parameters
    ----------
    parent
        (n_nodes,) parent of each node, -1 for the root (node 0). Breadth-first: parents do not decrease.
    label_ptr
        (n_nodes + 1,) node i holds ``labels[label_ptr[i]:label_ptr[i + 1]]``; inner nodes hold none.
    labels
        Labels leaf by leaf, each at most once in a leaf.
    n_labels
        Size of the label space.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0, 1], [[2], [3, 4]]])
    >>> tree.n_nodes, tree.n_leaves, tree.label_depths().tolist()
    (5, 3, [1, 1, 2, 2, 2])
    """

    parent: NDArray[Any]
    label_ptr: NDArray[Any]
    labels: NDArray[Any]
    n_labels: int

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            array = np.array(getattr(self, name), dtype=np.int32)  # a copy: the caller's stays writeable
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        _check_nodes(self)
        _check_labels(self)

    @classmethod
    def from_nested(cls, nested: Sequence[Any], n_labels: int | None = None) -> LabelTree:
        """Build a tree from nested lists: a list of numbers is a leaf, a list of lists an inner node."""
        queue: list[tuple[Any, int]] = [(nested, -1)]
        parent, sizes, labels = [], [0], []
        for node, (item, above) in enumerate(queue):
            parent.append(above)
            inner = bool(item) and all(isinstance(child, list | tuple) for child in item)
            if not inner and not all(isinstance(label, int | np.integer) for label in item):
                raise InputError("each list of a nested tree must contain either lists or label numbers")
            if inner:
                queue.extend((child, node) for child in item)
            else:
                labels.extend(item)
            sizes.append(len(labels))
        total = max(labels, default=-1) + 1 if n_labels is None else n_labels
        return cls(np.array(parent), np.array(sizes), np.array(labels, dtype=np.int32), total)

    @classmethod
    def from_state(cls, state: State, n_labels: int) -> LabelTree:
        """Wrap the arrays of a stored model; check nodes and label ids, but not that each label is in a leaf."""
        tree = object.__new__(cls)
        object.__setattr__(tree, "n_labels", n_labels)
        for name in _ARRAYS:
            object.__setattr__(tree, name, state.array(name, np.int32, (None,)))
        _check_nodes(tree)
        _check_ids(tree)
        if tree.labels.size < n_labels:  # memory grows with the number of labels
            given = f"{tree.labels.size:,} of {n_labels:,}"
            raise InputError("every label must be in a leaf of the tree", given=given)
        return tree

    def arrays(self) -> dict[str, _I32]:
        """Return the arrays by name, as models store them."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @cached_property
    def n_nodes(self) -> int:
        """Number of nodes, leaves included."""
        return self.parent.size

    @cached_property
    def child_ptr(self) -> _I32:
        """(n_nodes + 1,): the children of node i are ``child_ptr[i]:child_ptr[i + 1]``."""
        counts = np.bincount(self.parent[1:], minlength=self.n_nodes)
        return np.concatenate([[1], 1 + np.cumsum(counts)]).astype(np.int32)

    @cached_property
    def depth(self) -> _I32:
        """(n_nodes,) distance from the root."""
        depth = np.zeros(self.n_nodes, dtype=np.int32)
        begin, end, level = 1, int(self.child_ptr[1]), 1
        while begin < self.n_nodes:  # breadth-first: each generation is a range of numbers
            depth[begin:end] = level
            begin, end, level = end, int(self.child_ptr[end]), level + 1
        return depth

    @cached_property
    def leaves(self) -> _I32:
        """Node numbers of the leaves, rising."""
        return np.flatnonzero(np.diff(self.child_ptr) == 0).astype(np.int32)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return self.leaves.size

    @cached_property
    def leaf_of_copy(self) -> _I32:
        """(n_copies,) leaf of each entry of `labels`."""
        return np.repeat(np.arange(self.n_nodes, dtype=np.int32), np.diff(self.label_ptr))

    @cached_property
    def has_copies(self) -> bool:
        """Whether some label is in more than one leaf."""
        return self.labels.size > self.n_labels

    @cached_property
    def _leaf_of_label(self) -> _I32:
        """(n_labels,) leaf of each label of a tree without copies."""
        leaves = np.zeros(self.n_labels, dtype=np.int32)
        leaves[self.labels] = self.leaf_of_copy
        return leaves

    def label_depths(self) -> _I32:
        """(n_labels,) depth of each label's leaf; the smallest one for a label with copies."""
        depths = np.full(self.n_labels, np.iinfo(np.int32).max, dtype=np.int32)
        np.minimum.at(depths, self.labels, self.depth[self.leaf_of_copy])
        return depths

    def leaves_of(self, label: int) -> _I32:
        """Leaves that contain `label`, rising."""
        leaves: _I32 = self.leaf_of_copy[self.labels == label]
        return leaves

    def leaf_labels(self, node: int) -> _I32:
        """Labels of a leaf; none for an inner node."""
        return self.labels[self.label_ptr[node] : self.label_ptr[node + 1]]

    def path(self, node: int) -> list[int]:
        """Nodes from the root down to `node`, both included."""
        path = [int(node)]
        while path[-1] != 0:
            path.append(int(self.parent[path[-1]]))
        return path[::-1]

    def nodes_with(self, allowed: ArrayLike) -> NDArray[np.bool_]:
        """(n_nodes,) whether a node has a label of the boolean mask `allowed` (n_labels,) below it."""
        mask = np.asarray(allowed, dtype=bool)
        has = np.zeros(self.n_nodes, dtype=bool)
        few = not self.has_copies and np.count_nonzero(mask) < mask.size // 8  # less to read than every leaf
        has[self._leaf_of_label[mask] if few else self.leaf_of_copy[mask[self.labels]]] = True
        for level in range(int(self.depth.max()), 0, -1):
            nodes = np.flatnonzero(has & (self.depth == level))
            has[self.parent[nodes]] = True
        return has

    def only(self, keep: NDArray[np.bool_]) -> LabelTree:
        """Return the same nodes with some of the entries of `labels`; the other labels are in no leaf."""
        tree = object.__new__(LabelTree)
        ptr = np.concatenate([[0], np.cumsum(keep)])[self.label_ptr].astype(np.int32)
        parts = {"parent": self.parent, "label_ptr": ptr, "labels": self.labels[keep], "n_labels": self.n_labels}
        for name, value in parts.items():
            object.__setattr__(tree, name, value)
        return tree

    def to_text(self, name: Callable[[int], str] = str, max_depth: int | None = None, max_labels: int = 5) -> str:
        """Draw the tree as indented lines, the first few labels of each leaf by name."""
        lines = []
        stack = [0]
        while stack:
            node = stack.pop()
            begin, end = int(self.child_ptr[node]), int(self.child_ptr[node + 1])
            indent = "  " * int(self.depth[node])
            if begin == end:
                inside = self.leaf_labels(node)
                shown = ", ".join(name(int(label)) for label in inside[:max_labels])
                more = f", ... ({inside.size} labels)" if inside.size > max_labels else ""
                lines.append(f"{indent}leaf {node}: {shown}{more}")
            else:
                lines.append(f"{indent}node {node}: {end - begin} children")
                if max_depth is None or self.depth[node] < max_depth:
                    stack.extend(range(end - 1, begin - 1, -1))
        return "\n".join(lines)


def _check_nodes(tree: LabelTree) -> None:
    parent, label_ptr, labels = tree.parent, tree.label_ptr, tree.labels
    n_nodes, above = parent.size, parent[1:]
    if n_nodes == 0 or parent[0] != -1 or np.any(above >= np.arange(1, n_nodes)) or np.any(above < 0):
        raise InputError("parents of a label tree must come before their children, with the root first")
    if np.any(np.diff(above) < 0):
        raise InputError("nodes of a label tree must be numbered breadth-first")
    if label_ptr.size != n_nodes + 1 or label_ptr[0] != 0 or np.any(label_ptr[1:] < label_ptr[:-1]):
        raise InputError("label_ptr of a label tree must rise from 0 and have n_nodes + 1 entries")
    if label_ptr[-1] != labels.size:
        raise InputError("label_ptr of a label tree must end at the number of labels", given=str(label_ptr[-1]))
    if np.any(np.diff(label_ptr)[above] > 0):
        raise InputError("inner nodes of a label tree must have no labels")


def _check_ids(tree: LabelTree) -> None:
    labels = tree.labels
    if labels.size and (labels.min() < 0 or labels.max() >= tree.n_labels):
        raise InputError(f"labels of a label tree must be from 0 to {tree.n_labels - 1}", given=str(labels.max()))


def _check_labels(tree: LabelTree) -> None:
    _check_ids(tree)
    labels = tree.labels
    copies = np.bincount(labels, minlength=tree.n_labels)
    if not copies.all():
        raise InputError("every label must be in a leaf of the tree", given=f"label {int(np.argmin(copies))} in none")
    if copies.size and copies.max() > 1:
        pairs = tree.leaf_of_copy.astype(np.int64) * tree.n_labels + labels
        if np.any(np.diff(pairs) <= 0) and np.unique(pairs).size != labels.size:
            raise InputError("a leaf of a label tree must contain each label once")
