"""`annif_measures`: the block of metrics that ``annif eval`` prints, under its names. In: truth, ranking. Out: numbers.

Decisions: values are those of Annif's definitions where they differ from ours (see docs/reference/metrics.md): a mean
over subjects is over the whole vocabulary, subjects that never occur count 0; NDCG of a document without subjects is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tagwood.metrics.evaluation import evaluate, label_scores
from tagwood.metrics.matching import match
from tagwood.ranking import Ranking

_AVERAGES = {"doc avg": "example", "subj avg": "macro", "weighted subj avg": "weighted", "microavg": "micro"}
_SCORES = {"Precision": "P", "Recall": "R", "F1 score": "F1"}
_CUT = {"F1@5": "example-F1@5", **{f"Precision@{k}": f"example-P@{k}" for k in (1, 3, 5)}}


def annif_measures(Y: Any, ranking: Ranking) -> dict[str, float]:
    """Return the metrics of ``annif eval`` for a ranking cut to the suggestions that count.

    Parameters
    ----------
    Y
        (n_rows, n_labels) true labels.
    ranking
        Suggestions of the same rows; labels with score 0 or less do not count.

    Examples
    --------
    >>> ranking = Ranking.from_lists([[(2, 0.9), (1, 0.5)], [(0, 0.8)]], n_labels=4)
    >>> found = annif_measures([[0, 2], [1]], ranking)
    >>> found["Precision (doc avg)"], found["Recall (subj avg)"], found["True positives"], found["Documents evaluated"]
    (0.25, 0.25, 1.0, 2.0)
    """
    used = ranking.keep(ranking.scores > 0)
    matched = match(Y, used)
    whole = max(matched.longest, int(matched.n_true.max(initial=1)))
    names = {f"{what} ({how})": f"{ours}-{part}" for how, ours in _AVERAGES.items() for what, part in _SCORES.items()}
    ranked = {"NDCG": f"nDCG@{whole}", "NDCG@5": "nDCG@5", "NDCG@10": "nDCG@10"}
    report = evaluate(Y, used, metrics=[*names.values(), *_CUT.values(), *ranked.values()])
    counts = label_scores(Y, used)
    seen = float(np.count_nonzero(counts.true + counts.returned)) / used.n_labels
    values = {name: report[ours] * (seen if "(subj avg)" in name else 1.0) for name, ours in names.items()}
    empty = float(np.mean(matched.n_true == 0))
    cut = {name: report[ours] for name, ours in _CUT.items()}
    values["F1@5"] = cut.pop("F1@5")
    values |= {name: report[ours] + empty for name, ours in ranked.items()}
    hits = float(counts.hits.sum())
    values |= cut | {
        "True positives": hits,
        "False positives": float(counts.returned.sum()) - hits,
        "False negatives": float(counts.true.sum()) - hits,
        "Documents evaluated": float(used.n_rows),
    }
    return values
