"""`Traffic`: what the requests of a project look like, and how a candidate model would answer them.

In: texts and answers of requests. Out: counts in `ServiceMetrics`, and `facts` for the page of the model.

Decisions: labels are put into ten bands that had equally many positives in training, most frequent labels first. As
long as suggestions are distributed as in training, each band gets a tenth of them; `label_drift` is the share that
would have to move for that. Words are checked for one request in 16, because that costs as much as encoding the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood.features.base import fold_text, word_spans
from tagwood.service.observability import N_BANDS, ProjectCounts

_SAMPLE = 16
_MAX_WORDS = 200  # of a text

Answers = Sequence[dict[str, Any]]


class Traffic:
    """Counts texts and answers of one project."""

    def __init__(self, counts: ProjectCounts) -> None:
        self._counts = counts
        self._seen = 0

    def answered(self, encoder: Any, bands: NDArray[np.uint8], texts: Sequence[str], results: Answers) -> None:
        """Count the answers of a request, and for some requests the words that the encoder does not know."""
        for result in results:
            if result["labels"]:
                self._counts.add_answer(result["labels"][0]["score"], [bands[one["id"]] for one in result["labels"]])
        self._seen += 1
        if self._seen % _SAMPLE == 1:
            self._counts.add_words(*count_words(encoder, texts[:1]))

    def compared(self, first: Answers, second: Answers) -> None:
        """Count how well the answers of two models to the same texts agree."""
        for one, other in zip(first, second, strict=True):
            self._counts.add_comparison(agreement(one, other))

    def facts(self) -> dict[str, Any]:
        """Return figures over all workers since the service started; None where there is nothing yet."""
        sums = self._counts.sums()
        words, texts, suggested = sums["words"], sums["top_scores"].sum(), sums["bands"].sum()
        return {
            "texts": int(texts),
            "mean_top_score": float(sums["top_scores_sum"] / texts) if texts else None,
            "unknown_words": float(sums["unknown_words"] / words) if words else None,
            "label_drift": label_drift(sums["bands"]) if suggested else None,
            "compared": int(sums["compared"]),
            "agreement": float(sums["agreement"] / sums["compared"]) if sums["compared"] else None,
        }


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


def agreement(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Return the share of labels that two answers have in common (Jaccard); two empty answers agree.

    Examples
    --------
    >>> names = [{"labels": [{"name": name, "uri": None} for name in word]} for word in ("abc", "bcd")]
    >>> agreement(*names)
    0.5
    """
    found, also = ({label["uri"] or label["name"] for label in answer["labels"]} for answer in (one, other))
    return len(found & also) / len(found | also) if found or also else 1.0


def count_words(encoder: Any, texts: Sequence[str]) -> tuple[int, int]:
    """Return the number of words of texts, at most 200 each, and how many of them the encoder does not know."""
    words = [fold_text(text[begin:end]) for text in texts for begin, end in word_spans(text)[:_MAX_WORDS]]
    words = [word for word in words if len(word) > 1]
    if not words or not hasattr(encoder, "transform_parts"):
        return 0, 0  # dense encoders have no vocabulary of words
    return len(words), int((np.diff(encoder.transform_parts(words).indptr) == 0).sum())
