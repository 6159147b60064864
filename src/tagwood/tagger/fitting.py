"""The steps of `Tagger.fit`: features, labels of rows, model, probabilities; and its settings.

In: texts and labels in any form, or a `Dataset`. Out: fitted parts.

Decisions: one half of the held-out rows fits the calibration, the other half the set rules, so that a promise rests on
rows that nothing else was fitted to. The second half stays with the model, so that any promise can be fitted later.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._check import as_list, check_choice, check_float, check_int, is_missing, missing_hint
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, check_labels, csr_parts
from tagwood.data.dataset import Dataset
from tagwood.data.fields import field_names, text_of_fields
from tagwood.data.label_ids import compact_columns, id_rows
from tagwood.data.stored_texts import StoredTexts
from tagwood.data.vocab import LabelVocab
from tagwood.errors import DataError, InputError
from tagwood.features.base import Encoder, takes_texts
from tagwood.features.concat import ConcatEncoder
from tagwood.features.stored import return_memory
from tagwood.features.tfidf import TfidfEncoder, encode_to_files
from tagwood.groups import GroupedLabels, Imputed, keep_closest, share_within
from tagwood.models.base import LabelModel
from tagwood.models.ensemble import Budget, Ensemble
from tagwood.models.linear_tree import TreeRanker
from tagwood.models.name_matcher import NameMatcher
from tagwood.models.tasks import Runner
from tagwood.probabilities.calibration import Calibrator
from tagwood.probabilities.sets import SetRule, fit_set_rule, parse_rule
from tagwood.ranking import Ranking
from tagwood.storage import State
from tagwood.tagger.drift import TrainingFigures, training_figures
from tagwood.tagger.group_learning import (
    GroupRule,
    choose_rule,
    draw_row_labels,
    impute_rows,
    learns_soft,
)
from tagwood.tagger.new_labels import HeldOutRows, NameCurve
from tagwood.tagger.search import LabelSearch, knows_new_labels

Progress = Callable[[str, float], None]
Text = str | Mapping[str, str | None]  # a text, or its named fields

_FEWEST_MEASURED = 20  # held-out rows: measures of fewer would be mere chance
MEASURES = ["P@1", "P@3", "P@5", "nDCG@5", "R@10"]  # of held-out rows
_BLOCK = 500  # texts of files that are encoded together
HOLDOUTS = ("rows", "blocks")
_HELD_OUT_BLOCK = 40  # rows
CANDIDATES = 50  # labels per text from which sets are chosen
MARGIN = 0.2  # a label is certain for a row if the cosines of the others in its group are lower by this share
WORTH_REFITTING = 0.02  # share of held-out rows above which the model is trained again on all rows


@dataclass(frozen=True)
class SetRules:
    """How rankings become label sets.

    Parameters
    ----------
    rule
        Which labels `predict` returns: ``"f1"``, ``"precision>=0.9"``, ``"recall>=0.8"``, ``"threshold>=0.5"`` or
        ``"top-5"``.
    holdout
        Share of the rows that `fit` holds out to turn scores into probabilities; with 0, scores are those of the
        model. At least `smallest` and at most `largest` rows are held out.
    refit
        Train again on all rows afterwards, if more than 2 % were held out. This doubles the time and gives a better
        model. Probabilities and promises are then those of the model that did not see the held-out rows; with False,
        that model is kept and the guarantee is exact.
    holdout_by
        What is held out: single ``"rows"``, or ``"blocks"`` of 40 consecutive rows. Choose blocks if rows that stand
        together are more similar (of one source, one day) than new texts will be to training texts: otherwise
        measures and probabilities are too good.
    """

    rule: str = "f1"
    holdout: float = 0.1
    smallest: int = 50
    largest: int = 10_000
    refit: bool = True
    holdout_by: str = "rows"

    def check(self) -> None:
        """Raise `InputError` for an invalid value."""
        parse_rule(self.rule)
        check_float(self.holdout, "holdout", low=0.0, high=0.9)
        check_int(self.smallest, "smallest", low=2)
        check_int(self.largest, "largest", low=self.smallest)
        check_choice(self.holdout_by, "holdout_by", HOLDOUTS)
        if not isinstance(self.refit, bool):
            raise InputError("refit must be true or false", given=repr(self.refit))


def training_data(
    texts: Iterable[Text] | Dataset, labels: Any, groups: Sequence[Any] | None, vocab: LabelVocab | None
) -> Dataset:
    """Return texts and labels as a checked `Dataset`; a `Dataset` in place of texts is returned as it is.

    Parameters
    ----------
    texts
        One text per row; or the named fields of each row, as a mapping.
    labels
        A matrix, label ids of each row, or label names (or URIs) of each row.
    groups
        Name of each row's group, or None.
    vocab
        The label table; default: the labels in order of first appearance, or numbers.

    Examples
    --------
    >>> data = training_data(["a", "b"], [["oak", "ash"], {"elm", "ash"}], None, None)
    >>> [data.vocab.name(label) for label in range(3)], data.label_lists()
    (['oak', 'ash', 'elm'], [[0, 1], [1, 2]])
    """
    if isinstance(texts, Dataset):
        if labels is not None or groups is not None or vocab is not None:
            raise InputError("a Dataset must be passed alone", given="labels, groups or vocab beside it")
        if texts.texts is None:
            raise InputError("a Tagger is fitted on texts", given="a Dataset with features only")
        return texts
    rows, fields = _texts(texts)
    if labels is None:
        raise InputError("labels must be given for the texts", given="None")
    Y, table = label_sets(labels, vocab)
    if Y.shape[0] != len(rows):
        raise InputError(f"labels must have one entry for each of the {len(rows):,} texts", given=f"{Y.shape[0]:,}")
    names = None if groups is None else ["" if is_missing(one) else str(one) for one in as_list(groups, "groups")]
    return Dataset(Y, table, texts=rows, groups=names, fields=fields)


def label_sets(labels: Any, vocab: LabelVocab | None, on_unknown: str = "error") -> tuple[sparse.csr_array, LabelVocab]:
    """Return labels in any accepted form as a 0/1 matrix over a label table."""
    if sparse.issparse(labels) or (isinstance(labels, np.ndarray) and labels.ndim != 1):
        if isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.shape[1] == 1 and labels.dtype.kind in "iu":
            _check_flags(labels)
        small, columns = compact_columns(labels) if vocab is None else (labels, None)
        Y = check_labels(small, name="labels")
        if columns is not None:
            return Y, columns
        return _widen(Y, LabelVocab.numbered(Y.shape[1]) if vocab is None else vocab)
    from tagwood.data.records import LabelIds, label_matrix

    given = as_list(labels, "labels")
    _check_no_floats(labels, given)
    rows = [_collection(row) for row in given]
    ordered = [_in_order(row) for row in rows]
    by_id = id_rows(ordered, vocab, on_unknown)
    if by_id is not None:
        flat, ends, table = by_id
        return check_labels(label_matrix(flat, ends, len(table))), table
    ids = LabelIds(vocab, on_unknown)
    try:
        lists = [ids.of(row) for row in ordered]
    except DataError as error:
        hint = error.hint
        if any(isinstance(row, tuple) for row in given):
            hint = "A tuple that is the one label of a text is in a list: [('shop 1', 7)]."
        raise InputError(error.reason, hint=hint) from error
    flat, table = ids.table(np.array([label for row in lists for label in row], dtype=np.int64))
    ends = np.cumsum([0, *(len(row) for row in lists)])
    return check_labels(label_matrix(flat, ends, len(table))), table


def _check_no_floats(labels: Any, given: Sequence[Any]) -> None:
    """Raise `InputError` for ids that are floats, as those of a column with missing values are in pandas and NumPy."""
    wrong = next((row for row, one in enumerate(given) if isinstance(one, float) and not is_missing(one)), None)
    if wrong is None or not given[wrong].is_integer():
        return
    missing = next((row for row, one in enumerate(given) if is_missing(one)), None)
    pandas = type(labels).__module__.startswith("pandas")
    raise InputError(
        "label ids must be whole numbers",
        given=f"{given[wrong]!r} in row {wrong}, a float"
        + ("" if missing is None else f", because the label of row {missing} is missing"),
        hint="Convert them: labels.astype('Int64')." if pandas else "Pass a list of int, with None for no label.",
    )


def _check_flags(column: NDArray[Any]) -> None:
    """Raise `InputError` for a matrix of one column that holds ids instead of 0 and 1."""
    if column.size and column.max() > 1:
        raise InputError(
            "a matrix of labels must hold 0 and 1, with a column for each label",
            given=f"one column with {int(column.max())}",
            hint="One label for each text is a list or an array of one dimension: labels.ravel().",
        )


def _collection(row: Any) -> Iterable[Any]:
    """Return the labels of a row: a collection, one label (one label per text), or none where it is missing."""
    if is_missing(row):
        return []
    if isinstance(row, str | int | np.integer) and not isinstance(row, bool):
        return [row] if row != "" else []
    if isinstance(row, bytes) or not isinstance(row, Iterable):
        raise InputError(
            "labels must be a collection of labels, or one label, for each text",
            given=f"{row!r:.60}, a {type(row).__name__}",
            hint="Labels are names (strings) or ids (whole numbers, tuples); pass others as texts: str(label).",
        )
    return as_list(row, "the labels of a text") if not isinstance(row, set | frozenset) else row


def _in_order(row: Iterable[Any]) -> list[Any]:
    """Return the labels of a row; those of a set are sorted, because sets of strings have no fixed order."""
    items = [int(item) if isinstance(item, np.integer) else item for item in row]
    if isinstance(row, set | frozenset):
        items.sort(key=lambda item: (type(item).__name__, item))
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int | str | tuple):
            plain = not (is_missing(item) or isinstance(item, bool | Iterable))
            hint = "Pass others, such as UUIDs, as texts: str(label)." if plain else None
            raise InputError("a label must be a name, a URI or an id", given=repr(item)[:60], hint=hint)
    return items


def _widen(Y: sparse.csr_array, vocab: LabelVocab) -> tuple[sparse.csr_array, LabelVocab]:
    if Y.shape[1] > len(vocab):
        raise InputError(
            f"labels must have at most one column for each of the {len(vocab):,} labels of the vocabulary",
            given=f"{Y.shape[1]:,}",
        )
    Y = Y.copy()
    Y.resize(Y.shape[0], len(vocab))
    return Y, vocab


def _texts(texts: Iterable[Text]) -> tuple[list[str], tuple[str, ...]]:
    """Return checked texts, and the names of their fields."""
    if isinstance(texts, str):
        raise InputError("texts must be one text per row", given="a single text", hint="Wrap it: [text].")
    rows = as_list(texts, "texts")
    fields = field_names(rows)
    rows = [text_of_fields(row, fields) if isinstance(row, Mapping) else row for row in rows]
    wrong = next((number for number, text in enumerate(rows) if not isinstance(text, str)), None)
    if wrong is not None:
        missing = is_missing(rows[wrong])
        raise InputError(
            "texts must be strings",
            given=f"{rows[wrong]!r:.60} in row {wrong}",
            hint=missing_hint(texts, "texts", "''") if missing else "Pass the column with the texts.",
        )
    return rows, fields


@dataclass
class Probabilities:
    """A calibrator, or None where scores are probabilities, with the held-out rows that set rules are fitted on."""

    calibrator: Calibrator | None
    held_out: Ranking
    truth: CsrParts
    rules: dict[str, SetRule] = field(default_factory=dict)

    @classmethod
    def fit(cls, ranking: Ranking, Y: sparse.csr_array, counts: NDArray[np.int64]) -> Probabilities:
        """Learn from the rankings of held-out rows, their true labels and the training rows of each label."""
        order = np.random.default_rng(0).permutation(ranking.n_rows)  # rows may alternate
        first, second = np.sort(order[::2]), np.sort(order[1::2])
        calibrator = Calibrator().fit(ranking.rows(first), Y[first], frequencies=counts)
        return cls(calibrator, calibrator.transform(ranking.rows(second)), csr_parts(check_labels(Y[second])))

    def rule(self, promise: str) -> SetRule:
        """Return the rule that keeps a promise such as ``"precision>=0.9"``; fitted once and remembered."""
        if promise not in self.rules:
            self.rules[promise] = fit_set_rule(promise, self.held_out, self.truth.to_scipy())
        return self.rules[promise]

    def cut(self, ranking: Ranking, promise: str) -> tuple[Ranking, NDArray[np.bool_]]:
        """Cut a ranking of probabilities to label sets; also return which rows need review."""
        return self.rule(promise).apply(ranking)

    def state(self) -> State:
        """Return the stored form."""
        arrays: dict[str, NDArray[Any]] = {
            "indptr": self.held_out.indptr,
            "labels": self.held_out.labels,
            "scores": self.held_out.scores,
            "truth_indptr": self.truth.indptr,
            "truth_labels": self.truth.indices,
        }
        params = {"n_labels": self.held_out.n_labels}
        return State(
            "Probabilities",
            params=params,
            arrays=arrays,
            parts={} if self.calibrator is None else {"calibrator": self.calibrator.state()},
        )

    @classmethod
    def from_state(cls, state: State) -> Probabilities:
        """Rebuild from the stored form."""
        n_labels = state.param("n_labels", int)
        indptr = state.array("indptr", np.int64, (None,))
        labels = state.array("labels", np.int32, (None,))
        scores = state.array("scores", np.float32, (labels.size,))
        held_out = Ranking(indptr, labels, scores, n_labels)
        ends = state.array("truth_indptr", np.int64, (indptr.size,))
        true = state.array("truth_labels", np.int32, (None,))
        truth = CsrParts(ends, true, np.ones(true.size, dtype=np.float32), n_labels)
        if not _kernels.rows_valid(ends, true, truth.data, n_labels):
            truth = csr_parts(check_labels(truth.to_scipy()))
        calibrator = Calibrator.from_state(state.part("calibrator")) if "calibrator" in state.parts else None
        return cls(calibrator, held_out, truth)


class Parts(NamedTuple):
    """The fitted encoder and model, the label sets the model was fitted with, what was imputed, if it was, and how."""

    encoder: Encoder
    model: LabelModel
    Y: sparse.csr_array
    imputed: Imputed | None
    groups: GroupRule


def linear_tree_of(model: object) -> TreeRanker | None:
    """Return the linear tree that a model is or has among its members, for explanations, senses and browsing."""
    if isinstance(model, TreeRanker):
        return model
    if isinstance(model, Ensemble):
        return next((m.model for m in model.members_ if isinstance(m.model, TreeRanker)), None)
    return None


class Measures(NamedTuple):
    """What the ranking of held-out rows is worth, before the model is trained on all rows: shares of 1."""

    n_rows: int
    values: dict[str, float]


class Learned(NamedTuple):
    """What `fit` learns from a dataset; `curve` judges labels without rows, None for texts without words.

    `figures` are those of held-out texts, None without.
    """

    parts: Parts
    probabilities: Probabilities | None
    measures: Measures | None
    curve: NameCurve | None
    figures: TrainingFigures | None = None


class Plan(NamedTuple):
    """Unfitted parts and settings of a Tagger, and what computes the training of models that are trained in parts."""

    encoder: Encoder
    model: LabelModel
    groups: GroupRule
    sets: SetRules
    seed: int
    runner: Runner | None = None
    budget: Budget = Budget()


def learn(data: Dataset, plan: Plan, progress: Progress | None) -> Learned:
    """Fit all parts; the parts of the plan stay unfitted."""
    report = _ignore if progress is None else progress
    if isinstance(plan.model, Ensemble):
        return _learn_ensemble(data, plan, report)
    train, held = split_holdout(data, plan.sets, plan.seed)
    parts = fit_parts(plan, train, report)
    if held is None:
        return Learned(parts, None, None, _name_curve(data, parts, None))
    report("probabilities", 0.0)
    ranking = rank_in_blocks(LabelSearch(parts.encoder, parts.model, data.vocab), held.texts or (), CANDIDATES)
    ranking = _without_pairs(ranking, held.filter_pairs)
    truth, measures = held.labels, None
    if held.groups is None:
        measures = measure(ranking, truth)
    else:
        truth = draw_row_labels(ranking, GroupedLabels.from_rows(held.groups, truth), parts.groups, plan.seed)
    probabilities = None
    if held.n_rows >= plan.sets.smallest:
        counts = np.bincount(parts.Y.indices, minlength=ranking.n_labels)
        probabilities = Probabilities.fit(ranking, truth, counts)
        ranking = cast(Calibrator, probabilities.calibrator).transform(ranking)
    curve = _name_curve(data, parts, HeldOutRows(held.texts or (), ranking, check_labels(truth)))
    refit = plan.sets.refit and held.n_rows > WORTH_REFITTING * data.n_rows
    if refit:
        again = plan._replace(model=settled(parts.model), groups=parts.groups)
        parts = fit_parts(again, data, lambda stage, share: report(f"{stage}, all rows", share))
    usage = np.bincount(parts.Y.indices, minlength=data.n_labels)
    figures = training_figures(parts.encoder, held.texts or (), ranking, usage, seen=refit)
    return Learned(parts, probabilities, measures, curve, figures)


def rank_in_blocks(search: LabelSearch, texts: Sequence[str], k: int) -> Ranking:
    """Rank labels for texts; those of files are read and encoded some hundreds at a time."""
    if not isinstance(texts, StoredTexts):
        return search.rank(list(texts), k)
    return_memory()  # of the training
    blocks = [search.rank(texts[begin : begin + _BLOCK], k) for begin in range(0, len(texts), _BLOCK)]
    sizes = np.concatenate([np.diff(block.indptr) for block in blocks])
    labels, scores = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("labels", "scores"))
    return Ranking(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), labels, scores, blocks[0].n_labels)


def _learn_ensemble(data: Dataset, plan: Plan, report: Progress) -> Learned:
    """Fit an ensemble, which holds out rows itself and fits its members again on all rows."""
    parts = fit_parts(plan, data, report)
    held = cast(Ensemble, parts.model).held_out_
    if held is None:
        return Learned(parts, None, None, _name_curve(data, parts, None))
    report("probabilities", 0.0)
    truth = csr_parts(check_labels(held.truth))
    ranking = _without_pairs(held.ranking, None if data.filter_pairs is None else data.filter_pairs[held.rows])
    probabilities = Probabilities(None, ranking, truth)  # its scores are probabilities
    every = list(data.texts or ())
    texts = [every[row] for row in held.rows]
    curve = _name_curve(data, parts, HeldOutRows(texts, ranking, held.truth))
    usage = np.bincount(parts.Y.indices, minlength=data.n_labels)
    figures = training_figures(parts.encoder, texts, ranking, usage, seen=True)
    return Learned(parts, probabilities, measure(ranking, held.truth), curve, figures)


def _without_pairs(ranking: Ranking, pairs: sparse.csr_array | None) -> Ranking:
    """Return the ranking of held-out rows without the filtered pairs of a dataset, which are neither true nor wrong."""
    return ranking if pairs is None else ranking.without(pairs)


def _name_curve(data: Dataset, parts: Parts, held: HeldOutRows | None) -> NameCurve | None:
    """Return what judges labels without rows by their names."""
    usage = np.bincount(parts.Y.indices, minlength=data.n_labels)
    matchers = [m.model for m in getattr(parts.model, "members_", ()) if isinstance(m.model, NameMatcher)]
    language = matchers[0].language if matchers else None
    own = knows_new_labels(parts.model) or data.vocab.names is None
    names = [] if own else data.vocab.label_names()
    return NameCurve.fit(data.texts or (), names, usage, language, None if own else held)


def measure(ranking: Ranking, Y: sparse.csr_array) -> Measures:
    """Measure the ranking of held-out rows."""
    from tagwood.metrics import evaluate

    found = evaluate(Y, ranking, metrics=MEASURES)
    return Measures(ranking.n_rows, {name: float(found[name]) for name in MEASURES})


def fresh(part: Any) -> Any:
    """Return an unfitted copy of an encoder or model, so that the one the user passed stays as it is."""
    if not hasattr(part, "get_params"):
        return part
    params = part.get_params(deep=False)
    if isinstance(part, ConcatEncoder):
        params["encoders"] = [fresh(one) for one in part.encoders]
    return type(part)(**params)


def settled(model: Any) -> Any:
    """Return a model to train again on more rows, with the choices that it made by trials."""
    settle = getattr(model, "settled", None)
    return model if settle is None else settle()


def default_encoder(model: LabelModel, **options: Any) -> TfidfEncoder:
    """Return the encoder of a Tagger without one: for models that read texts themselves, single words suffice."""
    return TfidfEncoder(**({"ngrams": (1, 1)} | options if takes_texts(model) else options))


def split_holdout(data: Dataset, sets: SetRules, seed: int) -> tuple[Dataset, Dataset | None]:
    """Return the rows to train on, and the rows held out to measure the model, if there are enough.

    Where labels are known for groups, or rows are held out in blocks, whole groups or blocks are.
    """
    kept = min(round(sets.holdout * data.n_rows), sets.largest)
    if kept < _FEWEST_MEASURED:
        return data, None
    if data.groups is not None:
        names = [group or f" {row}" for row, group in enumerate(data.groups)]
        train, held = _split_groups(data, np.unique(names, return_inverse=True)[1], kept, seed)
    elif (together := _held_out_together(data, sets)) is not None:
        train, held = _split_groups(data, together, kept, seed)
    else:
        train, held = data.split(kept / data.n_rows, seed=seed)
    return (data, None) if train.labels.nnz == 0 else (train, held)


def _split_groups(data: Dataset, codes: NDArray[np.int64], n_held: int, seed: int) -> tuple[Dataset, Dataset]:
    """Return two datasets of whole groups, given by the number of each row's; the second has about `n_held` rows."""
    order = np.random.default_rng(seed).permutation(int(codes.max()) + 1)
    ends = np.cumsum(np.bincount(codes)[order])
    held = np.isin(codes, order[: int(np.searchsorted(ends, n_held)) + 1])
    return data.rows(np.flatnonzero(~held)), data.rows(np.flatnonzero(held))


