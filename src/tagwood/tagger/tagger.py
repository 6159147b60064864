"""`Tagger`: encoder, model and label table in one object, from texts and label names to suggestions with reasons.

In: texts, and labels in any form. Out: `Tags` with names, URIs and scores; label sets that keep promises; explanations,
senses, label cards and views of the tree. The work is done in the other modules of this package.

Decisions: `tag` takes one text or many and always returns one `Tags` per text, because return types must not depend on
arguments; `tag_one` is the same for one text. Scores are probabilities where rows could be held out to calibrate them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from time import perf_counter, process_time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from tagwood import storage
from tagwood._check import Params, as_list, check_choice, check_float, check_int
from tagwood._lazy import sparse
from tagwood.data.dataset import Dataset
from tagwood.data.fields import text_of_fields
from tagwood.data.vocab import LabelVocab
from tagwood.errors import InputError, NotFittedError
from tagwood.features.base import Encoder
from tagwood.features.tfidf import TfidfEncoder
from tagwood.models.base import LabelModel
from tagwood.models.ensemble import Budget, Ensemble, MemberReport
from tagwood.models.label_filter import LabelFilter, allowed_labels
from tagwood.models.linear_tree import LinearTree
from tagwood.models.tasks import Runner
from tagwood.probabilities.sets import fixed_rule
from tagwood.ranking import Ranking
from tagwood.storage import State, storable
from tagwood.tagger.drift import TrainingFigures
from tagwood.tagger.fitting import (
    CANDIDATES,
    Measures,
    Plan,
    Probabilities,
    Progress,
    SetRules,
    Text,
    default_encoder,
    label_sets,
    learn,
    training_data,
)
from tagwood.tagger.group_learning import GroupRule
from tagwood.tagger.learning import LearnedRows, as_said, check_lengths, forget_texts, learn_rows
from tagwood.tagger.new_labels import NameCurve, NewLabels, Usage
from tagwood.tagger.search import (
    Label,
    Labels,
    LabelSearch,
    Tags,
    find_label,
    make_filter,
    similarity_encoder,
    teach_labels,
    updated_vocab,
    with_texts,
)
from tagwood.tagger.stored import (
    EarlierLabels,
    ExampleTexts,
    GroupSamples,
    base_model,
    restored_parts,
    restored_settings,
    tagger_state,
)
from tagwood.tagger.updating import (
    TaggerUpdate,
    check_updatable,
    due_because,
    earlier_rows,
    updatable_copy,
    update_tagger,
)

# Explanations, views and measurements are imported by the methods that make them: answers do not wait for them.
if TYPE_CHECKING:
    from tagwood.tagger.browsing import LabelCard, TreeBrowser, TreeView
    from tagwood.tagger.explanation import Explanation
    from tagwood.tagger.senses import Different, Senses


@storable("Tagger")
class Tagger(Params):
    """Tag texts with label names.

    1. `fit` encodes the texts and trains the model. 2. Scores become probabilities by a share of the rows that is held
    out. 3. `tag` returns label names, `explain` the reasons.

    Parameters
    ----------
    encoder
        Turns texts into features; default ``TfidfEncoder()``. For models that read texts themselves (`SoftmaxTree`,
        PRIME) it serves what else needs features: labels of groups, similar texts, descriptions of new labels.
    model
        Ranks labels; default ``LinearTree()``.
    quality
        What answers beside the model: ``"fast"`` nothing; ``"balanced"`` similar training texts, label centroids and
        label names in the text, fused on held-out rows; ``"best"`` also more trees over several kinds of features and,
        with ``tagwood[neural]`` and English texts, PRIME, which takes many times as long.
        Default balanced without a `model`, fast with one. Fewer than 500 rows, or labels of groups, are too little to
        learn the fusion from; then the model is alone, and `simpler_because_` tells why.
    budget
        Limits of training time, model size and latency: members that do not fit into them are left out, and `members`
        tells which. A model that is larger or slower than allowed with its first member alone is an error.
    groups
        How labels of groups become labels of rows, where `fit` gets groups.
    sets
        How rankings become label sets, and how many rows are held out for it.
    keep_texts
        Number of training texts (their first 400 characters) stored with the model as examples for explanations, and
        of texts of groups for manual review. Use 0 if texts must not be stored.
    seed
        Seed of the choice of held-out rows and examples; the model has its own.

    Attributes
    ----------
    encoder_, model_, vocab_ : the fitted parts and the label table
    label_counts_ : (n_labels,) number of training rows of each label
    words_per_text_ : median number of words of the training texts; None for models stored without it
    fields_ : tuple of str, names of the fields of the training texts; empty if they had none
    history_ : list of TaggerUpdate since the last full training
    measures_ : measures of held-out rows, taken before the model was trained on all rows; None without held-out rows
    figures_ : unknown words, best scores and label drift of these rows; None without, and for models stored without it

    Examples
    --------
    >>> texts = ["oak and ash leaves", "ash wood", "oak wood", "sea water", "salt water", "sea salt"]
    >>> tagger = Tagger(model=LinearTree(threads=1)).fit(texts, [["tree"]] * 3 + [["water"]] * 3)
    >>> tagger.tag_one("the wood of an oak", k=1).names
    ['tree']
    """

    encoder_: Encoder
    model_: LabelModel
    vocab_: LabelVocab
    label_counts_: NDArray[np.int64]
    n_rows_: int
    words_per_text_: int | None
    fields_: tuple[str, ...]
    probabilities_: Probabilities | None
    measures_: Measures | None
    figures_: TrainingFigures | None
    simpler_because_: str
    new_labels_: NewLabels | None
    earlier_labels_: EarlierLabels | None
    examples_: ExampleTexts | None
    group_samples_: GroupSamples | None
    learned_: LearnedRows
    fingerprint_: str
    history_: list[TaggerUpdate]
    training_seconds_: float
    _search: LabelSearch
    _new_labels: NewLabels | None
    _browsers: list[TreeBrowser] | None
    _defaults = MappingProxyType({"encoder": TfidfEncoder, "model": LinearTree})

    def __init__(
        self,
        encoder: Encoder | None = None,
        model: LabelModel | None = None,
        *,
        quality: str | None = None,
        budget: Budget = Budget(),  # noqa: B008 (frozen)
        groups: GroupRule = GroupRule(),  # noqa: B008 (frozen)
        sets: SetRules = SetRules(),  # noqa: B008 (frozen)
        keep_texts: int = 1000,
        seed: int = 0,
    ) -> None:
        self.encoder = encoder
        self.model = model
        self.quality = quality
        self.budget = budget
        self.groups = groups
        self.sets = sets
        self.keep_texts = keep_texts
        self.seed = seed

    def fit(
        self,
        X: Iterable[Text] | Dataset,
        y: Any = None,
        groups: Sequence[Any] | None = None,
        *,
        vocab: LabelVocab | None = None,
        progress: Progress | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """Learn from texts and their labels.

        Parameters
        ----------
        X
            One text per row, or its named fields: ``{"title": ..., "abstract": ...}``; or a `Dataset` with texts, which
            has labels, groups and label table of its own. How often each field counts is chosen on held-out rows.
        y
            For each row a collection of label names (or URIs), or of ids; or an (n_rows, n_labels) matrix.
        groups
            Name of each row's group (box, order, session), "" or None for none, where labels are known for groups
            only: a group has the labels of all its rows, and `fit` imputes which row each label belongs to.
        vocab
            The label table; default: names in order of first appearance.
        progress
            Called with the name of a stage and the share done.
        runner
            Computes the training of linear trees in parts, which a later start finds, or on other machines: a
            `LocalRunner`, or one of `tagwood.scale`. The model is the same.
        """
        from tagwood.tagger.quality import budget_of_model, check_costs, choose_model, with_field_weights

        start = perf_counter()
        self.check_settings()
        data = training_data(X, y, groups, vocab)
        base = LinearTree() if self.model is None else self.model
        encoder = default_encoder(base) if self.encoder is None else self.encoder
        encoder = with_field_weights(encoder, data, self.seed)
        model, self.simpler_because_ = choose_model(self.effective_quality, base, encoder, data, self.sets, self.seed)
        left = budget_of_model(self.budget, data, self.keep_texts)
        plan = Plan(encoder, model, self.groups, self.sets, self.seed, runner, left)
        parts, self.probabilities_, self.measures_, curve, self.figures_ = learn(data, plan, progress)
        self.encoder_, self.model_, self.vocab_ = parts.encoder, parts.model, data.vocab
        self.label_counts_ = np.bincount(parts.Y.indices, minlength=data.n_labels).astype(np.int64)
        self.examples_ = self.group_samples_ = self.earlier_labels_ = None
        self.learned_ = LearnedRows()
        if self.keep_texts:
            shown = data if data.groups is None else data.with_labels(parts.Y)
            similarity = similarity_encoder(self.model_, self.encoder_)
            self.examples_ = ExampleTexts.draw(shown, self.keep_texts, self.seed, similarity)
            if parts.imputed is not None:
                self.group_samples_ = GroupSamples.draw(data, parts.imputed, self.keep_texts, self.seed)
        self.n_rows_ = data.n_rows
        self.history_ = []
        self.new_labels_ = None if curve is None else self._untrained(curve)
        self.words_per_text_ = median_words(data.texts or ())
        self.fields_ = tuple(data.fields)
        self.fingerprint_ = data.fingerprint()
        self._prepare()
        self.training_seconds_ = perf_counter() - start
        check_costs(self, self.budget, data.texts or ())
        return self

    @property
    def effective_quality(self) -> str:
        """The quality in force: `quality`, or balanced without a model and fast with one."""
        return self.quality or ("balanced" if self.model is None else "fast")

    def members(self) -> list[MemberReport]:
        """Return what each member of an `Ensemble` brings on held-out rows; nothing for other models."""
        self._fitted()
        return list(getattr(self.model_, "report_", ()))

    def learn(
        self,
        texts: Iterable[Text],
        labels: Any,
        *,
        rejected: Any = None,
        keys: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
    ) -> Self:
        """Take in corrected texts at once, without training: similar texts profit from now on.

        The texts go into the memory of similar texts (`Neighbours`), which models of quality balanced and best have;
        the next `fit` should be given them, too. Fitted parts are replaced, not changed: a copy of this Tagger can
        learn while this one is in use.

        Parameters
        ----------
        texts
            One or more texts.
        labels
            The right labels of each, as in `fit`; none for a text of which only wrong labels are known.
        rejected
            Labels that are known to be wrong for each text, in the same form; default none.
        keys
            What each text is known by; a text with the key of an earlier one replaces it. Default: the text itself.
        ids
            Id of the record of each text; what was learned under its key and id is not learned again. Default "".

        Examples
        --------
        >>> from tagwood import Neighbours
        >>> texts = ["oak wood", "elm wood", "oak and elm", "sea water", "salt water", "sea salt"]
        >>> tagger = Tagger(model=Neighbours(threads=1)).fit(texts, [["tree"]] * 3 + [["water"]] * 3)
        >>> tagger.learn(["oak salt"], [["water"]], rejected=[["tree"]]).tag_one("oak salt", k=1).names
        ['water']
        """
        self._fitted()
        rows = self.as_texts(texts)
        Y, _ = label_sets(labels, self.vocab_)
        wrong = None if rejected is None else label_sets(rejected, self.vocab_)[0]
        from tagwood.data.feedback import FeedbackRecord

        names = [FeedbackRecord("", text, "", "", (), ()).key for text in rows] if keys is None else list(keys)
        check_lengths(len(rows), {"labels": Y.shape[0], "rejected": None if wrong is None else wrong.shape[0]})
        check_lengths(len(rows), {"keys": len(names), "ids": None if ids is None else len(ids)})
        change = learn_rows(self, rows, Y, wrong, names, [""] * len(rows) if ids is None else list(ids))
        if change is not None:
            self.model_, self.learned_ = change.model, change.learned
            self.label_counts_ = self.label_counts_ + change.counts
            self.n_rows_ += change.n_rows
            self._prepare()
        return self

    def forgetting(self, texts: Iterable[Text]) -> Self:
        """Return a Tagger that did not learn some texts: a copy, or this one if it never did.

        Corrections are held out with it to measure a model that has learned them: it would only repeat them.
        """
        self._fitted()
        left = forget_texts(self, self.as_texts(texts))
        if left is None:
            return self
        found = copy(self)
        found.model_, found.learned_ = left
        found._prepare()
        return found

    def calibrate(self, texts: Iterable[Text], labels: Any) -> Self:
        """Turn scores into probabilities, from texts that the model was not trained on, with all their labels."""
        ranking = self._fitted().rank(self.as_texts(texts), CANDIDATES)
        Y, _ = label_sets(labels, self.vocab_)
        self.probabilities_ = Probabilities.fit(ranking, Y, self.label_counts_[: ranking.n_labels])
        return self

    def tag(
        self,
        texts: Text | Iterable[Text],
        k: int = 5,
        *,
        promise: str | None = None,
        threshold: float | None = None,
        restrict: Labels | None = None,
        exclude: Labels | None = None,
        language: str | None = None,
    ) -> list[Tags]:
        """Return the labels of each text, best first: one `Tags` per text, also for a single one.

        Parameters
        ----------
        texts
            One text or many; a model that was trained on named fields also takes these, as a mapping. Missing fields
            are empty.
        k
            Largest number of labels per text; ignored with a promise.
        promise
            What the label sets must reach on average: ``"precision>=0.9"``, ``"recall>=0.8"``, or ``"f1"`` for the
            best balance. Texts for which it cannot be reached have `review` set.
        threshold
            Lowest score.
        restrict, exclude
            Labels that may, or may not, be returned: names, URIs or ids, as a collection or an array; a boolean mask
            over the label table; or a prepared `label_filter`, which is fastest. Arrays with the content of a recent
            one are not looked up again.
        language
            Language of the names, where the label table has several.
        """
        rows = self.as_texts(texts)
        review = None
        ranking = self.rank(rows, k if promise is None else CANDIDATES, restrict=restrict, exclude=exclude)
        if promise is not None:
            ranking, review = self.cut(ranking, promise)
        if threshold is not None:
            ranking = ranking.above(check_float(threshold, "threshold"))
        return self._search.tags(ranking, review, language)

    def tag_one(
        self,
        text: Text,
        k: int = 5,
        *,
        promise: str | None = None,
        threshold: float | None = None,
        restrict: Labels | None = None,
        exclude: Labels | None = None,
        language: str | None = None,
    ) -> Tags:
        """Return the labels of one text; parameters are those of `tag`."""
        if not isinstance(text, str | Mapping):
            raise InputError("tag_one takes one text", given=type(text).__name__, hint="Use tag for many.")
        options: dict[str, Any] = {"promise": promise, "threshold": threshold, "language": language}
        return self.tag(text, k, restrict=restrict, exclude=exclude, **options)[0]

    def rank(
        self,
        texts: Text | Iterable[Text],
        k: int = 5,
        *,
        restrict: Labels | None = None,
        exclude: Labels | None = None,
    ) -> Ranking:
        """Return the best `k` labels of each text as a `Ranking` of label ids; see `tag` for the parameters."""
        search, rows = self._fitted(), self.as_texts(texts)
        k = min(check_int(k, "k", low=1), self.vocab_.size)
        only, out = search.filter_of(restrict), search.filter_of(exclude)
        said = self.learned_.said(rows) if self.learned_.keys else None
        if not said:
            return self._rank(rows, k, only, out)
        allowed = LabelFilter(~self.vocab_.removed_mask())
        for part in (only, None if out is None else ~out):
            allowed = allowed if part is None else allowed & part
        ranked = [self._rank([rows[row]], k + len(one.rejected), only, out) for row, one in said.items()]
        decided = as_said(ranked, list(said.values()), k, allowed)
        others = [row for row in range(len(rows)) if row not in said]
        if not others:
            return decided
        answers = decided.followed_by(self._rank([rows[row] for row in others], k, only, out))
        return answers.rows(np.argsort([*said, *others]))

    def _rank(self, rows: list[str], k: int, only: LabelFilter | None, out: LabelFilter | None) -> Ranking:
        """Return what encoder, model and names of new labels make of texts."""
        search = self._search
        calibrator = None if self.probabilities_ is None else self.probabilities_.calibrator
        # Context is that of all labels and of as many candidates as were calibrated.
        context = calibrator is not None and calibrator.uses_context and only is None
        context = context and search.left_out(out) is None
        new = self._new_labels
        ranking = search.rank(rows, max(k, CANDIDATES) if context or new is not None else k, only, out)
        if calibrator is not None:
            ranking = calibrator.transform(ranking, complete=context)
        if new is None:
            return ranking.top(k) if context else ranking
        allowed = allowed_labels(only, out, len(self.vocab_))
        return new.join(search.widened(ranking), rows, k, None if allowed is None else allowed.mask)

    def as_texts(self, texts: Text | Iterable[Text]) -> list[str]:
        """Return one text or many as a list of strings; a column of pandas, Polars or Arrow is many.

        Named fields, as a mapping, become the text that the model was trained on; fields that the model does not have
        raise `InputError`.
        """
        rows = [texts] if isinstance(texts, str | Mapping) else as_list(texts, "texts")
        return [text_of_fields(row, self.fields_) if isinstance(row, Mapping) else row for row in rows]

    def label_filter(self, labels: Labels, *, unknown: str = "error") -> LabelFilter:
        """Prepare a set of labels for `restrict` and `exclude`, to be used in many calls.

        Filters combine with ``&``, ``|`` and ``~``: ``in_stock & ~adult``. They stay valid when labels are added.

        Parameters
        ----------
        labels
            Names, URIs or ids of labels: a collection, or an array of NumPy, Arrow, pandas or Polars; or a boolean mask
            over the rows of the label table.
        unknown
            ``"error"`` for labels that are not in the label table; ``"ignore"`` leaves them out, and `n_unknown` of the
            filter counts them.
        """
        self._fitted()
        return make_filter(self.vocab_, labels, unknown=unknown, suggest=True)

    def predict(self, texts: Iterable[Text]) -> sparse.csr_array:
        """Return the label sets as an (n_texts, n_labels) array of 0 and 1, by the rule of `sets`."""
        return self.rank_sets(texts).to_sets()

    def rank_sets(self, texts: Iterable[Text]) -> Ranking:
        """Return the label sets of `predict` as a `Ranking` with scores."""
        ranking = self.rank(texts, CANDIDATES)
        if self.probabilities_ is None and fixed_rule(self.sets.rule) is None:
            return ranking.above(0.5)
        return self.cut(ranking, self.sets.rule)[0]

    def cut(self, ranking: Ranking, rule: str) -> tuple[Ranking, NDArray[np.bool_]]:
        """Cut a ranking of this Tagger to label sets by a rule or promise; also return which rows need review."""
        if self.probabilities_ is not None:
            return self.probabilities_.cut(ranking, rule)
        fixed = fixed_rule(rule)
        if fixed is None:
            raise InputError(
                "a promise needs probabilities, and this Tagger has none",
                hint="Fit with more rows or a larger sets.holdout, or call calibrate(texts, labels).",
            )
        return fixed.apply(ranking)

    def score(self, X: Iterable[Text], y: Any) -> float:
        """Return the mean nDCG@5 of the ranking of texts X, given their labels y, as every model does."""
        self._fitted()
        Y, _ = label_sets(y, self.vocab_, on_unknown="skip")
        from tagwood.metrics import evaluate

        return float(evaluate(Y, self.rank(X, 5), metrics=["nDCG@5"])["nDCG@5"])

    def explain(
        self,
        text: Text,
        label: Label,
        *,
        k: int = 5,
        threshold: float | None = None,
        restrict: Labels | None = None,
        exclude: Labels | None = None,
        language: str | None = None,
        n_similar: int = 3,
    ) -> Explanation:
        """Explain why a label was suggested for a text, or at which step it was lost.

        Parameters
        ----------
        text
            The text.
        label
            Name, URI or id of a label.
        k, threshold, restrict, exclude
            As in the call of `tag` that is explained.
        language
            Language of the names.
        n_similar
            Number of similar training texts to show.
        """
        only, out = map(self._fitted().filter_of, (restrict, exclude))
        from tagwood.tagger.reasons import Question, explain_tag

        question = Question(k, threshold, only, out, language)
        one = self.as_texts(text)[0] if isinstance(text, Mapping) else text
        return explain_tag(self, one, self.find(label), question, n_similar)

    def senses(self, label: Label, *, language: str | None = None) -> Senses:
        """Return the leaves that hold a label, each with its words, similar labels and training texts there."""
        from tagwood.tagger.senses import label_senses

        return label_senses(self, self.find(label), language)

    def most_different(self, limit: int = 20, *, least_rows: int = 5, language: str | None = None) -> list[Different]:
        """Return the labels whose senses differ most; those with fewer than `least_rows` rows are left out."""
        self._fitted()
        from tagwood.tagger.senses import most_different

        return most_different(self, limit, least_rows=least_rows, language=language)

    def label_card(self, label: Label, *, language: str | None = None) -> LabelCard:
        """Return what is known about a label: names, training rows, senses, similar labels, example texts."""
        from tagwood.tagger.browsing import label_card

        return label_card(self, self.find(label), language)

    def tree_view(
        self, node: int = 0, *, tree: int = 0, depth: int = 1, limit: int = 2000, language: str | None = None
    ) -> TreeView:
        """Return a node of a label tree and up to `limit` nodes in `depth` generations below it.

        Raises `InputError` for a model without trees, and for a tree or node that does not exist.
        """
        browsers = self._trees()
        from tagwood.tagger.browsing import tree_view

        return tree_view(self, browsers, node, tree=tree, depth=depth, limit=limit, language=language)

    def overview(self, *, language: str | None = None) -> dict[str, Any]:
        """Return what this Tagger is and how good it is, as plain values for JSON.

        Measures, calibration and label sets come from the rows held out in `fit`; computing them takes a moment, so
        keep the result.
        """
        from tagwood.tagger.overview import overview

        return overview(self, self._trees(), language)

    def find(self, label: Label) -> int:
        """Return the id of a label given by name, URI or id; an unknown one raises `InputError` with the nearest."""
        self._fitted()
        return find_label(self.vocab_, label)

    def update_labels(
        self,
        *,
        rename: Mapping[Label, str] | None = None,
        mask: Labels = (),
        unmask: Labels = (),
        texts: Mapping[Label, str] | None = None,
        vocab: LabelVocab | None = None,
        untrained: bool | None = None,
    ) -> Self:
        """Change the label table without training: ids stay, the model stays valid.

        Parameters
        ----------
        rename
            Label -> new name.
        mask, unmask
            Labels to exclude from suggestions, or to include again, in any form that `label_filter` takes.
        texts
            Label -> a text that describes it, for labels without training texts. A name, or an id of the table's kind,
            that is not in the table becomes a new label, which is suggested at once by its names and description, with
            a probability that was learned by hiding labels in training. (`NameMatcher` and PRIME alone suggest such
            labels themselves.)
        vocab
            A table to start from instead of the present one, with the same labels under the same ids and possibly
            more after them, which are suggested at once; see `tagwood.data.vocab_changes`.
        untrained
            True to suggest all labels without training rows that have a name, False to suggest none of them; default:
            those that are suggested already, and those added by this call.
        """
        self._fitted()
        before = self.vocab_
        table = before if vocab is None else vocab
        if len(table) < len(self.vocab_):
            raise InputError(f"vocab must keep the {len(self.vocab_):,} labels of this Tagger", given=f"{len(table):,}")
        changed = updated_vocab(table, {} if rename is None else rename, mask, unmask)
        described, found = self._take_table(changed, {} if texts is None else texts)
        self._update_new_labels(before, described, found, untrained)
        self._prepare()
        return self

    def _take_table(self, table: LabelVocab, texts: Mapping[Label, str]) -> tuple[dict[int, str], set[int]]:
        """Use another label table; return the descriptions by label, and the labels that the model finds by itself."""
        before = self.vocab_
        earlier = EarlierLabels.of(before, self.new_labels_)
        self.vocab_, described = with_texts(table, texts, self.label_counts_)
        added = len(self.vocab_) - self.label_counts_.size
        self.label_counts_ = np.append(self.label_counts_, np.zeros(added, dtype=np.int64))
        found = teach_labels(self.model_, self.vocab_, described, before)
        calibrator = None if self.probabilities_ is None else self.probabilities_.calibrator
        if calibrator is not None:
            calibrator.grow(int(getattr(self.model_, "n_labels_", calibrator.n_labels_)))
        self.earlier_labels_ = earlier
        return described, found

    def undo_labels(self) -> Self:
        """Go back to the label table before the last `update_labels`, which is stored with the model."""
        self._fitted()
        earlier = self.earlier_labels_
        if earlier is None:
            raise InputError("there must be an earlier label table to go back to", given="none")
        if self._usage().n_known > len(earlier.vocab):
            raise InputError(
                f"the label table must have the {self._usage().n_known:,} labels of the model",
                given=f"{len(earlier.vocab):,} before the last change",
                hint="This model took the labels in itself; mask them, or train again.",
            )
        self.vocab_ = earlier.vocab
        self.label_counts_ = self.label_counts_[: len(earlier.vocab)]
        if self.new_labels_ is not None:
            texts = dict(zip(earlier.new.tolist(), earlier.texts, strict=True))
            curve = self.new_labels_.curve
            self.new_labels_ = NewLabels.build(curve, texts, texts, self.vocab_, self._usage())
        self.earlier_labels_ = None
        self._prepare()
        return self

    def _update_new_labels(
        self, before: LabelVocab, described: dict[int, str], found: set[int], untrained: bool | None
    ) -> None:
        """Switch labels without training rows on or off; `found` are those that the model finds by itself."""
        new = self.new_labels_
        if new is None:
            return
        texts = new.descriptions() | described
        on = {*new.labels.tolist(), *described, *range(len(before), len(self.vocab_))}
        if untrained is not None:
            on = on.union(np.flatnonzero(self.label_counts_ == 0).tolist()) if untrained else set()
        on = {label for label in on - found if self.label_counts_[label] == 0}
        if on <= set(new.labels.tolist()) and not described and self.vocab_.keeps_names(before):
            self.new_labels_ = new.only(on, self.vocab_, self._usage())
            return
        kept = {label: text for label, text in texts.items() if label in on}
        self.new_labels_ = NewLabels.build(new.curve, on, kept, self.vocab_, self._usage())

    def _untrained(self, curve: NameCurve) -> NewLabels:
        """Return the labels of the table without rows, which a Tagger that reads label names suggests by them."""
        reads = isinstance(self.model_, Ensemble)
        on = np.flatnonzero(self.label_counts_ == 0).tolist() if reads and self.vocab_.names is not None else []
        return NewLabels.build(curve, on, {}, self.vocab_, self._usage())

    def _usage(self) -> Usage:
        known = int(getattr(self.model_, "n_labels_", len(self.vocab_)))
        return Usage(self.label_counts_, self.n_rows_, known)

    def update(self, X: Iterable[Text] | Dataset, y: Any = None, *, old: Sequence[Any] | Dataset | None = None) -> Self:
        """Learn from new texts at a small part of the cost of `fit`.

        Linear trees go on from their present weights, in the classifiers that the new texts concern; new labels get a
        place beside similar ones. `history_` tells what each update brought, which members of an ensemble could not
        learn this way, and `full_training_due` when it is time to train on all rows. An update that fails changes
        nothing.

        Parameters
        ----------
        X
            New texts; or a `Dataset` whose label table is that of this Tagger, possibly with labels added.
        y
            Labels of the texts, as in `fit`; they may be new.
        old
            The rows of the last training, ``(texts, labels)`` or a `Dataset`, which labels without rows so far are
            trained against. A Tagger of quality balanced has stored what it needs of them.
        """
        self._fitted()
        before = earlier_rows(self, old)
        if isinstance(X, Dataset):
            data = X
        else:
            Y, table = label_sets(y, self.vocab_, on_unknown="add")
            data = training_data(self.as_texts(X), Y, None, table)
        if data.n_rows == 0:
            return self
        start = process_time()
        check_updatable(self, data, before)
        changed, found = updatable_copy(self), set[int]()
        if data.vocab is not self.vocab_:
            found = changed._take_table(data.vocab, {})[1]
            changed._prepare()
        changed.history_ = [*self.history_, update_tagger(changed, data, before, start)]
        changed._update_new_labels(self.vocab_, {}, found, None)  # labels that have rows are no longer new
        changed._prepare()
        vars(self).update(vars(changed))
        return self

    @property
    def full_training_due(self) -> str:
        """Why it is time for a full training after the updates so far; "" if it is not."""
        self._fitted()
        return due_because(self.history_, self.n_rows_, self.label_counts_)

    def save(self, folder: str | os.PathLike[str], *, notes: str | None = None, overwrite: bool = False) -> Path:
        """Save into a folder, all or nothing, with a passport and golden inputs; see `tagwood.save`."""
        return storage.save(self, folder, notes=notes, fingerprint=self.fingerprint_, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, verify: bool = False) -> Self:
        """Load a saved Tagger; see `tagwood.load`."""
        return cls.load_with_manifest(folder, verify=verify)[0]

    @classmethod
    def load_with_manifest(
        cls, folder: str | os.PathLike[str], *, verify: bool = False
    ) -> tuple[Self, storage.Manifest]:
        """Load a saved Tagger and its manifest, which belong together even while the folder is being replaced."""
        loaded, manifest = storage.load_with_manifest(folder, verify=verify)
        if not isinstance(loaded, cls):
            hint = "Only a Tagger, trained on texts, can do this; other models are read by tagwood.load."
            raise InputError(f"{folder} must hold a Tagger", given=type(loaded).__name__, hint=hint)
        return loaded, manifest

    def golden_inputs(self) -> list[str]:
        """Return a few label names as texts: unlike training texts, they are stored with the model anyway."""
        size = len(self.vocab_)
        return [self.vocab_.name(int(label)) for label in np.unique(np.linspace(0, size - 1, 8).astype(int))]

    def state(self) -> State:
        """Return the stored form."""
        self._fitted()
        return tagger_state(self)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild from the stored form."""
        settings = restored_settings(state)
        parts = restored_parts(state, settings["encoder"], settings["model"])
        settings["model"] = base_model(state, settings["model"])
        tagger = cls(**settings)
        for name, value in parts.items():
            setattr(tagger, name, value)
        tagger._prepare()
        return tagger

    def check_settings(self) -> None:
        """Raise `InputError` for an invalid setting; `fit` calls this first."""
        for settings in (self.groups, self.sets, self.budget):
            settings.check()
        for part in (self.encoder, self.model):
            check = getattr(part, "check_params", None)
            if check is not None:
                check()
        if self.quality is not None:
            from tagwood.tagger.quality import QUALITIES

            check_choice(self.quality, "quality", QUALITIES)
        check_int(self.keep_texts, "keep_texts", low=0)
        check_int(self.seed, "seed", low=0)

    def _prepare(self) -> None:
        """Build what answers are computed with, from the fitted parts."""
        self._search = LabelSearch(self.encoder_, self.model_, self.vocab_)
        new = self.new_labels_
        self._new_labels = None if new is None or new.evidence is None or not new.on.any() else new
        self._browsers = None

    def _trees(self) -> list[TreeBrowser]:
        self._fitted()
        if self._browsers is None:
            from tagwood.tagger.browsing import tree_browsers

            self._browsers = tree_browsers(self)
        return self._browsers

    def _fitted(self) -> LabelSearch:
        if not hasattr(self, "_search"):
            raise NotFittedError("this Tagger must be fitted first", hint="Call fit(texts, labels), or load one.")
        return self._search

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_search")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=True), input_tags=InputTags(string=True))


def median_words(texts: Sequence[str]) -> int:
    """Return the median number of words of texts; of many, of a thousand evenly spread ones."""
    some = texts[:: max(1, len(texts) // 1000)]
    return int(np.median([len(text.split()) for text in some])) if some else 0
