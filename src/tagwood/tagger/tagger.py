"""`Tagger`: encoder + model + label table, from texts and label names to suggestions with reasons, saved and loaded.

In: texts, labels in any form. Out: `Tags` with names, URIs and scores; sets that keep promises; explanations.

Decisions: `tag` takes one text or many and always returns one `Tags` per text, since return types must not depend on
arguments; `tag_one` is the same for one text. Scores are probabilities where rows could be held out to calibrate them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood import storage
from tagwood._check import Params, check_float, check_int
from tagwood.data.vocab import LabelVocab
from tagwood.errors import InputError, NotFittedError
from tagwood.features.base import Encoder
from tagwood.models.base import LabelModel
from tagwood.models.linear_tree.model import LinearTree
from tagwood.probabilities.sets import fixed_rule
from tagwood.ranking import Ranking
from tagwood.storage import State, storable
from tagwood.tagger.fitting import (
    CANDIDATES,
    GroupRule,
    Plan,
    Probabilities,
    Progress,
    SetRules,
    default_encoder,
    label_sets,
    learn,
    likeness_encoder,
    training_data,
)
from tagwood.tagger.search import (
    Label,
    LabelSearch,
    LabelTexts,
    Tags,
    find_label,
    find_labels,
    teach_labels,
    updated_vocab,
    with_texts,
)
from tagwood.tagger.stored import ExampleTexts, GroupSamples, restored_parts, restored_settings, tagger_state

if TYPE_CHECKING:
    from tagwood.tagger.explanation import Explanation
    from tagwood.tagger.senses import Senses


# SECTION tagger.answers
# What a fitted Tagger answers: tags, rankings, label sets, explanations. `Tagger` adds training and storage.
#
# In: texts. Out: `Tags` with names, URIs and scores; `Ranking`s of ids.


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
        from tagwood.tagger.explanation import Question, explain_tag

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


@storable("Tagger")
class Tagger(Answers):
    """Tag texts with label names.

    1. `fit` turns texts into features and trains the model. 2. A share of the rows is held out, and turns scores into
    probabilities. 3. `tag` answers with names, `explain` with reasons.

    Parameters
    ----------
    encoder
        What turns texts into features; default ``TfidfEncoder()``. Models that read texts themselves (`SoftmaxTree`,
        PRIME) leave to it what else needs features: labels of groups, similar texts, descriptions of new labels.
    model
        What ranks labels; default ``LinearTree()``.
    groups
        How labels of groups become labels of rows, where `fit` gets groups.
    sets
        How rankings become label sets, and how many rows are held out for it.
    keep_texts
        Number of training texts (their first 400 characters) stored with the model, to be shown as examples in
        explanations; and of texts of groups, to be reviewed by a person. 0 where texts must not leave the house.
    seed
        Of the choice of held-out rows and examples; the model has its own.

    Attributes
    ----------
    encoder_, model_, vocab_ : the fitted parts and the label table
    label_counts_ : (n_labels,) number of training rows of each label

    Examples
    --------
    >>> texts = ["oak and ash leaves", "ash wood", "oak wood", "sea water", "salt water", "sea salt"]
    >>> tagger = Tagger(model=LinearTree(threads=1)).fit(texts, [["tree"]] * 3 + [["water"]] * 3)
    >>> tagger.tag_one("the wood of an oak", k=1).names
    ['tree']
    """

    def __init__(
        self,
        encoder: Encoder | None = None,
        model: LabelModel | None = None,
        *,
        groups: GroupRule = GroupRule(),  # noqa: B008 (frozen)
        sets: SetRules = SetRules(),  # noqa: B008 (frozen)
        keep_texts: int = 1000,
        seed: int = 0,
    ) -> None:
        self.encoder = encoder
        self.model = model
        self.groups = groups
        self.sets = sets
        self.keep_texts = keep_texts
        self.seed = seed

    def fit(
        self,
        texts: Iterable[str],
        labels: Any,
        groups: Sequence[Any] | None = None,
        *,
        vocab: LabelVocab | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from texts and their labels.

        Parameters
        ----------
        texts
            One text per row.
        labels
            For each row a collection of label names (or URIs), or of ids; or an (n_rows, n_labels) matrix.
        groups
            Name of each row's group (box, order, session), "" or None for none, where labels are known for groups
            only: a group has the labels of all its rows, and which row each belongs to is worked out.
        vocab
            The label table; default: names in order of first appearance.
        progress
            Called with a stage's name and the share done.
        """
        start = perf_counter()
        self.check_settings()
        data = training_data(texts, labels, groups, vocab)
        model = LinearTree() if self.model is None else self.model
        encoder = default_encoder(model) if self.encoder is None else self.encoder
        plan = Plan(encoder, model, self.groups, self.sets, self.seed)
        parts, self.probabilities_ = learn(data, plan, progress)
        self.encoder_, self.model_, self.vocab_ = parts.encoder, parts.model, data.vocab
        self.label_counts_ = np.bincount(parts.Y.indices, minlength=data.n_labels).astype(np.int64)
        shown = data if data.groups is None else data.with_labels(parts.Y)
        likeness = likeness_encoder(self.model_, self.encoder_)
        self.examples_ = (
            ExampleTexts.draw(shown, self.keep_texts, self.seed, likeness) if self.keep_texts else None
        )
        self.group_samples_ = None
        if parts.imputed is not None and self.keep_texts:
            self.group_samples_ = GroupSamples.draw(data, parts.imputed, self.keep_texts, self.seed)
        self._search = LabelSearch(self.encoder_, self.model_, self.vocab_)
        self.label_texts_ = None
        self.n_rows_ = data.n_rows
        self.fingerprint_ = data.fingerprint()
        self.training_seconds_ = perf_counter() - start
        return self

    def calibrate(self, texts: Iterable[str], labels: Any) -> Self:
        """Turn scores into probabilities, from texts that the model was not trained on, with all their labels."""
        ranking = self._fitted().rank(as_texts(texts), CANDIDATES, None, [])
        Y, _ = label_sets(labels, self.vocab_)
        self.probabilities_ = Probabilities.fit(ranking, Y)
        return self

    def update_labels(
        self,
        *,
        rename: Mapping[Label, str] | None = None,
        mask: Iterable[Label] = (),
        unmask: Iterable[Label] = (),
        texts: Mapping[str, str] | None = None,
        vocab: LabelVocab | None = None,
    ) -> Self:
        """Change the label table without training: ids stay, the model stays valid.

        Parameters
        ----------
        rename
            Label -> new name.
        mask, unmask
            Labels that are no longer, or again, to be suggested.
        texts
            Label -> a text that describes it, for labels without training texts. A name that is not in the table
            becomes a new label. Such labels are suggested by the likeness of text and description; new ones of a
            model that learned from label texts (PRIME) by the model.
        vocab
            A table to begin with instead of the present one, with the same labels under the same ids and perhaps more
            behind them; see `tagwood.data.vocab_changes`.
        """
        self._fitted()
        table = self.vocab_ if vocab is None else vocab
        if len(table) < len(self.vocab_):
            raise InputError(
                f"vocab must keep the {len(self.vocab_):,} labels of this Tagger", given=f"{len(table):,}"
            )
        table = updated_vocab(table, rename or {}, mask, unmask)
        self.vocab_, described = with_texts(table, texts or {}, self.label_counts_)
        added = len(self.vocab_) - self.label_counts_.size
        self.label_counts_ = np.append(self.label_counts_, np.zeros(added, dtype=np.int64))
        described = teach_labels(self.model_, self.vocab_, described)
        if described:
            known = {} if self.label_texts_ is None else self.label_texts_.to_dict()
            self.label_texts_ = LabelTexts.of(known | described, self.encoder_)
        self._search = LabelSearch(self.encoder_, self.model_, self.vocab_)
        return self

    def save(
        self, folder: str | os.PathLike[str], *, notes: str | None = None, overwrite: bool = False
    ) -> Path:
        """Save into a folder, all or nothing, with a passport and golden inputs; see `tagwood.save`."""
        return storage.save(self, folder, notes=notes, fingerprint=self.fingerprint_, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, verify: bool = False) -> Self:
        """Load a saved Tagger; see `tagwood.load`."""
        loaded = storage.load(folder, verify=verify)
        if not isinstance(loaded, cls):
            raise InputError(
                f"{folder} must hold a Tagger", given=type(loaded).__name__, hint="Use tagwood.load."
            )
        return loaded

    def golden_inputs(self) -> list[str]:
        """Return a few label names as texts: they are in the model folder anyway, unlike training texts."""
        size = len(self.vocab_)
        return [self.vocab_.name(int(label)) for label in np.unique(np.linspace(0, size - 1, 8).astype(int))]

    def state(self) -> State:
        """Return the stored form."""
        self._fitted()
        return tagger_state(self)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild from the stored form."""
        tagger = cls(**restored_settings(state))
        for name, value in restored_parts(state, tagger.encoder, tagger.model).items():
            setattr(tagger, name, value)
        tagger._search = LabelSearch(tagger.encoder_, tagger.model_, tagger.vocab_)
        return tagger

    def check_settings(self) -> None:
        """Raise `InputError` for a setting that does not fit; `fit` calls this first."""
        for settings in (self.groups, self.sets):
            settings.check()
        for part in (self.encoder, self.model):
            check = getattr(part, "_check_params", None)
            if check is not None:
                check()
        check_int(self.keep_texts, "keep_texts", low=0)
        check_int(self.seed, "seed", low=0)
