"""How many labels a text has, learned from held-out rows. In: expected numbers of labels, true ones. Out: sizes.

Decisions
---------
* A decoder's own sizes depend on the weight of ∅ and on how sure an overfitted network is. What keeps its order is the
  expected number of labels: the sum over the steps of the probability that a label is said, the weight of ∅ undone.
* The size is the number of cuts that the expected number exceeds. The absolute error of a size is the number of cuts
  on the wrong side, so each cut is found alone, exactly: the least one with the fewest errors of "at least j labels".
  Fixed sizes are among what cuts can say, so on the rows they are learned from no fixed size has a smaller error.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def learn_size_cuts(expected: ArrayLike, sizes: ArrayLike, most: int) -> NDArray[np.float64]:
    """Return `most` rising cuts for which the mean absolute error of the sizes is least.

    Parameters
    ----------
    expected
        (n_rows,) expected numbers of labels, from 0 to `most`.
    sizes
        (n_rows,) true numbers.
    most
        The largest size that is given.

    Examples
    --------
    >>> learn_size_cuts([0.5, 0.9, 1.1, 1.8], [1, 1, 2, 2], most=3).tolist()
    [-1.0, 1.0, 4.0]
    """
    values = np.asarray(expected, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    values, true = values[order], np.asarray(sizes, dtype=np.int64)[order]
    # A cut before place i of the sorted rows; it cannot lie between equal values.
    middles = np.concatenate([[-1.0], (values[:-1] + values[1:]) / 2, [most + 1.0]])
    possible = np.concatenate([[True], values[:-1] < values[1:], [True]])
    cuts = np.empty(most)
    for size in range(1, most + 1):
        enough = true >= size
        below = np.concatenate([[0], np.cumsum(enough)])  # have so many labels, and lie below the cut
        above = np.concatenate([np.cumsum(~enough[::-1])[::-1], [0]])  # have fewer, and lie above it
        cuts[size - 1] = middles[int(np.argmin(np.where(possible, below + above, true.size + 1)))]
    return cuts


def sizes_by_cuts(expected: ArrayLike, cuts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many of the rising cuts each expected number of labels exceeds.

    Examples
    --------
    >>> sizes_by_cuts([0.2, 1.0, 1.3], np.array([-1.0, 1.0, 4.0])).tolist()
    [1, 1, 2]
    """
    return np.searchsorted(cuts, np.asarray(expected, dtype=np.float64), side="left").astype(np.int64)
