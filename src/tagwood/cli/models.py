"""Stored models as commands rank with them: a Tagger for texts, a FeatureTagger for features.

In: a model folder. Out: a `StoredRanker` with one way to rank the rows of a dataset.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.data import Dataset, LabelVocab
    from tagwood.ranking import Ranking
    from tagwood.tagger import Tagger
    from tagwood.tagger.features import FeatureTagger


@dataclass(frozen=True)
class StoredRanker:
    """A model of texts or one of features; exactly one of the two is set."""

    tagger: Tagger | None = None
    features: FeatureTagger | None = None

    @property
    def any(self) -> Tagger | FeatureTagger:
        """The model, of either kind."""
        found = self.tagger if self.tagger is not None else self.features
        assert found is not None
        return found

    @property
    def vocab(self) -> LabelVocab:
        """The label table."""
        return self.any.vocab_

    def rank(self, rows: Dataset, k: int) -> Ranking:
        """Return the best `k` labels of each row."""
        if self.tagger is not None:
            return self.tagger.rank(self._texts(rows), k=k)
        assert self.features is not None
        if rows.features is None:
            raise InputError("the model ranks features", given="texts", hint="Train a model on texts for them.")
        return self.features.rank(rows.features, k)

    def rank_sets(self, rows: Dataset) -> Ranking:
        """Return the label set of each row by the rule of the model."""
        if self.tagger is None:
            raise InputError(
                "metrics of sets need a set rule, and a model of features has none",
                hint="Measure the ranking: P@5, nDCG@5, R@10.",
            )
        return self.tagger.rank_sets(self._texts(rows))

    @staticmethod
    def _texts(rows: Dataset) -> list[str]:
        if rows.texts is None:
            raise InputError("the model ranks texts", given="features only")
        return list(rows.texts)


def load_ranker(folder: Path, jobs: int | None = None) -> StoredRanker:
    """Load a model folder that `tagwood train` wrote, to run with a number of threads."""
    from tagwood._check import check_threads, use_threads
    from tagwood.storage import load
    from tagwood.tagger import Tagger
    from tagwood.tagger.features import FeatureTagger

    found = load(folder)
    if jobs is not None:
        use_threads(found, check_threads(jobs))
    if isinstance(found, Tagger):
        return StoredRanker(tagger=found)
    if isinstance(found, FeatureTagger):
        return StoredRanker(features=found)
    raise InputError(
        f"{folder} must hold a model that tagwood train wrote", given=type(found).__name__, hint="Use it in Python."
    )
