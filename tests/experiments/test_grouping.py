"""Grouping rules for experiments."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.eagle.grouping import clustered_groups, random_groups
from tagwood.errors import InputError


@pytest.fixture(scope="module")
def blobs():
    """256 rows around 16 directions."""
    random = np.random.default_rng(0)
    topics = np.arange(256) % 16
    return random.normal(size=(16, 30))[topics] * 4 + random.normal(size=(256, 30)), topics


def purity(groups, topics):
    """Share of rows whose topic is the most frequent one of their group."""
    counts = groups.T @ np.eye(16)[topics]
    return counts.max(axis=1).sum() / len(topics)


def test_random_groups_have_the_size_and_every_row_is_in_one():
    groups = random_groups(103, 10, seed=4)
    assert groups.sum(axis=1).tolist() == [1] * 103
    assert sorted(groups.sum(axis=0).tolist()) == [3] + [10] * 10


def test_seeds_give_different_groups_and_the_same_seed_the_same():
    first, again, other = (random_groups(50, 5, seed=seed).indices.tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_clusters_have_equal_sizes_and_hold_like_rows(blobs):
    groups = clustered_groups(blobs[0], 4)
    assert groups.shape == (256, 16)
    assert groups.sum(axis=0).tolist() == [16] * 16
    assert purity(groups, blobs[1]) > 0.8


def test_noise_leads_from_clusters_to_chance(blobs):
    clean, half, chance = (purity(clustered_groups(blobs[0], 4, noise=noise), blobs[1]) for noise in (0, 0.5, 1))
    assert clean > half > chance
    assert chance == pytest.approx(purity(random_groups(256, 16), blobs[1]), abs=0.1)


def test_threads_do_not_matter(blobs):
    one, two = (clustered_groups(blobs[0], 3, threads=threads).indices.tolist() for threads in (1, 2))
    assert one == two


def test_depth_zero_is_one_group(blobs):
    assert clustered_groups(blobs[0], 0).shape == (256, 1)


def test_misuse_is_named(blobs):
    with pytest.raises(InputError, match="depth=9 needs at least 512 rows; got 256"):
        clustered_groups(blobs[0], 9)
    with pytest.raises(InputError, match="noise must be a number from 0"):
        clustered_groups(blobs[0], 2, noise=2.0)
    with pytest.raises(InputError, match="size must be a whole number of at least 1"):
        random_groups(5, 0)
