"""The label splitter in plain NumPy: alternate centroids and sides at a node, then go on with both halves.

Decisions, shared with the native kernel:

- The first centroids are two labels drawn at random; a node has a seed of its own, made from its parent's.
- Lemma 1 fills the plus side with the largest keys until half of the weight is reached. The label that
  crosses the border goes to the nearer side, to plus in a tie, so halves of equal labels differ by one at
  most. No side is empty.
- Equal keys go by the order in which the labels stand in the node.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]
_F64 = NDArray[np.float64]

_MASK = (1 << 64) - 1


def split_labels(
    indptr: _I64,
    indices: _I32,
    data: _F32,
    n_features: int,
    frequency: _F64,
    context_frequency: _F64,
    lam: float,
    gamma: float,
    direct: bool,
    max_leaf_size: int,
    max_iterations: int,
    tolerance: float,
    seed: int,
    threads: int,
) -> tuple[_I32, _I64, _I64, _I32]:
    """Split labels in two, again and again, until at most `max_leaf_size` are together.

    Returns ``order, begin, end, left``: node i covers ``order[begin[i]:end[i]]``; its children are
    ``left[i]`` and ``left[i] + 1``, or none where ``left[i]`` is -1. Nodes are numbered by generation.
    """
    V = np.zeros((indptr.size - 1, n_features))
    V[np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), indices] = data
    order = np.arange(V.shape[0])
    begin, end, left, seeds = [0], [V.shape[0]], [-1], [mix(seed)]
    for node, node_seed in enumerate(seeds):  # grows while it is read
        labels = order[begin[node] : end[node]]
        if labels.size <= max_leaf_size:
            continue
        weight = node_weights(frequency[labels], context_frequency[labels], lam, gamma, direct)
        plus = split_node(V[labels], weight, lam, direct, max_iterations, tolerance, node_seed) > 0
        order[begin[node] : end[node]] = np.concatenate([labels[plus], labels[~plus]])
        cut = begin[node] + int(plus.sum())
        left[node] = len(begin)
        begin += [begin[node], cut]
        end += [cut, end[node]]
        left += [-1, -1]
        seeds += [mix(2 * node_seed), mix(2 * node_seed + 1)]
    return order.astype(np.int32), np.array(begin), np.array(end), np.array(left, dtype=np.int32)


def split_node(
    V: _F64, weight: _F64, lam: float, direct: bool, max_iterations: int, tolerance: float, seed: int
) -> NDArray[np.int8]:
    """Return +1 or -1 per row of V: alternate sides and unit centroids while the objective rises."""
    a, b = first_labels(V.shape[0], seed)
    coding = coding_weight(lam, direct)
    difference = V[a] - V[b]
    side = np.zeros(V.shape[0], dtype=np.int8)
    best = -np.inf
    for _ in range(max_iterations):
        key = 0.5 * (2.0 - lam) * (V @ difference) + coding * weight
        before, side = side, assign_sides(key, weight)
        value = split_objective(V, weight, side, lam, direct)
        if value < best:
            return before  # rounding the label that crosses the border lost more than the step had won
        if lam == 2 or np.array_equal(side, before) or value <= best + tolerance:
            break
        best = value
        difference = _unit((weight[side > 0, None] * V[side > 0]).sum(axis=0))
        difference = difference - _unit((weight[side < 0, None] * V[side < 0]).sum(axis=0))
    return side


def split_objective(V: _F64, weight: _F64, side: NDArray[np.int8], lam: float, direct: bool) -> float:
    """Return what the alternation raises: weighted similarity to the own centroid, plus the coding term."""
    coding = coding_weight(lam, direct)
    similarity = sum(
        float(np.linalg.norm((weight[side == which, None] * V[side == which]).sum(axis=0))) for which in (1, -1)
    )
    return (2.0 - lam) * similarity + coding * float((side * weight**2).sum())


def node_weights(frequency: _F64, context_frequency: _F64, lam: float, gamma: float, direct: bool) -> _F64:
    """Return f(lambda) of the labels of one node: they sum to 1; uniform for lambda 0."""
    n = frequency.size
    f = frequency / frequency.sum() if frequency.sum() > 0 else np.full(n, 1 / n)
    context = context_frequency.sum()
    f_tilde = context_frequency / context if context > 0 else np.full(n, 1 / n)
    coding = coding_weight(lam, direct)
    similarity = 0.5 * (2.0 - lam) if direct else 2.0 - lam
    powered = np.ones(n) / n if direct else f ** min(lam, 1.0)
    weight: _F64 = similarity * powered + coding * f_tilde + gamma / n
    weight /= similarity * powered.sum() + coding + gamma
    return weight


def coding_weight(lam: float, direct: bool) -> float:
    """Return the weight of the coding term: (lambda - 1)+, or lambda / 2 without the way-point at 1."""
    return 0.5 * lam if direct else max(lam - 1.0, 0.0)


def assign_sides(key: _F64, weight: _F64) -> NDArray[np.int8]:
    """Lemma 1: +1 for the largest keys until half of the weight is reached, -1 for the rest."""
    order = np.lexsort((np.arange(key.size), -key))
    taken = np.cumsum(weight[order]) - 0.5 * weight[order]  # before each label, and half of itself
    crossed = taken > 0.5 * weight.sum() * (1 + 1e-9)
    n_plus = int(np.argmax(crossed)) if crossed.any() else key.size
    side = np.full(key.size, -1, dtype=np.int8)
    side[order[: min(max(n_plus, 1), key.size - 1)]] = 1
    return side


def first_labels(n: int, seed: int) -> tuple[int, int]:
    """Return the places of the two labels that a node of `n` labels starts from."""
    state = mix(seed)
    a = (mix(state) * n) >> 64
    b = (a + 1 + ((mix(state + 1) * (n - 1)) >> 64)) % n
    return a, b


def mix(x: int) -> int:
    """Return the finaliser of splitmix64: the kernels' source of random numbers."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _unit(v: _F64) -> _F64:
    norm = float(np.linalg.norm(v))
    return v / norm if norm > 0 else v
