"""From what a decoder generated to rankings and sets. In: labels, step probabilities. Out: a `Ranking`, a matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from tagwood.neural.set_decoding import Generated
from tagwood.neural.set_output import Columns
from tagwood.ranking import Ranking


def best_labels(
    made: Generated, columns: Columns | None, k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the (n_rows, k) best labels and their scores, -1 and 0 where there are fewer.

    A generated label has the probability of its step, any other one its best probability in a step.
    """
    scores = made.best[:, :-1].clone()  # without ∅ or the end
    said = made.labels >= 0
    place = made.labels if columns is None else columns.places(made.labels.clamp_min(0))
    row = torch.arange(said.shape[0], device=said.device)[:, None].expand_as(said)
    scores[row[said], place[said]] = made.log_probs.exp()[said]
    if columns is not None:
        scores.masked_fill_(~columns.allowed[:, :-1], -1.0)
    value, column = torch.sort(scores, dim=1, descending=True, stable=True)
    value, column = value[:, :k], column[:, :k]
    names = column if columns is None else columns.labels.gather(1, column)
    return torch.where(value >= 0, names, -1).cpu().numpy(), value.clamp_min(0.0).cpu().numpy()


def join_places(
    found: Sequence[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]], n_labels: int
) -> Ranking:
    """Return the ranking of rows that were found in parts, each with the places of its rows."""
    if not found:
        return Ranking(np.zeros(1, dtype=np.int64), np.empty(0, np.int32), np.empty(0, np.float32), n_labels)
    width = max(labels.shape[1] for _, labels, _ in found)
    n_rows = sum(places.size for places, _, _ in found)
    labels = np.full((n_rows, width), -1, dtype=np.int32)
    scores = np.zeros((n_rows, width), dtype=np.float32)
    for places, some, values in found:
        labels[places, : some.shape[1]], scores[places, : some.shape[1]] = some, values
    real = labels >= 0
    indptr = np.concatenate([[0], np.cumsum(real.sum(axis=1))])
    return Ranking(indptr, labels[real], scores[real], n_labels)


def generated_cells(places: NDArray[np.int64], made: Generated) -> NDArray[np.int64]:
    """Return the (2, n) rows and labels of what was generated for the rows at `places`."""
    labels = made.labels.cpu().numpy()
    row, step = np.nonzero(labels >= 0)
    return np.stack([places[row], labels[row, step]])


def sized_cells(
    places: NDArray[np.int64],
    labels: NDArray[np.int64],
    scores: NDArray[np.float32],
    sizes: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the (2, n) rows and labels of the first so many of what `best_labels` found for the rows at `places`."""
    row, rank = np.nonzero((labels >= 0) & (scores > 0) & (np.arange(labels.shape[1]) < sizes[:, None]))
    return np.stack([places[row], labels[row, rank]])


def join_cells(cells: Sequence[NDArray[np.int64]], n_rows: int, n_labels: int) -> sparse.csr_array:
    """Return the label sets of all rows as an (n_rows, n_labels) array of ones."""
    row, label = np.concatenate([np.empty((2, 0), dtype=np.int64), *cells], axis=1)
    sets = sparse.csr_array((np.ones(row.size, dtype=np.float32), (row, label)), shape=(n_rows, n_labels))
    sets.sort_indices()
    return sets
