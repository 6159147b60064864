"""Rankings of several seeds as one, so that a paired comparison has all of them. In: rankings. Out: one ranking."""

from __future__ import annotations

import numpy as np

from tagwood import Ranking


def below_each_other(rankings: list[Ranking]) -> Ranking:
    """Return the rows of all rankings, one ranking after the other."""
    ends = np.cumsum([0, *(ranking.labels.size for ranking in rankings)])
    indptr = [ranking.indptr[1:] + end for ranking, end in zip(rankings, ends, strict=False)]
    parts = [np.concatenate([getattr(r, name) for r in rankings]) for name in ("labels", "scores")]
    return Ranking(np.concatenate([[0], *indptr]), *parts, rankings[0].n_labels)
