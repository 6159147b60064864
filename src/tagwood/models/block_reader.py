"""Read trained weights back out of their packed blocks, one node output at a time. For explanations, not for search.

In: the arrays of `TreeWeights` (layout: `cpp/blocks.hpp`). Out: features and weights of one classifier.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood.models.tree_weights import BLOCK_OUTPUTS, TreeWeights

_FACTOR = 0x9E3779B1  # features are hashed by this odd factor modulo a power of two, so hashing can be undone


class Classifier(NamedTuple):
    """One linear classifier: `weights` of `features` (rising), and its bias."""

    features: NDArray[np.int64]
    weights: NDArray[np.float64]
    bias: float


def read_classifier(model: TreeWeights, node: int, output: int, n_features: int) -> Classifier:
    """Return the classifier of output number `output` (child or label) of a node."""
    arrays = model.arrays
    first = int(arrays.child_ptr[node]) - 1 + int(arrays.label_ptr[node])
    bias = float(arrays.bias[first + output])
    block = int(arrays.block_ptr[node]) + output // BLOCK_OUTPUTS
    slots = slice(int(arrays.slot_ptr[block]), int(arrays.slot_ptr[block + 1]))
    entries = slice(int(arrays.entry_ptr[block]), int(arrays.entry_ptr[block + 1]))
    mine = np.flatnonzero(arrays.columns[entries] == output % BLOCK_OUTPUTS)
    ends = np.cumsum(arrays.counts[slots].astype(np.int64) + 1)  # a slot has counts + 1 entries
    slot = np.searchsorted(ends, mine, side="right")
    features = _slot_features(model, block, n_features)[slot]
    weights = arrays.weights[entries][mine].astype(np.float64) * float(arrays.scales[block])
    order = np.argsort(features)
    return Classifier(features[order], weights[order], bias)


def _slot_features(model: TreeWeights, block: int, n_features: int) -> NDArray[np.int64]:
    """Return the feature of each slot: bucket number and remainder make up its hash."""
    arrays = model.arrays
    begin, end = int(arrays.bucket_ptr[block]), int(arrays.bucket_ptr[block + 1])
    first_slots = arrays.buckets[2 * begin : 2 * end : 2].astype(np.int64)
    bits = (max(n_features, 2) - 1).bit_length()
    remainder_bits = bits - ((first_slots.size - 1).bit_length() - 1)
    bucket = np.repeat(np.arange(first_slots.size - 1, dtype=np.int64), np.diff(first_slots))
    stored = slice(int(arrays.remainder_ptr[block]), int(arrays.remainder_ptr[block + 1]))
    remainders = arrays.remainders[stored].astype(np.int64)
    if remainder_bits > 8:  # low bytes of all slots, then their high bytes
        remainders = remainders[: remainders.size // 2] + (remainders[remainders.size // 2 :] << 8)
    hashed = (bucket << remainder_bits) + remainders
    inverse = pow(_FACTOR, -1, 1 << bits)
    # Both factors are below 2^31, so the product fits.
    features: NDArray[np.int64] = hashed * inverse % (1 << bits)
    return features


def read_node(model: TreeWeights, node: int, n_features: int) -> sparse.csr_array:
    """Return the weights of all outputs of a node, (n_outputs, n_features), without biases."""
    arrays = model.arrays
    n_outputs = int(
        arrays.child_ptr[node + 1]
        - arrays.child_ptr[node]
        + arrays.label_ptr[node + 1]
        - arrays.label_ptr[node]
    )
    blocks = [_read_block(model, node, place, n_features) for place in range(-(-n_outputs // BLOCK_OUTPUTS))]
    if not blocks:
        return sparse.csr_array((0, n_features), dtype=np.float64)
    output, feature, weight = (np.concatenate([block[i] for block in blocks]) for i in range(3))
    return sparse.csr_array((weight, (output, feature)), shape=(n_outputs, n_features))


def _read_block(
    model: TreeWeights, node: int, place: int, n_features: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return output, feature and weight of every entry of one block of a node."""
    arrays = model.arrays
    block = int(arrays.block_ptr[node]) + place
    slots = slice(int(arrays.slot_ptr[block]), int(arrays.slot_ptr[block + 1]))
    entries = slice(int(arrays.entry_ptr[block]), int(arrays.entry_ptr[block + 1]))
    features = _slot_features(model, block, n_features)
    feature = np.repeat(features, arrays.counts[slots].astype(np.int64) + 1)
    output = arrays.columns[entries].astype(np.int64) + place * BLOCK_OUTPUTS
    return output, feature, arrays.weights[entries].astype(np.float64) * float(arrays.scales[block])
