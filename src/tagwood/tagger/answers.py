"""What a fitted Tagger answers: tags, rankings, label sets, explanations. `Tagger` adds training and storage.

In: texts. Out: `Tags` with names, URIs and scores; `Ranking`s of ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._check import check_float, check_int
from tagwood._params import Params
from tagwood.data.vocab import LabelVocab
from tagwood.errors import InputError, NotFittedError
from tagwood.features.encoder import Encoder
from tagwood.models.base import LabelModel
from tagwood.models.set_rules import fixed_rule
from tagwood.ranking import Ranking
from tagwood.tagger.examples import ExampleTexts
from tagwood.tagger.fitting import CANDIDATES
from tagwood.tagger.label_keys import Label, find_label, find_labels
from tagwood.tagger.label_search import LabelSearch
from tagwood.tagger.label_texts import LabelTexts
from tagwood.tagger.probabilities import Probabilities
from tagwood.tagger.settings import SetRules
from tagwood.tagger.tags import Tags

if TYPE_CHECKING:
    from tagwood.tagger.cards import Explanation
    from tagwood.tagger.senses import Senses


class Answers(Params):
    """The questions a fitted Tagger can be asked."""

    sets: SetRules
    encoder_: Encoder
    model_: LabelModel
    vocab_: LabelVocab
    label_counts_: NDArray[np.int64]
    probabilities_: Probabilities | None
    label_texts_: LabelTexts | None
    examples_: ExampleTexts | None
    _search: LabelSearch

    def tag(
        self,
        texts: str | Iterable[str],
        k: int = 5,
        *,
        promise: str | None = None,
        threshold: float | None = None,
        restrict: Iterable[Label] | None = None,
        exclude: Iterable[Label] | None = None,
        language: str | None = None,
    ) -> list[Tags]:
        """Return the labels of each text, best first: one `Tags` per text, also for a single one.

        Parameters
        ----------
        texts
            One text or many.
        k
            Most labels per text; a promise decides the number itself.
        promise
            What the sets must keep on average: ``"precision>=0.9"``, ``"recall>=0.8"``, or ``"f1"`` for the best
            balance. Texts for which it cannot be kept have `review` set.
        threshold
            Least score.
        restrict, exclude
            Labels (names, URIs or ids) that may, or may not, be returned.
        language
            Of the names, where the label table has several.
        """
        rows = as_texts(texts)
        review = None
        if promise is None:
            ranking = self._rank(rows, check_int(k, "k", low=1), restrict, exclude)
        else:
            ranking, review = self._cut(self._rank(rows, CANDIDATES, restrict, exclude), promise)
        if threshold is not None:
            ranking = ranking.above(check_float(threshold, "threshold"))
        return self._search.tags(ranking, review, language)

    def tag_one(
        self,
        text: str,
        k: int = 5,
        *,
        promise: str | None = None,
        threshold: float | None = None,
        restrict: Iterable[Label] | None = None,
        exclude: Iterable[Label] | None = None,
        language: str | None = None,
    ) -> Tags:
        """Return the labels of one text; parameters are those of `tag`."""
        if not isinstance(text, str):
            raise InputError("tag_one takes one text", given=type(text).__name__, hint="Use tag for many.")
        found = self.tag(
            text,
            k,
            promise=promise,
            threshold=threshold,
            restrict=restrict,
            exclude=exclude,
            language=language,
        )
        return found[0]

    def rank(self, texts: Iterable[str], k: int = 5) -> Ranking:
        """Return the best `k` labels of each text as a `Ranking` of label ids."""
        return self._rank(as_texts(texts), check_int(k, "k", low=1))

    def predict(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return the label sets as an (n_texts, n_labels) array of 0 and 1, by the rule of `sets`."""
        return self.rank_sets(texts).to_sets()

    def rank_sets(self, texts: Iterable[str]) -> Ranking:
        """Return the label sets of `predict` as a `Ranking` with scores."""
        ranking = self._rank(as_texts(texts), CANDIDATES)
        if self.probabilities_ is None and fixed_rule(self.sets.rule) is None:
            return ranking.above(0.5)
        return self._cut(ranking, self.sets.rule)[0]

    def explain(
        self,
        text: str,
        label: Label,
        *,
        k: int = 5,
        threshold: float | None = None,
        restrict: Iterable[Label] | None = None,
        exclude: Iterable[Label] | None = None,
        language: str | None = None,
        n_similar: int = 3,
    ) -> Explanation:
        """Say why a label was suggested for a text, or where it was lost.

        Parameters
        ----------
        text
            The text.
        label
            Name, URI or id of a label.
        k, threshold, restrict, exclude
            As in the question to `tag` that is to be explained.
        language
            Of the names.
        n_similar
            Number of similar training texts to show.
        """
        from tagwood.tagger.explaining import Question, explain_tag

        self._fitted()
        allowed = None if restrict is None else find_labels(self.vocab_, restrict)
        question = Question(k, threshold, allowed, find_labels(self.vocab_, exclude or ()), language)
        return explain_tag(self, text, self.find(label), question, n_similar)

    def senses(self, label: Label, *, language: str | None = None) -> Senses:
        """Return the leaves that a label lives in, each with its words, neighbours and training texts there."""
        from tagwood.tagger.senses import label_senses

        return label_senses(self, self.find(label), language)

    def find(self, label: Label) -> int:
        """Return the id of a label given by name, URI or id; a wrong name raises `InputError` with the nearest."""
        self._fitted()
        return find_label(self.vocab_, label)

    def _rank(
        self,
        texts: list[str],
        k: int,
        restrict: Iterable[Label] | None = None,
        exclude: Iterable[Label] | None = None,
    ) -> Ranking:
        """Rank texts; scores are probabilities if they were calibrated."""
        search = self._fitted()
        allowed = None if restrict is None else find_labels(self.vocab_, restrict)
        excluded = find_labels(self.vocab_, exclude or ())
        ranking = search.rank(texts, k, allowed, excluded)
        if self.probabilities_ is not None:
            ranking = self.probabilities_.transform(ranking)
        if self.label_texts_ is None:
            return ranking
        left_out = search.left_out(allowed, excluded)
        return self.label_texts_.join(search.widened(ranking), texts, k, left_out)

    def _cut(self, ranking: Ranking, promise: str) -> tuple[Ranking, NDArray[np.bool_]]:
        if self.probabilities_ is not None:
            return self.probabilities_.cut(ranking, promise)
        rule = fixed_rule(promise)
        if rule is None:
            raise InputError(
                "a promise needs probabilities, and this Tagger has none",
                hint="Fit with more rows or a larger sets.holdout, or call calibrate(texts, labels).",
            )
        return rule.apply(ranking)

    def _fitted(self) -> LabelSearch:
        if not hasattr(self, "_search"):
            raise NotFittedError(
                "this Tagger must be fitted first", hint="Call fit(texts, labels), or load one."
            )
        return self._search


def as_texts(texts: str | Iterable[str]) -> list[str]:
    """Return one text or many as a list."""
    return [texts] if isinstance(texts, str) else list(texts)
