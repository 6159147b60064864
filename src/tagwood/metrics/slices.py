"""Head, torso and tail: labels by how often they stand in the training data.

In: `LabelCounts`. Out: three masks over the labels; `evaluate(slices=True)` reports each metric for each of
them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tagwood.metrics.propensity import LabelCounts

SLICE_NAMES = ("head", "torso", "tail")


@dataclass(frozen=True, eq=False)
class LabelSlice:
    """Labels of similar frequency.

    Parameters
    ----------
    name
        ``"head"``, ``"torso"`` or ``"tail"``.
    mask
        (n_labels,) whether a label belongs to it.
    rarest, commonest
        Smallest and largest number of training rows of its labels; 0 and 0 if it has none.
    """

    name: str
    mask: NDArray[np.bool_]
    rarest: int
    commonest: int

    @property
    def n_labels(self) -> int:
        """Number of labels in the slice."""
        return int(self.mask.sum())


def frequency_slices(train_labels: LabelCounts) -> tuple[LabelSlice, LabelSlice, LabelSlice]:
    """Cut the labels into head, torso and tail, each with about a third of all label occurrences in training.

    A label is in the head if the labels that are more frequent than it make up less than a third of the
    occurrences, in the torso below two thirds, and in the tail otherwise; so labels of equal frequency stay
    together. Labels that never stand in the training data are in the tail.

    Examples
    --------
    >>> slices = frequency_slices(LabelCounts(np.array([0, 60, 20, 20, 20]), n_rows=60))
    >>> [(s.name, s.n_labels, s.rarest, s.commonest) for s in slices]
    [('head', 1, 60, 60), ('torso', 3, 20, 20), ('tail', 1, 0, 0)]
    """
    counts = train_labels.counts
    values, group, size = np.unique(counts, return_inverse=True, return_counts=True)
    volume = (values * size)[::-1].cumsum()[::-1]  # occurrences of labels at least as frequent
    above = (volume - values * size)[group]
    total = int(counts.sum())
    place = np.where(3 * above < total, 0, np.where(3 * above < 2 * total, 1, 2))
    place[counts == 0] = 2
    head, torso, tail = (_slice(name, place == i, counts) for i, name in enumerate(SLICE_NAMES))
    return head, torso, tail


def _slice(name: str, mask: NDArray[np.bool_], counts: NDArray[np.int64]) -> LabelSlice:
    inside = counts[mask]
    low, high = (int(inside.min()), int(inside.max())) if inside.size else (0, 0)
    return LabelSlice(name, mask, low, high)
