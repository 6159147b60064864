"""The kernels of the softmax tree in plain NumPy: what the native ones must return."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

_U8 = NDArray[np.uint8]
_U32 = NDArray[np.uint32]
_U64 = NDArray[np.uint64]
_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]
_F64 = NDArray[np.float64]
_Model = tuple[_F32, _F32, _I32, _I32, _I32, _I32, _I32]

_WITHOUT_VECTOR = {-1: (0.0, -30.0), -2: (-30.0, 0.0)}  # logarithms of the probabilities of both branches


def softmax_epoch(
    inputs: _F32,
    outputs: _F32,
    dimension: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    label_indptr: _I64,
    labels: _I32,
    path_ptr: _I64,
    path_steps: _I32,
    order: _I32,
    first_rate: float,
    last_rate: float,
    threads: int,
) -> None:
    """Change `inputs` and `outputs` by one pass over the rows of `order`.

    For each label of a row and each decision on its way, with margin m and target t: the output moves by rate · (t −
    σ(m)) · hidden; what the hidden vector should move by is collected and then shared out over the row's features.
    """
    E, W = inputs.reshape(-1, dimension), outputs.reshape(-1, dimension)
    for place, row in enumerate(order.tolist()):
        columns = x_indices[x_indptr[row] : x_indptr[row + 1]]
        weights = x_data[x_indptr[row] : x_indptr[row + 1]]
        wanted = labels[label_indptr[row] : label_indptr[row + 1]].tolist()
        if columns.size == 0 or not wanted:
            continue
        rate = first_rate + place / order.size * (last_rate - first_rate)
        hidden = weights @ E[columns]
        gradient = np.zeros(dimension)
        for label in wanted:
            steps = path_steps[path_ptr[label] : path_ptr[label + 1]]
            decisions, targets = steps >> 1, steps & 1
            moves = rate * (targets - 1 / (1 + np.exp(-(W[decisions] @ hidden).astype(np.float64))))
            gradient += moves @ W[decisions]
            W[decisions] += np.outer(moves, hidden).astype(np.float32)
        E[columns] += np.outer(weights, gradient).astype(np.float32)


def softmax_search(
    model: _Model,
    dimension: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    k: int,
    node_allowed: _U8,
    threads: int,
) -> tuple[_I32, _F32, _I32, _I32]:
    """Return the `k` most probable labels of each row, their probabilities, how many there are, decisions taken.

    Best-first: of all open nodes the most probable is opened next (of equals the smallest); a leaf that is reached
    is the next label.
    """
    child_ptr, label_ptr, tree_labels = model[3:6]
    n_rows = x_indptr.size - 1
    labels, scores = np.full((n_rows, k), -1, np.int32), np.zeros((n_rows, k), np.float32)
    found, evaluated = np.zeros(n_rows, np.int32), np.zeros(n_rows, np.int32)
    for row in range(n_rows):
        branches = _branches(model, dimension, x_indptr, x_indices, x_data, row)
        heap = [(0.0, 0)] if node_allowed.size == 0 or node_allowed[0] else []
        while heap and found[row] < k:
            cost, node = heappop(heap)
            first = int(child_ptr[node])
            if first == child_ptr[node + 1]:
                labels[row, found[row]] = tree_labels[label_ptr[node]]
                scores[row, found[row]] = np.exp(-cost)
                found[row] += 1
                continue
            evaluated[row] += 1
            for side in (0, 1):
                if node_allowed.size == 0 or node_allowed[first + side]:
                    heappush(heap, (cost - branches[node, side], first + side))
    return labels.ravel(), scores.ravel(), found, evaluated


def softmax_scores(
    model: _Model,
    dimension: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    leaf_indptr: _I64,
    leaves: _I32,
    threads: int,
) -> _F32:
    """Return the probabilities of the given leaves of each row."""
    parent, child_ptr = model[2:4]
    scores = np.zeros(leaves.size, np.float32)
    for row in range(x_indptr.size - 1):
        branches = _branches(model, dimension, x_indptr, x_indices, x_data, row)
        for place in range(leaf_indptr[row], leaf_indptr[row + 1]):
            total, node = 0.0, int(leaves[place])
            while node:
                above = int(parent[node])
                total += branches[above, node - child_ptr[above]]
                node = above
            scores[place] = np.exp(total)
    return scores


def _branches(model: _Model, dimension: int, x_indptr: _I64, x_indices: _I32, x_data: _F32, row: int) -> _F64:
    """Return (n_nodes, 2) logarithms of the probabilities of both children; those of leaves mean nothing."""
    E, W = (part.reshape(-1, dimension).astype(np.float64) for part in model[:2])
    inside = slice(x_indptr[row], x_indptr[row + 1])
    hidden = x_data[inside].astype(np.float64) @ E[x_indices[inside]]
    margins = W @ hidden
    learned = np.stack([-np.logaddexp(0, margins), -np.logaddexp(0, -margins)], axis=1)
    even = (np.log(0.5), np.log(0.5))
    return np.array([learned[d] if d >= 0 else _WITHOUT_VECTOR.get(d, even) for d in model[6].tolist()])
