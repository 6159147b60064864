"""`Disentangled`: labels in several leaves, on trees and features of every kind; a toy with a known answer."""

import numpy as np
import pytest
from scipy import sparse
from tree_problems import planted_problem, same_arrays
from two_topics import two_topic_matrices

import tagwood
from experiments.disentanglement.copies import count_covered, duplicate_at_random
from tagwood import CopySettings, Disentangled, LinearTree, evaluate
from tagwood._sparse import csr_parts
from tagwood.errors import InputError
from tagwood.features.base import label_centroids
from tagwood.models import disentangled
from tagwood.models.disentangled import (
    _largest_features,
    match_unseen_rows,
    rows_of_copies,
    unchanged_nodes,
)
from tagwood.models.linear_tree.training import Solver, TreeTraining, entry_weights
from tagwood.models.linear_tree.weights import assemble, blocks_of
from tagwood.trees import build_interpolated_tree

BASE = LinearTree(max_leaf_size=8, arity=2)


@pytest.fixture(scope="module")
def toy():
    return *two_topic_matrices(3000, 0)[:2], *two_topic_matrices(1000, 1)[:2]


@pytest.fixture(scope="module")
def problem():
    return planted_problem(n_rows=300, n_labels=30, n_features=60)


def p1(model, X, Y):
    return evaluate(Y, model.rank(X, k=1), metrics=["P@1"])["P@1"]


def made_training(X, Y, **changes):
    settings = {
        "X": csr_parts(X), "weights": entry_weights(Y, None, None), "C": 1.0, "solver": Solver(),
        "seed": 0, "threads": 1,
    }  # fmt: skip
    return TreeTraining(**{**settings, **changes})


def test_two_copies_tell_labels_of_two_topics_apart(toy):
    X, Y, X_test, Y_test = toy
    base = LinearTree(max_leaf_size=8, arity=2, threads=1).fit(X, Y)
    assert p1(base, X_test, Y_test) < 0.85
    model = Disentangled(BASE, rounds=5, threads=1).fit(X, Y)
    assert p1(model, X_test, Y_test) >= 0.98
    assert np.bincount(model.copy_counts())[2] >= 20  # of 32 labels


def test_random_copies_do_not(toy):
    X, Y, X_test, Y_test = toy
    model = Disentangled(BASE, rounds=3, threads=1).fit(X, Y)
    tree = LinearTree(max_leaf_size=4, arity=2, threads=1).fit(X, Y).trees_[0].tree
    doubled = duplicate_at_random(tree, model.trees_[0].tree.labels.size - tree.labels.size)
    random = LinearTree(threads=1).fit(X, Y, tree=doubled)
    assert p1(random, X_test, Y_test) < p1(model, X_test, Y_test) - 0.1


def test_one_copy_only_moves_labels(toy):
    X, Y, _, _ = toy
    model = Disentangled(BASE, copies=1, threads=1).fit(X, Y)
    assert model.copy_counts().tolist() == [1] * Y.shape[1]


def test_more_positives_are_in_reach_than_before(toy):
    X, Y, _, _ = toy
    training = made_training(X, Y)
    tree = LinearTree(max_leaf_size=4, arity=2, threads=1).fit(X, Y).trees_[0].tree
    matched = match_unseen_rows(training, tree, 1)
    new = disentangled.Disentangled(BASE, threads=1)._reassign(tree, Y, matched, 1)
    assert count_covered(new, Y, matched) > count_covered(tree, Y, matched)


def test_auto_stops_its_classifiers_sooner(toy):
    X, Y, X_test, _ = toy

    def scores(tolerance, tolerance_factor, leaf=8, copies="auto"):
        base = LinearTree(max_leaf_size=leaf, arity=2, solver=Solver(tolerance=tolerance))
        return (
            Disentangled(base, copies=copies, copy_settings=CopySettings(tolerance_factor=tolerance_factor), threads=1)
            .fit(X, Y)
            .rank(X_test)
            .scores
        )

    np.testing.assert_array_equal(scores(0.04, 2.0), scores(0.02, 4.0))
    assert not np.array_equal(scores(0.04, 2.0), scores(0.04, 1.0))
    np.testing.assert_array_equal(scores(0.04, 2.0, leaf=100), scores(0.04, 1.0, leaf=100))  # no copies
    np.testing.assert_array_equal(scores(0.04, 2.0, copies=2), scores(0.04, 1.0, copies=2))


