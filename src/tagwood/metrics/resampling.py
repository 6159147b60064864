"""Resampling of rows: how far a metric could be off by the luck of the test rows, and whether a gain is real.

In: the terms of metrics (`terms`) over the same rows. Out: confidence intervals from the bootstrap, and for
two rankings the interval of the difference and the p-value of a sign-flip test. Seeded; done in blocks of
repeats, so that memory stays bounded by the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tagwood.metrics.matching import Floats
from tagwood.metrics.terms import LabelSums, Terms

_BLOCK = 4_000_000  # numbers held at once: repeats of a block times rows (or labels)


def bootstrap_values(terms: Sequence[Terms], n_rows: int, n_repeats: int, seed: int) -> Floats:
    """Return (n_terms, n_repeats) values on rows drawn with replacement, the same draws for all."""
    blocks = [
        np.stack([term.finish(term.sums(weights)) for term in terms])
        for weights in _blocks(_draw_rows, terms, n_rows, n_repeats, seed)
    ]
    return np.concatenate(blocks, axis=1)


def intervals(values: Floats, confidence: float) -> Floats:
    """Return (n_terms, 2): between which values the middle share `confidence` of the repeats lies.

    Examples
    --------
    >>> intervals(np.arange(101.0)[None, :], 0.9)
    array([[ 5., 95.]])
    """
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    return np.quantile(values, ends, axis=1).T


def swap_p_values(
    first: Sequence[Terms], second: Sequence[Terms], n_rows: int, n_repeats: int, seed: int
) -> Floats:
    """Return the two-sided p-value of each metric under "it does not matter which ranking a row came from".

    Each repeat swaps the two rankings on a random half of the rows. The p-value is the share of repeats, the
    real assignment counted as one of them, whose difference is at least as large as the real one.
    """
    real = np.array([b.value() - a.value() for a, b in zip(first, second, strict=True)])
    # Sums in another order differ in the last bits; a tie must count as a tie.
    limit = np.abs(real) * (1 - 1e-9) - 1e-12
    extreme = np.zeros(len(first), dtype=np.int64)
    for swap in _blocks(_draw_swaps, first, n_rows, n_repeats, seed):
        stay = 1.0 - swap
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            new_a = a.finish(a.sums(stay) + b.sums(swap))
            new_b = b.finish(b.sums(stay) + a.sums(swap))
            extreme[i] += np.count_nonzero(np.abs(new_b - new_a) >= limit[i])
    return (extreme + 1) / (n_repeats + 1)


def _draw_rows(rng: np.random.Generator, n_rows: int) -> Floats:
    return np.bincount(rng.integers(n_rows, size=n_rows), minlength=n_rows).astype(np.float64)


def _draw_swaps(rng: np.random.Generator, n_rows: int) -> Floats:
    return rng.integers(2, size=n_rows).astype(np.float64)


def _blocks(
    draw: Callable[[np.random.Generator, int], Floats],
    terms: Sequence[Terms],
    n_rows: int,
    n_repeats: int,
    seed: int,
) -> Iterator[Floats]:
    widest = max([n_rows, *(term.hits.shape[1] for term in terms if isinstance(term, LabelSums))])
    size = max(1, _BLOCK // widest)
    rng = np.random.default_rng(seed)
    for begin in range(0, n_repeats, size):
        yield np.stack([draw(rng, n_rows) for _ in range(min(size, n_repeats - begin))])
