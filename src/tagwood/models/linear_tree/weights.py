"""`TreeWeights`: a label tree with its trained classifiers. In: blocks from training. Out: searches, classifiers.

Each node is a small hash table from features to weights (see `cpp/tree/blocks.hpp`), since a search needs the weights
of one node for the features of a row. The arrays are used as they are stored, so a model is memory-mapped in
milliseconds, and rows that are searched together visit a node together, which keeps its weights in cache.

Decisions for labels with copies
--------------------------------
* ``"max"``: a label counts by its best copy and is found once among the k, so a beam stops as early as one without
  copies, and finds the same as merging at its end.
* ``"mean"`` in a beam is the mean over the copies *found* in it (the paper's). It has to open the whole beam.
* Best-first search with ``"max"`` is exact without further work: every factor of a path is at most 1.
* Best-first search with ``"mean"`` takes the mean over *all* copies, found or not. A mean is never above its maximum,
  so a label outside the best m by maximum has a mean of at most the m-th maximum. Search m labels by maximum, score all
  their copies, and stop when the k-th mean is at least the m-th maximum; otherwise search more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._check import check_choice, check_stored_finite, is_pointer
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, csr_parts
from tagwood.errors import InputError
from tagwood.models.label_filter import LabelFilter
from tagwood.storage import State
from tagwood.trees.label_tree import LabelTree

BLOCK_OUTPUTS = 256  # columns of a block are one byte
BUCKET_SCAN = 32  # kernels read this many slots at once, so the arrays end with as many spare ones
# Name -> power of the hinge in exp(-max(0, 1 - z)^power); 0 stands for the sigmoid.
LINKS = {"sigmoid": 0, "l1-hinge": 1, "l2-hinge": 2, "l3-hinge": 3, "l4-hinge": 4}

NO_ROWS_MARGIN = -100.0  # bias of a label without rows: behind every label that some row has
_N_ARRAYS = 11  # that training returns for a block
ANY_CANDIDATES = 20  # labels whose copies are joined by merge="any"
_EMPTY_MASK = np.empty(0, dtype=np.uint8)
_UNKNOWN = "a stored tree must hold weights of known features"  # only a forged one does not
_HASH_FACTOR = 0x9E3779B1  # features times this odd factor modulo a power of two: hashes that can be inverted
# Arrays that are stored besides those of the tree, with their types; weights have the type of the solver.
_STORED: dict[str, type[np.generic]] = {
    **dict.fromkeys(["block_ptr", "bucket_ptr", "slot_ptr", "remainder_ptr", "entry_ptr"], np.int64),
    **dict.fromkeys(["remainders", "counts", "columns"], np.uint8),
    **{"buckets": np.uint32, "scales": np.float32, "bias": np.float32},
}


def link_power(link: str) -> int:
    """Return the kernel's number for a link name, or raise `InputError`."""
    return LINKS[check_choice(link, "link", LINKS)]


def log_probability(margins: NDArray[Any], link: str) -> NDArray[np.float64]:
    """Return the log of the probability-like score of margins; scores multiply along a path.

    Examples
    --------
    >>> np.exp(log_probability(np.array([1.5, 0.0]), "l2-hinge")).round(4).tolist()
    [1.0, 0.3679]
    """
    power = link_power(link)
    z = np.asarray(margins, dtype=np.float64)
    if power == 0:
        return -np.logaddexp(0.0, -z)
    return -(np.maximum(0.0, 1.0 - z) ** power)


class ModelArrays(NamedTuple):
    """Arguments of the search kernels, in their order; described in `cpp/tree/blocks.hpp` and `cpp/tree/search.hpp`."""

    child_ptr: NDArray[np.int32]
    label_ptr: NDArray[np.int32]
    labels: NDArray[np.int32]
    block_ptr: NDArray[np.int64]
    bucket_ptr: NDArray[np.int64]
    buckets: NDArray[np.uint32]
    slot_ptr: NDArray[np.int64]
    remainder_ptr: NDArray[np.int64]
    remainders: NDArray[np.uint8]
    counts: NDArray[np.uint8]
    entry_ptr: NDArray[np.int64]
    columns: NDArray[np.uint8]
    weights: NDArray[np.float32] | NDArray[np.float16] | NDArray[np.int8]
    scales: NDArray[np.float32]
    bias: NDArray[np.float32]