def test_auto_grows_no_more_than_allowed(toy):
    X, Y, _, _ = toy
    for growth in (1.0, 1.2, 1.5):
        model = Disentangled(BASE, copies="auto", copy_settings=CopySettings(growth=growth), threads=1).fit(X, Y)
        assert model.copy_counts().sum() <= growth * Y.shape[1]
    assert 2 <= model.copy_counts().max() <= 3


@pytest.mark.parametrize(
    "settings",
    [
        {"copies": "auto"},
        {"copies": 3, "merge": "mean"},
        {"retrain_matcher": False},
        {"copy_settings": CopySettings(rows="training", bring="all")},
        {"copy_settings": CopySettings(rows="training", leaves_per_row=2), "rounds": 2},
    ],
)
@pytest.mark.parametrize("search", ["beam", "exact"])
def test_every_setting_finds_planted_labels_and_is_stored(problem, settings, search, tmp_path):
    X, Y = problem
    model = Disentangled(LinearTree(max_leaf_size=6, arity=4), **settings, threads=1).fit(X, Y)
    best = model.rank(X, k=1, search=search).labels
    assert Y[np.arange(X.shape[0]), best].mean() > 0.95
    loaded = tagwood.load(tagwood.save(model, tmp_path / "model"))
    assert loaded.rank(X, search=search) == model.rank(X, search=search)
    assert loaded.get_params()["copy_settings"] == model.copy_settings


@pytest.mark.parametrize("lam", [0.5, 1.2])
def test_it_works_on_interpolated_trees(problem, lam):
    X, Y = problem
    base = LinearTree(max_leaf_size=4, arity=2, tree="interpolated", lam=lam)
    model = Disentangled(base, threads=1).fit(X, Y)
    assert model.lam_ == lam
    assert p1(model, X, Y) > 0.95
    given = build_interpolated_tree(label_centroids(X, Y), Y, lam=lam, max_leaf_size=3)
    assert p1(Disentangled(base, threads=1).fit(X, Y, tree=given), X, Y) > 0.95


def test_dense_and_concatenated_features_work(problem):
    X, Y = problem
    dense = np.random.default_rng(0).normal(size=(X.shape[0], 5)).astype(np.float32) / 10
    base = LinearTree(max_leaf_size=4, arity=4)
    assert p1(Disentangled(base, threads=1).fit(X.toarray(), Y), X.toarray(), Y) > 0.95
    both = sparse.hstack([X, sparse.csr_array(dense)]).tocsr()
    assert p1(Disentangled(base, threads=1).fit(both, Y), both, Y) > 0.95


def test_the_trees_of_an_ensemble_are_disentangled_one_by_one(problem):
    X, Y = problem
    model = Disentangled(LinearTree(max_leaf_size=6, arity=4, n_trees=2), threads=1).fit(X, Y)
    assert all(weights.tree.has_copies for weights in model.trees_)
    first, second = (weights.tree for weights in model.trees_)
    assert first.labels.tolist() != second.labels.tolist()
    assert p1(model, X, Y) > 0.95


def test_automatic_trees_and_weights_are_passed_on(problem):
    X, Y = problem
    base = LinearTree(max_leaf_size=6, arity=2, tree="auto")
    model = Disentangled(base, threads=1).fit(X, Y, sample_weight=np.ones(X.shape[0]))
    assert model.sweep_ is not None
    weighted = Disentangled(BASE, threads=1).fit(X, Y, sample_weight=Y * 2.0)
    assert p1(weighted, X, Y) > 0.95


def test_a_matcher_that_is_kept_stays_as_it_is(problem):
    X, Y = problem
    training = made_training(X, Y)
    base = LinearTree(max_leaf_size=5, arity=4, threads=1).fit(X, Y)
    matcher = training.train_matcher(base.trees_[0].tree)
    model = Disentangled(LinearTree(max_leaf_size=10, arity=4), retrain_matcher=False, threads=1).fit(
        X, Y, tree=base.trees_[0].tree
    )
    assert model.trees_[0].tree.parent.tolist() == base.trees_[0].tree.parent.tolist()
    leaves, scores = model.trees_[0].leaves(csr_parts(X), 3, 1)
    kept, before = matcher.leaves(csr_parts(X), 3, 1)
    assert leaves.tolist() == kept.tolist()
    assert scores.tolist() == before.tolist()


