"""What `PrototypeModel` is given, checked; rows held out for early stopping; the threshold of its label sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from tagwood.errors import InputError
from tagwood.features.texts import check_texts
from tagwood.metrics import evaluate
from tagwood.ranking import Ranking

_HELD_OUT = 0.1  # of the rows
_MOST_HELD_OUT = 2000


def check_label_texts(label_texts: Iterable[str] | None, n_labels: int) -> list[str]:
    """Return one text per label, or say what is missing."""
    if label_texts is None:
        raise InputError(
            f"a PrototypeModel needs label_texts: one text for each of the {n_labels:,} labels",
            given="none",
            hint="Pass the labels' names: fit(texts, Y, label_texts=names).",
        )
    listed = list(check_texts(label_texts))
    if len(listed) != n_labels:
        raise InputError(
            f"label_texts must hold one text for each of the {n_labels:,} labels", given=f"{len(listed):,}"
        )
    return listed


def hold_out(
    texts: list[str], Y: sparse.csr_array, seed: int
) -> tuple[list[str], sparse.csr_array, Callable[[Any], float]]:
    """Return the rows to train on, and P@1 on the others as a measure of a model."""
    order = np.random.default_rng([seed, 10]).permutation(len(texts))
    cut = max(1, min(_MOST_HELD_OUT, round(_HELD_OUT * len(texts))))
    held, rest = np.sort(order[:cut]), np.sort(order[cut:])
    known = Y[rest]
    if known.nnz == 0:
        raise InputError(
            "early stopping needs rows with labels to train on, and others to measure on",
            given=f"{len(texts):,} rows",
            hint="Set patience=0.",
        )
    held_texts, true = [texts[row] for row in held], Y[held]

    def measure(model: Any) -> float:
        return float(evaluate(true, model.rank(held_texts, k=1), metrics=["P@1"])["P@1"])

    return [texts[row] for row in rest], known, measure


def label_ids(labels: ArrayLike | None) -> list[int] | None:
    """Return label ids as a list; None stays None."""
    return None if labels is None else [int(label) for label in np.atleast_1d(np.asarray(labels))]


def usual_threshold(ranking: Ranking, n_true: int) -> float:
    """Return the score above which rows together have as many labels as they should.

    Examples
    --------
    >>> usual_threshold(Ranking.from_lists([[(0, 0.75), (1, 0.25)], [(1, 0.5)]], n_labels=2), 2)
    0.5
    """
    if ranking.scores.size == 0:
        return 0.0
    return float(np.sort(ranking.scores)[::-1][max(0, min(n_true, ranking.scores.size) - 1)])
