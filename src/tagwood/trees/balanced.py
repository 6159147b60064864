"""Balanced label trees by recursive spherical 2-means. In: label features V. Out: a `LabelTree`.

Wide nodes come from the binary splits: `arity` 16 joins four generations into one, so that a search visits few nodes
and training serves many children in one pass over a node's rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._check import check_int, check_threads
from tagwood._sparse import CsrParts, check_features, csr_parts
from tagwood.errors import InputError
from tagwood.trees.label_tree import LabelTree


def build_balanced_tree(
    V: Any, *, arity: int = 2, max_leaf_size: int = 100, seed: int = 0, threads: int | None = None
) -> LabelTree:
    """Split labels into halves of like labels, again and again, until at most `max_leaf_size` remain.

    Parameters
    ----------
    V
        (n_labels, n_features) label features with rows of norm 1, as from
        `tagwood.features.label_features.label_centroids`. Empty rows are labels without rows; they are kept.
    arity
        Largest number of children of a node, a power of two. Large values make shallow trees: faster to search and
        usually more precise; 2 is the classic Parabel tree.
    max_leaf_size
        Largest number of labels in a leaf.
    seed, threads
        Same seed, same tree, for any number of threads.

    Examples
    --------
    >>> tree = build_balanced_tree([[1.0, 0], [0, 1], [1, 0], [0, 1]], max_leaf_size=2)
    >>> sorted(sorted(tree.leaf_labels(leaf).tolist()) for leaf in tree.leaves)
    [[0, 2], [1, 3]]
    """
    parts = csr_parts(check_features(V, name="V"))
    uniform = np.ones(parts.n_rows)
    nodes = split_labels(
        parts, uniform, uniform, max_leaf_size=max_leaf_size, seed=seed, threads=check_threads(threads)
    )
    return tree_from_splits(*nodes, arity=arity, n_labels=parts.n_rows)


def split_labels(
    V: CsrParts,
    frequency: NDArray[np.float64],
    context_frequency: NDArray[np.float64],
    *,
    lam: float = 0.0,
    gamma: float = 0.0,
    direct: bool = False,
    max_leaf_size: int = 100,
    seed: int = 0,
    threads: int = 1,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Run the native splitter; see `cpp/split.hpp` for the meaning of the four arrays."""
    check_int(max_leaf_size, "max_leaf_size", low=1)
    check_int(seed, "seed", low=0)
    if V.n_rows == 0:
        raise InputError("a label tree needs at least one label", given="none")
    return _kernels.split_labels(
        *V, frequency, context_frequency, lam, gamma, direct, max_leaf_size, 20, 1e-4, seed, threads
    )


def tree_from_splits(
    order: NDArray[np.int32],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    left: NDArray[np.int32],
    *,
    arity: int,
    n_labels: int,
) -> LabelTree:
    """Turn binary splits into a tree whose nodes have up to `arity` children."""
    check_int(arity, "arity", low=2)
    if arity & (arity - 1):
        raise InputError("arity must be a power of two", given=str(arity))
    generations = arity.bit_length() - 1
    queue, parent, sizes, pieces = [0], [-1], [0], []
    for at, node in enumerate(queue):  # grows while it is read: breadth-first
        if left[node] < 0:
            pieces.append(order[begin[node] : end[node]])
        else:
            below = [int(left[node]), int(left[node]) + 1]
            for _ in range(generations - 1):
                below = [
                    child
                    for item in below
                    for child in ([item] if left[item] < 0 else [int(left[item]), int(left[item]) + 1])
                ]
            queue.extend(below)
            parent.extend([at] * len(below))
        sizes.append(end[node] - begin[node] if left[node] < 0 else 0)
    labels = np.concatenate([np.sort(piece) for piece in pieces])
    return LabelTree(np.array(parent), np.cumsum(sizes), labels, n_labels)
