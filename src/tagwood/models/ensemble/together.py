"""`LabelsTogether`: change the probability of a candidate by what the other candidates of its row tell.

In: the fused candidates of held-out rows, and how often labels occur together in rows that the members know. Out: new
log odds of each row's best candidates, or nothing, where held-out rows are not better with them.

Decisions
---------
* The fusion judges each candidate alone. A second stage of boosted trees reads its features again, and beside them the
  candidate's log odds and place, the sum of the row's probabilities, and sums over the other candidates, weighted by
  their probability, of how often labels occur together. An attention network over
  the same candidates gains a little more, but takes as long as all members together and needs torch to be trained.
* It is learned from log odds that are out of fold, and with pairs that are counted in other rows.
* Of each label only the `_MOST_PAIRS` labels that it occurs with most often are kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._lazy import sparse
from tagwood._sparse import csr_parts
from tagwood.errors import InputError
from tagwood.models.ensemble.fusion import PER_MEMBER, SHARED, Boosted, Candidates, Thinning
from tagwood.storage import State

Floats = NDArray[np.float64]
_BEST = 30  # candidates of a row that are looked at
_CONTEXT = 15  # features of a candidate among others, see `cpp/candidates/context.hpp`
_MOST_PAIRS = 50
_TREES = 60
_THINNING = Thinning(-_CONTEXT, ((-5.0, 0.05), (-3.5, 0.2), (-2.5, 0.5)))  # by log odds of the fusion


class LabelPairs(NamedTuple):
    """How many rows have two labels: of each label, others with counts; and how many rows have each."""

    indptr: NDArray[np.int64]
    labels: NDArray[np.int32]
    counts: NDArray[np.float32]
    rows: NDArray[np.int64]
    n_rows: int

    @classmethod
    def of(cls, Y: sparse.csr_array) -> LabelPairs:
        """Count pairs in (n_rows, n_labels) label sets.

        Examples
        --------
        >>> pairs = LabelPairs.of(sparse.csr_array(np.array([[1, 1, 0], [1, 1, 1]], dtype=np.float32)))
        >>> pairs.labels.tolist(), pairs.counts.tolist(), pairs.rows.tolist()
        ([1, 2, 0, 2, 0, 1], [2.0, 1.0, 2.0, 1.0, 1.0, 1.0], [2, 2, 1])
        """
        ones = Y.copy()
        ones.data = np.ones(Y.nnz, dtype=np.float32)
        together = sparse.coo_array(ones.T @ ones)
        apart = together.row != together.col
        row, label, counts = (part[apart] for part in (together.row, together.col, together.data))
        order = np.lexsort((label, -counts, row))
        place = np.arange(row.size) - np.searchsorted(row[order], row[order])
        kept = np.sort(order[place < _MOST_PAIRS])
        cells = counts[kept], (row[kept], label[kept])
        found = csr_parts(sparse.csr_array(cells, shape=together.shape, dtype=np.float32))
        rows = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int64)
        return cls(found.indptr, found.indices, found.data, rows, Y.shape[0])


class Told(NamedTuple):
    """The best candidates of each row: numbers, features for the trees, and the label that tells most, -1 for none."""

    entries: NDArray[np.int64]
    features: NDArray[np.float32]
    partners: NDArray[np.int32]


class LabelsTogether(NamedTuple):
    """Boosted trees over what the candidates of a row tell of each other."""

    pairs: LabelPairs
    trees: Boosted

    def change(self, cells: Candidates, features: NDArray[np.float32], logits: Floats, threads: int = 1) -> Floats:
        """Return the new log odds of the candidates, of which `features` and `logits` are those of the fusion."""
        told = tell(cells, features, logits, self.pairs, threads)
        changed = logits.copy()
        changed[told.entries] = self.trees.logits(told.features, threads)
        return changed

    def partner(self, cells: Candidates, features: NDArray[np.float32], logits: Floats, label: int) -> int | None:
        """Return the candidate of one row that tells most about a label; None where the label is not among the best."""
        told = tell(cells, features, logits, self.pairs)
        found = told.partners[cells.label[told.entries] == label]
        return int(found[0]) if found.size and found[0] >= 0 else None

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = dict(zip(LabelPairs._fields[:4], self.pairs[:4], strict=True))
        return State(
            "LabelsTogether", params={"n_rows": self.pairs.n_rows}, arrays=arrays, parts={"trees": self.trees.state()}
        )

    @classmethod
    def from_state(cls, state: State, n_members: int) -> LabelsTogether:
        """Rebuild from the stored form; stored values are checked."""
        rows = state.array("rows", np.int64, (None,))
        indptr = state.array("indptr", np.int64, (rows.size + 1,))
        labels = state.array("labels", np.int32, (None,))
        counts = state.array("counts", np.float32, (labels.size,))
        n_rows = int(state.param("n_rows", int))
        fits = indptr[0] == 0 and indptr[-1] == labels.size and bool(np.all(np.diff(indptr) >= 0))
        fits = fits and n_rows >= 0 and bool(np.all((rows >= 0) & (rows <= n_rows)))
        if not fits or not np.isfinite(counts).all() or np.any(counts < 0):
            raise InputError("the pairs of labels of a stored ensemble must fit together", given="others")
        trees = Boosted.from_state(state.part("trees"), PER_MEMBER * n_members + SHARED + _CONTEXT)
        return cls(LabelPairs(indptr, labels, counts, rows, n_rows), trees)


def fit_trees(features: NDArray[np.float32], right: NDArray[np.bool_]) -> Boosted:
    """Learn from what is told of candidates and whether each is right."""
    return Boosted.fit(features, right, _TREES, _THINNING)


def tell(cells: Candidates, features: NDArray[np.float32], logits: Floats, pairs: LabelPairs, threads: int = 1) -> Told:
    """Return what the best candidates of each row tell of each other, beside their own features."""
    arrays = cells.indptr, cells.label, logits, *pairs
    entries, context, partners = _kernels.candidate_context(*arrays, _BEST, threads)
    return Told(entries, np.hstack([features[entries], context.reshape(-1, _CONTEXT)]), partners)
