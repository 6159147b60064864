"""Members of ensembles for tests: models with given scores, and a problem for which they need each other."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from tagwood import LinearTree, SoftmaxTree
from tagwood.ranking import Ranking


class Fixed:
    """A fitted model with given scores."""

    def __init__(self, scores=((0.0,),)):
        self.scores = scores
        self.table = np.asarray(scores, dtype=np.float32)
        self.n_labels_ = self.table.shape[1]

    def get_params(self, deep=True):
        return {"scores": self.scores}

    def fit(self, X, y):
        return self

    def rank(self, X, k=5):
        found = []
        for row in self.table:
            order = np.argsort(-row, kind="stable")[:k]
            found.append([(int(label), float(row[label])) for label in order])
        return Ranking.from_lists(found, self.n_labels_)

    def predict(self, X):
        return sparse.csr_array((self.table >= 0.5).astype(np.float32))


TEXTS = ["oak and ash leaves", "ash wood", "oak wood", "sea water", "salt water", "sea salt"] * 5
LABELS = [[0], [0], [0], [1], [1], [1]] * 5
NAMES = ["Tree", "Water", "Desert island"]


def members():
    return [LinearTree(threads=1), SoftmaxTree(tree="huffman", epochs=30, threads=1)]


def mixed_rows(n_rows=900, n_labels=400, seed=0):
    """Texts whose labels follow partly from words, which labels share, and partly from names; and the label names."""
    rng = np.random.default_rng(seed)
    names = [f"name{label}" for label in range(n_labels)]
    frequency = 1.0 / (3 + np.arange(n_labels))  # many labels have one row or none
    texts, labels = [], []
    for row in range(n_rows):
        own = rng.choice(n_labels, 2, replace=False, p=frequency / frequency.sum())
        words = [f"word{(label + rng.integers(3)) % n_labels}" for label in own for _ in range(2)]
        if row % 2:
            words.append(names[own[0]])
        if row % 3 == 0:
            words.append(names[rng.integers(n_labels)])
        words += [f"noise{number}" for number in rng.integers(0, 40, 4)]
        rng.shuffle(words)
        texts.append(" ".join(words))
        labels.append(sorted(int(label) for label in own))
    return texts, labels, names


def rows_of_families(n_rows=900, n_families=12, size=5, seed=0):
    """Texts that name two labels of a family, which are right, and one of another family, which is wrong."""
    rng = np.random.default_rng(seed)
    names = [f"name{label}" for label in range(n_families * size)]
    texts, labels = [], []
    for _ in range(n_rows):
        own, other = rng.choice(n_families, 2, replace=False)
        right = own * size + rng.choice(size, 2, replace=False)
        named = [*right, other * size + rng.integers(size)]
        rng.shuffle(named)
        texts.append(" ".join([*(names[label] for label in named), f"noise{rng.integers(50)}"]))
        labels.append(sorted(int(label) for label in right))
    return texts, labels, names
