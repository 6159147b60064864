"""`Match`: the hits of a ranking among the true labels of the same rows, computed once for all metrics.

In: Y and a Ranking. Out: hits per entry, sizes per row, and gains per row at each cutoff, which `measures` sums up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._sparse import check_labels, csr_parts
from tagwood.errors import InputError
from tagwood.ranking import Ranking

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Match:
    """Hits of a ranking among the true labels."""

    # true_indptr, true_labels: the true labels of each row, rising
    true_indptr: NDArray[np.int64]
    true_labels: NDArray[np.int32]
    ranking: Ranking  # the labels returned for the same rows
    # One per entry of the ranking: 1 where its label is a true label of its row
    hits: NDArray[np.uint8]
    threads: int  # threads for the kernels; results do not depend on it

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.ranking.n_rows

    @property
    def n_labels(self) -> int:
        """Size of the label space."""
        return self.ranking.n_labels

    @cached_property
    def n_true(self) -> NDArray[np.int64]:
        """Number of true labels of each row."""
        return np.diff(self.true_indptr)

    @cached_property
    def longest(self) -> int:
        """Number of labels returned for the row with the most, at least 1."""
        return max(1, int(np.diff(self.ranking.indptr).max()))

    def gains(self, cutoffs: Iterable[int], *, weights: Floats | None, discounted: bool) -> dict[int, Floats]:
        """Return for each cutoff the sum per row of hit * weight * discount over the first labels."""
        places = np.array(sorted(set(cutoffs)), dtype=np.int64)
        sums = _kernels.ranked_gains(
            self.ranking.indptr,
            self.ranking.labels,
            self.hits,
            np.ones(self.n_labels) if weights is None else weights,
            discounts(min(int(places[-1]), self.longest), discounted),
            places,
            self.threads,
        )
        return _by_cutoff(sums, places)

    def best_gains(self, cutoffs: Iterable[int], *, weights: Floats, discounted: bool) -> dict[int, Floats]:
        """Return the `gains` of the best possible ranking of each row."""
        places = np.array(sorted(set(cutoffs)), dtype=np.int64)
        sums = _kernels.best_gains(
            self.true_indptr,
            self.true_labels,
            weights,
            discounts(min(int(places[-1]), int(self.n_true.max())), discounted),
            places,
            self.threads,
        )
        return _by_cutoff(sums, places)

    def restricted(self, keep: NDArray[np.bool_], *, ranking_too: bool) -> Match:
        """Return the match restricted to the labels of the mask `keep`: the true ones, and with `ranking_too` all."""
        kept = keep[self.true_labels]
        indptr = np.concatenate([[0], np.cumsum(kept)])[self.true_indptr]
        ranking, hits = self.ranking, self.hits
        mask = keep[ranking.labels]
        ranking, hits = (ranking.keep(mask), hits[mask]) if ranking_too else (ranking, hits * mask)
        return Match(indptr, self.true_labels[kept], ranking, hits, self.threads)

    def top(self, k: int | None) -> Match:
        """Return the match of the first `k` labels of each row."""
        if k is None:
            return self
        ranking = self.ranking.top(k)
        place = np.arange(self.hits.size) - np.repeat(self.ranking.indptr[:-1], np.diff(self.ranking.indptr))
        return replace(self, ranking=ranking, hits=self.hits[place < k])

    def rows(self, index: NDArray[np.int64]) -> Match:
        """Return the match of some rows."""
        true, found = _spans(self.true_indptr, index), _spans(self.ranking.indptr, index)
        ends = np.concatenate([[0], np.cumsum(self.n_true[index])]).astype(np.int64)
        return Match(ends, self.true_labels[true], self.ranking.rows(index), self.hits[found], self.threads)


def _spans(indptr: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of the entries of some rows."""
    sizes = np.diff(indptr)[index]
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(np.repeat(indptr[:-1][index], sizes) + within)


def match(Y: Any, ranking: Ranking, threads: int = 1) -> Match:
    """Match `ranking` with the true labels Y (n_rows, n_labels), and check that their shapes agree."""
    if not isinstance(ranking, Ranking):
        raise InputError(
            "ranking must be a Ranking",
            given=type(ranking).__name__,
            hint="Make one from a score matrix with Ranking.from_csr; for label sets use evaluate_sets.",
        )
    matrix = check_labels(Y, name="Y")
    if matrix.shape[0] != ranking.n_rows or matrix.shape[0] == 0:
        raise InputError(
            "Y and the ranking must have the same rows, at least one",
            given=f"{matrix.shape[0]:,} rows of Y and {ranking.n_rows:,} ranked rows",
        )
    if not isinstance(Y, list | tuple) and matrix.shape[1] != ranking.n_labels:
        raise InputError(
            "Y and the ranking must have the same labels",
            given=f"{matrix.shape[1]:,} labels in Y and {ranking.n_labels:,} in the ranking",
            hint="Read both with the vocabulary of the training data.",
        )
    if matrix.shape[1] > ranking.n_labels:  # lists of ids: only the largest id is known
        raise InputError(f"label ids of Y must be below {ranking.n_labels:,}", given=str(matrix.shape[1] - 1))
    truth = csr_parts(matrix)
    hits = _kernels.match_rows(truth.indptr, truth.indices, ranking.indptr, ranking.labels, threads)
    return Match(truth.indptr, truth.indices, ranking, hits, threads)


def discounts(k: int, discounted: bool = True) -> Floats:
    """Return the discounts 1 / log2(place + 1) of places 1 to k, or ones."""
    return 1.0 / np.log2(np.arange(2, k + 2)) if discounted else np.ones(k)


def _by_cutoff(sums: Floats, places: NDArray[np.int64]) -> dict[int, Floats]:
    columns = sums.reshape(-1, places.size).T
    return dict(zip(places.tolist(), columns, strict=True))
