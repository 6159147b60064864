"""Which step of the decoder learns which label: bipartite matching of a batch, and the choice of its scheme.

In: the probabilities (rows, steps, labels) of a row's own labels at each step, never of all labels. Out: the label
that each step is to say; the other steps are to say ∅.

Decisions
---------
* SciPy's solver is called once per row: a batch takes less than a millisecond, and threads do not make it faster.
* The paper's rule for the scheme (§3.6) is printed with two sentences that describe the same rows and name different
  winners. Its Table 5 and the shapes of its sets (AmazonCat-13K: a long tail of large sets, ``first-n`` won;
  Amazon-670K: most sets near the largest size, ``all`` won) agree with this one: where more than half of the rows have
  at most the mean number of labels, take ``first-n``.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from tagwood.errors import InputError

SCHEMES = ("all", "first-n")


def choose_scheme(sizes: ArrayLike) -> str:
    """Return the matching scheme that suits label sets of these sizes, by the rule of the paper's §3.6.

    Parameters
    ----------
    sizes
        Number of labels of each training row.

    Returns
    -------
    ``"first-n"`` where more than half of the rows have at most the mean number of labels, else ``"all"``.

    Examples
    --------
    >>> choose_scheme([1, 1, 2, 2, 20]), choose_scheme([7, 7, 7, 2, 1])
    ('first-n', 'all')
    """
    counts = np.asarray(sizes, dtype=np.float64)
    if counts.size == 0:
        raise InputError("sizes must name one row or more", given="none")
    return "first-n" if np.mean(counts <= counts.mean()) > 0.5 else "all"


def match_labels(probabilities: torch.Tensor, sizes: torch.Tensor, scheme: str = "all") -> torch.Tensor:
    """Return for each step the position of the label it is matched with, or -1 for none.

    The matching has the largest sum of probabilities (Eq. 11 and 12): over all steps with ``"all"``, over the first n
    steps of a row with n labels with ``"first-n"``.

    Parameters
    ----------
    probabilities
        (rows, steps, labels): p of a row's own labels at each step; columns from a row's size on are padding.
    sizes
        (rows,) number of labels of each row, from 1 to the number of steps.

    Examples
    --------
    >>> p = torch.tensor([[[0.1, 0.2], [0.2, 0.1], [0.3, 0.9]]])
    >>> match_labels(p, torch.tensor([2])), match_labels(p, torch.tensor([2]), "first-n")
    (tensor([[-1,  0,  1]]), tensor([[ 1,  0, -1]]))
    """
    values: NDArray[np.float32] = probabilities.detach().cpu().numpy()
    if not np.isfinite(values).all():
        raise InputError(
            "logits must be finite", given="NaN or infinity", hint="Try a lower learning_rate or clip=1."
        )
    found = np.full(values.shape[:2], -1, dtype=np.int64)
    for row, size in enumerate(sizes.tolist()):
        steps = values.shape[1] if scheme == "all" else size
        chosen, labels = linear_sum_assignment(values[row, :steps, :size], maximize=True)
        found[row, chosen] = labels
    return torch.from_numpy(found).to(probabilities.device)
