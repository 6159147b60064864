"""Losses of prototypes: against a loop over triplets, against finite differences, and what the two readings mean."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tagwood.errors import InputError
from tagwood.neural.prime.loss import REGULARISER_MARGIN, Pairs, Scores, prototype_loss, triplets
from tagwood.neural.prime.settings import PrototypeLoss

SETTINGS = {
    "dynamic, pull": PrototypeLoss("dynamic"),
    "dynamic, invert": PrototypeLoss("dynamic", uncertain="invert"),
    "fixed": PrototypeLoss(),
    "hinge": PrototypeLoss("dynamic", hinge=True, regulariser=0.5),
    "prototypes alone": PrototypeLoss("dynamic", texts=0.0, queries=0.0, regulariser=0.0),
    "label to query alone": PrototypeLoss("dynamic", texts=0.0, prototypes=0.0, regulariser=0.0),
}


def problem(seed=0, n_queries=5, n_labels=6, n_positives=2, own=True):
    random = np.random.default_rng(seed)
    true = random.random((n_queries, n_labels)) < 0.3
    true[np.arange(n_queries), random.integers(n_labels, size=n_queries)] = True
    pairs = [(q, int(label)) for q in range(n_queries) for label in np.flatnonzero(true[q])[:n_positives]]
    query, label = (torch.tensor(part) for part in zip(*pairs, strict=True))
    values = torch.from_numpy(random.uniform(-0.4, 0.6, (2, n_queries, n_labels)))
    alone = torch.from_numpy(random.uniform(-0.4, 0.6, len(pairs))) if own else None
    return Scores(values[0], values[1], alone), Pairs(query, label, torch.from_numpy(true))


def one_triplet(positive, negative, loss):
    gap = negative - positive
    if loss.margin == "fixed":
        return max(gap + loss.high, 0.0)
    if loss.uncertain == "invert" and 0 < positive - negative < loss.low:
        return (positive - negative) + loss.low
    return max(gap + min(max(abs(gap), loss.low), loss.high), 0.0)


def mean_above_zero(values):
    active = [value for value in values if value > 0]
    return sum(active) / max(1, len(active))


def slow_loss(scores, pairs, loss):
    """Write out Eq. 5 with loops over triplets."""
    n_queries, n_labels = pairs.true.shape
    s, b = scores.texts.tolist(), scores.prototypes.tolist()
    true = pairs.true.tolist()
    drawn = list(zip(pairs.query.tolist(), pairs.label.tolist(), strict=True))
    own = [b[q][p] for q, p in drawn] if scores.own is None else scores.own.tolist()
    to_prototypes, to_texts, to_queries = [], [], []
    for (q, p), own_score in zip(drawn, own, strict=True):
        for n in range(n_labels):
            if not true[q][n]:
                to_prototypes.append(one_triplet(own_score, b[q][n], loss))
                to_texts.append(one_triplet(s[q][p], s[q][n], loss))
        for other in range(n_queries):
            if not true[other][p]:
                to_queries.append(one_triplet(s[q][p], s[other][p], loss))
    cut = (lambda value: max(value, 0.0)) if loss.hinge else (lambda value: value)
    positives = [cut(s[q][p] - own_score + REGULARISER_MARGIN) for (q, p), own_score in zip(drawn, own, strict=True)]
    negatives = [
        cut(b[q][n] - s[q][n] + REGULARISER_MARGIN)
        for q, n in itertools.product(range(n_queries), range(n_labels))
        if not true[q][n]
    ]
    regulariser = 0.5 * (np.mean(positives) + sum(negatives) / max(1, len(negatives)))
    return (
        loss.prototypes * mean_above_zero(to_prototypes)
        + loss.texts * mean_above_zero(to_texts)
        + loss.queries * mean_above_zero(to_queries)
        + loss.regulariser * regulariser
    )


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("own", [True, False])
def test_equals_a_loop_over_triplets(name, own):
    for seed in range(5):
        scores, pairs = problem(seed, own=own)
        expected = slow_loss(scores, pairs, SETTINGS[name])
        assert prototype_loss(scores, pairs, SETTINGS[name]).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", SETTINGS)
def test_gradients_equal_finite_differences(name):
    """The dynamic margin is detached: differences are taken with the margins of the middle point."""
    scores, pairs = problem(3)
    loss = SETTINGS[name]
    leaves = [part.clone().requires_grad_() for part in scores]
    prototype_loss(Scores(*leaves), pairs, loss).backward()
    step = 1e-6
    for number, leaf in enumerate(leaves):
        for place in range(0, leaf.numel(), 3):
            ends = []
            for sign in (1, -1):
                moved = [part.detach().clone() for part in leaves]
                moved[number].view(-1)[place] += sign * step
                ends.append(frozen_loss(Scores(*moved), scores, pairs, loss))
            found = 0.0 if leaf.grad is None else leaf.grad.view(-1)[place].item()
            assert found == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


def frozen_loss(scores, middle, pairs, loss):
    """The loss at `scores` with the margins and the count of active triplets at `middle`."""
    at = (pairs.query, pairs.label)
    wrong = ~pairs.true
    total = 0.0
    for weight, positive, negative, allowed in (
        (loss.prototypes, "own", lambda s: s.prototypes[pairs.query], wrong[pairs.query]),
        (loss.texts, "texts", lambda s: s.texts[pairs.query], wrong[pairs.query]),
        (loss.queries, "texts", lambda s: s.texts.T[pairs.label], wrong.T[pairs.label]),
    ):
        gaps = [negative(s) - (s.own if positive == "own" else s.texts[at])[:, None] for s in (scores, middle)]
        total += weight * frozen_mean(*gaps, allowed, loss)
    cut = (lambda value: value.clamp(min=0)) if loss.hinge else (lambda value: value)
    margin = REGULARISER_MARGIN
    own = cut(scores.texts[at] - scores.own + margin).mean()
    others = cut(scores.prototypes - scores.texts + margin)[wrong].mean()
    return total + loss.regulariser * 0.5 * (own + others).item()


def frozen_mean(gap, middle, allowed, loss):
    margin = middle.abs().clamp(loss.low, loss.high) if loss.margin == "dynamic" else loss.high
    value, here = gap + margin, middle + margin
    if loss.margin == "dynamic" and loss.uncertain == "invert":
        near = (middle < 0) & (middle > -loss.low)
        value, here = torch.where(near, loss.low - gap, value), torch.where(near, loss.low - middle, here)
    active = allowed & (here > 0)
    return (value[active].sum() / max(1, int(active.sum()))).item()


def test_pull_has_the_gradient_of_a_fixed_margin():
    scores, pairs = problem(1)
    found = []
    for loss in (
        PrototypeLoss("dynamic", regulariser=0.0),
        PrototypeLoss(margin="fixed", high=0.1, regulariser=0.0),
    ):
        leaves = [part.clone().requires_grad_() for part in scores]
        prototype_loss(Scores(*leaves), pairs, loss).backward()
        found.append([leaf.grad for leaf in leaves])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other)


def test_invert_pushes_an_uncertain_positive_away():
    positive = torch.tensor([0.5], requires_grad=True)
    negative, allowed = torch.tensor([[0.45]]), torch.tensor([[True]])
    triplets(positive, negative, allowed, PrototypeLoss("dynamic", uncertain="invert")).backward()
    assert positive.grad.item() == 1.0
    positive.grad = None
    triplets(positive, negative, allowed, PrototypeLoss("dynamic")).backward()
    assert positive.grad.item() == -1.0


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), n_queries=st.integers(1, 8), n_labels=st.integers(1, 8))
def test_true_labels_are_never_negatives(seed, n_queries, n_labels):
    """Whatever a true label scores, if it was not drawn itself, the loss neither changes nor pulls it."""
    scores, pairs = problem(seed, n_queries, n_labels, n_positives=1)
    drawn = torch.zeros_like(pairs.true)
    drawn[pairs.query, pairs.label] = True
    others = pairs.true & ~drawn
    for loss in (PrototypeLoss("dynamic"), PrototypeLoss("dynamic", uncertain="invert"), PrototypeLoss()):
        leaves = [part.clone().requires_grad_() for part in scores]
        value = prototype_loss(Scores(*leaves), pairs, loss)
        value.backward()
        for leaf in leaves[:2]:
            assert torch.all(leaf.grad[others] == 0)
        raised = [torch.where(others, torch.full_like(part, 0.99), part) for part in scores[:2]]
        assert prototype_loss(Scores(*raised, scores.own), pairs, loss).item() == value.item()


def test_a_batch_without_negatives_has_no_loss_and_no_gradient():
    scores = Scores(torch.tensor([[0.5]], requires_grad=True))
    pairs = Pairs(torch.tensor([0]), torch.tensor([0]), torch.tensor([[True]]))
    value = prototype_loss(scores, pairs, PrototypeLoss())
    value.backward()
    assert value.item() == 0
    assert scores.texts.grad.item() == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"margin": "fixd"}, "Did you mean 'fixed'"),
        ({"uncertain": "push"}, "uncertain must be one of 'pull', 'invert'"),
        ({"low": 0.4}, "high must be a number from 0.4 to 2.0; got 0.3"),
        ({"prototypes": 0, "texts": 0, "queries": 0}, "must be above 0"),
        ({"regulariser": -1}, "regulariser must be a number of at least 0.0"),
    ],
)
def test_misuse_is_named(change, words):
    with pytest.raises(InputError, match=words):
        PrototypeLoss(**change).check()
