"""Search in trees where labels have copies: joined before the cut to k. In: a trained tree, rows. Out: `Found`.

Decisions
---------
* ``"max"``: a label counts by its best copy and stands once among the k, so a beam stops as early as one without
  copies, and finds the same as merging at its end.
* ``"mean"`` in a beam is the mean over the copies *found* in it (the paper's). It has to open the whole beam.
* Best-first search with ``"max"`` is exact as it is: every factor of a path is at most 1.
* Best-first search with ``"mean"`` takes the mean over *all* copies, found or not. A mean is never above its maximum,
  so a label outside the best m by maximum has a mean of at most the m-th maximum. Ask for m labels by maximum,
  score all copies of these, and stop when the k-th mean is at least the m-th maximum; otherwise ask for more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tagwood._sparse import CsrParts, csr_parts
from tagwood.errors import InputError
from tagwood.models.tree_weights import Found, SearchPlan, TreeWeights, pair_scores


def search_copies(weights: TreeWeights, X: CsrParts, k: int, plan: SearchPlan, threads: int) -> Found:
    """Find the best `k` labels of each row in a tree with copies."""
    if plan.merge == "max":
        return weights.search_places(X, k, plan, 2, threads)
    if plan.exact:
        return _exact_mean(weights, X, k, plan, threads)
    return weights.search_places(X, k, plan, 1, threads)


def _exact_mean(weights: TreeWeights, X: CsrParts, k: int, plan: SearchPlan, threads: int) -> Found:
    if plan.max_nodes:
        raise InputError(
            "max_nodes needs copies merged by 'max'",
            given="merge='mean'",
            hint="A mean over all copies looks at nodes that a budget would leave out.",
        )
    n_labels = weights.tree.n_labels
    labels = np.full((X.n_rows, k), -1, dtype=np.int32)
    scores = np.zeros((X.n_rows, k), dtype=np.float32)
    n_found, evaluated = np.zeros(X.n_rows, dtype=np.int32), np.zeros(X.n_rows, dtype=np.int32)
    rows, most, whole = np.arange(X.n_rows), min(2 * k, n_labels), X.to_scipy()
    while rows.size:
        part = X if rows.size == X.n_rows else csr_parts(whole[rows])
        found = weights.search_places(part, most, replace(plan, merge="max"), 2, threads)
        evaluated[rows] += found.evaluated
        best, means = _rank_by_mean(weights, part, found, most, k, threads)
        last = found.scores.reshape(-1, most)[:, -1]
        full = best.shape[1] == k
        kth = means[:, -1] if full else np.zeros(rows.size)
        done = (found.found < most) | (most >= n_labels) | (kth >= last)
        ready = rows[done]
        labels[ready, : best.shape[1]], scores[ready, : best.shape[1]] = best[done], means[done]
        n_found[ready] = np.minimum(found.found[done], k)
        rows, most = rows[~done], min(4 * most, n_labels)
    return Found(labels.ravel(), scores.ravel(), n_found, evaluated, np.zeros(X.n_rows, dtype=np.float32))


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
