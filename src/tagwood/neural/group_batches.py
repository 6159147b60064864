"""Padded batches of groups of different sizes. In: rows X, groups of rows. Out: tensors and what in them is padding.

Rows are scaled to norm 1 and stay sparse until a batch is asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from tagwood._sparse import normalize_rows


class GroupBatch(NamedTuple):
    """Some groups: `rows` (n_groups, largest, n_features), and `real` (n_groups, largest), False for padding."""

    rows: torch.Tensor
    real: torch.Tensor


class GroupRows:
    """The rows of groups.

    Parameters
    ----------
    X
        (n_rows, n_features) CSR array; empty rows are allowed.
    groups
        (n_rows, n_groups) 0/1 CSR array, or None: every row is a group of its own.

    Examples
    --------
    >>> X = sparse.csr_array(np.eye(3, dtype=np.float32))
    >>> batch = GroupRows(X, sparse.csr_array([[1, 0], [0, 1], [0, 1]])).batch(np.array([0, 1]))
    >>> batch.real.tolist(), batch.rows[1].tolist()
    ([[True, False], [True, True]], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    """

    def __init__(self, X: sparse.csr_array, groups: sparse.csr_array | None) -> None:
        self.X = normalize_rows(X)
        if groups is None:
            self.starts = np.arange(X.shape[0] + 1)
            self.members = np.arange(X.shape[0])
        else:
            by_group = sparse.csr_array(groups.T)
            by_group.sort_indices()
            self.starts, self.members = by_group.indptr, by_group.indices

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.starts.size) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of each group."""
        return np.diff(self.starts).astype(np.int64)

    def batch(self, groups: NDArray[np.integer], device: str = "cpu") -> GroupBatch:
        """Return the rows of some groups as tensors; groups without rows are all padding."""
        sizes = self.sizes[groups]
        largest = max(1, int(sizes.max(initial=0)))
        real = np.arange(largest) < sizes[:, None]
        rows = self.members[np.concatenate([np.arange(self.starts[g], self.starts[g + 1]) for g in groups])]
        padded = np.zeros((len(groups), largest, self.X.shape[1]), dtype=np.float32)
        padded[real] = self.X[rows].toarray()
        return GroupBatch(torch.from_numpy(padded).to(device), torch.from_numpy(real).to(device))

    def by_size(self, n_cells: int) -> list[NDArray[np.int64]]:
        """Return batches of all groups, like sizes together, each of at most `n_cells` rows with padding."""
        order = np.argsort(self.sizes, kind="stable").astype(np.int64)
        found, begin = [], 0
        for end in range(1, order.size + 1):
            full = end < order.size and (end + 1 - begin) * int(self.sizes[order[end]]) > n_cells
            if full or end == order.size:
                found.append(order[begin:end])
                begin = end
        return found
