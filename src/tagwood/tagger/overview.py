"""What a Tagger is and how good it is: sizes, measures, calibration, label sets.

In: a fitted Tagger. Out: plain values for the model page and `tagwood show`. Measures come from the rows that training
held out to calibrate probabilities; they are stored with the model. `missing` explains what a model does not have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagwood.metrics.matching import match
from tagwood.tagger.browsing import TreeBrowser
from tagwood.tagger.fitting import Probabilities, linear_tree_of
from tagwood.tagger.stored import FittedTagger, LabelBrief, brief_label
from tagwood.tagger.updating import due_because

PROMISES = (
    *(f"precision>={value}" for value in (0.95, 0.9, 0.8, 0.7)),
    "f1",
    *(f"recall>={value}" for value in (0.6, 0.7, 0.8, 0.9)),
)
_BINS = 10
_NO_ROWS = (
    "No rows were held out when this model was trained (too few, or labels known for groups only); "
    "measure it with tagwood eval."
)
_NO_PARETO = "The shape of the tree was not tuned for this model (tagwood train --tree auto does it)."


def overview(tagger: FittedTagger, trees: list[TreeBrowser], language: str | None = None) -> dict[str, Any]:
    """Return the facts of a model as JSON values; see `Tagger.overview`."""
    counts, vocab, known = tagger.label_counts_, tagger.vocab_, tagger.probabilities_
    tuned = pareto(linear_tree_of(tagger.model_))
    missing = {} if tuned is not None else {"pareto": _NO_PARETO}
    if tagger.measures_ is None:
        missing["metrics"] = _NO_ROWS
    if known is None:
        missing["calibration"] = _NO_ROWS
    return {
        "kind": type(tagger.model_).__name__,
        "quality": tagger.effective_quality,
        "simpler_because": tagger.simpler_because_,
        "members": [one._asdict() for one in tagger.members()],
        "labels": len(vocab),
        "labels_in_training": int(np.count_nonzero(counts)),
        "labels_masked": int(vocab.removed_mask().sum()),
        "rows": tagger.n_rows_,
        "updates": [one._asdict() for one in tagger.history_],
        "full_training_due": due_because(tagger.history_, tagger.n_rows_, counts),
        "languages": list(vocab.languages),
        "fields": field_weights(tagger),
        "tree": tree_sizes(tagger, trees),
        "metrics": None if tagger.measures_ is None else tagger.measures_.values,
        "measured_rows": 0 if tagger.measures_ is None else tagger.measures_.n_rows,
        "calibration": None if known is None else calibration(known),
        "pareto": tuned,
        "missing": missing,
        "largest": [vars(one) for one in largest_labels(tagger, 20, language)],
    }


def field_weights(tagger: FittedTagger) -> dict[str, int]:
    """Return how often each field of the texts counts, by name; nothing for texts without named fields."""
    weights = getattr(tagger.encoder_, "field_weights", None) or [1] * len(tagger.fields_)
    return dict(zip(tagger.fields_, weights, strict=False))


def largest_labels(tagger: FittedTagger, limit: int, language: str | None = None) -> list[LabelBrief]:
    """Return the labels with the most training rows."""
    order = np.argsort(-tagger.label_counts_, kind="stable")[:limit]
    return [brief_label(tagger, int(label), language) for label in order]


def tree_sizes(tagger: FittedTagger, trees: list[TreeBrowser]) -> dict[str, Any] | None:
    """Return the sizes of the first label tree; None for models without one."""
    if not trees:
        return None
    tree = trees[0].tree
    return {
        "trees": len(trees),
        "nodes": tree.n_nodes,
        "leaves": tree.n_leaves,
        "depth": trees[0].max_depth,
        "labels_per_leaf": round(tree.labels.size / tree.n_leaves, 1),
        "features": int(getattr(linear_tree_of(tagger.model_) or tagger.model_, "n_features_", 0)),
    }


def pareto(model: Any) -> dict[str, Any] | None:
    """Return quality and cost along λ, if the model chose λ by trials."""
    sweep = getattr(model, "sweep_", None)
    if sweep is None:
        return None
    points = [
        {
            "lam": point.lam,
            "quality": point.measures["P@1"],
            "cost": point.measures[sweep.cost],
            "chosen": point.lam == model.lam_,
        }
        for point in sweep.points
    ]
    return {"quality": "P@1", "cost": sweep.cost, "points": points}


def calibration(known: Probabilities) -> dict[str, Any]:
    """Return the reliability of probabilities and label sets on the held-out rows."""
    matched = match(known.truth.to_scipy(), known.held_out)
    scores = np.asarray(known.held_out.scores, dtype=np.float64)
    hits, n_true = matched.hits.astype(np.float64), float(matched.n_true.sum())
    points, error = reliability(scores, hits)
    return {
        "rows": known.held_out.n_rows,
        "expected_error": error,
        "reliability": points,
        "sets": set_sizes(scores, hits, n_true, known.held_out.n_rows),
        "promises": [promise_set(known, promise) for promise in PROMISES],
    }


def reliability(scores: NDArray[np.float64], hits: NDArray[np.float64]) -> tuple[list[dict[str, Any]], float]:
    """Return predicted against observed in ten bins, and their mean distance.

    Examples
    --------
    >>> points, error = reliability(np.array([0.9, 0.9, 0.1]), np.array([1.0, 0.0, 0.0]))
    >>> [(point["predicted"], point["observed"]) for point in points], round(error, 3)
    ([(0.1, 0.0), (0.9, 0.5)], 0.3)
    """
    bins = np.minimum((scores * _BINS).astype(np.int64), _BINS - 1)
    counts = np.bincount(bins, minlength=_BINS)
    used = np.flatnonzero(counts)
    predicted = np.bincount(bins, scores, minlength=_BINS)[used] / counts[used]
    observed = np.bincount(bins, hits, minlength=_BINS)[used] / counts[used]
    error = float(np.abs(predicted - observed) @ counts[used] / max(1, scores.size))
    points = [
        {"predicted": float(p), "observed": float(o), "count": int(n)}
        for p, o, n in zip(predicted, observed, counts[used], strict=True)
    ]
    return points, error


def set_sizes(
    scores: NDArray[np.float64], hits: NDArray[np.float64], n_true: float, n_rows: int, n_points: int = 40
) -> list[dict[str, Any]]:
    """Return size, precision and recall of the label sets along the threshold, from few labels to many."""
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(hits[order])
    last = np.flatnonzero(np.diff(scores[order], append=-1.0))  # equal scores are taken together
    sizes = np.geomspace(1, max(1, scores.size), n_points)
    chosen: Any = np.unique(np.searchsorted(last, sizes - 1).clip(0, max(0, last.size - 1))) if last.size else []
    return [
        {
            "threshold": float(scores[order[place]]),
            "size": float((place + 1) / n_rows),
            "precision": float(right[place] / (place + 1)),
            "recall": float(right[place] / max(1.0, n_true)),
            "f1": float(2 * right[place] / max(1.0, place + 1 + n_true)),
        }
        for place in last[chosen]
    ]


def promise_set(known: Probabilities, promise: str) -> dict[str, Any]:
    """Return size, precision and recall of the sets of a promise on the held-out rows, as promises define them.

    Precision is that of all returned labels together, recall the mean over the rows that have labels.
    """
    rule = known.rule(promise)
    sets, review = rule.apply(known.held_out)
    matched = match(known.truth.to_scipy(), sets)
    right = float(matched.hits.sum())
    returned = sets.labels.size
    n_true = matched.n_true
    hits = np.bincount(np.repeat(np.arange(sets.n_rows), np.diff(sets.indptr)), matched.hits, sets.n_rows)
    recalls = hits[n_true > 0] / n_true[n_true > 0]
    return {
        "promise": promise,
        "kept": rule.kept,
        "threshold": min(1.0, float(rule.threshold)),
        "size": returned / max(1, sets.n_rows),
        "precision": right / returned if returned else None,
        "recall": float(recalls.mean()) if recalls.size else 0.0,
        "review": float(review.mean()) if review.size else 0.0,
    }
