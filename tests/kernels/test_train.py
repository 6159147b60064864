"""Training kernels: rows of nodes, blocks, and matching by classifiers that have not seen the rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import blocks as reference_blocks
from reference import train as reference
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from tree_problems import random_tree

from tagwood import _kernels
from tagwood._sparse import csr_parts
from tagwood.trees.label_tree import LabelTree


def problem(seed, n_rows, n_labels, n_copies):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 3, (n_labels, n_rows)) * (rng.random((n_labels, n_rows)) < 0.3)
    label_rows = csr_parts(sparse.csr_array(weights.astype(np.float32)))
    return label_rows, random_tree(rng, n_labels, n_copies)


def run(kernel, label_rows, tree, threads=1):
    return kernel.node_rows(*label_rows, tree.parent, tree.label_ptr, tree.labels, threads)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(1, 25), st.integers(0, 5))
def test_rows_and_weights_of_nodes_equal_the_twin(seed, n_rows, n_labels, n_copies):
    label_rows, tree = problem(seed, n_rows, n_labels, n_copies)
    for native, twin in zip(run(_kernels, label_rows, tree), run(reference, label_rows, tree), strict=True):
        np.testing.assert_array_equal(native, twin)
        assert native.dtype == twin.dtype


def test_a_node_has_the_rows_of_its_labels_with_the_largest_weight():
    from tagwood.trees.label_tree import LabelTree

    label_rows = csr_parts(sparse.csr_array(np.array([[1, 0, 2], [3, 0, 0], [0, 0, 4]], dtype=np.float32)))
    tree = LabelTree.from_nested([[0, 1], [2]])
    ptr, rows, weights = run(_kernels, label_rows, tree)
    assert ptr.tolist() == [0, 2, 4, 5]
    assert rows.tolist() == [0, 2, 0, 2, 2]
    assert weights.tolist() == [3, 4, 3, 2, 4]


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_not_change_a_bit(threads):
    label_rows, tree = problem(0, 500, 200, 20)
    for one, many in zip(run(_kernels, label_rows, tree), run(_kernels, label_rows, tree, threads), strict=True):
        np.testing.assert_array_equal(one, many)


LOSSES = {"squared-hinge": reference.SQUARED_HINGE, "logistic": reference.LOGISTIC}
DTYPES = ["float32", "float16", "int8"]
WEIGHTS = ["none", "rows", "entries", "outputs", "both"]
NO_WEIGHTS = np.empty(0, dtype=np.float32)


class Blocks:
    """Blocks over random rows with random positives, and both ways to train them."""

    def __init__(self, seed=0, n_rows=30, n_features=8, outputs=(3, 1), weights="none", density=0.5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < density)
        self.X = csr_parts(sparse.csr_array(X.astype(np.float32)))
        self.dense = X.astype(np.float32).astype(np.float64)
        seen = [np.flatnonzero(rng.random(n_rows) < 0.8).astype(np.int32) for _ in outputs]
        ends = np.cumsum([rows.size for rows in seen])
        self.output_ptr = np.cumsum([0, *outputs]).astype(np.int64)
        positives = [np.flatnonzero(rng.random(n_rows) < 0.4) for _ in range(sum(outputs))]
        positive_ends = np.cumsum([p.size for p in positives])
        self.tasks = (
            np.concatenate([[0], ends[:-1]]).astype(np.int64),
            ends.astype(np.int64),
            np.concatenate(seen).astype(np.int32),
            self.output_ptr,
            np.concatenate([[0], positive_ends[:-1]]).astype(np.int64),
            positive_ends.astype(np.int64),
            np.concatenate(positives).astype(np.int32),
            self._positive_weights(rng, weights, [p.size for p in positives]),
            rng.uniform(0.5, 2, n_rows).astype(np.float32) if weights in ("rows", "both") else NO_WEIGHTS,
        )
        self.seen, self.positives, self.n_rows, self.n_features = seen, positives, n_rows, n_features

    @staticmethod
    def _positive_weights(rng, weights, sizes):
        """One number per entry, or (as tail weights are) one per output, repeated."""
        if weights in ("entries", "both"):
            return rng.uniform(0.5, 2, sum(sizes)).astype(np.float32)
        per_output = rng.uniform(0.5, 2, len(sizes)).astype(np.float32)
        return np.repeat(per_output, sizes) if weights == "outputs" else NO_WEIGHTS

    def train(
        self,
        loss=0,
        cost=1.0,
        bias=1.0,
        tolerance=1e-4,
        threshold=0.0,
        dtype="float32",
        seed=0,
        threads=1,
        chunk=0,
        start=(),
        guests=(),
    ):
        seeds = np.arange(len(self.seen), dtype=np.int64)
        options = (loss, cost, bias, tolerance, 3000, threshold, DTYPES.index(dtype), seed, threads, chunk)
        return _kernels.train_blocks(*self.X, *self.tasks, seeds, *options, start=start, guests=guests)

    def weights(self, dtype="float32", **options):
        return reference_blocks.read_trained(
            self.train(dtype=dtype, **options), self.output_ptr, self.n_features, dtype
        )

    def twin(self, loss=0, cost=1.0, bias=1.0, threshold=0.0, guests=None):
        return reference.train_blocks(*self.X, *self.tasks, loss, cost, bias, threshold, guests=guests)

    def guests(self, seed):
        """Some rows of each block as guests, and some of these as negatives of each output."""
        rng = np.random.default_rng(seed)
        guest = (rng.random(self.tasks[2].size) < 0.3).astype(np.uint8)
        wrong = [np.flatnonzero(rng.random(self.n_rows) < 0.2) for _ in range(self.output_ptr[-1])]
        ends = np.cumsum([rows.size for rows in wrong]).astype(np.int64)
        return guest, np.append(0, ends[:-1]), ends, np.concatenate(wrong).astype(np.int32)

    def outputs(self, cost=1.0, bias=1.0):
        """Yield per output its number, rows with the constant feature, signs and costs."""
        for block, rows in enumerate(self.seen):
            for output in range(self.output_ptr[block], self.output_ptr[block + 1]):
                y = np.where(np.isin(rows, self.positives[output]), 1.0, -1.0)
                yield (
                    output,
                    np.column_stack([self.dense[rows], np.full(rows.size, bias)]),
                    y,
                    np.full(rows.size, cost),
                )


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(1, 20),
    n_features=st.integers(1, 9),
    outputs=st.lists(st.sampled_from([1, 2, 5, 9]), min_size=1, max_size=2),
    weights=st.sampled_from(WEIGHTS),
    cost=st.sampled_from([0.1, 1.0, 4.0]),
    bias=st.sampled_from([0.0, 1.0, 2.5]),
    loss=st.sampled_from(list(LOSSES.values())),
)
def test_weights_equal_the_twin_at_a_tight_tolerance(seed, n_rows, n_features, outputs, weights, cost, bias, loss):
    blocks = Blocks(seed, n_rows, n_features, outputs, weights)
    W, b = blocks.weights(loss=loss, cost=cost, bias=bias)
    twin_W, twin_b = blocks.twin(loss=loss, cost=cost, bias=bias)
    np.testing.assert_allclose(W, twin_W, atol=2e-3)
    np.testing.assert_allclose(b, twin_b, atol=2e-3 * max(bias, 1))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_objective_is_that_of_the_twin(loss, weights):
    blocks = Blocks(5, 40, 10, [4], weights)
    (W, b), (best_W, best_b) = blocks.weights(loss=LOSSES[loss]), blocks.twin(loss=LOSSES[loss])
    *_, positive_weights, row_weights = blocks.tasks
    begin, end = blocks.tasks[4:6]
    for output, X, y, costs in blocks.outputs():
        if row_weights.size:
            costs = costs * row_weights[blocks.seen[0]]
        if positive_weights.size:
            entry = np.ones(blocks.n_rows)
            entry[blocks.positives[output]] = positive_weights[begin[output] : end[output]]
            costs = costs * entry[blocks.seen[0]]
        found = reference.primal_objective(np.append(W[output], b[output]), X, y, costs, LOSSES[loss])
        best = reference.primal_objective(np.append(best_W[output], best_b[output]), X, y, costs, LOSSES[loss])
        assert best <= found * (1 + 1e-7)
        assert found == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("tolerance, gap", [(0.1, 0.1), (0.01, 1e-3), (1e-4, 1e-5)])
def test_the_duality_gap_closes_with_the_tolerance(tolerance, gap):
    blocks = Blocks(1, 80, 15, [40, 5])  # more outputs than lanes
    W, b = blocks.weights(tolerance=tolerance)
    for output, X, y, costs in blocks.outputs():
        w = np.append(W[output], b[output])
        alpha = 2 * costs * np.maximum(0, 1 - y * (X @ w))
        primal = reference.primal_objective(w, X, y, costs, reference.SQUARED_HINGE)
        dual = reference.hinge_dual_objective(alpha, X, y, costs)
        assert -1e-6 * primal <= primal - dual <= gap * primal


@pytest.mark.parametrize("cost", [0.3, 3.0])
def test_weights_agree_with_scikit_learn(cost):
    blocks = Blocks(2, 50, 10, [4])
    hinge_W, hinge_b = blocks.weights(cost=cost)
    logistic_W, logistic_b = blocks.weights(loss=reference.LOGISTIC, cost=cost)
    for output, X, y, _ in blocks.outputs():
        svc = LinearSVC(loss="squared_hinge", dual=True, C=cost, intercept_scaling=1, tol=1e-8, max_iter=10**6)
        svc.fit(X[:, :-1], y)
        np.testing.assert_allclose(hinge_W[output], svc.coef_[0], atol=2e-3)
        assert hinge_b[output] == pytest.approx(svc.intercept_[0], abs=2e-3)
        logistic = LogisticRegression(C=cost, fit_intercept=False, tol=1e-10, max_iter=10**4).fit(X, y)
        np.testing.assert_allclose(logistic_W[output], logistic.coef_[0, :-1], atol=2e-3)
        assert logistic_b[output] == pytest.approx(logistic.coef_[0, -1], abs=2e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_outputs_with_one_sign_only_and_blocks_without_rows_are_trained(loss):
    blocks = Blocks(0, 10, 4, [2, 1])
    rows, output_ptr, weights = blocks.tasks[2], blocks.tasks[3], blocks.tasks[7:]
    row_begin, row_end = np.array([0, 3]), np.array([3, 3])  # the second block sees no row
    begin, end = (
        np.array([0, 0, 0]),
        np.array([0, 3, 0]),
    )  # no positive at all; three rows that are all positive
    blocks.tasks = (row_begin, row_end, rows, output_ptr, begin, end, rows[:3].copy(), *weights)
    W, b = blocks.weights(loss=LOSSES[loss])
    seen = np.column_stack([blocks.dense[rows[:3]], np.ones(3)])
    assert np.all(seen @ np.append(W[0], b[0]) < 0)
    assert np.all(seen @ np.append(W[1], b[1]) > 0)
    assert not W[2].any()
    assert b[2] == 0


def test_positives_outside_the_rows_of_a_block_do_not_count():
    blocks = Blocks(3, 20, 5, [2, 3])
    inside = [np.isin(p, blocks.seen[0 if o < 2 else 1]) for o, p in enumerate(blocks.positives)]
    assert not all(mask.all() for mask in inside)
    W, b = blocks.weights()
    kept = [p[mask] for p, mask in zip(blocks.positives, inside, strict=True)]
    ends = np.cumsum([p.size for p in kept]).astype(np.int64)
    begin = np.concatenate([[0], ends[:-1]])
    blocks.tasks = (*blocks.tasks[:4], begin, ends, np.concatenate(kept).astype(np.int32), *blocks.tasks[7:])
    same_W, same_b = blocks.weights()
    np.testing.assert_array_equal(W, same_W)
    np.testing.assert_array_equal(b, same_b)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_block_does_not_depend_on_its_neighbours_or_on_threads(loss):
    blocks = Blocks(4, 60, 12, [40, 3, 7, 17], weights="both")
    alone = blocks.train(loss=LOSSES[loss], tolerance=0.1, dtype="float16")
    for threads in (2, 3):
        together = blocks.train(loss=LOSSES[loss], tolerance=0.1, dtype="float16", threads=threads)
        for one, many in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, many)
    first = Blocks(4, 60, 12, [40, 3, 7, 17], weights="both")
    head = [part[:1] for part in first.tasks[:2]]
    first.tasks = (*head, first.tasks[2], first.tasks[3][:2], *first.tasks[4:])
    first.seen, first.output_ptr = first.seen[:1], first.output_ptr[:2]
    W, b = first.weights(loss=LOSSES[loss], tolerance=0.1, dtype="float16")
    all_W, all_b = reference_blocks.read_trained(alone, blocks.output_ptr, blocks.n_features, "float16")
    np.testing.assert_array_equal(W, all_W[:40])
    np.testing.assert_array_equal(b, all_b[:40])


@pytest.mark.parametrize("loss", [0, 1])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("chunk", [1, 40, 100])
def test_rows_that_are_read_in_chunks_give_the_same_bits(loss, weights, chunk):
    blocks = Blocks(n_rows=60, outputs=(20, 3), weights=weights)
    for whole, chunked in zip(blocks.train(loss=loss), blocks.train(loss=loss, chunk=chunk), strict=True):
        np.testing.assert_array_equal(whole, chunked)


def test_the_seed_decides_the_order_of_visits():
    blocks = Blocks(6, 60, 12, [5])
    same = [part.tobytes() for part in blocks.train(tolerance=0.1, seed=1)]
    assert same == [part.tobytes() for part in blocks.train(tolerance=0.1, seed=1)]
    assert same != [part.tobytes() for part in blocks.train(tolerance=0.1, seed=2)]


def test_small_weights_are_dropped_and_no_others():
    blocks = Blocks(7, 60, 12, [9])
    all_W, all_b = blocks.weights(threshold=0.0)
    W, b = blocks.weights(threshold=0.1)
    assert 0 < np.count_nonzero(W) < np.count_nonzero(all_W)
    np.testing.assert_array_equal(W, np.where(np.abs(all_W) >= np.float32(0.1), all_W, 0))
    np.testing.assert_array_equal(b, all_b)


@pytest.mark.parametrize("outputs", [1, 7, 256])
def test_stored_types_agree_within_their_precision(outputs):
    blocks = Blocks(8, 40, 20, [outputs])
    W, b = blocks.weights(dtype="float32")
    half, half_b = blocks.weights(dtype="float16")
    byte, byte_b = blocks.weights(dtype="int8")
    np.testing.assert_array_equal(half, W.astype(np.float16))
    assert np.abs(byte - W).max() <= np.abs(W).max() / 127 * 0.501
    np.testing.assert_array_equal(half_b, b)
    np.testing.assert_array_equal(byte_b, b)


@pytest.mark.parametrize("n_features", [40, 5_000, 70_000])
def test_packing_gives_what_the_numpy_writer_gives(n_features):
    blocks = Blocks(9, 60, 40, [11], density=0.1)
    spread = (blocks.X.indices.astype(np.int64) * n_features // 40).astype(np.int32)
    blocks.X, blocks.n_features = blocks.X._replace(indices=spread, n_cols=n_features), n_features
    for dtype in DTYPES:
        trained = blocks.train(dtype=dtype, threshold=0.2)
        W, _ = blocks.weights(threshold=0.2)
        buckets, remainders, counts, columns, weights, scale = reference_blocks.write_block(W, dtype)
        for native, twin in zip(
            [trained[i] for i in (1, 4, 5, 7, 9)], [buckets, remainders, counts, columns, scale], strict=True
        ):
            np.testing.assert_array_equal(native, twin)
        np.testing.assert_array_equal(trained[8].view(dtype), weights)


@pytest.mark.parametrize("n_features", [1, 2, 3, 255, 256, 257, 65535, 65536, 65537, 70_000, 1 << 20, (1 << 31) - 1])
def test_hashes_of_features_have_no_collisions_and_can_be_undone(n_features):
    bits = reference_blocks.feature_bits(n_features)
    assert n_features <= 1 << bits
    some = {*range(min(n_features, 300)), *range(max(0, n_features - 300), n_features)}
    hashes = {reference_blocks.hash_feature(feature, bits) for feature in some}
    assert len(hashes) == len(some)
    assert max(hashes) < 1 << bits
    assert {reference_blocks.unhash_feature(h, bits) for h in hashes} == some


NESTED = [[[0, 1], [2, 3], [4]], [[5, 6], [7, 8]], [9, 10]]  # leaves on two levels
WIDE = [[label] for label in range(40)]  # more children than lanes


class Problem:
    def __init__(self, nested, seed=0, n_rows=60, n_features=12, weights=False, loss=0):
        rng = np.random.default_rng(seed)
        self.tree = LabelTree.from_nested(nested)
        n_labels = self.tree.n_labels
        X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.6)
        self.X = csr_parts(sparse.csr_array(X.astype(np.float32)))
        self.Y = np.zeros((n_rows, n_labels), dtype=np.float32)
        self.Y[np.arange(n_rows), rng.integers(0, n_labels, n_rows)] = 1
        self.Y[rng.random(self.Y.shape) < 0.05] = 1
        self.second_half = (rng.permutation(n_rows) % 2).astype(np.uint8)
        self.entry_weights = rng.uniform(0.5, 2, self.Y.shape).astype(np.float32) if weights else None
        self.row_weights = rng.uniform(0.5, 2, n_rows).astype(np.float32) if weights else NO_WEIGHTS
        self.loss = loss

    def arguments(self, width, followed=None):
        Y = self.Y if self.entry_weights is None else self.Y * self.entry_weights
        labels = csr_parts(sparse.csr_array(Y.T))
        tree = self.tree
        ptr, rows, weights = _kernels.node_rows(*labels[:3], self.X.n_rows, tree.parent, tree.label_ptr, tree.labels, 1)
        weights = NO_WEIGHTS if self.entry_weights is None else weights
        halves = (self.second_half, width, followed or width, 3 if self.loss == 0 else 0, self.loss, 1.0, 1.0)
        return (*self.X, ptr, rows, weights, self.row_weights, tree.child_ptr, *halves)

    def match(self, width=3, followed=None, threads=1, seed=0):
        found = _kernels.match_unseen(*self.arguments(width, followed), 1e-5, 3000, seed, threads)
        return found.reshape(-1, width)


@pytest.mark.parametrize("loss", [0, 1])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("width, followed", [(1, 1), (3, 3), (3, 1), (20, 20), (20, 2)])
def test_rows_are_matched_as_by_the_twin(width, followed, weights, loss):
    problem = Problem(NESTED, weights=weights, loss=loss)
    twin = reference.match_unseen(*problem.arguments(width, followed)).reshape(-1, width)
    np.testing.assert_array_equal(problem.match(width, followed), twin)


def test_first_places_are_those_of_a_beam_as_wide_as_is_followed():
    # In a tree whose leaves are all at the same depth.
    problem = Problem([[[3 * i + j], [12 + 3 * i + j]] for i in range(4) for j in range(3)], n_rows=200)
    np.testing.assert_array_equal(problem.match(5, followed=2)[:, :2], problem.match(2))
    assert (problem.match(5, followed=2)[:, 2:] != problem.match(5)[:, 2:]).any()


def test_more_children_than_lanes_are_matched_as_by_the_twin():
    # One row of each label in each half: no two children are alike, and there is no tie to break.
    problem = Problem(WIDE, n_rows=80)
    problem.Y = np.tile(np.eye(40, dtype=np.float32), (2, 1))
    problem.second_half = np.repeat([0, 1], 40).astype(np.uint8)
    twin = reference.match_unseen(*problem.arguments(5)).reshape(-1, 5)
    np.testing.assert_array_equal(problem.match(5), twin)


@pytest.mark.parametrize("nested", [NESTED, WIDE])
def test_threads_do_not_matter(nested):
    problem = Problem(nested, n_rows=200)
    for threads in (2, 5):
        np.testing.assert_array_equal(problem.match(threads=threads), problem.match())


def test_a_rows_own_labels_do_not_matter_to_it_but_to_the_other_half():
    problem = Problem(NESTED)
    before = problem.match()
    others_changed = 0
    for row in range(0, 60, 5):
        own = problem.Y[row].copy()
        problem.Y[row] = np.roll(own, 4)
        after = problem.match()
        same_half = problem.second_half == problem.second_half[row]
        np.testing.assert_array_equal(after[same_half], before[same_half])
        others_changed += int((after[~same_half] != before[~same_half]).any())
        problem.Y[row] = own
    assert others_changed > 6


def test_large_nodes_learn_enough_from_a_sample_of_their_rows():
    labels = np.random.default_rng(0).integers(0, 4, 100_000)  # 50,000 in each half, 32,768 are looked at
    problem = Problem([[0], [1], [2], [3]], n_rows=4)
    problem.X = csr_parts(sparse.csr_array(np.eye(4, dtype=np.float32)[labels]))
    problem.Y = np.eye(4, dtype=np.float32)[labels]
    problem.second_half = (np.arange(labels.size) % 2).astype(np.uint8)
    np.testing.assert_array_equal(problem.match(width=1)[:, 0], problem.tree.leaves[labels])


def test_arrays_that_do_not_fit_are_refused():
    problem = Problem(NESTED)
    problem.second_half = problem.second_half[:-1]
    with pytest.raises(ValueError, match="one entry per node"):
        problem.match()


def start_of(blocks, seed, bias):
    """Random weights and biases to start from, as matrix and vector, and as the kernel takes them."""
    rng = np.random.default_rng(seed)
    n_outputs = int(blocks.output_ptr[-1])
    W = np.where(rng.random((n_outputs, blocks.n_features)) < 0.5, rng.normal(size=(n_outputs, blocks.n_features)), 0)
    W, b = W.astype(np.float32), (bias * rng.normal(size=n_outputs)).astype(np.float32)
    output, feature = np.nonzero(W)
    block = np.searchsorted(blocks.output_ptr, output, side="right") - 1
    ptr = np.searchsorted(block, np.arange(blocks.output_ptr.size)).astype(np.int64)
    column = (output - blocks.output_ptr[block]).astype(np.int32)
    return W, b, (ptr, feature.astype(np.int32), column, W[output, feature], b)


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(1, 20),
    outputs=st.lists(st.sampled_from([1, 5, 17]), min_size=1, max_size=2),
    weights=st.sampled_from(WEIGHTS),
    bias=st.sampled_from([0.0, 1.0, 2.5]),
)
def test_a_start_is_moved_as_little_as_the_rows_need_and_its_bias_stays(seed, n_rows, outputs, weights, bias):
    blocks = Blocks(seed, n_rows, 9, outputs, weights, density=0.3)
    W, b, start = start_of(blocks, seed, bias)
    found_W, found_b = blocks.weights(bias=bias, start=start)
    twin_W, twin_b = reference.train_blocks(*blocks.X, *blocks.tasks, 0, 1.0, bias, 0.0, (W, b))
    np.testing.assert_allclose(found_b, np.where(bias > 0, b, 0), atol=1e-6)
    np.testing.assert_allclose(found_W, twin_W, atol=2e-3)
    np.testing.assert_allclose(twin_b, found_b, atol=1e-6)


def test_forged_starts_are_refused():
    blocks = Blocks(0)
    _, _, start = start_of(blocks, 0, 1.0)
    ptr, features, columns, values, bias = start
    for bad in (
        (ptr[:-1], features, columns, values, bias),
        (ptr, features + 100, columns, values, bias),
        (ptr, features, columns + 3, values, bias),
        (ptr, features, columns, values[:-1], bias),
        (ptr, features, columns, values, bias[:-1]),
    ):
        with pytest.raises(ValueError, match="start"):
            blocks.train(start=bad)


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(1, 20),
    outputs=st.lists(st.sampled_from([1, 5, 17]), min_size=1, max_size=2),
    weights=st.sampled_from(WEIGHTS),
    cost=st.sampled_from([0.1, 1.0, 4.0]),
    loss=st.sampled_from(list(LOSSES.values())),
)
def test_guests_count_only_for_the_outputs_that_name_them(seed, n_rows, outputs, weights, cost, loss):
    blocks = Blocks(seed, n_rows, 6, outputs, weights)
    guests = blocks.guests(seed)
    W, b = blocks.weights(loss=loss, cost=cost, guests=guests)
    twin_W, twin_b = blocks.twin(loss=loss, cost=cost, guests=guests)
    np.testing.assert_allclose(W, twin_W, atol=2e-3)
    np.testing.assert_allclose(b, twin_b, atol=2e-3)


@pytest.mark.parametrize("loss", LOSSES.values())
def test_guests_change_no_bit_with_threads_or_chunks_and_none_at_all_without_guests(loss):
    blocks = Blocks(3, 40, 10, [17, 4], "rows")
    guests = blocks.guests(3)
    whole = blocks.train(loss=loss, guests=guests)
    for other in (blocks.train(loss=loss, guests=guests, threads=2), blocks.train(loss=loss, guests=guests, chunk=40)):
        for one, two in zip(whole, other, strict=True):
            np.testing.assert_array_equal(one, two)
    nobody = (np.zeros_like(guests[0]), *guests[1:])
    for one, two in zip(blocks.train(loss=loss), blocks.train(loss=loss, guests=nobody), strict=True):
        np.testing.assert_array_equal(one, two)


def test_forged_guests_are_refused():
    blocks = Blocks(0)
    guest, begin, end, negatives = blocks.guests(0)
    for bad in (
        (guest[:-1], begin, end, negatives),
        (guest, begin[:-1], end, negatives),
        (guest, begin - 1, end, negatives),
        (guest, end, begin, negatives),
        (guest, begin, end + 1, negatives),
        (guest, begin, end, negatives + blocks.n_rows),
    ):
        with pytest.raises(ValueError, match="guests"):
            blocks.train(guests=bad)
