"""How many n-grams and features all texts will have, from a sample of them. In: texts, an encoder. Out: `TextFigures`.

The n-grams of a quarter, a half and all of a random sample are counted, and the growth from one to the next is carried
on to the number of rows: a power law (Heaps) whose exponent falls on as it fell inside the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood.features.terms import count_ngrams
from tagwood.features.texts import packed_chunks
from tagwood.features.tfidf import TfidfEncoder
from tagwood.features.unicode import char_tables

SAMPLE_CHARACTERS = 6_000_000
SAMPLE_ROWS = 30_000


@dataclass(frozen=True)
class TextFigures:
    """What the texts are for an encoder.

    Parameters
    ----------
    tokens
        Different n-grams of a text, on average.
    distinct
        Different n-grams of all texts.
    n_features, per_row
        N-grams that become features, and how many of them a text has on average.
    """

    tokens: float
    distinct: float
    n_features: float
    per_row: float


class _Counts(NamedTuple):
    rows: int
    tokens: float
    distinct: float
    n_features: float
    per_row: float


def measure_texts(
    texts: Sequence[str], encoder: TfidfEncoder, n_rows: int, random: np.random.Generator, threads: int
) -> TextFigures:
    """Return the figures of `n_rows` texts, of which `texts` are all or more; a sample is read."""
    sample = draw_texts(texts, SAMPLE_CHARACTERS, min(SAMPLE_ROWS, n_rows), random)
    analysis, limits = encoder._analysis(), encoder._limits()
    tables = char_tables(analysis.fold)
    borders = [0, len(sample) // 4, len(sample) // 2, len(sample)]
    keys, counts, rows = np.empty(0, np.uint64), np.empty(0, np.int64), 0
    found: list[_Counts] = []
    for begin, end in pairwise(borders):
        chunks = packed_chunks(sample[begin:end], tables.folds)
        more_keys, more_counts, n_more = count_ngrams(chunks, analysis, threads)
        keys, counts = _kernels.merge_counts(keys, counts, more_keys, more_counts)
        rows += n_more
        if rows:
            found.append(
                _Counts(rows, counts.sum() / rows, float(keys.size), *_features(counts, rows, limits))
            )
    return _grown(found, n_rows)


def draw_texts(texts: Sequence[str], characters: int, most: int, random: np.random.Generator) -> list[str]:
    """Return a random sample of about so many characters, at most so many texts."""
    order = random.permutation(len(texts))[:most]
    chosen: list[str] = []
    for row in order.tolist():
        chosen.append(texts[row])
        characters -= len(texts[row])
        if characters <= 0:
            break
    return chosen


def _features(
    counts: NDArray[np.int64], rows: int, limits: tuple[float, float, int | None]
) -> tuple[float, float]:
    """Return how many n-grams the limits of an encoder keep, and how many of those stand in a text."""
    low, high = (limit if isinstance(limit, int) else limit * rows for limit in limits[:2])
    kept = counts[(counts >= max(1, low)) & (counts <= high)]
    most = limits[2]
    if most is not None and kept.size > most:
        kept = np.partition(kept, kept.size - most)[kept.size - most :]
    return float(kept.size), float(kept.sum() / rows)


def _grown(found: list[_Counts], n_rows: int) -> TextFigures:
    last = found[-1]
    tokens = last.tokens

    def grown(name: str) -> float:
        return carry_on([one.rows for one in found], [getattr(one, name) for one in found], n_rows)

    n_features, distinct = grown("n_features"), max(grown("distinct"), 1.0)
    return TextFigures(tokens, distinct, min(n_features, distinct), min(grown("per_row"), tokens))


def carry_on(sizes: Sequence[int], values: Sequence[float], size: int) -> float:
    """Return the value at `size`, from those at smaller sizes, by a power law whose exponent falls.

    Examples
    --------
    >>> round(carry_on([1, 2, 4], [10.0, 20.0, 40.0], 16), 3)  # a straight line
    160.0
    >>> carry_on([4], [7.0], 16)
    7.0
    """
    if len(sizes) < 3 or size <= sizes[-1] or min(values) <= 0:
        return float(values[-1])
    slopes = np.diff(np.log(values)) / np.diff(np.log(sizes))
    fall = min(max(slopes[0] - slopes[1], 0.0), 0.1) / np.log(2)  # per unit of log size
    way = np.log(size / sizes[-1])
    slope = max(slopes[1] - fall * way / 2, slopes[1] / 2)  # the mean over the way
    return float(values[-1] * np.exp(slope * way))
