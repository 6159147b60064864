"""Which prototypes suit the data: trainings on a part of the labels, compared on held-out rows.

In: texts, label sets, label texts, and a function that makes a model. Out: the best of the ways to make prototypes.

Decisions
---------
* Whether a prototype should lean on its centroid depends on how much label texts say and how many queries a label has
  (docs/experiments/prime.md), and no simple count tells it. So it is tried, against label texts alone too: ``"none"``
  is the plain dual encoder here, without free vectors, with each of the two margins: which one is better for label
  texts differs from set to set (0.1 on YSO titles, 0.3 on packages), while prototypes want the large one.
* Centroids are taken only if they beat label texts by more than one standard error of the paired difference: they make
  a model larger, and on YSO titles a lead of 0.2 points of nDCG@5 in a trial became a loss of P@1 on test rows.
* A trial is the whole training, on fewer rows. Trials of a few steps chose wrongly: the harm that a centroid does by
  containing the query that is compared with it grows while the encoder learns to find itself there.
* The part is made of labels, with all rows that have one of them: fewer rows per label would change the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._sparse import check_labels
from tagwood.metrics import compare, evaluate
from tagwood.ranking import Ranking

LOW_MARGIN = "none, low margin"
CANDIDATES = ("leave-one-out", "momentum", "none", LOW_MARGIN)
_ONE_ERROR = 0.683  # confidence of an interval of one standard error on each side
TRIAL_ROWS = 10_000
_MEASURE = "nDCG@5"
FEWEST_ROWS = 200  # with fewer rows, a trial says nothing: the first candidate is taken
_HELD_OUT = 0.2


class Ranker(Protocol):
    """What a trial trains."""

    def rank(self, texts: list[str], k: int = 5) -> Ranking:
        """Rank labels."""
        ...


class Part(NamedTuple):
    """Rows and labels of a trial, and which of the rows are held out."""

    labels: NDArray[np.int64]
    train: NDArray[np.int64]
    held: NDArray[np.int64]


def draw_part(Y: sparse.csr_array, n_rows: int, seed: int) -> Part:
    """Return some labels with all their rows, about `n_rows` of them."""
    random = np.random.default_rng([seed, 20])
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    order = random.permutation(np.flatnonzero(counts))
    last = int(np.searchsorted(np.cumsum(counts[order]), n_rows)) + 1
    labels = np.sort(order[:last])
    rows = np.flatnonzero(np.diff(check_labels(Y[:, labels]).indptr))
    mixed = random.permutation(rows)[: 2 * n_rows]  # a label may stand on very many rows
    cut = round(_HELD_OUT * mixed.size)
    return Part(labels, np.sort(mixed[cut:]), np.sort(mixed[:cut]))


def choose_centroids(
    texts: list[str],
    Y: sparse.csr_array,
    label_texts: list[str],
    fit: Callable[[str, list[str], sparse.csr_array, list[str]], Ranker],
    *,
    candidates: Sequence[str] = CANDIDATES,
    seed: int = 0,
    progress: Callable[[str, float], None] | None = None,
) -> tuple[str, dict[str, float]]:
    """Return the candidate that is best on held-out rows, and the nDCG@5 of each.

    `fit` takes a candidate, texts, label sets and label texts, and returns a trained model.
    """
    if np.count_nonzero(np.diff(Y.indptr)) < FEWEST_ROWS:
        return candidates[0], {}
    part = draw_part(Y, TRIAL_ROWS, seed)
    train, held = check_labels(Y[part.train][:, part.labels]), check_labels(Y[part.held][:, part.labels])
    names = [label_texts[label] for label in part.labels]
    rows, held_texts = ([texts[row] for row in chosen] for chosen in (part.train, part.held))
    rankings: dict[str, Ranking] = {}
    for number, kind in enumerate(candidates):
        if progress is not None:
            progress(f"trial of centroids: {kind}", number / len(candidates))
        rankings[kind] = fit(kind, rows, train, names).rank(held_texts, k=5)
    measures = {
        kind: float(evaluate(held, found, metrics=[_MEASURE])[_MEASURE]) for kind, found in rankings.items()
    }
    return best_kind(held, rankings, measures), measures


def best_kind(Y: sparse.csr_array, rankings: dict[str, Ranking], measures: dict[str, float]) -> str:
    """Return the candidate with the best measure, or that of label texts alone where its lead may be luck."""
    best, plain = (
        max(names, key=lambda name: measures[name])
        for names in (measures, [name for name in measures if name in ("none", LOW_MARGIN)])
    )
    if best == plain:
        return best
    lead = compare(Y, rankings[plain], rankings[best], metrics=[_MEASURE], confidence=_ONE_ERROR, threads=1)[
        _MEASURE
    ]
    return best if lead.low > 0 else plain
