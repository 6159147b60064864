"""Batches of similar queries and drawn positives: what they hold, and that they depend on the moment alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tagwood._sparse import check_labels
from tagwood.metrics.propensity import inverse_propensity
from tagwood.neural.prime.batches import REFRESH, Positives, QueryBatches, cluster_queries
from tagwood.neural.prime.network import QueryMemory


def label_sets(n_rows, n_labels, seed, density=0.3):
    random = np.random.default_rng(seed)
    return check_labels(sparse.csr_array((random.random((n_rows, n_labels)) < density).astype(np.float32)))


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 1000), n_rows=st.integers(1, 12), n_labels=st.integers(1, 9), count=st.integers(1, 3))
def test_drawn_pairs_are_true_and_all_true_labels_are_masked(seed, n_rows, n_labels, count):
    Y = label_sets(n_rows, n_labels, seed)
    moments = np.random.default_rng(seed).permutation(n_rows)[: max(1, n_rows // 2)] + 5 * n_rows
    drawn = Positives(Y, count, seed=seed).draw(moments)
    dense = Y.toarray() > 0
    np.testing.assert_array_equal(drawn.rows, moments % n_rows)
    np.testing.assert_array_equal(drawn.pairs.true.numpy(), dense[drawn.rows][:, drawn.labels])
    assert torch.all(drawn.pairs.true[drawn.pairs.query, drawn.pairs.label])
    per_query = np.bincount(drawn.pairs.query.numpy(), minlength=drawn.rows.size)
    np.testing.assert_array_equal(per_query, np.minimum(dense[drawn.rows].sum(axis=1), count))
    pairs = list(zip(drawn.pairs.query.tolist(), drawn.pairs.label.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert np.all(np.diff(drawn.labels) > 0)  # each label is encoded once
    assert set(drawn.pairs.label.tolist()) == set(range(drawn.labels.size))


def test_a_moment_decides_whatever_stands_beside_it():
    Y = label_sets(20, 15, 3)
    positives = Positives(Y, 1, seed=4)
    together = positives.draw(np.arange(20) + 40)
    labels = {int(q): int(together.labels[p]) for q, p in zip(together.pairs.query, together.pairs.label, strict=True)}
    for row, label in labels.items():
        alone = positives.draw(np.array([row + 40]))
        assert alone.labels.tolist() == [label]
    later = Positives(Y, 1, seed=4).draw(np.arange(20) + 60)
    assert later.labels.tolist() != together.labels.tolist() or not torch.equal(later.pairs.label, together.pairs.label)


@pytest.mark.parametrize("by_propensity", [True, False])
def test_labels_are_drawn_in_proportion(by_propensity):
    rows = np.zeros((100, 3), dtype=np.float32)
    rows[:, 0] = 1
    rows[:4, 1] = rows[:1, 2] = 1
    Y = check_labels(sparse.csr_array(rows))
    positives = Positives(Y, 1, by_propensity=by_propensity)
    weights = inverse_propensity(Y) if by_propensity else np.ones(3)
    counts = np.zeros(3)
    for epoch in range(40):
        drawn = positives.draw(np.arange(100) * 100 + 100 * 100 * epoch)  # row 0 a hundred times
        counts += np.bincount(drawn.labels[drawn.pairs.label.numpy()], minlength=3)
    np.testing.assert_allclose(counts / counts.sum(), weights / weights.sum(), atol=0.03)


def test_like_queries_share_a_cluster_and_clusters_are_even():
    random = np.random.default_rng(0)
    centres = random.standard_normal((8, 100))
    topic = np.repeat(np.arange(8), 40)
    vectors = (centres[topic] + 0.1 * random.standard_normal((320, 100))).astype(np.float32)
    clusters = cluster_queries(vectors, 40)
    assert np.bincount(clusters).max() <= 40
    assert np.bincount(clusters).min() >= 20
    pure = [np.bincount(topic[clusters == cluster]).max() for cluster in np.unique(clusters)]
    assert sum(pure) >= 0.8 * 320
    np.testing.assert_array_equal(clusters, cluster_queries(vectors, 40, threads=2))


def test_batches_hold_every_row_once_and_whole_clusters():
    rows = np.setdiff1d(np.arange(80), [3, 50])
    Y = check_labels([[0] if row in rows else [] for row in range(80)])
    memory = QueryMemory(Y, 4, "none")
    clusters = np.repeat(np.arange(10), 8)
    memory.clusters.copy_(torch.from_numpy(clusters))
    batches = [batch - 80 for batch in QueryBatches(Y, 16, memory)(1, np.random.default_rng(1))]
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), rows)
    assert sorted(batch.size for batch in batches) == [14, 16, 16, 16, 16]
    kinds = [np.unique(clusters[batch]).size for batch in batches]
    assert max(kinds) <= 4  # a cluster is torn only where a batch is full
    assert np.mean(kinds) < 3.2


def test_clusters_are_kept_until_they_are_refreshed_and_rows_without_labels_left_out():
    Y = label_sets(60, 5, 2)
    memory = QueryMemory(Y, 4, "none")
    memory.start(torch.nn.functional.normalize(torch.randn(60, 4, generator=torch.Generator().manual_seed(0))))
    rows = np.flatnonzero(np.diff(Y.indptr))
    plan = QueryBatches(Y, 10, memory)
    first = plan(0, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(np.concatenate(first)), rows)
    kept = memory.clusters.clone()
    memory.queries.neg_()
    memory.queries[::2] = memory.queries[0]
    second = plan(REFRESH - 1, np.random.default_rng(1))
    np.testing.assert_array_equal(np.sort(np.concatenate(second)), rows + 60 * (REFRESH - 1))
    assert torch.equal(memory.clusters, kept)
    plan(REFRESH, np.random.default_rng(2))
    assert not torch.equal(memory.clusters, kept)
