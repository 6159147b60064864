"""Interpolated label trees: one knob λ from like-with-like to frequent-near-the-root.

In: label features V and label frequencies. Out: a `LabelTree` that a model searches faster for frequent labels.

Decisions
---------
* f(λ) and the objective (4) are the paper's, with f and f̃ renormalised inside each node; α is rounded after every step.
  Rounding may cost more than the step gained: then the step is taken back, so the objective never falls.
* The fractional label of Lemma 1 goes to the nearer side, to the left if both are equally near; labels with equal keys
  stand in order of their numbers. Neither side ends empty.
* `direct` is described in the paper in words only. Here it is f(λ) = (1−λ/2)/L + λ/2 f̃, smoothed, and λ/2 as the
  weight of the coding term: the same trees as without it at λ=0 and λ=2.
* Wide nodes (`arity` above 2) open the most frequent branches first. At λ=0, where frequencies do not count, they are
  the whole generations of `build_balanced_tree`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagwood._check import check_choice, check_float, check_threads
from tagwood._sparse import check_features, csr_parts
from tagwood.errors import InputError
from tagwood.trees.balanced import split_labels, tree_from_splits
from tagwood.trees.frequencies import CONSTRUCTIONS, as_frequencies
from tagwood.trees.joins import join_by_frequency
from tagwood.trees.label_tree import LabelTree

# The paper's λ′ for linear trees; `lambda_grid` turns them into λ.
PAPER_GRID = (0.0, 0.5, 1.0, 2.0, 6.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 100000.0)


def build_interpolated_tree(
    V: Any,
    Y_or_frequencies: Any,
    *,
    lam: float = 1.0,
    arity: int = 2,
    max_leaf_size: int = 100,
    gamma: float = 0.1,
    direct: bool = False,
    frequencies: str = "marginal",
    seed: int = 0,
    threads: int | None = None,
) -> LabelTree:
    """Split labels so that like labels stay together and frequent ones come near the root, weighed by `lam`.

    Parameters
    ----------
    V
        (n_labels, n_features) label features with rows of norm 1, as from
        `tagwood.features.label_features.label_centroids`.
    Y_or_frequencies
        (n_rows, n_labels) label sets to count, one number per label, or `LabelFrequencies`.
    lam
        λ from 0 to 2. 0: balanced 2-means, frequencies do not count. 1: both halves of a split are equally frequent.
        2: Fano coding, features do not count. Values up to 1 usually cost no precision.
    arity
        Largest number of children of a node, a power of two. 2 as in the paper; 16 is faster to search.
    max_leaf_size
        Largest number of labels in a leaf.
    gamma
        Smoothing of the frequencies, against labels that are rarer in training than later.
    direct
        Go from 0 to 2 straight, without the stop at 1.
    frequencies
        How f̃ is counted from label sets, see `label_frequencies`. It matters for λ above 1 and for `direct`.
    seed, threads
        Same seed, same tree, for any number of threads.

    Examples
    --------
    >>> V = [[1.0, 0], [0, 1], [1, 0], [0, 1]]
    >>> tree = build_interpolated_tree(V, [7, 1, 2, 1], lam=1.0, max_leaf_size=1)
    >>> tree.label_depths().tolist()
    [1, 3, 2, 3]
    """
    parts = csr_parts(check_features(V, name="V"))
    check_float(lam, "lam", low=0, high=2)
    check_float(gamma, "gamma", low=0)
    check_choice(frequencies, "frequencies", CONSTRUCTIONS)
    counted = as_frequencies(Y_or_frequencies, frequencies)
    if counted.n_labels != parts.n_rows:
        raise InputError(
            f"label frequencies must be given for the {parts.n_rows:,} labels of V",
            given=f"{counted.n_labels:,}",
        )
    nodes = split_labels(
        parts,
        counted.marginal,
        counted.coding,
        lam=float(lam),
        gamma=float(gamma) if lam > 0 else 0.0,  # equal weights stay equal
        direct=bool(direct),
        max_leaf_size=max_leaf_size,
        seed=seed,
        threads=check_threads(threads),
    )
    if lam == 0 or arity == 2:
        return tree_from_splits(*nodes, arity=arity)
    return join_by_frequency(*nodes, frequency=counted.marginal, arity=arity)


def lambda_grid(points: ArrayLike = PAPER_GRID) -> NDArray[np.float64]:
    """Return λ = 2λ′ / (1 + λ′) for λ′ from 0 up: an even choice of trees from λ=0 towards 2.

    Examples
    --------
    >>> lambda_grid([0, 1, 3]).tolist()
    [0.0, 1.0, 1.5]
    """
    raw = np.asarray(points, dtype=np.float64)
    if raw.size and not (raw.min() >= 0 and np.isfinite(raw).all()):
        raise InputError("λ′ must be finite and not negative", given=str(raw.min()))
    result: NDArray[np.float64] = 2 * raw / (1 + raw)
    return result
