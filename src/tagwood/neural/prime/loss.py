"""Triplet losses between queries and labels: fixed and dynamic margin, three directions, regulariser.

In: cosine similarities of a batch, the pairs drawn as positives, and all true labels. Out: one number.

Decisions
---------
* The paper's dynamic margin is inconsistent where a positive leads by less than `low`. ``uncertain="pull"`` follows the
  first line of its Eq. 13: the detached margin changes only the value of the loss, so the gradient is that of a fixed
  margin `low` (tested). ``"invert"`` follows the second line and Eq. 14: there, the positive is pushed away.
  "invert" collapsed within five epochs on two data sets.
* A fixed margin of 0.3 is the default: with momentum centroids it was better than the dynamic one on held-out rows of
  two data sets (P@1 29.1 against 28.2, and 21.2 against 19.9; one seed).
* A loss is the mean over the triplets above zero, not over all of them: most triplets of a batch are soon solved, and
  a mean over all would become small compared with the regulariser.
* The regulariser is linear as printed, without a hinge, so its margin m' changes no gradient. ``hinge=True`` cuts it
  at zero, which gives the margin an effect.
* Negatives are all labels of the batch that are not true for the query, drawn or not. Positives are the drawn pairs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from tagwood.neural.prime.settings import PrototypeLoss

REGULARISER_MARGIN = 0.1  # m' of R
TEMPERATURE = 0.05  # of the softmax over all labels


class Pairs(NamedTuple):
    """The positives drawn for a batch, and every true label of its queries."""

    query: torch.Tensor  # (n_pairs,) positions in the queries of the batch
    label: torch.Tensor  # (n_pairs,) positions in the labels of the batch; each pair is true
    true: torch.Tensor  # (n_queries, n_labels) whether a label of the batch belongs to the query


class Scores(NamedTuple):
    """Cosine similarities of a batch: of queries and label texts, of queries and prototypes, of the drawn pairs."""

    texts: torch.Tensor  # (n_queries, n_labels)
    prototypes: torch.Tensor | None = None  # (n_queries, n_labels); None for a plain dual encoder
    own: torch.Tensor | None = None  # (n_pairs,) with prototypes that leave the query out; None: as in `prototypes`


def prototype_loss(scores: Scores, pairs: Pairs, settings: PrototypeLoss) -> torch.Tensor:
    """Return the loss of a batch: Eq. 5 of the paper with the weights of `settings`.

    Without prototypes, the terms that need them are left out.
    """
    wrong = ~pairs.true
    at = (pairs.query, pairs.label)
    total = scores.texts.sum() * 0.0  # keeps every weight in the graph, whatever is left out
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


def softmax_loss(positive: torch.Tensor, others: torch.Tensor, wrong: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of positives among all wrong labels of their query.

    `positive` (n_pairs,) and `others` (n_pairs, n_labels) are cosines; `wrong` (n_pairs, n_labels) marks negatives.

    Examples
    --------
    >>> found = softmax_loss(torch.tensor([0.5]), torch.tensor([[0.5, 0.9]]), torch.tensor([[True, False]]))
    >>> round(float(found), 4)  # ln 2
    0.6931
    """
    rest = torch.logsumexp((others / TEMPERATURE).masked_fill(~wrong, -math.inf), dim=1)
    own = positive / TEMPERATURE
    return (torch.logaddexp(rest, own) - own).mean()


def triplets(
    positive: torch.Tensor, negative: torch.Tensor, allowed: torch.Tensor, settings: PrototypeLoss
) -> torch.Tensor:
    """Return the mean loss over the triplets above zero; 0 if there are none.

    `positive` (n_pairs,) are similarities of the drawn pairs, `negative` (n_pairs, n_others) those of the same anchors
    to others, `allowed` (n_pairs, n_others) marks the others that are negatives.

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
    """Return R: by how much label texts do better than prototypes, on average over positives and over negatives.

    A negative counts once per query, not once per pair.
    """
    assert scores.prototypes is not None
    own = scores.prototypes[pairs.query, pairs.label] if scores.own is None else scores.own
    positive = scores.texts[pairs.query, pairs.label] - own + REGULARISER_MARGIN
    negative = scores.prototypes - scores.texts + REGULARISER_MARGIN
    if settings.hinge:
        positive, negative = torch.relu(positive), torch.relu(negative)
    wrong = ~pairs.true
    count = wrong.sum().clamp(min=1)
    over_negatives = torch.where(wrong, negative, torch.zeros_like(negative)).sum() / count
    return 0.5 * (positive.mean() + over_negatives)
