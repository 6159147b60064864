"""What texts and answers look like: figures of held-out rows that are stored with a model, to compare later ones with.

In: texts, their rankings, the encoder and the frequencies of labels. Out: `TrainingFigures`.

Decisions: labels are put into ten bands that had equally many positives in training, most frequent labels first. As
long as suggestions are distributed as in training, each band gets a tenth of them; `label_drift` is the share that
would have to move for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood.features.base import fold_text, word_spans
from tagwood.features.tfidf import TfidfEncoder
from tagwood.ranking import Ranking

N_BANDS = 10
_MAX_WORDS = 200  # of a text
_TEXTS = 1000  # that are looked at
_SUGGESTED = 5


class TrainingFigures(NamedTuple):
    """Share of words that an encoder does not know, mean of the best score of each text, and label drift of the best 5.

    None is what could not be measured.
    """

    unknown_words: float | None
    mean_top_score: float | None
    label_drift: float | None


def training_figures(
    encoder: Any, texts: Sequence[str], ranking: Ranking, label_counts: NDArray[Any], *, seen: bool
) -> TrainingFigures:
    """Return the figures of rows that the model was not fitted on when it ranked them; of many, of an even sample.

    If the encoder was fitted on them (`seen`), words that it would not know without their row count as unknown.
    """
    rows = np.arange(0, ranking.n_rows, max(1, -(-ranking.n_rows // _TEXTS)))
    words, unknown = count_words(encoder, [texts[row] for row in rows.tolist()], seen=seen)
    some = ranking.rows(rows).top(_SUGGESTED)
    first = some.indptr[:-1][np.diff(some.indptr) > 0]
    bands = np.bincount(frequency_bands(label_counts)[some.labels], minlength=N_BANDS).astype(np.float64)
    return TrainingFigures(
        unknown / words if words else None,
        float(some.scores[first].mean()) if first.size else None,
        label_drift(bands) if first.size else None,
    )


def frequency_bands(label_counts: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the band of each label: the first holds the most frequent ones, and all have about as many positives.

    Examples
    --------
    >>> frequency_bands(np.array([50, 10, 10, 10, 10, 10, 0])).tolist()
    [0, 5, 6, 7, 8, 9, 9]
    """
    counts = np.asarray(label_counts, dtype=np.float64)
    order = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    bands = np.empty(counts.size, dtype=np.uint8)
    bands[order] = np.minimum(N_BANDS * before / max(counts.sum(), 1.0), N_BANDS - 1)
    return bands


def label_drift(bands: NDArray[np.float64]) -> float:
    """Return the share of suggestions that would have to move for every band to have equally many.

    Examples
    --------
    >>> label_drift(np.array([20.0, *[10] * 8, 0]))
    0.1
    """
    return round(float(np.abs(bands / bands.sum() - 1 / bands.size).sum() / 2), 6)


def count_words(encoder: Any, texts: Sequence[str], *, seen: bool = False) -> tuple[int, int]:
    """Return the number of words of texts, at most 200 each, and how many of them the encoder does not know.

    With `seen`, the encoder was fitted on the texts; words that it would not know without one of them count as unknown.

    Examples
    --------
    >>> from tagwood import TfidfEncoder
    >>> texts = ["oak and ash", "oak and elm"]
    >>> encoder = TfidfEncoder(ngrams=(1, 1), min_df=1).fit(texts)
    >>> count_words(encoder, ["oak or ash"]), count_words(encoder, texts, seen=True)
    ((3, 1), (6, 2))
    """
    words = [fold_text(text[begin:end]) for text in texts for begin, end in word_spans(text)[:_MAX_WORDS]]
    words = [word for word in words if len(word) > 1]
    if not words or not isinstance(encoder, TfidfEncoder):
        return 0, 0  # dense encoders have no vocabulary of words
    parts = encoder.transform_parts(words)
    known = np.ones(parts.indices.size, dtype=np.bool_)
    if seen:
        known = ~encoder.rarest()[parts.indices]
    rows = np.repeat(np.arange(len(words)), np.diff(parts.indptr))[known]
    return len(words), len(words) - int(np.unique(rows).size)
