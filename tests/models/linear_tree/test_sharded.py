"""A tree in shards answers as the whole tree does, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_problems import random_rows, random_tree, random_weights

from tagwood.errors import InputError
from tagwood.models.label_filter import LabelFilter
from tagwood.models.linear_tree.sharded import (
    ROUTER,
    Opening,
    ShardedWeights,
    keep_nodes,
    open_nodes,
    share_nodes,
)
from tagwood.models.linear_tree.weights import SearchPlan
from tagwood.trees.label_tree import LabelTree


def in_shards(weights, n_shards, dtype):
    owner = share_nodes(weights.tree, n_shards)
    shards = [keep_nodes(weights, np.flatnonzero(owner == shard), dtype) for shard in range(n_shards)]
    top = keep_nodes(weights, np.flatnonzero(owner == ROUTER), dtype)

    def open_all(wanted):
        return [open_nodes(shards[shard], opening, 1) for shard, opening in wanted]

    return ShardedWeights(top.tree, top.arrays, top.link, owner, open_all)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    n_labels=st.integers(12, 60),
    n_copies=st.sampled_from([0, 0, 5]),
    n_shards=st.integers(2, 3),
    dtype=st.sampled_from(["int8", "float16", "float32"]),
    link=st.sampled_from(["l3-hinge", "sigmoid"]),
    width=st.integers(1, 12),
    filtered=st.booleans(),
)
def test_shards_give_the_labels_and_scores_of_the_whole(
    seed, n_labels, n_copies, n_shards, dtype, link, width, filtered
):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n_labels, n_copies)
    if max(np.bincount(tree.depth)[1:], default=0) < n_shards:
        return
    weights = random_weights(rng, tree, 40, link, dtype)
    X = random_rows(rng, 9, 40)
    allowed = LabelFilter(rng.random(n_labels) < 0.6) if filtered else None
    plan = SearchPlan(False, width, 0, "max", allowed)
    whole, found = weights.search(X, 5, plan, 1), in_shards(weights, n_shards, dtype).search(X, 5, plan, 1)
    assert whole.labels.tolist() == found.labels.tolist()
    assert whole.scores.tobytes() == found.scores.tobytes()
    assert whole.found.tolist() == found.found.tolist()
    assert np.all(whole.evaluated <= found.evaluated)  # whole trees stop early
    assert np.all(whole.outputs <= found.outputs)
    assert found.outputs.max() <= n_labels + (5 if n_copies else 0) + tree.n_nodes - 1
    mean = SearchPlan(False, width, 0, "mean", allowed)
    whole, found = weights.search(X, 5, mean, 1), in_shards(weights, n_shards, dtype).search(X, 5, mean, 1)
    np.testing.assert_allclose(whole.scores, found.scores, rtol=1e-5, atol=1e-7)


def test_shards_are_whole_subtrees_with_all_nodes_and_even_loads():
    tree = random_tree(np.random.default_rng(3), 300)
    owner = share_nodes(tree, 3)
    tops = [node for node in range(tree.n_nodes) if owner[node] == ROUTER]
    assert 0 in tops
    for node in range(1, tree.n_nodes):
        above = owner[tree.parent[node]]
        assert above in (ROUTER, owner[node])
    assert set(owner.tolist()) == {ROUTER, 0, 1, 2}


def test_shards_hold_their_share_of_the_weights():
    rng = np.random.default_rng(0)
    weights = random_weights(rng, random_tree(rng, 200), 50, "l3-hinge", "int8", density=0.3)
    owner = share_nodes(weights.tree, 3)
    sizes = [keep_nodes(weights, np.flatnonzero(owner == s), "int8").arrays.weights.size for s in (ROUTER, 0, 1, 2)]
    assert sum(sizes) == weights.arrays.weights.size
    assert all(size < weights.arrays.weights.size for size in sizes)


def test_refusals_say_what_to_do():
    rng = np.random.default_rng(0)
    flat = LabelTree.from_nested([0, 1, 2])
    with pytest.raises(InputError, match="a tree for 2 shards must have a level with as many nodes"):
        share_nodes(flat, 2)
    tree = LabelTree.from_nested([[0, 1], [2]])
    weights = random_weights(rng, tree, 5, "l3-hinge", "int8")
    X = random_rows(rng, 1, 5)
    with pytest.raises(InputError, match="a tree in shards is searched by beams; got search='exact'"):
        in_shards(weights, 2, "int8").search(X, 1, SearchPlan(exact=True), 1)
    wrong = Opening(X, np.array([0, 1]), np.array([7], dtype=np.int32), np.zeros(1, dtype=np.float32))
    with pytest.raises(InputError, match="nodes to open must be from 0 to 2"):
        open_nodes(weights, wrong, 1)
