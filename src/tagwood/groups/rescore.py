"""Impute again with scores of a trained model: the second round of "impute, fit, impute, fit".

In: scores of (row, label) pairs, groups, labels of groups. Out: `Imputed`. No model is called here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._sparse import check_features
from tagwood.errors import InputError
from tagwood.groups.grouped_labels import GroupedLabels
from tagwood.groups.imputed import Imputed

_TIE = 1e-5  # relative: scores may be tiny probabilities


def impute_from_scores(
    scores: Any, sample_groups: Any, group_labels: Any, *, previous: Imputed | None = None
) -> Imputed:
    """Give each label of a group to the row of the group that scores highest for it.

    Parameters
    ----------
    scores
        (n_rows, n_labels) sparse matrix of scores, higher is better, as from ``model.rank(X,
        k=100).to_csr()``. Pairs that are not stored have no score.
    sample_groups, group_labels
        As in `impute_labels`.
    previous
        Where no row of a group has a score for one of the group's labels, the label stays with the rows that
        have it here. Without `previous` all rows of the group get it.

    Returns
    -------
    Imputed
        `similarity` holds the scores, 0 where there was none. Equally high scores all get the label.

    Examples
    --------
    >>> scores = [[0.9, 0.2], [0.4, 0.3]]
    >>> impute_from_scores(scores, [[0], [0]], [[0, 1]]).labels.toarray().astype(int).tolist()
    [[1, 0], [0, 1]]
    """
    groups = GroupedLabels(sample_groups, group_labels)
    matrix = check_features(scores, name="scores")
    shape = (groups.n_rows, groups.n_labels)
    for what, other in (("scores", matrix), ("previous", None if previous is None else previous.labels)):
        if other is not None and other.shape != shape:
            raise InputError(f"{what} must have shape {shape}", given=str(other.shape))
    row, pair, entry = _pairs(matrix, groups)
    score = matrix.data[entry]
    keep = score >= (best := _best(pair, score, groups.group_labels.nnz))[pair] - _TIE * np.abs(best[pair])
    spare = previous.labels if previous is not None else groups.spread()
    spare_row, spare_pair, _ = _pairs(spare, groups)
    left = np.isinf(best)[spare_pair]
    return _collect(
        np.concatenate([row[keep], spare_row[left]]),
        np.concatenate([pair[keep], spare_pair[left]]),
        np.concatenate([score[keep], np.zeros(int(left.sum()), dtype=np.float32)]),
        groups,
    )


def share_within(imputed: Imputed, groups: GroupedLabels, margin: float) -> Imputed:
    """Return what `impute_labels` would have given with this `margin`, from what it gave with a larger one.

    Examples
    --------
    >>> one = np.ones(2, dtype=np.float32)
    >>> found = Imputed.from_triples(
    ...     np.array([0, 1]), np.array([0, 0]), np.array([0.8, 0.4], dtype=np.float32), one / 2, (2, 1)
    ... )
    >>> groups = GroupedLabels([[0], [0]], [[0]])
    >>> [share_within(found, groups, margin).weights.toarray().ravel().tolist() for margin in (1.0, 0.2)]
    [[0.6666666865348816, 0.3333333432674408], [1.0, 0.0]]
    """
    _, pair, entry = _pairs(imputed.similarity, groups)
    closeness = imputed.similarity.data[entry]
    best = _best(pair, closeness, groups.group_labels.nnz)[pair]
    behind = best - closeness
    share = np.where(behind <= _TIE, 1.0, np.maximum(0.0, 1.0 - behind / np.maximum(margin * best, _TIE)))
    total = np.bincount(pair, share, minlength=groups.group_labels.nnz)
    weights = np.bincount(entry, share / total[pair], minlength=imputed.labels.nnz)
    kept = imputed.entries(weights > 0)
    data = np.minimum(weights[weights > 0], 1.0).astype(np.float32)
    shape = kept.labels.shape
    return replace(
        kept, weights=sparse.csr_array((data, kept.labels.indices, kept.labels.indptr), shape=shape)
    )


def keep_closest(imputed: Imputed, groups: GroupedLabels) -> Imputed:
    """Return only the assignments to the closest row of a group, with the weights they have.

    From what `impute_labels` gives with ``soft=True`` this makes the plain assignment, with weights that say how sure
    it is: 1 where no other row of the group is within the margin, 0.5 where another one is as close.

    Examples
    --------
    >>> one = np.ones(2, dtype=np.float32)
    >>> found = Imputed.from_triples(
    ...     np.array([0, 1]), np.array([0, 0]), np.array([0.8, 0.79], dtype=np.float32), one / 2, (2, 1)
    ... )
    >>> keep_closest(found, GroupedLabels([[0], [0]], [[0]])).weights.toarray().tolist()
    [[0.5], [0.0]]
    """
    _, pair, entry = _pairs(imputed.similarity, groups)
    closeness = imputed.similarity.data[entry]
    near = closeness >= _best(pair, closeness, groups.group_labels.nnz)[pair] - _TIE
    keep = np.zeros(imputed.labels.nnz, dtype=bool)
    keep[entry[near]] = True
    return imputed.entries(keep)


def _pairs(
    matrix: sparse.csr_array, groups: GroupedLabels
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return row, entry of `group_labels` and entry of the matrix, once for each group that has the label."""
    members, allowed = groups.sample_groups, groups.group_labels
    entry_row = np.repeat(np.arange(groups.n_rows), np.diff(matrix.indptr))
    copies = np.diff(members.indptr)[entry_row]
    entry = np.repeat(np.arange(entry_row.size), copies)
    row = entry_row[entry]
    nth = np.arange(entry.size) - np.repeat(np.cumsum(copies) - copies, copies)
    group = members.indices[members.indptr[row] + nth].astype(np.int64)
    key = group * groups.n_labels + matrix.indices[entry]
    allowed_group = np.repeat(np.arange(groups.n_groups), np.diff(allowed.indptr))
    keys = allowed_group * groups.n_labels + allowed.indices  # rise, since columns rise in each row
    pair = np.searchsorted(keys, key)
    found = pair < keys.size
    found[found] = keys[pair[found]] == key[found]
    return row[found], pair[found], entry[found]


def _best(pair: NDArray[np.int64], score: NDArray[np.float32], n_pairs: int) -> NDArray[np.float32]:
    best = np.full(n_pairs, -np.inf, dtype=np.float32)
    np.maximum.at(best, pair, score)
    return best


def _collect(
    row: NDArray[np.int64], pair: NDArray[np.int64], score: NDArray[np.float32], groups: GroupedLabels
) -> Imputed:
    """Join what a row gets through several groups: the best score, and the sum of its shares."""
    share = 1.0 / np.bincount(pair, minlength=groups.group_labels.nnz)[pair]
    key = row * groups.n_labels + groups.group_labels.indices[pair]
    joined, place = np.unique(key, return_inverse=True)
    return Imputed.from_triples(
        joined // max(1, groups.n_labels),
        joined % max(1, groups.n_labels),
        _best(place, score, joined.size),
        np.minimum(np.bincount(place, share, minlength=joined.size), 1.0).astype(np.float32),
        (groups.n_rows, groups.n_labels),
    )
