"""The stored form of `TreeWeights`. In: a trained tree or a `State`. Out: the other one.

Arrays are mapped, not read: only the short ones that say where things start are checked here. The search kernels
keep inside these bounds whatever the long arrays hold, so a forged model file can give wrong labels, not a crash.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tagwood.errors import InputError
from tagwood.models.links import link_power
from tagwood.models.tree_weights import BLOCK_OUTPUTS, BUCKET_SCAN, ModelArrays, TreeWeights
from tagwood.storage import State
from tagwood.trees.label_tree import LabelTree

_STORED = (
    ("block_ptr", np.int64),
    ("bucket_ptr", np.int64),
    ("buckets", np.uint32),
    ("slot_ptr", np.int64),
    ("remainder_ptr", np.int64),
    ("remainders", np.uint8),
    ("counts", np.uint8),
    ("entry_ptr", np.int64),
    ("columns", np.uint8),
    ("scales", np.float32),
    ("bias", np.float32),
)


def tree_weights_state(weights: TreeWeights) -> State:
    """Return the stored form of a trained tree."""
    tree, arrays = weights.tree, weights.arrays
    stored = {name: getattr(arrays, name) for name, _ in _STORED}
    shape = {"parent": tree.parent, "label_ptr": tree.label_ptr, "labels": tree.labels}
    return State("TreeWeights", arrays={**stored, **shape, "weights": arrays.weights})


def tree_weights_from_state(state: State, n_labels: int, link: str, weight_dtype: str) -> TreeWeights:
    """Rebuild a trained tree from its stored form."""
    parent, label_ptr, labels = (
        state.array(name, np.int32, (None,)) for name in ("parent", "label_ptr", "labels")
    )
    tree = LabelTree.from_trusted(parent, label_ptr, labels, n_labels)
    stored = {name: state.array(name, dtype, (None,)) for name, dtype in _STORED}
    weights = state.array("weights", weight_dtype, (None,))
    arrays = ModelArrays(tree.child_ptr, tree.label_ptr, tree.labels, weights=weights, **stored)
    _check_arrays(tree, arrays)
    return TreeWeights(tree, arrays, link, link_power(link))


def _check_arrays(tree: LabelTree, arrays: ModelArrays) -> None:
    n_blocks = arrays.scales.size
    outputs = np.diff(tree.child_ptr) + np.diff(tree.label_ptr)
    node_blocks = -(-outputs.astype(np.int64) // BLOCK_OUTPUTS)
    tables = np.diff(arrays.bucket_ptr) - 1
    slots, stored = np.diff(arrays.slot_ptr), np.diff(arrays.remainder_ptr)
    ok = (
        arrays.bias.size == outputs.sum()
        and arrays.block_ptr.size == tree.n_nodes
        and arrays.block_ptr.min() >= 0
        and np.all(arrays.block_ptr + node_blocks <= n_blocks)
        and arrays.buckets.size % 2 == 0
        and _rises(arrays.bucket_ptr, n_blocks, arrays.buckets.size // 2)
        and _rises(arrays.slot_ptr, n_blocks, arrays.counts.size - BUCKET_SCAN)
        and _rises(arrays.remainder_ptr, n_blocks, arrays.remainders.size - BUCKET_SCAN)
        and np.all((stored == slots) | (stored == 2 * slots))  # one byte or two for each slot
        and _rises(arrays.entry_ptr, n_blocks, arrays.columns.size)
        and arrays.weights.size == arrays.columns.size
        and np.all(tables > 0)
        and np.all(tables & (tables - 1) == 0)
    )
    if not ok:
        raise InputError("the arrays of a stored tree must fit together")


def _rises(ptr: NDArray[np.int64], n_blocks: int, size: int) -> bool:
    rises = ptr.size == n_blocks + 1 and ptr[0] == 0 and ptr[-1] == size and not np.any(np.diff(ptr) < 0)
    return bool(rises)
