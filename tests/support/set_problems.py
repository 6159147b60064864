"""Rows whose labels are right with known probabilities: the truth that calibrators and set rules should find."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from tagwood.ranking import Ranking


def known_probabilities(
    n_rows: int, *, seed: int, n_labels: int = 8, power: float = 1.0, hard: float = 1.5
) -> tuple[Ranking, Ranking, sparse.csr_array]:
    """Return scores (probability ** power), the true probabilities in the same order, and labels drawn from them.

    Rows share a difficulty, so labels of a row are right or wrong together; `hard` moves all probabilities down.
    """
    random = np.random.default_rng(seed)
    odds = random.normal(size=(n_rows, 1)) + 2 * random.normal(size=(n_rows, n_labels)) - hard
    truth = 1 / (1 + np.exp(-odds))
    Y = sparse.csr_array((random.random(truth.shape) < truth).astype(np.float32))
    probabilities = Ranking.from_csr(sparse.csr_array(truth))
    scores = Ranking(probabilities.indptr, probabilities.labels, probabilities.scores**power, probabilities.n_labels)
    return scores, probabilities, Y