def test_blocks_that_are_taken_over_are_the_same_bits(problem):
    X, Y = problem
    weights = LinearTree(max_leaf_size=4, arity=4, threads=1).fit(X, Y).trees_[0]
    nodes = np.arange(weights.tree.n_nodes)
    again = assemble(weights.tree, [blocks_of(weights, nodes, nodes)], weights.link, "int8")
    assert same_arrays(again, weights)


def test_nodes_are_unchanged_only_with_the_same_rows_and_children(problem):
    X, Y = problem
    training = made_training(X, Y)
    tree = LinearTree(max_leaf_size=4, arity=2, threads=1).fit(X, Y).trees_[0].tree
    rows, all_nodes = training.rows_of_nodes(tree), np.arange(tree.n_nodes)
    inner = np.flatnonzero(np.diff(tree.child_ptr) > 0)
    assert unchanged_nodes(rows, tree, rows, all_nodes).tolist() == inner.tolist()
    last = int(inner[-1])  # its children lose their rows: it and all nodes above have changed children or rows
    shorter = rows.ptr.copy()
    child = int(tree.child_ptr[last])
    shorter[child + 1 :] -= 1
    fewer = rows._replace(
        ptr=shorter,
        rows=np.delete(rows.rows, rows.ptr[child]),
        weights=np.delete(rows.weights, rows.ptr[child]),
    )
    same = unchanged_nodes(rows, tree, fewer, all_nodes)
    assert last not in same.tolist()
    assert same.tolist() == [node for node in inner.tolist() if node != last]


def test_nothing_is_trained_again_where_no_label_moves(monkeypatch):
    trained = []
    original = TreeTraining.train_nodes
    monkeypatch.setattr(
        TreeTraining, "train_nodes", lambda self, tree, nodes, *rest: trained.extend(nodes.tolist())
        or original(self, tree, nodes, *rest),
    )  # fmt: skip
    settings = CopySettings(rows="training", leaves_per_row=1, bring="all")
    eye = sparse.csr_array(np.repeat(np.eye(8, dtype=np.float32), 5, axis=0))
    model = Disentangled(LinearTree(max_leaf_size=2, arity=2), copies=1, copy_settings=settings, threads=1)
    model.fit(eye, eye)
    assert len(trained) == len(set(trained)) == model.trees_[0].tree.n_nodes


def test_rows_are_matched_as_new_rows_would_be():
    X, Y = planted_problem(n_rows=600, n_labels=60, n_features=60)
    noise = np.random.default_rng(0).random((600, 400)) < 0.02  # what a matcher learns of rows by heart
    X = sparse.csr_array(sparse.hstack([0.5 * sparse.csr_array(X), noise.astype(np.float32)]))
    X, X_new, Y, Y_new = X[:400], X[400:], Y[:400], Y[400:]
    tree = LinearTree(max_leaf_size=4, arity=4, threads=1).fit(X, Y).trees_[0].tree
    training = made_training(X, Y)
    matcher = training.train_matcher(tree)
    seen = count_covered(tree, Y, matcher.leaves(training.X, 1, 1)[0]) / Y.nnz
    new = count_covered(tree, Y_new, matcher.leaves(csr_parts(X_new), 1, 1)[0]) / Y_new.nnz
    unseen = count_covered(tree, Y, match_unseen_rows(training, tree, 1)) / Y.nnz
    assert seen > new + 0.3
    assert abs(unseen - new) < 0.05


def test_rows_are_matched_to_leaves_of_the_tree(problem):
    X, Y = problem
    tree = LinearTree(max_leaf_size=4, threads=1).fit(X, Y).trees_[0].tree
    matched = match_unseen_rows(made_training(X, Y), tree, 2)
    assert matched.shape == (X.shape[0], 2)
    assert np.isin(matched[matched >= 0], tree.leaves).all()


def test_copies_bring_the_rows_that_are_matched_to_their_leaf(problem):
    X, Y = problem
    tree = duplicate_at_random(LinearTree(max_leaf_size=4, threads=1).fit(X, Y).trees_[0].tree, 20)
    matched = np.random.default_rng(0).choice(tree.leaves, (X.shape[0], 3))
    brought = rows_of_copies(csr_parts(Y.T.tocsr()), tree, matched).to_scipy().toarray() > 0
    for copy, (label, leaf) in enumerate(zip(tree.labels, tree.leaf_of_copy, strict=True)):
        for row in range(X.shape[0]):
            own = tree.leaves_of(label).tolist()
            leaves = [found for found in matched[row].tolist() if found in own] or own
            assert brought[copy, row] == (Y[row, label] > 0 and leaf in leaves)


