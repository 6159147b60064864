"""Match training rows to leaves by matchers that have not seen them. In: a tree and its training data. Out: leaves.

A matcher sends nearly every row it was trained on to the leaves of its labels (99.9 % on our sets, against 75 to 95 %
of new rows), so its matches say where labels are, not where rows like these will arrive. Two matchers, each
trained on one half of the rows, match the other half. They are rough, and see only the largest features of a row: on
held-out rows 1 to 3 of 100 labels less were in reach of them, at a third of the price.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._sparse import CsrParts, csr_parts, top_k_rows
from tagwood.models.entry_weights import EntryWeights
from tagwood.models.tree_training import TreeTraining
from tagwood.trees.label_tree import LabelTree

FOLDS = 2
_TOLERANCE, _SWEEPS, _THRESHOLD = 1.0, 5, 0.2
_FEATURES = 32  # of a row
# Where the largest features hold less than this share of the squares of all values, as in embeddings, all are kept.
_LEAST_SHARE = 0.5


def match_unseen_rows(training: TreeTraining, tree: LabelTree, width: int) -> NDArray[np.int32]:
    """Return the (n_rows, width) leaves that matchers trained without a row send it to; -1 for unused places."""
    n_rows = training.X.n_rows
    fold = np.random.default_rng(training.seed).permutation(n_rows) % FOLDS
    found = np.full((n_rows, width), -1, dtype=np.int32)
    largest = _largest_features(training.X, training.threads)
    features = largest.to_scipy()
    solver = training.solver
    rough = replace(
        solver,
        tolerance=max(solver.tolerance, _TOLERANCE),
        max_sweeps=min(solver.max_sweeps, _SWEEPS),
        threshold=max(solver.threshold, _THRESHOLD),
    )
    for number in range(FOLDS):
        others = _without_rows(training.weights, fold == number)
        matcher = replace(training, X=largest, weights=others, solver=rough).train_matcher(tree)
        rows = np.flatnonzero(fold == number)
        found[rows] = matcher.leaves(csr_parts(features[rows]), width, training.threads)[0]
    return found


def rows_of_copies(
    label_rows: CsrParts, tree: LabelTree, matched: NDArray[np.int32], near: int | None = None
) -> CsrParts:
    """Return which rows each entry of ``tree.labels`` brings to its leaf: (n_copies, n_rows), with their weights.

    A row with the label goes to those of the label's leaves that are among its first `near` matches (default all of
    them); to the first one further behind where these have none; to all where it is matched to none.

    Examples
    --------
    >>> tree = LabelTree.from_nested([[0, 1], [0, 2]])
    >>> Y = sparse.csr_array(np.array([[1, 0, 0], [1, 0, 0], [1, 1, 1]], dtype=np.float32))
    >>> rows_of_copies(csr_parts(Y.T.tocsr()), tree, np.array([[1], [2], [-1]])).to_scipy().toarray()
    array([[1., 0., 1.],
           [0., 0., 1.],
           [0., 1., 1.],
           [0., 0., 1.]], dtype=float32)
    """
    copies = np.argsort(tree.labels, kind="stable")  # by label, then by leaf
    first = np.searchsorted(tree.labels[copies], np.arange(tree.n_labels + 1))
    entry_label = np.repeat(np.arange(tree.n_labels), np.diff(label_rows.indptr))
    count = np.diff(first)[entry_label]
    entry = np.repeat(np.arange(entry_label.size), count)
    starts = np.cumsum(count) - count
    place = copies[np.arange(entry.size) - np.repeat(starts - first[entry_label], count)]
    leaf, row = tree.leaf_of_copy[place], label_rows.indices[entry]
    width = matched.shape[1]
    rank = np.full(entry.size, width)  # of the copy's leaf among the row's matches
    for number in range(width - 1, -1, -1):
        rank[matched[row, number] == leaf] = number
    best = np.minimum.reduceat(rank, starts) if rank.size else rank
    kept = rank <= np.maximum(best, (near or width) - 1)[entry]
    shape = (tree.labels.size, label_rows.n_cols)
    return csr_parts(sparse.csr_array((label_rows.data[entry[kept]], (place[kept], row[kept])), shape=shape))


def _largest_features(X: CsrParts, threads: int) -> CsrParts:
    """Return X with the largest features of each row, or X itself where these would say too little."""
    if X.indices.size <= _FEATURES * X.n_rows or X.data.min() < 0:
        return X
    largest = top_k_rows(X.to_scipy(), _FEATURES, threads)
    return largest if np.vdot(largest.data, largest.data) >= _LEAST_SHARE * np.vdot(X.data, X.data) else X


def _without_rows(weights: EntryWeights, left_out: NDArray[np.bool_]) -> EntryWeights:
    """Return the weights of entries without those of some rows; row numbers stay."""
    whole = weights.label_rows
    keep = ~left_out[whole.indices]
    indptr = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])[whole.indptr]
    some = CsrParts(indptr, whole.indices[keep], whole.data[keep], whole.n_cols)
    return weights._replace(label_rows=some, leaf_weights=np.empty(0, dtype=np.float32))
