"""Twins of the kernels in `cpp/candidates/name_evidence.cpp`, on dense arrays of one text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reference.names import match_names


def find_evidence(
    names: list[list[int]],
    labels: list[int],
    shared: list[int],
    weight: NDArray[np.float32],
    bags: NDArray[np.float32],
    related: NDArray[np.float32],
    text: list[int],
    suggested: list[tuple[int, float]],
    limits: tuple[float, float, float],
) -> dict[int, tuple[list[float], bool]]:
    """Return features and certainty of each label with evidence.

    `bags` are (n_words, n_labels), `related` (n_trained, n_labels); `limits` are least coverage, cosine and related.
    """
    best: dict[int, tuple[float, list[float], bool]] = {}
    for name, coverage, count, phrases, first in match_names(names, weight, limits[0], text):
        words = names[name]
        total = float(weight[words].sum())
        columns = [0, coverage, coverage > 0.9999, phrases > 0, np.log1p(max(count, phrases)), first]
        columns += [np.log1p(len(words)), total, np.log(shared[name]), coverage**2]
        certain = coverage > 0.9999 and phrases > 0 and len(words) == len(text)
        if labels[name] not in best or coverage * total > best[labels[name]][0]:
            best[labels[name]] = (coverage * total, columns, certain)
    known = sorted({word for word in text if word >= 0})
    length = max(float(np.linalg.norm(weight[known].astype(np.float64))), 1e-9)
    cosines = (weight[known, None].astype(np.float64) * bags[known]).sum(axis=0) / length
    similar = sum(
        (np.sqrt(score) * related[label].astype(np.float64) for label, score in suggested), np.zeros(bags.shape[1])
    )
    found = {}
    for label in range(bags.shape[1]):
        if label not in best and cosines[label] < limits[1] and similar[label] < limits[2]:
            continue
        _, columns, certain = best.get(label, (0.0, [1, *[0] * 9], False))
        root = float(np.sqrt(similar[label]))
        top = suggested[0][1] if suggested else 0.0
        found[label] = ([1, *columns, float(cosines[label]), root, 0 if label in best else root, top], certain)
    return found


def join_rankings(row: list[tuple[int, float]], others: list[tuple[int, float]], k: int) -> list[tuple[int, float]]:
    """Return the best `k` labels of one row of two rankings; labels of both keep the score of the first."""
    known = {label for label, _ in row}
    least = row[k - 1][1] if len(row) >= k else 0.0
    new = [(label, score) for label, score in others if label not in known and score > least]
    return sorted([*row[:k], *new], key=lambda one: (-one[1], one[0]))[:k]
