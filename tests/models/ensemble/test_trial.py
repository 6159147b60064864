"""Choosing members on held-out rows: what is left out, and by how much it must hurt."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tagwood import Ranking
from tagwood.models.ensemble.fusion import gather
from tagwood.models.ensemble.trial import Trial, choose_members

N_ROWS, N_LABELS = 400, 30


def ranked(scores):
    order = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    return Ranking.from_lists(
        [[(int(label), float(own[label])) for label in labels] for labels, own in zip(order, scores, strict=True)],
        N_LABELS,
    )


def trial_of(seed, *noises):
    """Return a trial of members that see the truth through noise; None is a member that finds nothing."""
    rng = np.random.default_rng(seed)
    truth = rng.random((N_ROWS, N_LABELS)) < 0.1
    found = [
        Ranking.from_lists([[]] * N_ROWS, N_LABELS)
        if noise is None
        else ranked(1 / (1 + np.exp(-(2.0 * truth + noise * rng.normal(size=truth.shape)))))
        for noise in noises
    ]
    cells, features = gather(found, truth.sum(axis=0), np.full(N_ROWS, 9))
    Y = sparse.csr_array(truth.astype(np.float32))
    return Trial(cells, features, cells.right(Y), np.diff(Y.indptr).astype(np.int64))


def choose(trial, n_members, prune=True):
    names = [f"member {number}" for number in range(n_members)]
    return choose_members(trial, names, ("logistic",), prune=prune, n_trees=20)


@pytest.mark.parametrize("seed", range(6))
def test_only_what_hurts_by_a_standard_error_is_left_out(seed):
    found = choose(trial_of(seed, 1.0, 1.0, 40.0, 60.0), 4)
    assert found.used[:2] == [0, 1]
    for place, one in enumerate(found.report):
        assert one.used == (place in found.used)
        if place and one.used:
            assert one.lost + one.error > 0
        elif place:
            assert one.lost + one.error <= 0


def test_a_loss_by_chance_leaves_nobody_out():
    reports = [choose(trial_of(seed, 1.0, 1.0, 40.0), 3).report[2] for seed in range(12)]
    by_chance = [one for one in reports if -one.error < one.lost < 0]
    assert by_chance  # noise that seems to hurt, by less than a standard error
    assert all(one.used for one in by_chance)


def test_a_member_that_finds_nothing_is_left_out():
    trial = trial_of(0, 1.0, None)
    found = choose(trial, 2)
    assert found.used == [0]
    assert (found.report[1].lost, found.report[1].error) == (0.0, 0.0)
    assert choose(trial, 2, prune=False).used == [0, 1]


def test_two_noisy_members_together_lose_without_either():
    found = choose(trial_of(1, 1.0, 1.0), 2)
    assert all(one.lost > 2 * one.error > 0 for one in found.report)
