"""Take trained blocks from one model into the next where nothing changed: the cheapest warm start.

In: a trained matcher, the rows of its nodes and those of the nodes of a new tree. Out: blocks that need no training.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood.models.tree_training import NodeRows
from tagwood.models.tree_weights import BLOCK_OUTPUTS, TrainedBlocks, TreeWeights
from tagwood.trees.label_tree import LabelTree

_I64 = NDArray[np.int64]


def blocks_of(weights: TreeWeights, nodes: _I64, names: _I64) -> TrainedBlocks:
    """Return the blocks of `nodes` as training returned them, for nodes that are now called `names`."""
    arrays, tree = weights.arrays, weights.tree
    outputs = (np.diff(tree.child_ptr) + np.diff(tree.label_ptr))[nodes].astype(np.int64)
    n_blocks = -(-outputs // BLOCK_OUTPUTS)
    blocks = _ranges(arrays.block_ptr[nodes], n_blocks)
    first_output = tree.child_ptr[nodes].astype(np.int64) - 1 + tree.label_ptr[nodes]
    buckets, n_buckets = _stretches(arrays.bucket_ptr, blocks)
    slots, n_slots = _stretches(arrays.slot_ptr, blocks)
    remainders, n_remainders = _stretches(arrays.remainder_ptr, blocks)
    entries, n_entries = _stretches(arrays.entry_ptr, blocks)
    parts: tuple[NDArray[Any], ...] = (
        n_buckets,
        arrays.buckets.reshape(-1, 2)[buckets].ravel(),
        n_slots,
        n_remainders,
        arrays.remainders[remainders],
        arrays.counts[slots],
        n_entries,
        arrays.columns[entries],
        arrays.weights[entries].view(np.uint8),
        arrays.scales[blocks],
        arrays.bias[_ranges(first_output, outputs)],
    )
    return TrainedBlocks(np.repeat(names, n_blocks), parts)


def unchanged_nodes(old: NodeRows, tree: LabelTree, rows: NodeRows, former: _I64) -> _I64:
    """Return the inner nodes of a new tree that have the rows and children, with their rows, of their former selves.

    Parameters
    ----------
    old
        Rows of the nodes of the former tree.
    tree, rows
        The new tree and the rows of its nodes.
    former
        Former number of each node of the new tree.
    """
    same = np.diff(rows.ptr) == np.diff(old.ptr)[former]
    for node in np.flatnonzero(same):
        now, before = (
            slice(ptr[i], ptr[i + 1]) for ptr, i in ((rows.ptr, node), (old.ptr, int(former[node])))
        )
        same[node] = np.array_equal(rows.rows[now], old.rows[before]) and np.array_equal(
            rows.weights[now], old.weights[before]
        )
    changed_below = np.zeros(tree.n_nodes, dtype=bool)
    changed_below[tree.parent[1:][~same[1:]]] = True
    inner = np.diff(tree.child_ptr) > 0
    return np.flatnonzero(inner & same & ~changed_below)


def _stretches(ptr: _I64, blocks: _I64) -> tuple[_I64, _I64]:
    sizes = np.diff(ptr)[blocks]
    return _ranges(ptr[blocks], sizes), sizes


def _ranges(starts: _I64, sizes: _I64) -> _I64:
    """Return ``start, start + 1, ...`` of each stretch, one after the other.

    Examples
    --------
    >>> _ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    places: _I64 = np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    return places
