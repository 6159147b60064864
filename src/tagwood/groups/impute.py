"""EAGLE: find the row of a group that each label of the group belongs to.

In: rows X, groups of rows, labels of groups. Out: labels of rows (`Imputed`), or the label embeddings.

Decisions. Rows are scaled to norm 1, so that "close" means cosine. The paper's Algorithm 1 does not define ties and
sums of zero; `reference.impute` in the kernel tests does. Beyond the paper, `contrast` subtracts a background from
every row that is summed into an embedding: the mean of the rows of all groups without the label (each as often as it is
in groups), or of all rows if every group has it. The sum over random groups of g rows is the label's own rows plus
g - 1 times such a row; without contrast, embeddings point to what all rows share, and picking the closest rows makes it
worse. On EURLEX57K in random groups of 10, a quarter of the assignments is right without contrast and four fifths with
it. `contrast=0` is the paper's algorithm. With contrast the start is almost right, and large steps follow wrong picks:
`step_size` 0.03 was best on held-out training rows of two sets; the paper gives no value. `margin` is relative, because
the cosine of the closest row may be 0.1 for one label and 0.8 for another; it was chosen in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, check_features, csr_parts
from tagwood.errors import InputError
from tagwood.groups.labels import GroupedLabels

_METHODS = ("baseline", "eagle-0", "eagle")
# Rows up to this size are copied group by group, so that each label reads long stretches of memory.
_COPY_LIMIT = 1 << 30
_TIE = 1e-5  # relative: scores may be tiny probabilities


@dataclass(frozen=True, eq=False)
class Imputed:
    """The result of `impute_labels`: three matrices with the same stored entries."""

    # (n_rows, n_labels) 0/1 float32 CSR array, ready for `fit(X, labels)` of any model
    labels: sparse.csr_array
    # Cosine of the row with the label's embedding, or the score of a model; 0 for the baseline
    similarity: sparse.csr_array
    # The row's share of the label: in each group the shares of a label sum to 1, so that a clear decision has
    # 1 and two equally close rows have 0.5 each. A row that has the label from several groups has the sum, at
    # most 1
    weights: sparse.csr_array

    def __post_init__(self) -> None:
        for name in ("similarity", "weights"):
            other = getattr(self, name)
            if not (
                other.shape == self.labels.shape
                and np.array_equal(other.indptr, self.labels.indptr)
                and np.array_equal(other.indices, self.labels.indices)
            ):
                raise InputError(f"{name} must have the same stored entries as labels", given="others")

    @classmethod
    def from_triples(
        cls,
        rows: NDArray[np.integer],
        labels: NDArray[np.integer],
        similarity: NDArray[np.float32],
        weights: NDArray[np.float32],
        shape: tuple[int, int],
    ) -> Imputed:
        """Build from parallel arrays in any order, without duplicate (row, label) pairs."""
        order = np.lexsort((labels, rows))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
        parts = (np.ones(order.size, dtype=np.float32), similarity[order], weights[order])
        return cls(*(sparse.csr_array((data, labels[order], indptr), shape=shape) for data in parts))

    def entries(self, mask: NDArray[np.bool_]) -> Imputed:
        """Return only some of the stored entries."""
        indptr = np.concatenate([[0], np.cumsum(mask)])[self.labels.indptr]
        indices, shape = self.labels.indices[mask], self.labels.shape
        data = (part.data[mask] for part in (self.labels, self.similarity, self.weights))
        return Imputed(*(sparse.csr_array((values, indices, indptr), shape=shape) for values in data))

    def __repr__(self) -> str:
        n_rows, n_labels = self.labels.shape
        return f"Imputed({self.labels.nnz:,} labels on {n_rows:,} rows, {n_labels:,} different ones possible)"


def impute_labels(
    X: Any,
    sample_groups: Any,
    group_labels: Any,
    *,
    method: str = "eagle",
    steps: int = 20,
    step_size: float = 0.03,
    contrast: float = 1.0,
    soft: bool = False,
    margin: float = 0.8,
    seed: int = 0,
    threads: int | None = None,
) -> Imputed:
    """Assign each label of a group to the row of the group that it fits best.

    1. Learn an embedding of each label: the direction that is close to at least one row of *every* group with the
       label.
    2. In each group, assign each label to the row closest to its embedding, or to all equally close rows.

    Use it where labels are known per box, order, page or session, and train any model on the result.

    Parameters
    ----------
    X
        (n_rows, n_features) sparse or dense matrix.
    sample_groups, group_labels
        (n_rows, n_groups) and (n_groups, n_labels) 0/1 matrices, or lists with the group numbers of each row and the
        label ids of each group; see `GroupedLabels`.
    method
        ``"eagle"``; ``"eagle-0"``: the embedding is the mean of all rows of the label's groups, nothing is learned;
        ``"baseline"``: every row has every label of its groups, which is better where the rows of a group are so alike
        that they share their labels.
    steps
        Number of times the closest rows are picked.
    step_size
        How far the embedding moves towards the picked rows, relative to its length. Small values stay near the start,
        which is good with `contrast`.
    contrast
        How much of the mean row of the groups without the label is subtracted before rows are summed, from 0 (the
        paper's algorithm) to 1. Keep 1 for text and other non-negative features.
    soft
        Let rows almost as close as the closest one share the label, with shares in `weights`. A model that weights
        entries (``LinearTree.fit(X, found.labels, sample_weight=found.weights)``) learns more from it.
    margin
        With `soft`: rows whose cosine is less than this share below that of the closest row have a share of the label,
        which falls linearly to zero there. With 0 only the closest row has it; 1 leaves out rows at a right angle.
    seed
        Chooses the row that a label starts from where the rows of its groups cancel out; nothing else is random.
    threads
        Number of threads, default all cores. The result is the same for any number.

    Examples
    --------
    Three orders of two products each. Label 0 is in the first and second, label 1 in the second and third:

    >>> X = [[1.0, 0, 0], [0, 1, 0], [1, 0, 0.1], [0, 0, 1], [0, 0.1, 1], [0, 1, 0]]
    >>> orders = GroupedLabels.from_groups([0, 0, 1, 1, 2, 2], {0: [0], 1: [0, 1], 2: [1]})
    >>> found = impute_labels(X, orders.sample_groups, orders.group_labels)
    >>> found.labels.toarray().astype(int).tolist()
    [[1, 0], [0, 0], [1, 0], [0, 1], [0, 1], [0, 0]]
    """
    check_choice(method, "method", _METHODS)
    check_float(margin, "margin", low=0.0, high=1.0)
    groups, matrix = _check_problem(X, sample_groups, group_labels, steps, step_size, contrast)
    workers = check_threads(threads)
    if method == "baseline":
        return _spread(groups)
    arrays = _KernelArrays(matrix, groups, contrast, seed, workers)
    n_steps = steps if method == "eagle" else 0
    indptr, rows, similarity, weights = _kernels.impute_groups(
        *arrays.values, n_steps, step_size, margin if soft else 0.0, workers
    )
    labels = np.repeat(np.arange(groups.n_labels, dtype=np.int32), np.diff(indptr))
    return Imputed.from_triples(arrays.rows[rows], labels, similarity, weights, (groups.n_rows, groups.n_labels))


def embed_labels(
    X: Any,
    sample_groups: Any,
    group_labels: Any,
    *,
    steps: int = 20,
    step_size: float = 0.03,
    contrast: float = 1.0,
    seed: int = 0,
    threads: int | None = None,
) -> sparse.csr_array:
    """Return the (n_labels, n_features) embeddings that `impute_labels` compares rows with, of norm 1.

    Labels without rows, and with `steps=0` labels whose rows cancel out, have empty rows.

    Examples
    --------
    Rows x and -x in each group: their mean is zero, and EAGLE finds x for one label and -x for the other.

    >>> X, groups, labels = [[1.0], [-1.0]] * 3, np.repeat(np.eye(3), 2, axis=0), np.ones((3, 2))
    >>> embed_labels(X, groups, labels, steps=0).toarray().tolist()
    [[0.0], [0.0]]
    >>> embed_labels(X, groups, labels).toarray().tolist()
    [[1.0], [-1.0]]
    """
    groups, matrix = _check_problem(X, sample_groups, group_labels, steps, step_size, contrast)
    workers = check_threads(threads)
    arrays = _KernelArrays(matrix, groups, contrast, seed, workers)
    indptr, features, values = _kernels.embed_groups(*arrays.values, steps, step_size, workers)
    return CsrParts(indptr, features, values, matrix.shape[1]).to_scipy()


def impute_from_scores(
    scores: Any, sample_groups: Any, group_labels: Any, *, previous: Imputed | None = None
) -> Imputed:
    """Assign each label of a group to the row of the group with the highest score for it, or to all such rows.

    This is the second round of "impute, fit, impute, fit" with the scores of a trained model. Take the scores from
    `tagwood.models.base.out_of_fold`, with the group of each row: a model that was trained on a row returns the labels
    it was trained on, right or wrong. Where no row of a group has a score for a label of the group, the label stays
    with its rows in `previous`, or without it with all rows of the group.

    Parameters
    ----------
    scores
        (n_rows, n_labels), higher is better; pairs that are not stored have no score.
    sample_groups, group_labels
        As in `impute_labels`.
    previous
        The first round.

    Returns
    -------
    Imputed
        `similarity` contains the scores, 0 where there was none.

    Examples
    --------
    >>> scores = [[0.9, 0.2], [0.4, 0.3]]
    >>> impute_from_scores(scores, [[0], [0]], [[0, 1]]).labels.toarray().astype(int).tolist()
    [[1, 0], [0, 1]]

    Scores for `scores`, where row r is in group ``group_of[r]``:

    >>> from tagwood import LinearTree
    >>> from tagwood.models.base import out_of_fold
    >>> X, group_of = np.repeat(np.eye(2), 6, axis=0), np.arange(12) % 6
    >>> pairs, both = np.eye(6)[group_of], [[0, 1]] * 6
    >>> first = impute_labels(X, pairs, both, method="baseline")
    >>> def rank(train, held):
    ...     return LinearTree(threads=1).fit(X[train], first.labels[train]).rank(X[held], k=100)
    >>> scores = out_of_fold(group_of, rank).to_csr()
    >>> impute_from_scores(scores, pairs, both, previous=first).labels.shape
    (12, 2)
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
    """Return the result of `impute_labels` with this `margin`, computed from its result with a larger one."""
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
    return replace(kept, weights=sparse.csr_array((data, kept.labels.indices, kept.labels.indptr), shape=shape))


def keep_closest(imputed: Imputed, groups: GroupedLabels) -> Imputed:
    """Return only the assignments to the closest row of a group, with their weights.

    Of a result with ``soft=True`` this is the plain assignment, with weights that show how clear it is: 1 where no
    other row of the group is within the margin, 0.5 where another one is as close.
    """
    _, pair, entry = _pairs(imputed.similarity, groups)
    closeness = imputed.similarity.data[entry]
    near = closeness >= _best(pair, closeness, groups.group_labels.nnz)[pair] - _TIE
    keep = np.zeros(imputed.labels.nnz, dtype=bool)
    keep[entry[near]] = True
    return imputed.entries(keep)


def _check_problem(
    X: Any, sample_groups: Any, group_labels: Any, steps: int, step_size: float, contrast: float
) -> tuple[GroupedLabels, sparse.csr_array]:
    check_int(steps, "steps", low=0)
    check_float(step_size, "step_size", above=0.0)
    check_float(contrast, "contrast", low=0.0, high=1.0)
    groups = GroupedLabels(sample_groups, group_labels)
    matrix = check_features(X)
    if matrix.shape[0] != groups.n_rows:
        raise InputError(
            f"sample_groups must have one row for each of the {matrix.shape[0]:,} rows of X",
            given=f"{groups.n_rows:,} rows",
        )
    return groups, matrix


class _KernelArrays:
    """The arrays of the kernels; `rows` maps the row numbers of the kernels to rows of X."""

    def __init__(self, X: sparse.csr_array, groups: GroupedLabels, contrast: float, seed: int, threads: int) -> None:
        check_int(seed, "seed", low=0)
        members = groups.sample_groups
        self.rows = np.arange(groups.n_rows)
        if X.nnz * 8 <= _COPY_LIMIT:
            inside = np.flatnonzero(np.diff(members.indptr))
            first_group = members.indices[members.indptr[inside]]
            self.rows = inside[np.argsort(first_group, kind="stable")]
            X, members = X[self.rows], members[self.rows]
        parts = csr_parts(X)
        by_group = csr_parts(sparse.csr_array(members.T))
        by_label = sparse.csc_array(groups.group_labels)
        unit = _kernels.normalize_rows(parts.indptr, parts.data, threads)
        # The mean of all rows, each as often as it is in groups; the kernels derive from it the mean of the groups
        # without a label. A plain mean of all rows differs from it at random, and for a label of most groups that
        # difference would be most of its embedding.
        counts = np.diff(members.indptr)
        weighted = unit * np.repeat(counts, np.diff(parts.indptr))
        mean = np.bincount(parts.indices, weighted, minlength=parts.n_cols) / max(1, counts.sum())
        self.values = (
            parts.indptr,
            parts.indices,
            unit,
            parts.n_cols,
            by_group.indptr,
            by_group.indices,
            by_label.indptr.astype(np.int64),
            by_label.indices.astype(np.int32),
            _starts(groups.group_labels, seed),
            mean.astype(np.float32),
            float(contrast),
        )


def _starts(group_labels: sparse.csr_array, seed: int) -> NDArray[np.int32]:
    """Return each label's position among the labels of its first group, plus `seed`."""
    lengths = np.diff(group_labels.indptr)
    place = np.arange(group_labels.nnz) - np.repeat(group_labels.indptr[:-1], lengths)
    starts = np.zeros(group_labels.shape[1], dtype=np.int64)
    starts[group_labels.indices[::-1]] = place[::-1]  # the first group writes last
    return ((starts + seed) % (2**31 - 1)).astype(np.int32)


def _spread(groups: GroupedLabels) -> Imputed:
    members = groups.sample_groups
    sizes = np.bincount(members.indices, minlength=groups.n_groups)
    shares = sparse.csr_array(
        ((1.0 / sizes[members.indices]).astype(np.float32), members.indices, members.indptr),
        shape=members.shape,
    )
    weights = sparse.csr_array(shares @ groups.group_labels)
    weights.sort_indices()
    np.minimum(weights.data, 1.0, out=weights.data)

    def filled(value: float) -> sparse.csr_array:
        data = np.full(weights.nnz, value, dtype=np.float32)
        return sparse.csr_array((data, weights.indices, weights.indptr), shape=weights.shape)

    return Imputed(filled(1.0), filled(0.0), weights)


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
    """Merge the assignments of a row from several groups: the best score, and the sum of its shares."""
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
