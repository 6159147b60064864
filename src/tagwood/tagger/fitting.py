"""The steps of `Tagger.fit`: features, labels of rows, tree, model, probabilities.

In: a `Dataset` and settings. Out: fitted parts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from scipy import sparse

from tagwood.data.dataset import Dataset
from tagwood.features.concat import ConcatEncoder
from tagwood.features.encoder import Encoder
from tagwood.features.tfidf import TfidfEncoder
from tagwood.groups import GroupedLabels, Imputed, impute_labels, keep_closest, share_within
from tagwood.models.base import LabelModel, takes_texts
from tagwood.tagger.label_search import LabelSearch
from tagwood.tagger.probabilities import Probabilities
from tagwood.tagger.settings import GroupRule, SetRules

Progress = Callable[[str, float], None]

CANDIDATES = 50  # labels per text that sets are chosen from
MARGIN = (
    0.2  # a row gets a label without doubt if the others of its group are this share of its cosine behind
)
SHARED = 0.8  # `margin` of `impute_labels` for rows to learn from
WORTH_REFITTING = 0.02  # share of held-out rows above which the model is trained again on all


class Parts(NamedTuple):
    """The fitted encoder and model, the label sets the model was fitted with, and what was imputed, if it was."""

    encoder: Encoder
    model: LabelModel
    Y: sparse.csr_array
    imputed: Imputed | None


class Learned(NamedTuple):
    """What `fit` learns from a dataset."""

    parts: Parts
    probabilities: Probabilities | None


class Plan(NamedTuple):
    """Unfitted parts and settings of a Tagger."""

    encoder: Encoder
    model: LabelModel
    groups: GroupRule
    sets: SetRules
    seed: int


def learn(data: Dataset, plan: Plan, progress: Progress | None) -> Learned:
    """Fit all parts; the parts of the plan stay unfitted."""
    report = _ignore if progress is None else progress
    train, held = split_holdout(data, plan.sets, plan.seed)
    parts = fit_parts(plan, train, report)
    if held is None:
        return Learned(parts, None)
    report("probabilities", 0.0)
    ranking = LabelSearch(parts.encoder, parts.model, data.vocab).rank(
        list(held.texts or ()), CANDIDATES, None, []
    )
    probabilities = Probabilities.fit(ranking, held.labels)
    if plan.sets.refit and held.n_rows > WORTH_REFITTING * data.n_rows:
        again = plan._replace(model=settled(parts.model))
        parts = fit_parts(again, data, lambda stage, share: report(f"{stage}, all rows", share))
    return Learned(parts, probabilities)


def fresh(part: Any) -> Any:
    """Return an unfitted copy of an encoder or model, so that the one the user passed stays as it is."""
    if not hasattr(part, "get_params"):
        return part
    params = part.get_params()
    if isinstance(part, ConcatEncoder):
        params["encoders"] = [fresh(one) for one in part.encoders]
    return type(part)(**params)


def settled(model: Any) -> Any:
    """Return a model to train again on more rows: what it chose by trials of its own is not tried again."""
    settle = getattr(model, "settled", None)
    return model if settle is None else settle()


def default_encoder(model: LabelModel, **options: Any) -> TfidfEncoder:
    """Return the encoder of a Tagger that was given none.

    A model that reads texts itself leaves little to it: labels of groups, similar texts, descriptions of new labels.
    For that, words are enough.
    """
    return TfidfEncoder(**({"ngrams": (1, 1)} | options if takes_texts(model) else options))


def likeness_encoder(model: LabelModel, encoder: Encoder) -> Encoder:
    """Return what says how like two texts are: the encoder that a model reads texts with, or the Tagger's."""
    own = getattr(model, "encoder_", None) if takes_texts(model) else None
    return encoder if own is None else own


def split_holdout(data: Dataset, sets: SetRules, seed: int) -> tuple[Dataset, Dataset | None]:
    """Return the rows to train on and the rows to keep for probabilities, if there are enough.

    Where labels are known per group only, none are kept: the true labels of single rows are not known.
    """
    kept = min(round(sets.holdout * data.n_rows), sets.largest)
    if data.groups is not None or kept < sets.smallest:
        return data, None
    train, held = data.split(kept / data.n_rows, seed=seed)
    return (data, None) if train.labels.nnz == 0 else (train, held)


def fit_parts(plan: Plan, data: Dataset, report: Progress) -> Parts:
    """Fit copies of the plan's encoder and model on a dataset with texts."""
    encoder, model = fresh(plan.encoder), fresh(plan.model)
    texts = list(data.texts or ())
    report("features", 0.0)
    once = getattr(encoder, "fit_transform", None)
    X = once(texts) if once is not None else encoder.fit(texts).transform(texts)
    accepted = inspect.signature(model.fit).parameters
    Y, imputed = data.labels, None
    options: dict[str, Callable[[], Any]] = {
        "progress": lambda: report,
        "label_texts": lambda: [data.vocab.name(label) for label in range(data.n_labels)],
    }
    if data.groups is not None:
        report("labels of rows", 0.0)
        grouped = GroupedLabels.from_rows(list(data.groups), data.labels)
        shared = impute_rows(X, grouped, plan.groups)
        imputed = keep_closest(share_within(shared, grouped, MARGIN), grouped)
        Y = imputed.labels
        if plan.groups.soft and plan.groups.method != "baseline" and "sample_weight" in accepted:
            Y, options["sample_weight"] = shared.labels, lambda: shared.weights
    rows = texts if takes_texts(model) else X
    model.fit(rows, Y, **{name: value() for name, value in options.items() if name in accepted})
    return Parts(encoder, model, Y, imputed)


def impute_rows(
    X: Any,
    grouped: GroupedLabels,
    rule: GroupRule,
    *,
    margin: float = SHARED,
    threads: int | None = None,
) -> Imputed:
    """Share the labels of groups among the rows that come near them."""
    return impute_labels(
        X,
        grouped.sample_groups,
        grouped.group_labels,
        method=rule.method,
        steps=rule.steps,
        step_size=rule.step_size,
        contrast=rule.contrast,
        soft=True,
        margin=margin,
        threads=threads,
    )


def _ignore(stage: str, share: float) -> None:
    """Take a report of progress and do nothing."""
