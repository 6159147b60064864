"""EAGLE: work out which row of a group each of the group's labels belongs to.

In: rows X, groups of rows, labels of groups. Out: labels of rows (`Imputed`), or the label embeddings
themselves.

Decisions. Rows are scaled to norm 1, so "close" means cosine. The paper's Algorithm 1 leaves open ties and
sums of zero; both are settled in `tagwood._kernels.reference_impute`. Beyond the paper, `contrast` takes the
mean of all rows (each as often as it is in groups) off every row that is summed into an embedding. The sum
over random groups of g rows is the label's own rows plus g - 1 times the mean row; without contrast,
embeddings lean towards what all rows share, and picking the closest rows makes it worse. On EURLEX57K in
random groups of 10 a quarter of the assignments is right without contrast and more than three quarters with
it. `contrast=0` is the paper's algorithm. With contrast the start is almost right, and large steps only
follow wrong picks: `step_size` 0.03 was best on held-out training rows of two sets
(docs/experiments/eagle.md), where the paper gives no value. `margin` is relative, because the cosine of the
closest row may be 0.1 for one label and 0.8 for another; it was chosen in the same way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood import _kernels
from tagwood._check import check_choice, check_float, check_int, check_threads
from tagwood._sparse import CsrParts, check_features, csr_parts
from tagwood.errors import InputError
from tagwood.groups.grouped_labels import GroupedLabels
from tagwood.groups.imputed import Imputed

METHODS = ("baseline", "eagle-0", "eagle")
# Rows are copied group by group, so that each label reads few long stretches of memory; beyond this size the
# copy would cost more memory than the stretches are worth.
_COPY_LIMIT = 1 << 30


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
    """Give each label of a group to the row of the group it fits best.

    1. Each label gets an embedding: the direction that is close to at least one row of *every* group with the
       label.
    2. In each group, each label goes to the row closest to its embedding; equally close rows all get it.

    Use it where labels are known per box, order, page or session, and train any model on the result.

    Parameters
    ----------
    X
        (n_rows, n_features) sparse or dense matrix.
    sample_groups
        (n_rows, n_groups) 0/1 matrix: 1 where the row is in the group; or a list with the group numbers of
        each row. A row may be in several groups or in none.
    group_labels
        (n_groups, n_labels) 0/1 matrix: 1 where the group has the label; or a list with the label ids of each
        group.
    method
        "eagle"; "eagle-0" (the embedding is the mean of all rows of the label's groups, nothing is learned);
        "baseline" (every row gets every label of its groups). The baseline is better where the rows of a
        group are so alike that they share their labels.
    steps
        Number of times the closest rows are picked anew.
    step_size
        How far the embedding moves towards the picked rows, relative to its own length. Small values stay
        near the start, which is a good one with `contrast`; large ones forget it within a few steps.
    contrast
        How much of the mean of all rows is taken off before rows are summed up, from 0 (nothing, the paper's
        algorithm) to 1. Keep 1 for text and other features that are never negative.
    soft
        Let rows nearly as close as the closest share the label; their `weights` say how much. A model that counts
        entries by weight (``LinearTree.fit(X, found.labels, sample_weight=found.weights)``) learns more from it.
    margin
        With `soft`: rows that are behind the closest by less than this share of its cosine get a share of the
        label, which falls linearly to zero there. Towards 0 only the closest gets it, 1 leaves out those at a right
        angle.
    seed
        Which row a label starts from where the rows of its groups cancel out; nothing else is random.
    threads
        Number of threads, default all cores. The result is the same for any number.

    Returns
    -------
    Imputed
        `.labels` (CSR, 0/1), `.similarity` and `.weights` of each assignment.

    Examples
    --------
    Three orders of two products each. Label 0 is in the first and second, label 1 in the second and third:

    >>> X = [[1.0, 0, 0], [0, 1, 0], [1, 0, 0.1], [0, 0, 1], [0, 0.1, 1], [0, 1, 0]]
    >>> orders = GroupedLabels.from_groups([0, 0, 1, 1, 2, 2], {0: [0], 1: [0, 1], 2: [1]})
    >>> found = impute_labels(X, orders.sample_groups, orders.group_labels)
    >>> found.labels.toarray().astype(int).tolist()
    [[1, 0], [0, 0], [1, 0], [0, 1], [0, 1], [0, 0]]
    """
    check_choice(method, "method", METHODS)
    check_int(steps, "steps", low=0)
    check_float(step_size, "step_size", above=0.0)
    check_float(contrast, "contrast", low=0.0, high=1.0)
    check_float(margin, "margin", low=0.0, high=1.0)
    workers = check_threads(threads)
    groups, matrix = _check_problem(X, sample_groups, group_labels)
    if method == "baseline":
        return _spread(groups)
    problem = _Problem(matrix, groups, contrast, seed, workers)
    indptr, rows, similarity, weights = _kernels.impute_groups(
        *problem.arrays,
        steps if method == "eagle" else 0,
        step_size,
        margin if soft else 0.0,
        workers,
    )
    labels = np.repeat(np.arange(groups.n_labels, dtype=np.int32), np.diff(indptr))
    return Imputed.from_triples(
        problem.rows[rows], labels, similarity, weights, (groups.n_rows, groups.n_labels)
    )


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
    """Return the (n_labels, n_features) embeddings that `impute_labels` compares rows with.

    Rows have norm 1; labels without rows, and with `steps=0` labels whose rows cancel out, have empty ones.

    Examples
    --------
    Rows x and -x in each group: their mean is zero, what EAGLE finds is x for one label and -x for the other.

    >>> X, groups, labels = [[1.0], [-1.0]] * 3, np.repeat(np.eye(3), 2, axis=0), np.ones((3, 2))
    >>> embed_labels(X, groups, labels, steps=0).toarray().tolist()
    [[0.0], [0.0]]
    >>> embed_labels(X, groups, labels).toarray().tolist()
    [[1.0], [-1.0]]
    """
    check_int(steps, "steps", low=0)
    check_float(step_size, "step_size", above=0.0)
    check_float(contrast, "contrast", low=0.0, high=1.0)
    workers = check_threads(threads)
    groups, matrix = _check_problem(X, sample_groups, group_labels)
    problem = _Problem(matrix, groups, contrast, seed, workers)
    indptr, features, values = _kernels.embed_groups(*problem.arrays, steps, step_size, workers)
    return CsrParts(indptr, features, values, matrix.shape[1]).to_scipy()


def _check_problem(X: Any, sample_groups: Any, group_labels: Any) -> tuple[GroupedLabels, sparse.csr_array]:
    groups = GroupedLabels(sample_groups, group_labels)
    matrix = check_features(X)
    if matrix.shape[0] != groups.n_rows:
        raise InputError(
            f"sample_groups must have one row for each of the {matrix.shape[0]:,} rows of X",
            given=f"{groups.n_rows:,} rows",
        )
    return groups, matrix


class _Problem:
    """The arrays the kernels take; `rows` are the rows of X behind the kernels' row numbers."""

    def __init__(
        self, X: sparse.csr_array, groups: GroupedLabels, contrast: float, seed: int, threads: int
    ) -> None:
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
        # The mean of what is summed up: a row counts as often as it is in groups. The mean of all rows would differ
        # from it by chance, and where most groups have a label that difference would be most of its embedding.
        counts = np.diff(members.indptr)
        weighted = unit * np.repeat(counts, np.diff(parts.indptr))
        mean = np.bincount(parts.indices, weighted, minlength=parts.n_cols) / max(1, counts.sum())
        self.arrays = (
            parts.indptr,
            parts.indices,
            unit,
            parts.n_cols,
            by_group.indptr,
            by_group.indices,
            by_label.indptr.astype(np.int64),
            by_label.indices.astype(np.int32),
            _starts(groups.group_labels, seed),
            (contrast * mean).astype(np.float32),
        )


def _starts(group_labels: sparse.csr_array, seed: int) -> NDArray[np.int32]:
    """Return each label's place among the labels of its first group, moved on by `seed`."""
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
