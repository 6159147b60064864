"""Search in a label tree in plain NumPy: beams row by row, brute force over all labels for the exact search.

Decisions, shared with the native kernels: a better score comes first, then the smaller id; leaves stay in the
beam until everything in it is a leaf; copies of a label are joined (mean or best score) before the cut to k.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.blocks import read_node

_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]
_F64 = NDArray[np.float64]
_U8 = NDArray[np.uint8]
_Model = Sequence[NDArray[Any]]
_Scored = list[tuple[float, int]]

MEAN, MAX = 1, 2


def log_link(margins: _F64, power: int) -> _F64:
    """Return log p: ``-max(0, 1 - z)^power``, or the logarithm of the sigmoid where `power` is 0."""
    if power == 0:
        return -np.logaddexp(0.0, -margins)
    return -(np.maximum(0.0, 1.0 - margins) ** power)


def search(
    model: _Model,
    n_labels: int,
    max_outputs: int,
    link_power: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    exact: bool,
    k: int,
    width: int,
    max_nodes: int,
    copies: int,
    label_allowed: _U8,
    node_allowed: _U8,
    threads: int,
) -> tuple[_I32, _F32, _I32]:
    """Return ``labels, scores, found``: k places per row, unused ones -1.

    An exact search is brute force over all labels; it has no budget of nodes.
    """
    X = _dense(x_indptr, x_indices, x_data, n_features)
    allowed = label_allowed.astype(bool) if label_allowed.size else np.ones(n_labels, dtype=bool)
    open_nodes = node_allowed.astype(bool) if node_allowed.size else np.ones(model[0].size - 1, dtype=bool)
    labels = np.full((X.shape[0], k), -1, dtype=np.int32)
    scores = np.zeros((X.shape[0], k), dtype=np.float32)
    found = np.zeros(X.shape[0], dtype=np.int32)
    nodes = [read_node(model, node, n_features) for node in range(model[0].size - 1)]
    for row, x in enumerate(X):
        log_p = [log_link(W @ x + b, link_power) for W, b in nodes]
        leaves = all_leaves(model, log_p) if exact else beam(model, log_p, width, open_nodes)
        best = _best(label_scores(model, log_p, leaves, allowed, copies), k)
        found[row] = len(best)
        labels[row, : len(best)] = [label for _, label in best]
        scores[row, : len(best)] = np.exp([score for score, _ in best])
    return labels.ravel(), scores.ravel(), found


def node_scores(
    model: _Model,
    n_labels: int,
    max_outputs: int,
    link_power: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
) -> _F64:
    """Return the (n_rows, n_nodes) log scores of the paths to all nodes."""
    X, child_ptr = _dense(x_indptr, x_indices, x_data, n_features), model[0]
    scores = np.zeros((X.shape[0], child_ptr.size - 1))
    for node in range(child_ptr.size - 1):
        W, b = read_node(model, node, n_features)
        children = slice(child_ptr[node], child_ptr[node + 1])
        n_children = children.stop - children.start
        scores[:, children] = scores[:, [node]] + log_link(X @ W.T + b, link_power)[:, :n_children]
    return scores


def beam_leaves(
    model: _Model,
    n_labels: int,
    max_outputs: int,
    link_power: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    width: int,
    threads: int,
) -> tuple[_I32, _F32]:
    """Return the leaves a beam ends in and their path scores: `width` places per row, unused ones -1."""
    X = _dense(x_indptr, x_indices, x_data, n_features)
    leaves = np.full((X.shape[0], width), -1, dtype=np.int32)
    scores = np.zeros((X.shape[0], width), dtype=np.float32)
    nodes = [read_node(model, node, n_features) for node in range(model[0].size - 1)]
    for row, x in enumerate(X):
        log_p = [log_link(W @ x + b, link_power) for W, b in nodes]
        ends = beam(model, log_p, width, np.ones(len(nodes), dtype=bool))
        leaves[row, : len(ends)] = [leaf for _, leaf in ends]
        scores[row, : len(ends)] = np.exp([score for score, _ in ends])
    return leaves.ravel(), scores.ravel()


def margins(
    model: _Model,
    n_labels: int,
    max_outputs: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    ptr: _I64,
    nodes: _I32,
    outputs: _I32,
    threads: int,
) -> _F32:
    """Return the margin of output ``outputs[i]`` of node ``nodes[i]``; ``ptr[r]:ptr[r + 1]`` are of row r."""
    X = _dense(x_indptr, x_indices, x_data, n_features)
    out = np.empty(nodes.size, dtype=np.float32)
    for row, x in enumerate(X):
        for i in range(ptr[row], ptr[row + 1]):
            W, b = read_node(model, nodes[i], n_features)
            out[i] = W[outputs[i]] @ x + b[outputs[i]]
    return out


def open_nodes(
    model: _Model,
    n_labels: int,
    max_outputs: int,
    link_power: int,
    x_indptr: _I64,
    x_indices: _I32,
    x_data: _F32,
    n_features: int,
    ptr: _I64,
    nodes: _I32,
    scores: _F32,
    out_ptr: _I64,
    threads: int,
) -> tuple[_F32, _F32]:
    """Return log scores and probabilities of all outputs of ``nodes[i]``, whose own log score is ``scores[i]``."""
    X = _dense(x_indptr, x_indices, x_data, n_features)
    logs = np.empty(out_ptr[-1], dtype=np.float32)
    for row, x in enumerate(X):
        for i in range(ptr[row], ptr[row + 1]):
            W, b = read_node(model, nodes[i], n_features)
            logs[out_ptr[i] : out_ptr[i + 1]] = log_link(W @ x + b, link_power) + scores[i]
    return logs, np.exp(logs)


def beam(
    model: _Model, log_p: Sequence[_F64], width: int, allowed: NDArray[np.bool_], followed: int | None = None
) -> _Scored:
    """Return (path score, leaf) of the leaves that a beam of `width` ends in, best first.

    Of the inner nodes in the beam the best `followed` are looked into, all by default.
    """
    child_ptr = model[0]
    front: _Scored = [(0.0, 0)]
    while any(child_ptr[node] < child_ptr[node + 1] for _, node in front):
        below = [(score, node) for score, node in front if child_ptr[node] == child_ptr[node + 1]]
        inner = [(score, node) for score, node in front if child_ptr[node] < child_ptr[node + 1]]
        for score, node in inner[:followed]:
            children = range(child_ptr[node], child_ptr[node + 1])
            sums = (score + log_p[node]).astype(np.float32).tolist()  # as in the kernel: the beam sees the same ties
            below += [(sums[i], child) for i, child in enumerate(children) if allowed[child]]
        front = _best(below, width)
    return front


def all_leaves(model: _Model, log_p: Sequence[_F64]) -> _Scored:
    """Return (path score, leaf) of every leaf."""
    return beam(model, log_p, len(log_p), np.ones(len(log_p), dtype=bool))


def label_scores(
    model: _Model, log_p: Sequence[_F64], leaves: _Scored, allowed: NDArray[np.bool_], copies: int
) -> _Scored:
    """Return (score, label) of the allowed labels in `leaves`, each label once."""
    label_ptr, labels = model[1], model[2]
    scores: dict[int, list[float]] = {}
    for score, leaf in leaves:
        for i, label in enumerate(labels[label_ptr[leaf] : label_ptr[leaf + 1]].tolist()):
            if allowed[label]:
                scores.setdefault(label, []).append(score + log_p[leaf][i])
    if copies == MEAN:
        return [(_log_mean(values), label) for label, values in scores.items()]
    return [(max(values), label) for label, values in scores.items()]


def _log_mean(values: list[float]) -> float:
    return float(np.logaddexp.reduce(values) - np.log(len(values)))


def _best(items: _Scored, n: int) -> _Scored:
    return sorted(items, key=lambda item: (-item[0], item[1]))[:n]


def _dense(indptr: _I64, indices: _I32, data: _F32, n_features: int) -> _F64:
    X = np.zeros((indptr.size - 1, n_features))
    X[np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), indices] = data
    return X
