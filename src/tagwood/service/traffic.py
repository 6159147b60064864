"""`Traffic`: what the requests of a project look like, and how a candidate model would answer them.

In: texts and answers of requests. Out: counts in `ServiceMetrics`, and `facts` for the page of the model.

Decisions: words are checked for one request in 16, because that costs as much as encoding the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tagwood.service.observability import ProjectCounts
from tagwood.tagger import Tagger
from tagwood.tagger.drift import count_words, label_drift

_SAMPLE = 16

Answers = Sequence[dict[str, Any]]


class Traffic:
    """Counts texts and answers of one project."""

    def __init__(self, counts: ProjectCounts) -> None:
        self._counts = counts
        self._seen = 0

    def answered(self, tagger: Tagger, bands: NDArray[Any], texts: Sequence[str], results: Answers) -> None:
        """Count the answers of a request, and for some requests the words that the encoder does not know."""
        vocab = tagger.vocab_
        for result in results:
            if result["labels"]:
                rows: Any = [one["id"] for one in result["labels"]]
                rows = vocab.find_many(rows) if vocab.id_kind == "integer" else rows
                self._counts.add_answer(result["labels"][0]["score"], bands[rows].tolist())
        self._seen += 1
        if self._seen % _SAMPLE == 1:
            self._counts.add_words(*count_words(tagger.encoder_, texts[:1]))

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
            "training": self._counts.training()._asdict(),
        }


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
