"""Label frequencies in the training data: propensities after Jain et al. 2016, and head, torso and tail.

In: training labels or their `LabelCounts`. Out: one inverse propensity per label, the weight of a hit on that label in
PSP@k, PSR@k and PSnDCG@k, which is larger for rare labels; or three `LabelSlice`s for ``evaluate(slices=True)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import check_finite, check_float, check_int, name_hint
from tagwood._sparse import check_labels
from tagwood.errors import InputError

Propensity = str | tuple[float, float] | ArrayLike

PRESETS: dict[str, tuple[float, float]] = {
    "default": (0.55, 1.5),
    "wikipedia": (0.5, 0.4),
    "amazon": (0.6, 2.6),
}
"""The constants (A, B) of the Extreme Classification Repository, by kind of data."""
# Sets of the repository by kind, as its papers evaluate them; see-also links are not Wikipedia's categories.
_DATASETS = {
    "default": (
        *("bibtex", "delicious", "mediamill", "eurlex-4k", "eurlex-4.3k", "wiki10-31k", "deliciouslarge-200k"),
        *("amazoncat-13k", "amazoncat-14k", "lf-wikiseealso-320k", "lf-wikiseealsotitles-320k"),
    ),
    "wikipedia": (
        *("wikilshtc-325k", "wiki-500k", "wikipedia-500k", "wikititles-500k", "lf-wikipedia-500k"),
        *("lf-wikititles-500k", "wikipedialarge-500k"),
    ),
    "amazon": (
        *("amazon-670k", "amazontitles-670k", "amazon-3m", "amazontitles-3m", "amazon-131k", "amazontitles-131k"),
        *("lf-amazon-131k", "lf-amazontitles-131k", "lf-amazontitles-1.3m", "amazontitles-1.3m"),
    ),
}
DATASET_PRESETS = {name: PRESETS[kind] for kind, names in _DATASETS.items() for name in names}
"""The constants (A, B) by the name of a dataset, in lower case."""


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """How often each label occurs in the training data."""

    counts: NDArray[np.int64]  # (n_labels,) number of training rows of each label
    n_rows: int  # number of training rows

    def __post_init__(self) -> None:
        check_int(self.n_rows, "n_rows", low=1)
        counts = np.asarray(self.counts)
        if counts.ndim != 1 or counts.dtype.kind not in "iu" or np.any(counts < 0):
            raise InputError(
                "counts must have one non-negative integer for each label",
                given=f"shape {counts.shape} of type {counts.dtype}",
            )
        if counts.size and counts.max() > self.n_rows:
            raise InputError(f"counts must not exceed the {self.n_rows:,} training rows", given=f"{counts.max():,}")
        object.__setattr__(self, "counts", counts.astype(np.int64))

    @classmethod
    def of(cls, labels: Any) -> LabelCounts:
        """Count the labels of an (n_rows, n_labels) matrix of 0 and 1, or pass counts through."""
        if isinstance(labels, LabelCounts):
            return labels
        matrix = check_labels(labels, name="train_labels")
        return cls(np.bincount(matrix.indices, minlength=matrix.shape[1]), int(matrix.shape[0]))

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.counts.size


def inverse_propensity(train_labels: Any, propensity: Propensity = "default") -> NDArray[np.float64]:
    """Return the inverse propensity of each label: 1 + C (N_l + B)^-A with C = (ln N - 1)(B + 1)^A.

    N is the number of training rows, N_l the number of those that have label l. C is at least 0, so that
    with one or two training rows no hit weighs less than 1.

    Parameters
    ----------
    train_labels
        (N, n_labels) training labels, or their `LabelCounts`. May be None if `propensity` is an array.
    propensity
        A preset (``"default"``, ``"wikipedia"`` for data from Wikipedia, ``"amazon"`` for products), the name of a
        dataset (a key of `DATASET_PRESETS`, in any case), a pair (A, B), or an array of n_labels inverse propensities,
        which is returned.

    Examples
    --------
    >>> inverse_propensity(LabelCounts(np.array([0, 1, 1000]), n_rows=1000)).round(3)
    array([8.824, 6.908, 1.219])
    """
    if not isinstance(propensity, str | tuple):
        return _given(propensity)
    a, b = _constants(propensity)
    if train_labels is None:
        raise InputError(
            "propensities require the label frequencies in the training data",
            hint="Pass train_labels, or the inverse propensities as an array.",
        )
    counts = LabelCounts.of(train_labels)
    c = max(0.0, np.log(counts.n_rows) - 1.0) * (b + 1.0) ** a
    weights: NDArray[np.float64] = 1.0 + c * (counts.counts + b) ** -a
    return weights


def describe_propensity(propensity: Propensity) -> str:
    """Return a short description of the propensities, such as ``amazon (A=0.6, B=2.6)``."""
    if not isinstance(propensity, str | tuple):
        return "given"
    a, b = _constants(propensity)
    pair = f"A={a:g}, B={b:g}"
    return f"{propensity} ({pair})" if isinstance(propensity, str) else pair


@dataclass(frozen=True, eq=False)
class LabelSlice:
    """Labels of similar frequency."""

    name: str  # ``"head"``, ``"torso"`` or ``"tail"``
    mask: NDArray[np.bool_]  # (n_labels,) whether a label belongs to it
    # rarest, commonest: smallest and largest number of training rows of its labels; 0 and 0 if it has none
    rarest: int
    commonest: int

    @property
    def n_labels(self) -> int:
        """Number of labels in the slice."""
        return int(self.mask.sum())


def frequency_slices(train_labels: LabelCounts) -> tuple[LabelSlice, LabelSlice, LabelSlice]:
    """Split the labels into head, torso and tail, each with about a third of all label occurrences in training.

    A label is in the head if more frequent labels have less than a third of the occurrences, in the torso if they have
    less than two thirds, and in the tail otherwise, so that labels of equal frequency stay together. Labels that are
    not in the training data are in the tail.

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
    head, torso, tail = (_slice(name, place == i, counts) for i, name in enumerate(("head", "torso", "tail")))
    return head, torso, tail


def _constants(propensity: str | tuple[float, float]) -> tuple[float, float]:
    if isinstance(propensity, str):
        known = PRESETS.get(propensity) or DATASET_PRESETS.get(propensity.lower().replace("_", "-"))
        if known is None:
            raise InputError(
                f"propensity must be one of {', '.join(map(repr, PRESETS))}, or the name of a dataset",
                given=repr(propensity),
                hint=name_hint(propensity.lower(), [*PRESETS, *DATASET_PRESETS]),
            )
        return known
    if len(propensity) != 2:
        raise InputError("propensity as a tuple must be the pair (A, B)", given=f"{len(propensity)} numbers")
    a, b = propensity
    return check_float(a, "A of the propensity", low=0.0), check_float(b, "B of the propensity", above=0.0)


def _given(values: ArrayLike) -> NDArray[np.float64]:
    weights = np.asarray(values)
    if weights.ndim != 1 or weights.dtype.kind not in "fiu":
        raise InputError(
            "propensity must be a preset, a pair (A, B) or an array with one number per label",
            given=f"{type(values).__name__} of shape {weights.shape}",
        )
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    check_finite(weights, "propensity")
    if weights.size and weights.min() <= 0:
        raise InputError("inverse propensities must be greater than 0", given=str(weights.min()))
    return weights


def _slice(name: str, mask: NDArray[np.bool_], counts: NDArray[np.int64]) -> LabelSlice:
    inside = counts[mask]
    low, high = (int(inside.min()), int(inside.max())) if inside.size else (0, 0)
    return LabelSlice(name, mask, low, high)
