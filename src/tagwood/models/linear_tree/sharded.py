"""A trained tree whose nodes are on several machines. In: rows. Out: the search result of the whole tree.

The nodes are cut into shards of whole subtrees. A beam needs, level by level, the scores of the children of its nodes:
`ShardedWeights` asks every shard for those of its own nodes, and keeps the best of all. The kernel that opens nodes is
the beam's own, so labels and scores have the bits of a search in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._sparse import CsrParts
from tagwood.errors import InputError
from tagwood.models.linear_tree.weights import Found, SearchPlan, TreeWeights, assemble, blocks_of, ranges
from tagwood.trees.label_tree import LabelTree

ROUTER = -1  # owner of the nodes above the shards


class Opening(NamedTuple):
    """Nodes to open: those of row r of X are ``nodes[ptr[r]:ptr[r + 1]]``, with their own log scores."""

    X: CsrParts
    ptr: NDArray[np.int64]
    nodes: NDArray[np.int32]
    scores: NDArray[np.float32]


class Opened(NamedTuple):
    """Log scores and probabilities of the outputs of all opened nodes, one after the other."""

    logs: NDArray[np.float32]
    probabilities: NDArray[np.float32]


# Opens nodes on several shards at once: pairs of a shard's number and its nodes.
OpenAll = Callable[[Sequence[tuple[int, Opening]]], Sequence[Opened]]


def open_nodes(weights: TreeWeights, opening: Opening, threads: int) -> Opened:
    """Return the scores of the outputs of nodes that `weights` has."""
    tree = weights.tree
    if opening.nodes.size and not 0 <= opening.nodes.min() <= opening.nodes.max() < tree.n_nodes:
        raise InputError(f"nodes to open must be from 0 to {tree.n_nodes - 1}")
    sizes = (np.diff(tree.child_ptr) + np.diff(tree.label_ptr))[opening.nodes]
    out_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Opened(*_kernels.open_nodes(*weights.head, *opening.X, *opening[1:], out_ptr, threads))


def share_nodes(tree: LabelTree, n_shards: int) -> NDArray[np.int32]:
    """Return the shard of each node: whole subtrees, with about as many labels in each shard.

    The subtrees begin on the first level with as many nodes as shards; the nodes above belong to the router.
    """
    wide = [level for level in range(int(tree.depth.max()) + 1) if np.sum(tree.depth == level) >= n_shards]
    if not wide or wide[0] == 0:
        raise InputError(
            f"a tree for {n_shards} shards must have a level with as many nodes, and more than its root",
            given=f"a tree of {tree.n_nodes:,} nodes",
            hint="Use fewer shards, or train with smaller leaves (tree.max_leaf_size).",
        )
    sizes = np.diff(tree.label_ptr).astype(np.int64)
    for node in range(tree.n_nodes - 1, 0, -1):
        sizes[tree.parent[node]] += sizes[node]
    owner = np.full(tree.n_nodes, ROUTER, dtype=np.int32)
    tops = np.flatnonzero((tree.depth == wide[0]) | ((tree.depth < wide[0]) & (np.diff(tree.child_ptr) == 0)))
    load = np.zeros(n_shards, dtype=np.int64)
    for node in tops[np.argsort(-sizes[tops], kind="stable")]:
        owner[node] = np.argmin(load)
        load[owner[node]] += sizes[node]
    for node in range(1, tree.n_nodes):  # parents come first
        if owner[node] == ROUTER and tree.depth[node] > wide[0]:
            owner[node] = owner[tree.parent[node]]
    return owner


def keep_nodes(weights: TreeWeights, nodes: NDArray[np.int64], weight_dtype: str) -> TreeWeights:
    """Return the whole tree with the classifiers of some nodes only."""
    outputs = np.diff(weights.tree.child_ptr) + np.diff(weights.tree.label_ptr)
    kept = nodes[outputs[nodes] > 0]
    return assemble(weights.tree, [blocks_of(weights, kept, kept)], weights.link, weight_dtype)


@dataclass(frozen=True, eq=False)
class ShardedWeights(TreeWeights):
    """A trained tree of which only the nodes above the shards are here.

    Parameters
    ----------
    owner
        (n_nodes,) shard of each node; `ROUTER` for those that are here.
    open_all
        Opens nodes on the shards.
    """

    owner: NDArray[np.int32]
    open_all: OpenAll

    def search(self, X: CsrParts, k: int, plan: SearchPlan, threads: int) -> Found:
        """Find the best `k` labels of each row, as `TreeWeights.search` does."""
        if plan.exact:
            hint = "Use search='beam', with a larger beam_width."
            raise InputError("a tree in shards is searched by beams", given="search='exact'", hint=hint)
        tree, n_children = self.tree, np.diff(self.tree.child_ptr)
        allowed = None if plan.allowed is None else plan.allowed.nodes(tree)
        width = min(plan.beam_width, tree.n_nodes)
        row, node = np.arange(X.n_rows), np.zeros(X.n_rows, dtype=np.int32)
        score = np.zeros(X.n_rows, dtype=np.float32)
        n_outputs = n_children + np.diff(tree.label_ptr)
        opened: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []
        while (inner := n_children[node] > 0).any():
            opened.append((row[inner], node[inner]))
            logs, _ = self._open(X, row[inner], node[inner], score[inner], threads)
            sizes = n_children[node[inner]].astype(np.int64)
            below = ranges(tree.child_ptr[node[inner]].astype(np.int64), sizes).astype(np.int32)
            below_row = np.repeat(row[inner], sizes)
            if allowed is not None:
                use = allowed[below].astype(bool)
                below, below_row, logs = below[use], below_row[use], logs[use]
            row, node = np.concatenate([row[~inner], below_row]), np.concatenate([node[~inner], below])
            score = np.concatenate([score[~inner], logs])
            best = _best_of_rows(row, score, node, width)
            row, node, score = row[best], node[best], score[best]
        rows, nodes = (np.concatenate(part) for part in zip(*opened, (row, node), strict=True))
        effort = (
            np.bincount(rows, minlength=X.n_rows).astype(np.int32),
            np.bincount(rows, weights=n_outputs[nodes], minlength=X.n_rows).astype(np.int64),
        )
        return self._labels(X, k, plan, (row, node, score), effort, threads)

    def _labels(
        self,
        X: CsrParts,
        k: int,
        plan: SearchPlan,
        leaves: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]],
        effort: tuple[NDArray[np.int32], NDArray[np.int64]],
        threads: int,
    ) -> Found:
        row, node, score = leaves
        logs, probabilities = self._open(X, row, node, score, threads)
        sizes = np.diff(self.tree.label_ptr)[node].astype(np.int64)
        labels = self.tree.labels[ranges(self.tree.label_ptr[node].astype(np.int64), sizes)]
        row = np.repeat(row, sizes)
        if plan.allowed is not None:
            use = plan.allowed.mask[labels]
            row, labels, logs, probabilities = row[use], labels[use], logs[use], probabilities[use]
        if self.tree.has_copies:
            row, labels, logs, probabilities = _join_copies(row, labels, logs, probabilities, plan.merge)
        best = _best_of_rows(row, logs, labels, k)
        row, labels, probabilities = row[best], labels[best], probabilities[best]
        found = np.bincount(row, minlength=X.n_rows).astype(np.int32)
        place = np.arange(row.size) - np.repeat(np.cumsum(found) - found, found)
        out_labels = np.full((X.n_rows, k), -1, dtype=np.int32)
        out_scores = np.zeros((X.n_rows, k), dtype=np.float32)
        out_labels[row, place], out_scores[row, place] = labels, probabilities
        bound = np.full(X.n_rows, -1, dtype=np.float32)
        return Found(out_labels.ravel(), out_scores.ravel(), found, effort[0], bound, effort[1])

    def _open(
        self,
        X: CsrParts,
        row: NDArray[np.int64],
        node: NDArray[np.int32],
        score: NDArray[np.float32],
        threads: int,
    ) -> Opened:
        """Open nodes wherever they are; the outputs come in the order of the given pairs, which are sorted by row."""
        sizes = (np.diff(self.tree.child_ptr) + np.diff(self.tree.label_ptr))[node].astype(np.int64)
        starts = np.cumsum(sizes) - sizes
        result = Opened(*(np.empty(int(sizes.sum()), dtype=np.float32) for _ in range(2)))
        owner = self.owner[node]
        places = {int(shard): np.flatnonzero(owner == shard) for shard in np.unique(owner)}
        openings = {shard: _opening(X, row[at], node[at], score[at]) for shard, at in places.items()}
        shards = [shard for shard in openings if shard != ROUTER]
        answers = dict(zip(shards, self.open_all([(shard, openings[shard]) for shard in shards]), strict=True))
        if ROUTER in openings:
            answers[ROUTER] = open_nodes(self, openings[ROUTER], threads)
        for shard, at in places.items():
            outputs = ranges(starts[at], sizes[at])
            result.logs[outputs], result.probabilities[outputs] = answers[shard]
        return result


def _opening(X: CsrParts, row: NDArray[np.int64], node: NDArray[np.int32], score: NDArray[np.float32]) -> Opening:
    """Return pairs sorted by row as an `Opening` with the rows that occur."""
    used, count = np.unique(row, return_counts=True)
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    sizes = np.diff(X.indptr)[used]
    entries = ranges(X.indptr[used], sizes)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Opening(CsrParts(indptr, X.indices[entries], X.data[entries], X.n_cols), ptr, node, score)


def _best_of_rows(
    row: NDArray[np.int64], score: NDArray[np.float32], number: NDArray[np.int32], most: int
) -> NDArray[np.int64]:
    """Return the places of the best `most` of each row, best first, by row; ties go to the smaller number."""
    order = np.lexsort((number, -score, row))
    sorted_row = row[order]
    place = np.arange(order.size) - np.searchsorted(sorted_row, sorted_row)
    best: NDArray[np.int64] = order[place < most]
    return best


def _join_copies(
    row: NDArray[np.int64],
    labels: NDArray[np.int32],
    logs: NDArray[np.float32],
    probabilities: NDArray[np.float32],
    merge: str,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """Join the copies of a label in each row: the best one, or the mean of the probabilities."""
    order = np.lexsort((-logs, labels, row))
    row, labels, logs, probabilities = row[order], labels[order], logs[order], probabilities[order]
    first = np.ones(row.size, dtype=bool)
    first[1:] = (row[1:] != row[:-1]) | (labels[1:] != labels[:-1])
    starts = np.flatnonzero(first)
    if merge == "mean" and row.size:
        count = np.diff(np.append(starts, row.size))
        best = logs[starts].astype(np.float64)
        best[~np.isfinite(best)] = 0
        with np.errstate(divide="ignore"):  # relative to the best of each label: small ones would be rounded to 0
            mean = best + np.log(np.add.reduceat(np.exp(logs - np.repeat(best, count)), starts) / count)
        several = count > 1
        logs, probabilities = logs[starts], probabilities[starts]
        logs[several] = mean[several].astype(np.float32)
        probabilities[several] = np.exp(logs[several])
        return row[starts], labels[starts], logs, probabilities
    return row[starts], labels[starts], logs[starts], probabilities[starts]
