"""Twins of the kernels in `cpp/candidates/index.cpp`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]


def build_index(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], data: NDArray[np.float32], n_features: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8], NDArray[np.float32]]:
    """Return per feature its rows, rising, with weights in 255ths of the feature's largest."""
    row = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    order = np.lexsort((row, indices))
    largest = np.zeros(n_features, dtype=np.float32)
    np.maximum.at(largest, indices, data)
    scale = largest * np.float32(1 / 255)
    unit = scale[indices[order]]
    codes = np.floor(np.divide(data[order], unit, out=np.zeros_like(unit), where=unit > 0) + np.float32(0.5))
    ptr = np.concatenate([[0], np.cumsum(np.bincount(indices, minlength=n_features))]).astype(np.int64)
    return ptr, row[order].astype(np.int32), np.clip(codes, 1, 255).astype(np.uint8), scale


def nearest_rows(
    index: tuple[Any, ...], n_rows: int, dead: NDArray[np.uint8], queries: Any, k: int, neglected: float = 0.0
) -> Places:
    """Return the best `k` rows of each query; every row is compared, by the first features of the query."""
    ptr, rows, codes, scale = index
    n_features = scale.size
    dense = np.zeros((n_rows, n_features))
    dense[rows, np.repeat(np.arange(n_features), np.diff(ptr))] = codes * np.repeat(scale, np.diff(ptr))
    indptr, indices, data = queries
    ids, scores, found = [], [], []
    for begin, end in pairwise(indptr):
        squares = np.cumsum(data[begin:end][::-1].astype(np.float64) ** 2)
        if neglected > 0 and squares.size:
            end -= np.searchsorted(squares, neglected * squares[-1], side="right")
        sums = dense[:, indices[begin:end]] @ data[begin:end]
        best = [row for row in np.lexsort((np.arange(n_rows), -sums)) if sums[row] > 0]
        best = [row for row in best if not dead.size or not dead[row]][:k]
        ids.append(np.pad(best, (0, k - len(best))))
        scores.append(np.pad(sums[best], (0, k - len(best))))
        found.append(len(best))
    return np.array(ids, dtype=np.int32), np.array(scores, dtype=np.float32), np.array(found, dtype=np.int32)


def vote_labels(
    rows: NDArray[np.int32],
    weights: NDArray[np.float32],
    found: NDArray[np.int32],
    labels: list[list[int]],
    blocked: NDArray[np.uint8],
    k: int,
) -> list[list[tuple[int, float]]]:
    """Return the best `k` labels of each query with their sums of weights; ties go to the smaller label."""
    answers = []
    for row, weight, n in zip(rows, weights, found, strict=True):
        sums: dict[int, float] = {}
        for place in range(n):
            for label in labels[row[place]]:
                if not blocked.size or not blocked[label]:
                    sums[label] = sums.get(label, 0.0) + float(weight[place])
        answers.append(sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:k])
    return answers


def boosted_sums(
    roots: NDArray[np.int64],
    feature: NDArray[np.int32],
    threshold: NDArray[np.float64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    missing_left: NDArray[np.uint8],
    value: NDArray[np.float64],
    rows: NDArray[np.float32],
    start: float,
) -> NDArray[np.float64]:
    """Return the sum of the leaves that each row reaches; NaN goes where `missing_left` says."""
    sums = np.full(len(rows), start)
    for row, x in enumerate(rows):
        for node in roots:
            while feature[node] >= 0:
                own = x[feature[node]]
                to_left = missing_left[node] if np.isnan(own) else own <= threshold[node]
                node = left[node] if to_left else right[node]
            sums[row] += value[node]
    return sums


def gather_candidates(
    rankings: list[list[list[tuple[int, float]]]], counts: NDArray[np.int64], lengths: list[int], found_among: int
) -> list[dict[int, NDArray[np.float32]]]:
    """Return for each row its candidates and their features; see `cpp/candidates/gather.hpp`."""
    answers = []
    for row, length in enumerate(lengths):
        features: dict[int, NDArray[np.float32]] = {}
        for member, ranking in enumerate(rankings):
            for place, (label, score) in enumerate(ranking[row]):
                own = features.setdefault(label, np.full(3 * len(rankings) + 3, np.nan, dtype=np.float32))
                best = np.float32(ranking[row][0][1])
                own[3 * member : 3 * member + 3] = score, np.log1p(place), np.float32(score) / (best if best else 1)
                own[-3] = np.nan_to_num(own[-3]) + (place < found_among)
                own[-2:] = np.log1p(counts[label]), np.log1p(length)
        answers.append(dict(sorted(features.items())))
    return answers


def candidate_context(
    indptr: NDArray[np.int64], labels: NDArray[np.int32], logits: NDArray[np.float64], Y: NDArray[np.float32], k: int
) -> tuple[list[int], list[list[float]], list[int]]:
    """Return the best `k` candidates of each row, their features and partners; see `cpp/candidates/context.hpp`.

    `Y` (n_rows, n_labels) are the rows in which pairs are counted, all of them.
    """
    counts, n_rows = Y.T @ Y, len(Y)
    entries, features, partners = [], [], []
    for begin, end in pairwise(indptr.tolist()):
        own = sorted(range(begin, end), key=lambda entry: (-logits[entry], entry))[:k]
        p = [1 / (1 + np.exp(-logits[entry])) for entry in own]
        for place, entry in enumerate(own):
            given, lifts, back, told = [0.0], [0.0], 0.0, [(0.0, -1)]
            for other, weight in zip(own, p, strict=True):
                if other == entry or weight < 0.01:
                    continue
                i, j = labels[entry], labels[other]
                prior = (counts[i, i] + 1) / (n_rows + 1)
                given.append(weight * counts[i, j] / (counts[j, j] + 1))
                lifts.append(weight * np.log((counts[i, j] + 5 * prior) / ((counts[j, j] + 5) * prior)))
                back += weight * counts[i, j] / (counts[i, i] + 1)
                told.append((abs(lifts[-1]), int(j)))
            z = [logits[one] for one in own]
            next_one, previous = z[min(place + 1, len(z) - 1)], z[max(place - 1, 0)]
            others = sum(p) - p[place] + 0.1
            row = [z[place], place, z[place] - next_one, previous - z[place], z[0], sum(p), sum(p[:place])]
            row += [sum(given), max(given), sum(lifts), max(lifts), min(lifts), back]
            entries.append(entry)
            features.append([*row, sum(given) / others, sum(lifts) / others])
            partners.append(max(told, key=lambda one: one[0])[1])
    return entries, features, partners
