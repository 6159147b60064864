"""Members of ensembles for tests: models with given scores, and two that learn six short texts."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from tagwood import LinearTree, SoftmaxTree
from tagwood.ranking import Ranking


class Fixed:
    """A fitted model with given scores; knows the scores of all labels if `complete`."""

    def __init__(self, scores=((0.0,),), complete=True):
        self.scores = scores
        self.complete = complete
        self.table = np.asarray(scores, dtype=np.float32)
        self.n_labels_ = self.table.shape[1]
        if complete:
            self.score_labels = lambda X, pairs: self.table[pairs[:, 0], pairs[:, 1]]

    def get_params(self, deep=True):
        return {"scores": self.scores, "complete": self.complete}

    def fit(self, X, Y):
        return self

    def rank(self, X, k=5, *, restrict=None, exclude=None):
        kept = self.table.copy()
        columns = np.arange(self.n_labels_)
        allowed = columns if restrict is None else np.asarray(restrict)
        found = []
        for row in kept:
            order = [label for label in np.argsort(-row, kind="stable") if label in allowed][:k]
            found.append([(int(label), float(row[label])) for label in order])
        return Ranking.from_lists(found, self.n_labels_)

    def predict(self, X):
        return sparse.csr_array((self.table >= 0.5).astype(np.float32))


TEXTS = ["oak and ash leaves", "ash wood", "oak wood", "sea water", "salt water", "sea salt"] * 5
LABELS = [[0], [0], [0], [1], [1], [1]] * 5


def members():
    return [LinearTree(threads=1), SoftmaxTree(tree="huffman", epochs=30, threads=1)]
