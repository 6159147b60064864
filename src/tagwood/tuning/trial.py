"""One trial: fit a recipe on some rows and measure it on others. In: a recipe and a split. Out: a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tagwood.data.dataset import Dataset
from tagwood.errors import InputError
from tagwood.metrics import LabelCounts, evaluate
from tagwood.metrics.names import MetricName, parse_metric
from tagwood.recipe import Recipe

_LOWER_IS_BETTER = ("hamming",)


@dataclass(frozen=True)
class Split:
    """Rows to fit on, rows to measure on, and what is measured."""

    fitted: Dataset
    held: Dataset
    metric: MetricName

    @property
    def lower_is_better(self) -> bool:
        """Whether the metric counts mistakes."""
        return self.metric.family in _LOWER_IS_BETTER


def split_rows(data: Dataset, metric: str, holdout: float, seed: int) -> Split:
    """Hold out a share of the training rows; they must have texts and labels of their own."""
    name = parse_metric(metric)
    if name.family == "depth":
        raise InputError(
            "the metric of a search must say how good the labels are", given=str(name), hint="Such as P@5."
        )
    if data.texts is None:
        raise InputError("a search for settings needs texts", given="features only")
    if data.groups is not None:
        raise InputError(
            "a search for settings needs the labels of each row, and these are known for groups only",
            hint="Search on rows with labels of their own, then train on the groups with the recipe found.",
        )
    fitted, held = data.split(holdout, seed=seed)
    if fitted.labels.nnz == 0 or held.labels.nnz == 0:
        raise InputError(
            "both the rows to fit on and those held out must have labels",
            given=f"{fitted.n_rows:,} and {held.n_rows:,} rows",
            hint="Use more rows, or hold out another share of them.",
        )
    return Split(fitted, held, name)


def measure(recipe: Recipe, split: Split, progress: Callable[[str, float], None]) -> float:
    """Fit the recipe and return its metric on the held-out rows.

    Metrics with ``@k`` look at the order of labels only, which probabilities do not change: none are fitted then, and
    a trial takes half the time.
    """
    ranked = split.metric.k is not None
    if ranked:
        recipe = recipe.override(["sets.holdout=0.0"])
    tagger = recipe.override(["model.keep_texts=0"]).tagger()
    fitted, held = split.fitted, split.held
    tagger.fit(fitted.texts or (), fitted.labels, vocab=fitted.vocab, progress=progress)
    progress("measuring", 0.0)
    texts = held.texts or ()
    ranking = tagger.rank(texts, k=split.metric.k or 1) if ranked else tagger.rank_sets(texts)
    counts = LabelCounts.of(fitted.labels)
    return evaluate(held.labels, ranking, metrics=[str(split.metric)], train_labels=counts)[str(split.metric)]
