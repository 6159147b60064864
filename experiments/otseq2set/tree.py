"""The linear tree beside OTSeq2Set: the same rows, sets by the rule "f1", the best threshold, size or sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from experiments.otseq2set.data import Part, TextSet, set_measures
from tagwood import LinearTree, Ranking
from tagwood.features import TfidfEncoder
from tagwood.metrics import set_scores
from tagwood.probabilities.calibration import Calibrator
from tagwood.probabilities.sets import fit_set_rule, learn_size_cuts, sizes_by_cuts

K = 30
SIZES = range(1, 16)


def measure_tree(data: TextSet) -> dict[str, Any]:
    """Return the measures on test rows of each way to make sets; thresholds and sizes come from the held-out rows.

    The best threshold and size are chosen twice: by micro-F1, and by the error of the set size. Learned sizes come from
    sums of calibrated probabilities, as those of a generator from its steps.
    """
    encoder = TfidfEncoder(ngrams=(1, 2), threads=1)
    X = sparse.csr_array(encoder.fit_transform(data.train.texts))
    model = LinearTree(threads=1, seed=0).fit(X, data.train.Y)
    held, test = (model.rank(encoder.transform(part.texts), k=K) for part in (data.held, data.test))
    found: dict[str, Any] = {}
    half = np.arange(len(data.held.texts)) % 2 == 0
    first, second = (np.flatnonzero(side) for side in (half, ~half))
    frequencies = np.asarray(data.train.Y.sum(axis=0)).ravel()
    calibrator = Calibrator("context").fit(held.rows(first), data.held.Y[first], frequencies=frequencies)
    rule = fit_set_rule("f1", calibrator.transform(held.rows(second)), data.held.Y[second])
    found["f1"] = set_measures(data.test.Y, rule.apply(calibrator.transform(test))[0].to_csr())
    expected = [_sums(calibrator.transform(ranking)) for ranking in (held, test)]
    cuts = learn_size_cuts(expected[0], np.diff(data.held.Y.indptr), SIZES[-1])
    sizes = sizes_by_cuts(expected[1], cuts)
    found["learned sizes"] = set_measures(data.test.Y, _first(test, sizes))
    for title, cuts in (("threshold", _thresholds(held)), ("size", list(SIZES))):
        for aim in ("F1", "size_error"):
            best = max(cuts, key=lambda cut, t=title, a=aim: _worth(data.held, _sets(held, t, cut), a))
            sets = _sets(test, title, best)
            found[f"{title} for {aim}"] = {"cut": float(best), **set_measures(data.test.Y, sets)}
    return found


def _thresholds(ranking: Ranking) -> list[float]:
    return np.unique(np.quantile(ranking.scores, np.linspace(0.5, 0.999, 120))).tolist()


def _sets(ranking: Ranking, way: str, cut: float) -> sparse.csr_array:
    kept = ranking.above(cut) if way == "threshold" else ranking.top(int(cut))
    found = sparse.csr_array(kept.to_csr())
    found.data[:] = 1.0
    return found


def _sums(ranking: Ranking) -> NDArray[np.float64]:
    row = np.repeat(np.arange(ranking.n_rows), np.diff(ranking.indptr))
    return np.bincount(row, weights=ranking.scores, minlength=ranking.n_rows)


def _first(ranking: Ranking, sizes: NDArray[np.int64]) -> sparse.csr_array:
    """Return the first so many labels of each row."""
    row = np.repeat(np.arange(ranking.n_rows), np.diff(ranking.indptr))
    kept = np.arange(row.size) - ranking.indptr[row] < sizes[row]
    shape = (ranking.n_rows, ranking.n_labels)
    return sparse.csr_array((np.ones(kept.sum()), (row[kept], ranking.labels[kept])), shape=shape)


def _worth(part: Part, sets: sparse.csr_array, aim: str) -> float:
    if aim == "F1":
        return set_scores(part.Y, sets).f1
    return -float(np.abs(np.diff(part.Y.indptr) - np.diff(sets.indptr)).mean())
