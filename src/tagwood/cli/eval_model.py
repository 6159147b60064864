"""The part of `tagwood eval` that asks a model. In: a model folder and a dataset. Out: rankings, sets and the truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tagwood.cli.eval import Problem, widen
from tagwood.errors import InputError

if TYPE_CHECKING:
    from tagwood.metrics import LabelCounts
    from tagwood.ranking import Ranking
    from tagwood.tagger import Tagger

_DEFAULT_K = 5  # of the metrics that are measured if none are named


def rank_truth(
    model: Path,
    truth: Path,
    metrics: list[str] | None,
    *,
    train: Path | None = None,
    data_format: str | None = None,
    limit: int | None = None,
) -> Problem:
    """Rank the texts of a dataset with a model and return what is to be measured.

    Labels that the model does not know join its label table: it could not return them, and they count as missed.
    """
    from tagwood.cli.predict import load_tagger
    from tagwood.data import read_dataset
    from tagwood.metrics import parse_metrics

    tagger = load_tagger(model)
    rows = read_dataset(truth, data_format, vocab=tagger.vocab_, on_unknown="add")
    if rows.texts is None:
        raise InputError(f"{truth} must hold texts", given="features only")
    training = None
    if train is not None:
        training = read_dataset(train, data_format, vocab=rows.vocab, on_unknown="skip").labels
    names = parse_metrics(metrics) if metrics else []
    k = limit or max([name.k for name in names if name.k is not None], default=_DEFAULT_K)
    n_labels = rows.n_labels
    return Problem(
        _wider(tagger.rank(rows.texts, k=k), n_labels),
        rows.labels,
        widen(training, n_labels) if training is not None else _counts(tagger, n_labels),
        rows.vocab,
        0,
        _wider(tagger.rank_sets(rows.texts), n_labels) if any(name.k is None for name in names) else None,
    )


def _counts(tagger: Tagger, n_labels: int) -> LabelCounts:
    import numpy as np

    from tagwood.metrics import LabelCounts

    counts = np.zeros(n_labels, dtype=np.int64)
    counts[: tagger.label_counts_.size] = tagger.label_counts_
    return LabelCounts(counts, tagger.n_rows_)


def _wider(ranking: Ranking, n_labels: int) -> Ranking:
    from tagwood.ranking import Ranking

    return Ranking(ranking.indptr, ranking.labels, ranking.scores, n_labels)
