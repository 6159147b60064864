"""Matcher-aware negatives: the rows that the trained upper levels of a tree wrongly send to a node.

In: the rows each node has by its labels, and the matcher trained so far. Out: the same with the matched rows added.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood._sparse import CsrParts
from tagwood.models.tree_weights import TreeWeights


def with_matched_rows(
    teacher: Any, matcher: TreeWeights, X: CsrParts, nodes: NDArray[np.int64], width: int, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Return rows of `nodes` (one level of the tree) with those that a beam of `width` sends there.

    Parameters
    ----------
    teacher
        `ptr`, `rows`, `weights` of each node by its labels.
    matcher
        The model so far: every level above `nodes` is trained.
    nodes
        All nodes of one level, rising.
    """
    cut = int(nodes[-1]) + 1
    upper = _upper_part(matcher, cut)
    found, _ = upper.leaves(X, width, threads)
    row = np.repeat(np.arange(X.n_rows), width)
    node = found.ravel().astype(np.int64)
    labelled = np.zeros(X.n_rows, dtype=bool)  # rows without labels take no part in training
    labelled[teacher.rows[teacher.ptr[0] : teacher.ptr[1]]] = True
    here = (node >= nodes[0]) & labelled[row]  # leaves higher up and unused places are not of this level
    begin, end = teacher.ptr[nodes[0]], teacher.ptr[cut]
    own = np.repeat(nodes, np.diff(teacher.ptr[nodes[0] : cut + 1]))
    keys = np.concatenate([node[here] * X.n_rows + row[here], own * X.n_rows + teacher.rows[begin:end]])
    keys = np.unique(keys)
    ptr = np.searchsorted(keys, np.arange(teacher.ptr.size, dtype=np.int64) * X.n_rows).astype(np.int64)
    return ptr, (keys % X.n_rows).astype(np.int32), np.empty(0, np.float32)


def _upper_part(matcher: TreeWeights, cut: int) -> TreeWeights:
    # Nodes from `cut` on are not there yet, so the nodes of the last level look like leaves to the beam.
    arrays = matcher.arrays
    clipped = np.minimum(arrays.child_ptr[: cut + 1], cut)
    return replace(matcher, arrays=arrays._replace(child_ptr=clipped, label_ptr=arrays.label_ptr[: cut + 1]))
