"""`Imputed`: labels of single rows, worked out from the labels of their groups, with what speaks for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood.errors import InputError


@dataclass(frozen=True, eq=False)
class Imputed:
    """Labels per row as `impute_labels` found them; three matrices with the same stored entries.

    Parameters
    ----------
    labels
        (n_rows, n_labels) 0/1 float32 CSR array, ready for `fit(X, labels)` of any model.
    similarity
        How close the row is to the label: cosine with the label's embedding, or the score of the model that
        was asked. 0 for the baseline, which compares nothing.
    weights
        The row's share of the label: in each group the shares of a label sum to 1, so a clear decision has 1
        and two equally close rows have 0.5 each. A row that gets the label through several groups has the
        sum, at most 1.
    """

    labels: sparse.csr_array
    similarity: sparse.csr_array
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
        """Build from parallel arrays in any order, no (row, label) twice.

        Examples
        --------
        >>> one = np.ones(2, dtype=np.float32)
        >>> Imputed.from_triples(np.array([1, 0]), np.array([0, 2]), one, one, (2, 3)).labels.toarray()
        array([[0., 0., 1.],
               [1., 0., 0.]], dtype=float32)
        """
        order = np.lexsort((labels, rows))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])

        def matrix(data: NDArray[np.float32]) -> sparse.csr_array:
            return sparse.csr_array((data, labels[order], indptr), shape=shape)

        ones = np.ones(order.size, dtype=np.float32)
        return cls(matrix(ones), matrix(similarity[order]), matrix(weights[order]))

    def entries(self, mask: NDArray[np.bool_]) -> Imputed:
        """Return only some of the stored entries."""
        indptr = np.concatenate([[0], np.cumsum(mask)])[self.labels.indptr]

        def matrix(old: sparse.csr_array) -> sparse.csr_array:
            return sparse.csr_array((old.data[mask], old.indices[mask], indptr), shape=old.shape)

        return Imputed(matrix(self.labels), matrix(self.similarity), matrix(self.weights))

    def __repr__(self) -> str:
        n_rows, n_labels = self.labels.shape
        return f"Imputed({self.labels.nnz:,} labels on {n_rows:,} rows, {n_labels:,} different ones possible)"
