"""Triplet losses between queries and labels: fixed and dynamic margin, three directions, regulariser.

In: cosine similarities of a batch, which pairs were drawn as positives, and which labels are true. Out: one number.

Decisions
---------
* The paper's dynamic margin is inconsistent where a positive leads by less than `low`. ``uncertain="pull"`` follows the
  first line of its Eq. 13: the detached margin only changes the value of the loss, so that the gradient is that of a
  fixed margin `low` (tested). ``"invert"`` follows the second line and Eq. 14: there, the positive is pushed away.
  ``"pull"`` is the default of the two; docs/experiments/prime.md has figures of both.
* A fixed margin of 0.3 is the default: with momentum centroids it beat the dynamic one on held-out rows of two sets
  (P@1 29.1 against 28.2, and 21.2 against 19.9; one seed).
* A loss is the mean over the triplets that are above zero, not over all: most triplets of a batch are solved soon, and
  a mean over all would fade against the regulariser.
* The regulariser is linear as printed, without a hinge, and its margin m' then changes no gradient. ``hinge=True`` cuts
  it at zero, which is what a margin is for.
* Negatives are all labels of the batch that are not true for the query, whether they were drawn or not. The positives
  are the pairs that were drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from tagwood._check import check_choice, check_float
from tagwood.errors import InputError

MARGINS = ("fixed", "dynamic")
UNCERTAIN = ("pull", "invert")


@dataclass(frozen=True)
class PrototypeLoss:
    """Which losses are summed, and with which margin.

    Parameters
    ----------
    margin
        ``"fixed"``: `high`; ``"dynamic"``: the distance of the two similarities, clipped to [low, high].
    low, high
        Least and largest margin of cosine similarities.
    uncertain
        Where a positive leads by less than `low`: ``"pull"`` or ``"invert"``; see the module.
    prototypes, texts, queries
        Weights of L(query, prototypes), L(query, label texts) and L(label text, queries); 0 leaves one out.
    regulariser
        Weight of R, which asks prototypes to be better than label texts; 0 leaves it out.
    hinge
        Cut R at zero for each pair.
    regulariser_margin
        m' of R.
    """

    margin: str = "fixed"
    low: float = 0.1
    high: float = 0.3
    uncertain: str = "pull"
    prototypes: float = 1.0
    texts: float = 1.0
    queries: float = 1.0
    regulariser: float = 0.1
    hinge: bool = False
    regulariser_margin: float = 0.1

    def check(self) -> None:
        """Raise `InputError` for a value that does not fit."""
        check_choice(self.margin, "margin", MARGINS)
        check_choice(self.uncertain, "uncertain", UNCERTAIN)
        check_float(self.low, "low", low=0.0, high=2.0)
        check_float(self.high, "high", low=self.low, high=2.0)
        weights = ("prototypes", "texts", "queries", "regulariser")
        for name in weights:
            check_float(getattr(self, name), name, low=0.0)
        check_float(self.regulariser_margin, "regulariser_margin", low=0.0)
        if self.prototypes + self.texts + self.queries == 0:
            raise InputError("one of prototypes, texts and queries must be above 0", given="0 for all three")


class Pairs(NamedTuple):
    """The positives that were drawn for a batch, and every true label of its queries.

    query, label
        (n_pairs,) places in the batch's queries and labels; each pair is true.
    true
        (n_queries, n_labels) whether a label of the batch is one of the query's.
    """

    query: torch.Tensor
    label: torch.Tensor
    true: torch.Tensor


class Scores(NamedTuple):
    """Cosine similarities of a batch.

    texts
        (n_queries, n_labels) of queries and label texts.
    prototypes
        (n_queries, n_labels) of queries and label prototypes, or None where there are none.
    own
        (n_pairs,) of the drawn pairs, where a label's prototype leaves the query itself out; None to take them
        from `prototypes`.
    """

    texts: torch.Tensor
    prototypes: torch.Tensor | None = None
    own: torch.Tensor | None = None


def triplets(
    positive: torch.Tensor, negative: torch.Tensor, allowed: torch.Tensor, settings: PrototypeLoss
) -> torch.Tensor:
    """Return the mean loss over the triplets that are above zero; 0 where none is.

    Parameters
    ----------
    positive
        (n_pairs,) similarities of drawn pairs.
    negative
        (n_pairs, n_others) similarities of the same anchors to others.
    allowed
        (n_pairs, n_others) which others are negatives.

    Examples
    --------
    >>> positive, negative = torch.tensor([0.5]), torch.tensor([[0.45, 0.9, 0.1]])
    >>> allowed = torch.tensor([[True, False, True]])
    >>> dynamic, inverted = PrototypeLoss("dynamic"), PrototypeLoss("dynamic", uncertain="invert")
    >>> round(float(triplets(positive, negative, allowed, dynamic)), 4)  # 0.45 - 0.5 + 0.1
    0.05
    >>> round(float(triplets(positive, negative, allowed, inverted)), 4)
    0.15
    """
    gap = negative - positive[:, None]
    if settings.margin == "fixed":
        losses = gap + settings.high
    else:
        margin = gap.detach().abs().clamp(settings.low, settings.high)
        losses = gap + margin
        if settings.uncertain == "invert":
            near = (gap < 0) & (gap > -settings.low)
            losses = torch.where(near, settings.low - gap, losses)
    # relu, not clamp: at exactly 0, where the margin equals the lead, clamp passes the gradient on.
    losses = torch.relu(torch.where(allowed, losses, torch.zeros_like(losses)))
    active = torch.count_nonzero(losses.detach()).clamp(min=1)
    return losses.sum() / active


def regulariser(scores: Scores, pairs: Pairs, settings: PrototypeLoss) -> torch.Tensor:
    """Return R: the mean of how far label texts are better than prototypes, over positives and over negatives.

    Negatives are counted once for each query, not for each of its pairs.
    """
    assert scores.prototypes is not None
    margin = settings.regulariser_margin
    own = scores.prototypes[pairs.query, pairs.label] if scores.own is None else scores.own
    positive = scores.texts[pairs.query, pairs.label] - own + margin
    negative = scores.prototypes - scores.texts + margin
    if settings.hinge:
        positive, negative = torch.relu(positive), torch.relu(negative)
    wrong = ~pairs.true
    count = wrong.sum().clamp(min=1)
    over_negatives = torch.where(wrong, negative, torch.zeros_like(negative)).sum() / count
    return 0.5 * (positive.mean() + over_negatives)


def prototype_loss(scores: Scores, pairs: Pairs, settings: PrototypeLoss) -> torch.Tensor:
    """Return the loss of a batch: the paper's Eq. 5, with the weights of `settings`.

    Without prototypes the terms that need them are left out.
    """
    wrong = ~pairs.true
    at = (pairs.query, pairs.label)
    total = scores.texts.sum() * 0.0  # every weight takes part in the graph, whatever is left out
    if scores.prototypes is not None and settings.prototypes:
        own = scores.prototypes[at] if scores.own is None else scores.own
        found = triplets(own, scores.prototypes[pairs.query], wrong[pairs.query], settings)
        total = total + settings.prototypes * found
    if settings.texts:
        found = triplets(scores.texts[at], scores.texts[pairs.query], wrong[pairs.query], settings)
        total = total + settings.texts * found
    if settings.queries:
        found = triplets(scores.texts[at], scores.texts.T[pairs.label], wrong.T[pairs.label], settings)
        total = total + settings.queries * found
    if scores.prototypes is not None and settings.regulariser:
        total = total + settings.regulariser * regulariser(scores, pairs, settings)
    return total
