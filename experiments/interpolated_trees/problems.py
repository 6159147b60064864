"""The sets of the experiments with interpolated trees. In: names of folders in ../shared/data. Out: X, Y, V."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from benchmarks.problems import read_splits
from benchmarks.synthetic import power_law
from tagwood._sparse import normalize_rows
from tagwood.features import TfidfEncoder
from tagwood.features.base import label_centroids

SETS = (
    "eurlex57k",
    "tate-subjects",
    "debian-depends",
    "delicious",
    "tibkat-gnd-en",
    "cooking-stackexchange",
    "yso-titles",
)


class Problem:
    """A set as features and labels, with its label features; labels without training rows are left out."""

    def __init__(self, name: str, n_rows: int | None, threads: int, encoder: TfidfEncoder | None = None) -> None:
        self.name, self.threads = name, threads
        self.encoder: TfidfEncoder | None = None
        self.test_texts: list[str] = []
        train, test = read_splits(name)
        if train.texts is None:
            self.X, self.X_test = normalize_rows(train.features), normalize_rows(test.features)
        else:
            self.encoder = TfidfEncoder(ngrams=(1, 1), threads=threads) if encoder is None else encoder
            self.X, self.X_test = self.encoder.fit_transform(train.texts), self.encoder.transform(test.texts)
            self.test_texts = list(test.texts or ())
        self.Y, self.Y_test = train.labels, test.labels
        if n_rows is not None:
            self.X, self.Y = self.X[:n_rows], self.Y[:n_rows]
        self.V = label_centroids(self.X, self.Y, max_features=512, threads=threads)
        labelled = np.flatnonzero(np.diff(self.Y_test.indptr))
        self.X_test, self.Y_test = self.X_test[labelled], self.Y_test[labelled]


def synthetic_problem(n_labels: int) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return label features and label sets of a power-law problem with statistics of a product catalogue."""
    problem = power_law(int(0.6 * n_labels), 1, n_labels, n_labels // 2, nnz_per_row=40, exponent=0.8)
    return label_centroids(problem.X_train, problem.Y_train), problem.Y_train
