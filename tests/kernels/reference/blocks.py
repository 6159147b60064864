"""A reader and a writer of packed weights in plain NumPy.

In: the hash tables of `cpp/tree/blocks.hpp`. Out: one matrix per node; and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_I64 = NDArray[np.int64]
_F32 = NDArray[np.float32]
_F64 = NDArray[np.float64]

BLOCK_OUTPUTS = 256
FACTOR = 0x9E3779B1


def feature_bits(n_features: int) -> int:
    """Return the number of bits that tell the features apart."""
    return (max(n_features, 2) - 1).bit_length()


def hash_feature(feature: int, bits: int) -> int:
    """Return a number below 2^bits, another one for each feature below 2^bits."""
    return feature * FACTOR % (1 << bits)


def unhash_feature(hashed: int, bits: int) -> int:
    """Return the feature that `hash_feature` sent to `hashed`."""
    return hashed * pow(FACTOR, -1, 1 << bits) % (1 << bits)


def write_block(W: _F64, weight_dtype: str) -> tuple[NDArray[Any], ...]:
    """Pack (n_columns, n_features) weights, at most 256 columns.

    Returns ``buckets, remainders, counts, columns, weights, scale`` as in `read_block`. Features that at
    least half of the columns use are stored for all of them; int8 weights are parts of the largest one / 127.
    """
    n_columns, n_features = W.shape
    bits = feature_bits(n_features)
    used = sorted(np.flatnonzero(W.any(axis=0)).tolist(), key=lambda feature: hash_feature(feature, bits))
    scale = np.float32(np.abs(W).max() / 127 if weight_dtype == "int8" and used else 1)
    bucket_bits = _bucket_bits(len(used), bits)
    buckets: list[list[int]] = [[] for _ in range(1 << bucket_bits)]
    for feature in used:
        buckets[hash_feature(feature, bits) >> (bits - bucket_bits)].append(feature)
    starts, remainders, counts, columns, values = [0, 0], [], [], [], []
    for bucket in buckets:
        for feature in bucket:
            stands = np.flatnonzero(W[:, feature])
            column = np.arange(n_columns) if 2 * stands.size >= n_columns else stands
            remainders.append(hash_feature(feature, bits) % (1 << (bits - bucket_bits)))
            counts.append(column.size - 1)
            columns.extend(column.tolist())
            values.extend((W[column, feature] / scale).tolist())
        starts += [len(remainders), len(columns)]
    exact = np.rint(values) if weight_dtype == "int8" else np.array(values, dtype=np.float64)
    return (
        np.array(starts, dtype=np.uint32),
        _remainder_bytes(remainders, bits - bucket_bits),
        np.array(counts, dtype=np.uint8),
        np.array(columns, dtype=np.uint8),
        exact.astype(weight_dtype),
        np.array([scale]),
    )


def _bucket_bits(n_slots: int, bits: int) -> int:
    wanted = (n_slots // 16).bit_length()
    least, narrow = (min(max(wanted, bits - width, 0), bits) for width in (16, 8))
    return narrow if 8 * ((1 << narrow) - (1 << least)) <= n_slots else least


def _remainder_bytes(remainders: list[int], remainder_bits: int) -> NDArray[np.uint8]:
    planes = [[r & 255 for r in remainders], [r >> 8 for r in remainders]]
    return np.array(planes[0] + (planes[1] if remainder_bits > 8 else []), dtype=np.uint8)


def read_block(
    buckets: NDArray[np.uint32],
    remainders: NDArray[np.uint8],
    counts: NDArray[np.uint8],
    columns: NDArray[np.uint8],
    weights: NDArray[Any],
    scale: float,
    n_features: int,
) -> tuple[_I64, _I64, _F64]:
    """Return the entries of one block as columns, features and values (stored zeros included).

    `buckets` are pairs (first slot, first entry), with one pair more than there are buckets; a bucket's
    number and a slot's remainder make up the hash of a feature, and a slot has ``counts + 1`` entries.
    """
    bits = feature_bits(n_features)
    n_buckets = buckets.size // 2 - 1
    remainder_bits = bits - (n_buckets.bit_length() - 1)
    features = np.empty(columns.size, dtype=np.int64)
    low = remainders[: counts.size].astype(np.int64)
    whole = low + (remainders[counts.size :].astype(np.int64) << 8 if remainder_bits > 8 else 0)
    for bucket in range(n_buckets):
        entry = int(buckets[2 * bucket + 1])
        for slot in range(buckets[2 * bucket], buckets[2 * bucket + 2]):
            last = entry + int(counts[slot]) + 1
            features[entry:last] = unhash_feature((bucket << remainder_bits) + int(whole[slot]), bits)
            entry = last
        assert entry == buckets[2 * bucket + 3]
    return columns.astype(np.int64), features, weights.astype(np.float64) * scale


def read_trained(
    trained: Sequence[NDArray[Any]], output_ptr: _I64, n_features: int, weight_dtype: str
) -> tuple[_F64, _F64]:
    """Return what `train_blocks` gave as (n_outputs, n_features) weights and (n_outputs,) biases."""
    bucket_sizes, buckets, slot_sizes, remainder_sizes, remainders, counts = trained[:6]
    entry_sizes, columns, raw, scales, bias, _ = trained[6:]
    weights = raw.view(weight_dtype)
    pairs, slots, stored, entries = (
        np.concatenate([[0], np.cumsum(s)]) for s in (bucket_sizes, slot_sizes, remainder_sizes, entry_sizes)
    )
    W = np.zeros((int(output_ptr[-1]), n_features))
    for b in range(scales.size):
        slot, entry = slice(slots[b], slots[b + 1]), slice(entries[b], entries[b + 1])
        column, feature, value = read_block(
            buckets[2 * pairs[b] : 2 * pairs[b + 1]],
            remainders[stored[b] : stored[b + 1]],
            counts[slot],
            columns[entry],
            weights[entry],
            float(scales[b]),
            n_features,
        )
        W[output_ptr[b] + column, feature] = value
    return W, bias.astype(np.float64)


def read_node(model: Sequence[NDArray[Any]], node: int, n_features: int) -> tuple[_F64, _F64]:
    """Return the (n_outputs, n_features) weights and (n_outputs,) biases of one node of a model.

    `model` holds the arrays in the order of `tagwood.models.linear_tree.weights.ModelArrays`. Outputs are a node's
    children or, in a leaf, its labels.
    """
    child_ptr, label_ptr, _, block_ptr, bucket_ptr, buckets, slot_ptr, remainder_ptr = model[:8]
    remainders, counts, entry_ptr, columns, weights, scales, bias = model[8:]
    first = int(child_ptr[node]) - 1 + int(label_ptr[node])
    n_outputs = int(child_ptr[node + 1] - child_ptr[node] + label_ptr[node + 1] - label_ptr[node])
    W = np.zeros((n_outputs, n_features))
    for begin in range(0, n_outputs, BLOCK_OUTPUTS):
        b = int(block_ptr[node]) + begin // BLOCK_OUTPUTS
        slot, entry = slice(slot_ptr[b], slot_ptr[b + 1]), slice(entry_ptr[b], entry_ptr[b + 1])
        column, feature, value = read_block(
            buckets[2 * bucket_ptr[b] : 2 * bucket_ptr[b + 1]],
            remainders[remainder_ptr[b] : remainder_ptr[b + 1]],
            counts[slot],
            columns[entry],
            weights[entry],
            float(scales[b]),
            n_features,
        )
        W[begin + column, feature] = value
    return W, bias[first : first + n_outputs].astype(np.float64)