class Found(NamedTuple):
    """Result of a search: `k` places per row, the first `found` of them used.

    `evaluated` are the nodes that were looked into, `outputs` their classifiers.
    """

    labels: NDArray[np.int32]
    scores: NDArray[np.float32]
    found: NDArray[np.int32]
    evaluated: NDArray[np.int32]
    bound: NDArray[np.float32]
    outputs: NDArray[np.int64]


@dataclass(frozen=True)
class SearchPlan:
    """How to search: `exact` or a beam of `beam_width`; `max_nodes` bounds an exact search (0: no bound)."""

    exact: bool = False
    beam_width: int = 10
    max_nodes: int = 0
    merge: str = "mean"
    allowed: LabelFilter | None = None


@dataclass(frozen=True, eq=False)
class TreeWeights:
    """A trained label tree: the tree, its arrays and the link between margins and scores."""

    tree: LabelTree
    arrays: ModelArrays
    link: str

    @cached_property
    def head(self) -> tuple[ModelArrays, int, int, int]:
        """First arguments of the search kernels: arrays, number of labels, most outputs of a node, link."""
        outputs = np.diff(self.tree.child_ptr) + np.diff(self.tree.label_ptr)
        return self.arrays, self.tree.n_labels, int(outputs.max()), link_power(self.link)

    @cached_property
    def untrained(self) -> LabelFilter | None:
        """Labels without training rows; None if there are none."""
        tree = self.tree
        outputs = tree.child_ptr[tree.leaf_of_copy] - 1 + np.arange(tree.labels.size)
        labels = tree.labels[self.arrays.bias[outputs] == NO_ROWS_MARGIN]
        labels = labels[(labels >= 0) & (labels < tree.n_labels)]  # a forged model may hold others
        return LabelFilter.of(labels, tree.n_labels) if labels.size else None

    def search(self, X: CsrParts, k: int, plan: SearchPlan, threads: int) -> Found:
        """Find the best `k` labels of each row; copies of a label are joined by ``plan.merge``."""
        if not self.tree.has_copies:
            return self.search_places(X, k, plan, 0, threads)
        if plan.merge == "max":
            return self.search_places(X, k, plan, 2, threads)
        if plan.merge == "any":
            return _search_any(self, X, k, plan, threads)
        if plan.exact:
            return _exact_mean(self, X, k, plan, threads)
        return self.search_places(X, k, plan, 1, threads)

    def search_places(self, X: CsrParts, k: int, plan: SearchPlan, copies: int, threads: int) -> Found:
        """Find the best `k` copies or labels; `copies`: 0 kept apart, 1 joined by mean, 2 by maximum."""
        label_mask = node_mask = _EMPTY_MASK
        if plan.allowed is not None:
            label_mask, node_mask = plan.allowed.mask.view(np.uint8), plan.allowed.nodes(self.tree)
        # The kernel allocates the whole beam, so it must not be wider than the tree.
        width, max_nodes = min(plan.beam_width, self.tree.n_nodes), min(plan.max_nodes, self.tree.n_nodes)
        return Found(
            *_kernels.search(*self.head, *X, plan.exact, k, width, max_nodes, copies, label_mask, node_mask, threads)
        )

    def leaves(self, X: CsrParts, width: int, threads: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the (n_rows, width) leaves a beam ends in, -1 where it found fewer, and their path scores."""
        leaves, scores = _kernels.beam_leaves(*self.head, *X, width, threads)
        return leaves.reshape(-1, width), scores.reshape(-1, width)

    def margins(
        self,
        X: CsrParts,
        rows: NDArray[np.int64],
        nodes: NDArray[np.int32],
        outputs: NDArray[np.int32],
        threads: int,
    ) -> NDArray[np.float32]:
        """Return the margin of output ``outputs[i]`` of node ``nodes[i]`` for row ``rows[i]``."""
        order = np.lexsort((nodes, rows))
        ptr = np.searchsorted(rows[order], np.arange(X.n_rows + 1)).astype(np.int64)
        arrays, n_labels, max_outputs, _ = self.head
        found = _kernels.margins(arrays, n_labels, max_outputs, *X, ptr, nodes[order], outputs[order], threads)
        out = np.empty(rows.size, dtype=np.float32)
        out[order] = found
        return out

    def score_copies(
        self, X: CsrParts, rows: NDArray[np.int64], copies: NDArray[np.int64], threads: int
    ) -> NDArray[np.float64]:
        """Return log scores of entries of ``tree.labels`` (places `copies`) for rows `rows`, without a search."""
        tree = self.tree
        node = tree.leaf_of_copy[copies]
        output = (copies - tree.label_ptr[node]).astype(np.int32)
        total = np.zeros(rows.size)
        left = np.arange(rows.size)
        while left.size:
            z = self.margins(X, rows[left], node[left], output[left], threads)
            total[left] += log_probability(z, self.link)
            left = left[node[left] != 0]
            above = tree.parent[node[left]]
            output[left] = node[left] - tree.child_ptr[above]
            node[left] = above
        return total

    def state(self) -> State:
        """Return the stored form."""
        stored = {name: array for name, array in self.arrays._asdict().items() if name in _STORED}
        return State("TreeWeights", arrays={**stored, **self.tree.arrays(), "weights": self.arrays.weights})

    @classmethod
    def from_state(cls, state: State, n_labels: int, link: str, weight_dtype: str) -> Self:
        """Rebuild a trained tree from its stored form.

        Arrays are mapped, not read: only the short ones with positions are checked here. The search kernels stay within
        these bounds whatever the long arrays hold, so a forged file can give wrong labels, but no crash.
        """
        tree = LabelTree.from_state(state, n_labels)
        stored = {name: state.array(name, dtype, (None,)) for name, dtype in _STORED.items()}
        weights = state.array("weights", weight_dtype, (None,))
        arrays = ModelArrays(tree.child_ptr, tree.label_ptr, tree.labels, weights=weights, **stored)
        _check_arrays(tree, arrays)
        return cls(tree, arrays, link)


class TrainedBlocks(NamedTuple):
    """Blocks as `train_blocks` returns them, for the nodes they belong to, in order."""

    nodes: NDArray[np.int64]
    arrays: tuple[NDArray[np.generic], ...]

    def state(self) -> State:
        """Return the stored form."""
        arrays = {f"array_{place:02}": array for place, array in enumerate(self.arrays)}
        return State("TrainedBlocks", arrays={"nodes": self.nodes, **arrays})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild blocks from their stored form."""
        return cls(state.arrays["nodes"], tuple(state.arrays[f"array_{place:02}"] for place in range(_N_ARRAYS)))


def assemble(tree: LabelTree, trained: Sequence[TrainedBlocks], link: str, weight_dtype: str) -> TreeWeights:
    """Join trained blocks into one model; nodes that were not trained yet have no outputs to search."""
    nodes = np.concatenate([part.nodes for part in trained])
    joined = [np.concatenate([part.arrays[i] for part in trained]) for i in range(_N_ARRAYS)]
    bucket_sizes, buckets, slot_sizes, remainder_sizes, remainders, counts = joined[:6]
    entry_sizes, columns, weights, scales, biases = joined[6:]
    block_ptr = np.zeros(tree.n_nodes, dtype=np.int64)
    first = np.flatnonzero(np.concatenate([[True], nodes[1:] != nodes[:-1]]))
    block_ptr[nodes[first]] = first
    arrays = ModelArrays(
        tree.child_ptr,
        tree.label_ptr,
        tree.labels,
        block_ptr,
        _starts(bucket_sizes),
        buckets,
        _starts(slot_sizes),
        _starts(remainder_sizes),
        np.concatenate([remainders, np.zeros(BUCKET_SCAN, np.uint8)]),
        np.concatenate([counts, np.zeros(BUCKET_SCAN, np.uint8)]),
        _starts(entry_sizes),
        columns,
        weights.view(weight_dtype),
        scales,
        _bias_in_node_order(tree, nodes[first], biases),
    )
    return TreeWeights(tree, arrays, link)


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _bias_in_node_order(tree: LabelTree, nodes: NDArray[np.int64], biases: NDArray[np.float32]) -> NDArray[np.float32]:
    counts = np.diff(tree.child_ptr) + np.diff(tree.label_ptr)
    first = tree.child_ptr[:-1].astype(np.int64) - 1 + tree.label_ptr[:-1]
    sizes = counts[nodes].astype(np.int64)
    starts = _starts(sizes)
    places = np.arange(starts[-1]) + np.repeat(first[nodes] - starts[:-1], sizes)
    out = np.zeros(int(counts.sum()), dtype=np.float32)
    out[places] = biases
    return out


def blocks_of(weights: TreeWeights, nodes: NDArray[np.int64], names: NDArray[np.int64]) -> TrainedBlocks:
    """Return the blocks of `nodes` as training returned them, for nodes with the new numbers `names`."""
    arrays, tree = weights.arrays, weights.tree
    outputs = (np.diff(tree.child_ptr) + np.diff(tree.label_ptr))[nodes].astype(np.int64)
    n_blocks = -(-outputs // BLOCK_OUTPUTS)
    blocks = ranges(arrays.block_ptr[nodes], n_blocks)
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
        arrays.bias[ranges(first_output, outputs)],
    )
    return TrainedBlocks(np.repeat(names, n_blocks), parts)


def _stretches(ptr: NDArray[np.int64], blocks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    sizes = np.diff(ptr)[blocks]
    return ranges(ptr[blocks], sizes), sizes


def ranges(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``start, start + 1, ...`` of each stretch, one after the other.

    Examples
    --------
    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    places: NDArray[np.int64] = np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    return places


def pair_scores(
    weights: TreeWeights, X: CsrParts, pairs: NDArray[np.int64], merge: str, threads: int
) -> NDArray[np.float64]:
    """Return the scores of (row, label) pairs; copies count by their mean, their best, or that any is right."""
    order = np.argsort(weights.tree.labels, kind="stable")
    starts = np.searchsorted(weights.tree.labels[order], np.arange(weights.tree.n_labels + 1))
    first, count = starts[pairs[:, 1]], np.diff(starts)[pairs[:, 1]]
    pair = np.repeat(np.arange(pairs.shape[0]), count)
    offset = np.arange(pair.size) - np.repeat(np.cumsum(count) - count, count)
    copies = order[np.repeat(first, count) + offset]
    scores = np.exp(weights.score_copies(X, pairs[pair, 0], copies, threads))
    if merge == "mean":
        return np.bincount(pair, weights=scores, minlength=pairs.shape[0]) / np.maximum(count, 1)
    if merge == "any":
        none = np.bincount(pair, weights=np.log1p(-np.minimum(scores, 1 - 1e-7)), minlength=pairs.shape[0])
        return np.asarray(-np.expm1(none))
    best = np.zeros(pairs.shape[0])
    np.maximum.at(best, pair, scores)
    return best


def _check_arrays(tree: LabelTree, arrays: ModelArrays) -> None:
    n_blocks = arrays.scales.size
    outputs = np.diff(tree.child_ptr) + np.diff(tree.label_ptr)
    node_blocks = -(-outputs.astype(np.int64) // BLOCK_OUTPUTS)
    ok = (
        arrays.bias.size == outputs.sum()
        and arrays.block_ptr.size == tree.n_nodes
        and arrays.block_ptr.min() >= 0
        and np.all(arrays.block_ptr <= n_blocks - node_blocks)
        and arrays.buckets.size % 2 == 0
        and is_pointer(arrays.bucket_ptr, n_blocks, arrays.buckets.size // 2)
        and is_pointer(arrays.slot_ptr, n_blocks, arrays.counts.size - BUCKET_SCAN)
        and is_pointer(arrays.remainder_ptr, n_blocks, arrays.remainders.size - BUCKET_SCAN)
        and is_pointer(arrays.entry_ptr, n_blocks, arrays.columns.size)
        and arrays.weights.size == arrays.columns.size
    )
    if ok:  # the pointers rise, so that their differences are sizes
        tables = np.diff(arrays.bucket_ptr) - 1
        slots, stored = np.diff(arrays.slot_ptr), np.diff(arrays.remainder_ptr)
        one_byte_or_two = np.all((stored == slots) | (stored == 2 * slots))  # for each slot
        ok = one_byte_or_two and np.all(tables > 0) and np.all(tables & (tables - 1) == 0)
    if not ok:
        raise InputError("the arrays of a stored tree must fit together")
    for name, values in (("scales", arrays.scales), ("bias", arrays.bias), ("weights", arrays.weights)):
        check_stored_finite(values, f"the {name} of a stored tree")


def _search_any(weights: TreeWeights, X: CsrParts, k: int, plan: SearchPlan, threads: int) -> Found:
    """Find the best `ANY_CANDIDATES` labels by their best copy, ordered by 1 - Π(1 - p) over all their copies."""
    most = min(max(k, ANY_CANDIDATES), weights.tree.n_labels)
    found = weights.search_places(X, most, replace(plan, merge="max"), 2, threads)
    labels, scores = found.labels.reshape(-1, most), found.scores.reshape(-1, most).copy()
    rows, places = np.nonzero(np.arange(most) < found.found[:, None])
    pairs = np.column_stack([rows, labels[rows, places]]).astype(np.int64)
    joined = np.full(scores.shape, -np.inf, dtype=np.float32)
    joined[rows, places] = pair_scores(weights, X, pairs, "any", threads)
    order = np.argsort(-joined, axis=1, kind="stable")[:, :k]
    chosen = np.take_along_axis(joined, order, axis=1)
    return found._replace(
        labels=np.ascontiguousarray(np.take_along_axis(labels, order, axis=1)).ravel(),
        scores=np.where(np.isfinite(chosen), chosen, 0).astype(np.float32).ravel(),
        found=np.minimum(found.found, k).astype(np.int32),
    )


def _exact_mean(weights: TreeWeights, X: CsrParts, k: int, plan: SearchPlan, threads: int) -> Found:
    if plan.max_nodes:
        hint = "A mean over all copies looks at nodes that a budget would leave out."
        raise InputError("max_nodes needs copies merged by 'max'", given="merge='mean'", hint=hint)
    n_labels = weights.tree.n_labels
    labels = np.full((X.n_rows, k), -1, dtype=np.int32)
    scores = np.zeros((X.n_rows, k), dtype=np.float32)
    n_found, evaluated = np.zeros(X.n_rows, dtype=np.int32), np.zeros(X.n_rows, dtype=np.int32)
    outputs = np.zeros(X.n_rows, dtype=np.int64)
    rows, most, whole = np.arange(X.n_rows), min(2 * k, n_labels), X.to_scipy()
    while rows.size:
        part = X if rows.size == X.n_rows else csr_parts(whole[rows])
        found = weights.search_places(part, most, replace(plan, merge="max"), 2, threads)
        evaluated[rows] += found.evaluated
        outputs[rows] += found.outputs
        best, means = _rank_by_mean(weights, part, found, most, k, threads)
        last = found.scores.reshape(-1, most)[:, -1]
        full = best.shape[1] == k
        kth = means[:, -1] if full else np.zeros(rows.size)
        done = (found.found < most) | (most >= n_labels) | (kth >= last)
        ready = rows[done]
        labels[ready, : best.shape[1]], scores[ready, : best.shape[1]] = best[done], means[done]
        n_found[ready] = np.minimum(found.found[done], k)
        rows, most = rows[~done], min(4 * most, n_labels)
    return Found(labels.ravel(), scores.ravel(), n_found, evaluated, np.zeros(X.n_rows, dtype=np.float32), outputs)


def _rank_by_mean(
    weights: TreeWeights, X: CsrParts, found: Found, most: int, k: int, threads: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the best `k` of the labels that a search by maximum found, by the mean over all their copies."""
    labels = found.labels.reshape(-1, most)
    row, place = np.nonzero(labels >= 0)
    means = np.full(labels.shape, -1.0)
    pairs = np.stack([row, labels[row, place]], axis=1).astype(np.int64)
    with np.errstate(all="ignore"):  # a forged model may hold any number
        scores = pair_scores(weights, X, pairs, "mean", threads)
    means[row, place] = np.nan_to_num(scores, nan=0.0)
    order = np.lexsort((labels, -means), axis=1)[:, :k]
    best = np.take_along_axis(labels, order, axis=1)
    kept = np.maximum(np.take_along_axis(means, order, axis=1), 0)
    return best, kept.astype(np.float32)


class Classifier(NamedTuple):
    """One linear classifier: `weights` of `features` (rising), and its bias."""

    features: NDArray[np.int64]
    weights: NDArray[np.float64]
    bias: float


def read_classifier(model: TreeWeights, node: int, output: int, n_features: int) -> Classifier:
    """Return the classifier of output number `output` (child or label) of a node."""
    arrays = model.arrays
    bias = float(arrays.bias[int(arrays.child_ptr[node]) - 1 + int(arrays.label_ptr[node]) + output])
    block = int(arrays.block_ptr[node]) + output // BLOCK_OUTPUTS
    entries = slice(int(arrays.entry_ptr[block]), int(arrays.entry_ptr[block + 1]))
    mine = np.flatnonzero(arrays.columns[entries] == output % BLOCK_OUTPUTS)
    counts = arrays.counts[int(arrays.slot_ptr[block]) : int(arrays.slot_ptr[block + 1])]
    last = np.cumsum(counts, dtype=np.int64) + np.arange(counts.size)  # entry of each slot; it has counts + 1
    features = _slot_features(model, block, n_features, np.searchsorted(last, mine))
    order = np.argsort(features)
    weights = arrays.weights[entries][mine[order]].astype(np.float64) * float(arrays.scales[block])
    return Classifier(features[order], weights, bias)


def _slot_features(model: TreeWeights, block: int, n_features: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the feature of some slots of a block: bucket number and remainder make up its hash."""
    arrays = model.arrays
    begin, end = int(arrays.bucket_ptr[block]), int(arrays.bucket_ptr[block + 1])
    first_slots = arrays.buckets[2 * begin : 2 * end : 2].astype(np.int64)
    bits = (max(n_features, 2) - 1).bit_length()
    remainder_bits = bits - ((first_slots.size - 1).bit_length() - 1)
    bucket = np.searchsorted(first_slots, slots + first_slots[0], side="right") - 1
    stored = arrays.remainders[int(arrays.remainder_ptr[block]) : int(arrays.remainder_ptr[block + 1])]
    width = 2 if remainder_bits > 8 else 1
    if slots.size and (slots.max() + 1) * width > stored.size:
        raise InputError(_UNKNOWN)
    remainders = stored[slots].astype(np.int64)
    if remainder_bits > 8:  # low bytes of all slots, then their high bytes
        remainders += stored[slots + stored.size // 2].astype(np.int64) << 8
    return _feature_of_hash((bucket << remainder_bits) + remainders, bits, n_features)


class OutputWeights(NamedTuple):
    """Weights and biases of some outputs: entry i is the weight of a feature in output ``output[i]``."""

    output: NDArray[np.int64]
    feature: NDArray[np.int64]
    weight: NDArray[np.float64]
    bias: NDArray[np.float32]

    def renumbered(self, names: NDArray[np.int64], n_outputs: int) -> Self:
        """Return the same weights with output i as ``names[i]`` of `n_outputs`; the others have none."""
        bias = np.zeros(n_outputs, dtype=np.float32)
        bias[names] = self.bias
        return self._replace(output=names[self.output], bias=bias)

    def replaced(self, outputs: NDArray[np.int64], other: Self) -> Self:
        """Return these weights with those of `outputs` taken from another."""
        mine = np.ones(self.bias.size, dtype=np.bool_)
        mine[outputs] = False
        keep = mine[self.output]
        return self._replace(
            output=np.concatenate([self.output[keep], other.output]),
            feature=np.concatenate([self.feature[keep], other.feature]),
            weight=np.concatenate([self.weight[keep], other.weight]),
            bias=np.where(mine, self.bias, other.bias),
        )

    def by_block(self, output_ptr: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Return what `train_blocks` starts from, where block b has the outputs ``output_ptr[b]:output_ptr[b + 1]``."""
        block = np.searchsorted(output_ptr, self.output, side="right") - 1
        order = slice(None) if np.all(block[1:] >= block[:-1]) else np.argsort(block, kind="stable")
        ptr = np.concatenate([[0], np.cumsum(np.bincount(block, minlength=output_ptr.size - 1))]).astype(np.int64)
        columns = (self.output - output_ptr[block]).astype(np.int32)[order]
        features, weights = self.feature.astype(np.int32)[order], self.weight.astype(np.float32)[order]
        return ptr, features, columns, weights, self.bias


def n_outputs(tree: LabelTree, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of children or labels of each node."""
    found: NDArray[np.int64] = (np.diff(tree.child_ptr) + np.diff(tree.label_ptr))[nodes].astype(np.int64)
    return found


def read_outputs(model: TreeWeights, nodes: NDArray[np.int64], n_features: int) -> OutputWeights:
    """Return the weights and biases of all outputs of some nodes, numbered one node after the other."""
    arrays, sizes = model.arrays, n_outputs(model.tree, nodes)
    n_blocks = -(-sizes // BLOCK_OUTPUTS)
    blocks = ranges(arrays.block_ptr[nodes], n_blocks)
    slots, n_slots = _stretches(arrays.slot_ptr, blocks)
    entries, n_entries = _stretches(arrays.entry_ptr, blocks)
    counts = arrays.counts[slots].astype(np.int64) + 1  # a slot has counts + 1 entries
    ends = np.cumsum(n_slots)
    totals = np.concatenate([[0], np.cumsum(counts)])
    if not np.array_equal(totals[ends] - totals[ends - n_slots], n_entries):
        raise InputError(_UNKNOWN)
    first = np.repeat(np.cumsum(sizes) - sizes, n_blocks)
    first += BLOCK_OUTPUTS * (np.arange(blocks.size) - np.repeat(np.cumsum(n_blocks) - n_blocks, n_blocks))
    output: NDArray[np.int64] = np.repeat(first, n_entries) + arrays.columns[entries].astype(np.int64)
    if output.size and output.max() >= sizes.sum():
        raise InputError(_UNKNOWN)
    weight = arrays.weights[entries].astype(np.float64) * np.repeat(arrays.scales[blocks], n_entries)
    feature = np.repeat(_features_of_blocks(arrays, blocks, slots, n_slots, n_features), counts)
    own = model.tree.child_ptr[nodes].astype(np.int64) - 1 + model.tree.label_ptr[nodes]
    return OutputWeights(output, feature, weight, arrays.bias[ranges(own, sizes)])


def _features_of_blocks(
    arrays: ModelArrays,
    blocks: NDArray[np.int64],
    slots: NDArray[np.int64],
    n_slots: NDArray[np.int64],
    n_features: int,
) -> NDArray[np.int64]:
    """Return the feature of each slot of some blocks; see `_slot_features`."""
    bits = (max(n_features, 2) - 1).bit_length()
    places, n_places = _stretches(arrays.bucket_ptr, blocks)
    starts = arrays.buckets[2 * places].astype(np.int64)
    ends = np.cumsum(n_places)
    inside = np.ones(starts.size, dtype=np.bool_)
    inside[ends - 1] = False  # the last pair of a block only closes its last bucket
    sizes = np.append(np.diff(starts), 0)[inside]
    bucket = (np.arange(starts.size) - np.repeat(ends - n_places, n_places))[inside]
    if sizes.size and (sizes.min() < 0 or sizes.sum() != slots.size):
        raise InputError(_UNKNOWN)
    remainder_bits = bits - np.round(np.log2(n_places - 1)).astype(np.int64)
    wide = remainder_bits > 8  # low bytes of all slots, then their high bytes
    if np.any(np.diff(arrays.remainder_ptr)[blocks] != n_slots * (1 + wide)):
        raise InputError(_UNKNOWN)
    at = ranges(arrays.remainder_ptr[blocks], n_slots)
    remainders = arrays.remainders[at].astype(np.int64)
    high = np.repeat(wide, n_slots)
    remainders[high] += arrays.remainders[at[high] + np.repeat(n_slots, n_slots)[high]].astype(np.int64) << 8
    hashed = (np.repeat(bucket, sizes) << np.repeat(remainder_bits, n_slots)) + remainders
    return _feature_of_hash(hashed, bits, n_features)


def _feature_of_hash(hashed: NDArray[np.int64], bits: int, n_features: int) -> NDArray[np.int64]:
    inverse = pow(_HASH_FACTOR, -1, 1 << bits)
    features: NDArray[np.int64] = hashed * inverse % (1 << bits)  # both factors are below 2^31, so the product fits
    if features.size and not 0 <= features.min() <= features.max() < n_features:
        raise InputError(_UNKNOWN)
    return features


def read_node(model: TreeWeights, node: int, n_features: int) -> sparse.csr_array:
    """Return the weights of all outputs of a node, (n_outputs, n_features), without biases."""
    found = read_outputs(model, np.array([node]), n_features)
    cells = (found.weight, (found.output, found.feature))
    return sparse.csr_array(cells, shape=(found.bias.size, n_features))
