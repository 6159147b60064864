"""Balanced label trees by recursive spherical 2-means. In: label features V. Out: a `LabelTree`.

Wide nodes are made from binary splits: `arity` 16 joins up to four generations into one, so that a search visits few
nodes and one pass over a node's rows trains many children.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
    """Split labels repeatedly into halves of similar labels, until at most `max_leaf_size` remain.

    Parameters
    ----------
    V
        (n_labels, n_features) label features with rows of norm 1, as from
        `tagwood.features.base.label_centroids`. Labels without features (empty rows) are kept.
    arity
        Largest number of children of a node, a power of two; see `LinearTree`.
    max_leaf_size
        Largest number of labels in a leaf.
    seed, threads
        The same seed gives the same tree for any number of threads.

    Examples
    --------
    >>> tree = build_balanced_tree([[1.0, 0], [0, 1], [1, 0], [0, 1]], max_leaf_size=2)
    >>> sorted(sorted(tree.leaf_labels(leaf).tolist()) for leaf in tree.leaves)
    [[0, 2], [1, 3]]
    """
    parts = csr_parts(check_features(V, name="V"))
    uniform = np.ones(parts.n_rows)
    splits = split_labels(
        parts, uniform, uniform, max_leaf_size=max_leaf_size, seed=seed, threads=check_threads(threads)
    )
    return tree_from_splits(splits, arity=arity)


class Splits(NamedTuple):
    """Binary splits: node i covers ``order[begin[i]:end[i]]``; its children are ``left[i]`` (-1: none) and the next."""

    order: NDArray[np.int32]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    left: NDArray[np.int32]


def split_labels(
    V: CsrParts,
    frequency: NDArray[np.float64],
    context_frequency: NDArray[np.float64],
    *,
    lam: float = 0.0,
    gamma: float = 0.0,
    direct: bool = False,
    max_leaf_size: int = 100,
    iterations: int = 20,
    tolerance: float = 1e-4,
    seed: int = 0,
    threads: int = 1,
) -> Splits:
    """Run the native splitter (`cpp/tree/split.hpp`)."""
    check_int(max_leaf_size, "max_leaf_size", low=1)
    check_int(seed, "seed", low=0, high=(1 << 64) - 1)
    if V.n_rows == 0:
        raise InputError("a label tree needs at least one label", given="none")
    size, weights = min(max_leaf_size, V.n_rows), (frequency, context_frequency)
    return Splits(*_kernels.split_labels(*V, *weights, lam, gamma, direct, size, iterations, tolerance, seed, threads))


def tree_from_splits(splits: Splits, *, arity: int) -> LabelTree:
    """Turn binary splits into a tree whose nodes have up to `arity` children.

    The generations of splits are distributed evenly over as few levels as `arity` allows: 8 generations become two
    levels of 16 children, not one of 64 and one of 4.
    """
    left, most = splits.left, check_arity(arity).bit_length() - 1
    level = np.zeros(1, dtype=np.int64)
    nodes, parents, n_before = [level], [np.array([-1])], 0
    for generations in _distribute(_count_generations(left), most):
        owner = np.flatnonzero(left[level] >= 0)
        below = level[owner]
        for _ in range(generations):
            below, of = _expand(below, left)
            owner = owner[of]
        nodes.append(below)
        parents.append(n_before + owner)
        n_before += level.size
        level = below
    return tree_of_nodes(np.concatenate(nodes), np.concatenate(parents), splits)


def _count_generations(left: NDArray[np.int32]) -> int:
    count, nodes = 0, np.zeros(1, dtype=np.int64)
    while (nodes := nodes[left[nodes] >= 0]).size:
        nodes = np.concatenate([left[nodes], left[nodes] + 1])
        count += 1
    return count


def _distribute(total: int, most: int) -> list[int]:
    n_parts = -(-total // most)
    return [total // n_parts + (part < total % n_parts) for part in range(n_parts)]


def _expand(nodes: NDArray[np.int64], left: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Replace nodes by their children, leaves by themselves; also return the index each one came from."""
    inner = left[nodes] >= 0
    of = np.repeat(np.arange(nodes.size), inner + 1)
    second = np.zeros(of.size, dtype=np.int64)
    second[1:] = of[1:] == of[:-1]
    return np.where(inner, left[nodes], nodes)[of] + second, of


def check_arity(arity: int) -> int:
    """Return `arity` if it is a power of two from 2 up."""
    check_int(arity, "arity", low=2)
    if arity & (arity - 1):
        raise InputError("arity must be a power of two", given=str(arity))
    return arity


def tree_of_nodes(nodes: NDArray[np.int64], parent: NDArray[np.int64], splits: Splits) -> LabelTree:
    """Return the tree of some of the binary nodes, in breadth-first order; `parent` has indices into `nodes`."""
    order, begin, end, left = splits
    sizes = np.where(left[nodes] < 0, end[nodes] - begin[nodes], 0)
    label_ptr = np.concatenate([[0], np.cumsum(sizes)])
    place = np.arange(label_ptr[-1]) + np.repeat(begin[nodes] - label_ptr[:-1], sizes)
    labels = order[place]
    rising = np.lexsort((labels, np.repeat(np.arange(nodes.size), sizes)))
    return LabelTree(parent, label_ptr, labels[rising], order.size)
