"""Twins of the kernels in `cpp/candidates/names.cpp`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def prefix_words(names: list[list[int]], weight: NDArray[np.float32], min_coverage: float) -> list[list[int]]:
    """Return for each word the names that are looked up by it."""
    by_word: list[list[int]] = [[] for _ in weight]
    for name, words in enumerate(names):
        total = left = float(weight[words].sum())
        for word in sorted(set(words), key=lambda word: (-weight[word], word)):
            if left < min_coverage * total * 0.9999:
                break
            by_word[word].append(name)
            left -= float(weight[word]) * words.count(word)
    return by_word


def match_names(
    names: list[list[int]], weight: NDArray[np.float32], min_coverage: float, text: list[int]
) -> list[tuple[int, float, int, int, float]]:
    """Return name, coverage, count, phrases and first of every name that matches a text; every name is compared."""
    found = []
    for name, words in enumerate(names):
        inside = [word for word in words if word in text]
        total, covered = float(weight[words].sum()), float(weight[inside].sum())
        if not inside or covered < min_coverage * total:
            continue
        count = min(text.count(word) for word in inside)
        starts = range(len(text) - len(words) + 1)
        phrases = sum(text[start : start + len(words)] == words for start in starts)
        first = min(text.index(word) for word in inside) / len(text)
        found.append((name, covered / total if total > 0 else 0.0, count, phrases, first))
    return found