def fit_parts(plan: Plan, data: Dataset, report: Progress) -> Parts:
    """Fit copies of the plan's encoder and model on a dataset with texts."""
    encoder, model = fresh(plan.encoder), fresh(plan.model)
    texts = data.texts or ()
    if not isinstance(texts, StoredTexts):
        texts = list(texts)
    shares = isinstance(model, Ensemble) and model.encoder is not None  # it fits the encoder for all its members
    X = None if shares else _encode(encoder, texts, report)
    accepted = inspect.signature(model.fit).parameters
    Y, imputed, rule = data.labels, None, plan.groups
    options: dict[str, Callable[[], Any]] = {
        "progress": lambda: report,
        "runner": lambda: plan.runner,
        "budget": lambda: plan.budget,
        "label_texts": lambda: [data.vocab.name(label) for label in range(data.n_labels)],
        "label_names": lambda: _names_to_learn(data, model),
        "rejected": lambda: data.rejected,
        "together": lambda: _held_out_together(data, plan.sets),
    }
    if data.groups is not None:
        report("labels of rows", 0.0)
        grouped = GroupedLabels.from_rows(list(data.groups), data.labels)
        rule, _ = choose_rule(X, grouped, rule, seed=plan.seed)
        shared = impute_rows(X, grouped, rule)
        imputed = keep_closest(share_within(shared, grouped, MARGIN), grouped)
        Y = imputed.labels
        if learns_soft(rule) and "sample_weight" in accepted:
            Y, options["sample_weight"] = shared.labels, lambda: shared.weights
    rows = texts if takes_texts(model) else X
    given = {name: value() for name, value in options.items() if name in accepted}
    together = getattr(plan.runner, "fit_together", None)
    if together is not None and getattr(model, "data_parallel", False):
        given.pop("progress", None)
        report("data-parallel training", 0.0)
        model = together(model, rows, Y, given)
    else:
        model.fit(rows, Y, **given)
    return Parts(model.encoder_ if shares else encoder, model, Y, imputed, rule)


def _held_out_together(data: Dataset, sets: SetRules) -> NDArray[np.int64] | None:
    """Return the group of each row that is held out as a whole; None for single rows."""
    return np.arange(data.n_rows) // _HELD_OUT_BLOCK if sets.holdout_by == "blocks" else None


def _names_to_learn(data: Dataset, model: Any) -> list[list[str]]:
    """Return all names of each label; for an ensemble, none of labels without rows: `NewLabels` finds those."""
    names = data.vocab.label_names()
    if not isinstance(model, Ensemble):
        return names
    used = np.bincount(data.labels.indices, minlength=data.n_labels) > 0
    return [own if has_rows else [] for own, has_rows in zip(names, used.tolist(), strict=True)]


def _encode(encoder: Any, texts: Sequence[str], report: Progress) -> Any:
    """Fit an encoder and return the features of the texts; in files, if the texts are."""
    report("features", 0.0)
    if isinstance(texts, StoredTexts) and texts.work is not None:
        return encode_to_files(encoder, texts, texts.work)
    once = getattr(encoder, "fit_transform", None)
    return once(texts) if once is not None else encoder.fit(texts).transform(texts)


def _ignore(stage: str, share: float) -> None:
    """Ignore a progress report."""
