"""`SetRows`: texts, label sets and candidates of many rows, as batches of tensors.

In: word numbers and label numbers of all rows. Out: the tensors of some rows, and batches of rows of like length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from tagwood.neural.set_network import Words
from tagwood.neural.set_output import Columns
from tagwood.neural.training import Batches, Rows

_NEAR = 32  # batches whose rows are sorted by length together


@dataclass(frozen=True, eq=False)
class SetRows:
    """Rows of texts and, for training, their labels.

    Parameters
    ----------
    borders, words
        Word numbers of row i are ``words[borders[i]:borders[i + 1]]``, at least one.
    n_labels
        Number of labels; ∅ or the end is the label after the last one.
    ends, labels
        Labels of row i are ``labels[ends[i]:ends[i + 1]]``, in the order in which they are to be generated.
    candidates
        (n_rows, n_labels) 0/1 with rising columns: the labels each row may have; None for all.
    allowed
        (n_labels,) the labels any row may have; None for all.
    device
        Where tensors go.
    """

    borders: NDArray[np.int64]
    words: NDArray[np.int32]
    n_labels: int
    ends: NDArray[np.int64] | None = None
    labels: NDArray[np.int64] | None = None
    candidates: sparse.csr_array | None = None
    allowed: NDArray[np.bool_] | None = None
    device: str = "cpu"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.borders.size) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of words of each row."""
        return np.diff(self.borders)

    def batch(self, rows: Rows) -> Words:
        """Return the words of some rows."""
        padded, lengths = _padded(self.borders, self.words, rows, 0)
        return Words(torch.from_numpy(padded).to(self.device), torch.from_numpy(lengths).to(self.device))

    def targets(self, rows: Rows) -> torch.Tensor:
        """Return the labels of some rows, (n_rows, most), filled up with -1."""
        assert self.ends is not None
        assert self.labels is not None
        return torch.from_numpy(_padded(self.ends, self.labels, rows, -1)[0]).to(self.device)

    def columns(self, rows: Rows) -> Columns | None:
        """Return the candidates of some rows: the columns of each, filled up to as many; ∅ or the end is the last."""
        if self.candidates is not None:
            found = self.candidates
            labels, sizes = _padded(found.indptr.astype(np.int64), found.indices, rows, self.n_labels)
        elif self.allowed is not None:
            own = np.flatnonzero(self.allowed)
            labels, sizes = np.tile(own, (rows.size, 1)), np.full(rows.size, own.size)
        else:
            return None
        labels = np.pad(labels, ((0, 0), (0, 1)), constant_values=self.n_labels)
        allowed = np.arange(labels.shape[1]) < sizes[:, None]
        allowed[:, -1] = True
        return Columns(torch.from_numpy(labels).to(self.device), torch.from_numpy(allowed).to(self.device))

    def by_length(self, batch_size: int) -> list[Rows]:
        """Return batches of all rows, shortest first."""
        order = np.argsort(self.lengths, kind="stable").astype(np.int64)
        return [order[at : at + batch_size] for at in range(0, order.size, batch_size)]


def near_lengths(lengths: NDArray[np.int64], batch_size: int, teacher_epochs: int = 0) -> Batches:
    """Return batches of rows of like length in a new order each epoch, so that little is padding.

    In the first `teacher_epochs` row i is given as ``~i``, which says that its step is to be teacher-forced: plans are
    kept in checkpoints, so a run that goes on knows it too.

    Examples
    --------
    >>> plan = near_lengths(np.array([9, 1, 8, 2]), 2)(0, np.random.default_rng(0))
    >>> sorted(sorted(batch.tolist()) for batch in plan)
    [[0, 2], [1, 3]]
    """

    def plan(epoch: int, random: np.random.Generator) -> list[Rows]:
        order = random.permutation(lengths.size).astype(np.int64)
        batches: list[Rows] = []
        for at in range(0, order.size, _NEAR * batch_size):
            near = order[at : at + _NEAR * batch_size]
            near = near[np.argsort(lengths[near], kind="stable")]
            batches += [near[i : i + batch_size] for i in range(0, near.size, batch_size)]
        mixed = [batches[place] for place in random.permutation(len(batches))]
        return [~batch for batch in mixed] if epoch < teacher_epochs else mixed

    return plan


def _padded(
    borders: NDArray[np.int64], values: NDArray[np.integer], rows: Rows, filler: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the values of some rows, (n_rows, longest), and how many each has."""
    lengths = borders[rows + 1] - borders[rows]
    longest = int(lengths.max(initial=1))
    inside = np.arange(longest) < lengths[:, None]
    padded = np.full((rows.size, longest), filler, dtype=np.int64)
    places = np.arange(lengths.sum()) + np.repeat(borders[rows] - (np.cumsum(lengths) - lengths), lengths)
    padded[inside] = values[places]
    return padded, lengths