@pytest.mark.parametrize("made, kept", [("words", 32), ("embedding", 200), ("signed", 100), ("short", 20)])
def test_rows_are_matched_by_their_largest_features_where_these_say_enough(made, kept):
    rng = np.random.default_rng(0)
    X = np.zeros((50, 200), dtype=np.float32)
    n = {"words": 100, "embedding": 200, "signed": 100, "short": 20}[made]
    X[:, :n] = 1 + rng.random((50, n)) if made == "embedding" else 1 / np.arange(1, n + 1)
    if made == "signed":
        X[0, 0] = -1
    assert (np.diff(_largest_features(csr_parts(sparse.csr_array(X)), 1).indptr) == kept).all()


def test_the_first_tree_is_as_deep_as_the_base_would_be():
    X = np.eye(64, dtype=np.float32)
    base = LinearTree(max_leaf_size=8, arity=8)
    for copies in (1, 2, 3):
        model = Disentangled(base, copies=copies, threads=1).fit(X, X)
        assert model.trees_[0].tree.depth.max() == 1


@pytest.mark.parametrize("copies", [1, 2])
def test_leaves_stay_even(toy, copies):
    X, Y, _, _ = toy
    model = Disentangled(BASE, copies=copies, copy_settings=CopySettings(max_leaf_load=1.0), threads=1).fit(X, Y)
    sizes = np.diff(model.trees_[0].tree.label_ptr)
    assert sizes.max() <= 12


def test_any_joins_copies_as_independent_chances(problem):
    X, Y = problem[:2]
    model = Disentangled(BASE, merge="any", threads=1).fit(X, Y)
    ranking = model.rank(X, k=4)
    pairs = np.column_stack([np.repeat(np.arange(ranking.n_rows), np.diff(ranking.indptr)), ranking.labels])
    np.testing.assert_allclose(ranking.scores, model.score_labels(X, pairs), rtol=1e-5)
    best = model.set_params(merge="max").score_labels(X, pairs)
    assert np.all(ranking.scores >= best - 1e-6)
    copied = model.copy_counts()[pairs[:, 1]] > 1
    np.testing.assert_allclose(ranking.scores[~copied], best[~copied], rtol=1e-5)
    assert copied.any()
    assert np.any(ranking.scores[copied] > best[copied])


def test_scores_of_labels_follow_the_merge(problem):
    X, Y = problem
    model = Disentangled(BASE, merge="mean", threads=1).fit(X, Y)
    pairs = np.stack([np.zeros(30, int), np.arange(30)], axis=1)
    means = model.score_labels(X, pairs)
    best = model.set_params(merge="max").score_labels(X, pairs)
    assert (best >= means - 1e-7).all()
    assert (best > means).any()


def test_one_leaf_stays_one_leaf(problem):
    X, Y = problem
    model = Disentangled(LinearTree(max_leaf_size=200), threads=1).fit(X, Y)
    assert model.trees_[0].tree.n_leaves == 1


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"copies": 0}, "copies"),
        ({"copies": "many"}, "copies"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 2, "retrain_matcher": False}, "several rounds need retrain_matcher=True"),
        ({"retrain_matcher": 1}, "retrain_matcher must be True or False"),
        ({"merge": "sum"}, "merge"),
        ({"copy_settings": {"leaves_per_row": 3}}, "copy_settings must be a CopySettings"),
        ({"copy_settings": CopySettings(rows="test")}, "rows"),
        ({"copy_settings": CopySettings(bring="none")}, "bring"),
        ({"copy_settings": CopySettings(max_leaf_load=0.5)}, "max_leaf_load"),
        ({"copy_settings": CopySettings(price=-1.0)}, "price"),
        ({"copy_settings": CopySettings(work=0.5)}, "work"),
        ({"copy_settings": CopySettings(tolerance_factor=0.5)}, "tolerance_factor"),
        ({"base": LinearTree(arity=1)}, "arity"),
        ({"base": Disentangled()}, "base must be a LinearTree"),
    ],
)
def test_settings_are_checked(settings, message, problem):
    with pytest.raises(InputError, match=message):
        Disentangled(**settings).fit(*problem)


def test_it_does_not_pose_as_its_base():
    model = Disentangled(LinearTree(arity=8), seed=3)
    assert not hasattr(model, "arity")
    assert (model.base_tree().arity, model.base_tree().seed) == (8, 3)
