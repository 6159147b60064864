"""The label tree that settings make of so many labels, and how many rows reach its levels. Nothing is trained.

A balanced tree halves the labels until they fit into leaves, and joins generations of halves into wide nodes, as
`tagwood.trees.balanced` does. A row reaches a node if one of its labels lies below. If labels lay in the tree at
random, that would follow from the labels per row; like labels lie together, so fewer are reached, by a measured share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tagwood.models.linear_tree import LinearTree
from tagwood.planning.label_figures import LabelFigures

_MATCHED = 10  # nodes of a level that matcher-aware negatives add at most


class Level(NamedTuple):
    """Nodes of a level, outputs of each, pairs of row and node, and rows of an output."""

    nodes: float
    outputs: float
    visits: float
    rows_per_output: float


class TreeShape(NamedTuple):
    """Levels, root first; the last one holds the leaves."""

    generations: int
    levels: tuple[Level, ...]

    @property
    def depth(self) -> int:
        """Depth of the leaves."""
        return len(self.levels) - 1


def tree_shape(labels: LabelFigures, model: LinearTree, together: tuple[float, float]) -> TreeShape:
    """Return the shape of one tree of a model.

    `together` are the shares of the visits beyond the first that remain at the leaves, and above them, because like
    labels lie together.
    """
    size = max(1, min(model.max_leaf_size, labels.n_labels))
    generations = int(np.ceil(np.log2(max(1.0, labels.n_labels / size))))
    most = max(1, model.arity.bit_length() - 1)
    n_levels = -(-generations // most)
    widths = (
        [generations // n_levels + (level < generations % n_levels) for level in range(n_levels)]
        if n_levels
        else []
    )
    nodes = np.cumprod([1, *(2**width for width in widths)]).astype(float)
    levels = []
    for depth, count in enumerate(nodes.tolist()):
        leaf = depth == n_levels
        outputs = labels.n_labels / count if leaf else float(2 ** widths[depth])
        visits = _visits(labels, count, together[0] if leaf else together[1])
        if model.negatives == "teacher+matcher" and depth:
            visits = max(visits, int(labels.row_counts.sum()) * min(count, _MATCHED))
        below = labels.used if leaf else nodes[depth + 1]
        levels.append(Level(count, outputs, visits, visits / max(1.0, below / count)))
    return TreeShape(generations, tuple(levels))


def _visits(labels: LabelFigures, nodes: float, share: float) -> float:
    """Return the pairs of row and node of a level, from how many rows have how many labels."""
    sizes, counts = labels.row_sizes, labels.row_counts
    reached = np.where(sizes > 0, nodes * (1 - (1 - 1 / nodes) ** sizes), 0.0)
    return float((counts * np.where(reached > 1, 1 + share * (reached - 1), reached)).sum())
