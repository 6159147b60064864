"""`LinearTree`: trees, classifiers, ensembles, negatives, parameters and interrupts."""

from dataclasses import replace

import numpy as np
import pytest
from reference import blocks as reference_blocks
from reference import train as reference_train
from scipy import sparse
from tree_problems import planted_problem, random_tree, same_arrays

from tagwood import LinearTree, Ranking, Solver
from tagwood.errors import InputError
from tagwood.features.base import label_centroids
from tagwood.trees.balanced import build_balanced_tree
from tagwood.trees.label_tree import LabelTree

TIGHT = Solver(tolerance=1e-4, max_sweeps=3000, threshold=0.0, weights="float32")


@pytest.fixture(scope="module")
def problem():
    return planted_problem()


def small_problem():
    return planted_problem(n_rows=60)


@pytest.fixture(scope="module")
def model(problem):
    return LinearTree(max_leaf_size=3, arity=4, threads=1).fit(*problem)


def weights_of(model, node=0, tree=0):
    return reference_blocks.read_node(model.trees_[tree].arrays, node, model.n_features_)


def test_it_finds_planted_labels(model, problem):
    X, Y = problem
    best = model.rank(X, k=1).labels
    assert Y[np.arange(X.shape[0]), best].mean() > 0.97


def test_one_vs_all_is_a_tree_of_one_leaf():
    X, Y = small_problem()
    model = LinearTree(max_leaf_size=20, rare_label_weight=0.0, solver=TIGHT, threads=1).fit(X, Y)
    assert model.trees_[0].tree.n_nodes == 1
    W, b = weights_of(model)
    with_bias = np.column_stack([X.toarray(), np.ones(X.shape[0])]).astype(np.float64)
    label_of = model.trees_[0].tree.labels
    for output in (0, 19):
        y = np.where(Y.toarray()[:, label_of[output]] > 0, 1.0, -1.0)
        best = reference_train.train_output(with_bias, y, np.ones(y.size), reference_train.SQUARED_HINGE)
        np.testing.assert_allclose(np.append(W[output], b[output]), best, atol=3e-3)


@pytest.mark.parametrize("weights", ["float32", "float16", "int8"])
def test_a_leaf_with_more_labels_than_a_block(weights):
    n_labels = 600
    X = np.eye(n_labels, dtype=np.float32)
    model = LinearTree(max_leaf_size=n_labels, solver=Solver(weights=weights), threads=2).fit(
        X, [[label] for label in range(n_labels)]
    )
    assert model.trees_[0].arrays.scales.size == 3
    assert model.rank(X, k=1).labels.tolist() == list(range(n_labels))
    assert model.rank(X[:2], k=n_labels).labels.size == 2 * n_labels


def test_stored_types_agree_within_their_precision(problem):
    X, Y = problem
    scores = {
        weights: LinearTree(max_leaf_size=4, solver=Solver(weights=weights), threads=1)
        .fit(X, Y)
        .rank(X, k=20, beam_width=20)
        .to_csr()
        .toarray()
        for weights in ("float32", "float16", "int8")
    }
    np.testing.assert_allclose(scores["float16"], scores["float32"], atol=0.01)
    np.testing.assert_allclose(scores["int8"], scores["float32"], atol=0.15)


@pytest.mark.parametrize("n_features", [1, 2, 3, 255, 256, 257, 65535, 65536, 70_000, 1 << 20])
def test_feature_spaces_of_any_size(n_features):
    from scipy import sparse

    rng = np.random.default_rng(n_features)
    n_labels = min(n_features, 40)
    features = np.sort(rng.choice(n_features, n_labels, replace=False))
    features[-1] = n_features - 1
    X = sparse.csr_array((np.ones(n_labels), (np.arange(n_labels), features)), shape=(n_labels, n_features))
    model = LinearTree(max_leaf_size=8, arity=2, threads=1).fit(X, [[label] for label in range(n_labels)])
    assert model.rank(X, k=1, search="exact").labels.tolist() == list(range(n_labels))


def test_given_trees_are_used_as_they_are(problem):
    X, Y = problem
    tree = random_tree(np.random.default_rng(0), 20, 5)
    model = LinearTree(threads=1).fit(X, Y, tree=tree)
    assert model.trees_[0].tree is tree
    two = [tree, LabelTree.from_nested([list(range(10)), list(range(10, 20))])]
    assert [t.tree for t in LinearTree(n_trees=2, threads=1).fit(X, Y, tree=two).trees_] == two


def test_a_tree_may_have_a_leaf_without_labels(problem):
    X, Y = problem
    model = LinearTree(threads=1).fit(X, Y, tree=LabelTree.from_nested([[], list(range(20))]))
    assert np.diff(model.rank(X, k=20).indptr).tolist() == [20] * X.shape[0]


@pytest.mark.parametrize("n_trees, given", [(1, 2), (2, 1), (1, "other labels")])
def test_trees_that_do_not_fit_are_refused(problem, n_trees, given):
    tree = LabelTree.from_nested([list(range(20))])
    trees = LabelTree.from_nested([0, 1]) if given == "other labels" else [tree] * given
    with pytest.raises(InputError, match=f"n_trees={n_trees} needs as many trees over the 20 labels of Y; got"):
        LinearTree(n_trees=n_trees).fit(*problem, tree=trees)


def test_label_features_shape_the_tree(problem):
    X, Y = problem
    V = np.random.default_rng(5).random((20, 7))
    model = LinearTree(max_leaf_size=3, arity=2, seed=4, threads=1).fit(X, Y, label_features=V)
    wanted = build_balanced_tree(V, max_leaf_size=3, seed=4, threads=1)
    assert model.trees_[0].tree.labels.tolist() == wanted.labels.tolist()
    plain = LinearTree(max_leaf_size=3, arity=2, seed=4, threads=1).fit(X, Y)
    pifa = LinearTree(max_leaf_size=3, arity=2, seed=4, threads=1).fit(X, Y, label_features=label_centroids(X, Y))
    assert same_arrays(plain.trees_[0], pifa.trees_[0])
    assert not same_arrays(plain.trees_[0], model.trees_[0])
    with pytest.raises(InputError, match="label_features must have one row for each of the 20 labels of Y"):
        LinearTree().fit(X, Y, label_features=V[:-1])


def test_an_ensemble_is_the_mean_of_its_trees(problem):
    X, Y = problem
    ensemble = LinearTree(n_trees=3, max_leaf_size=4, seed=5, threads=1).fit(X, Y)
    members = [LinearTree(max_leaf_size=4, seed=5 + i, threads=1).fit(X, Y) for i in range(3)]
    for mine, alone in zip(ensemble.trees_, members, strict=True):
        assert same_arrays(mine, alone.trees_[0])
    assert not same_arrays(ensemble.trees_[0], ensemble.trees_[1])
    wanted = Ranking.merge([member.rank(X, k=6, beam_width=6) for member in members]).top(3)
    assert ensemble.rank(X, k=3) == wanted
    effort = ensemble.search_effort(X, k=20)
    for field in ("nodes", "outputs"):
        parts = sum(getattr(m.search_effort(X, k=20), field) for m in members)
        assert getattr(effort, field).tolist() == parts.tolist()


def test_matcher_negatives_show_a_leaf_the_rows_that_the_levels_above_send():
    X, Y = small_problem()
    tree = LabelTree.from_nested([list(range(10)), list(range(10, 20))])
    model = LinearTree(rare_label_weight=0.0, solver=replace(TIGHT, negatives="teacher+matcher"), threads=1).fit(
        X, Y, tree=tree
    )
    # A beam of 10 keeps both leaves, so both see every row: each label is trained one-vs-all.
    W, b = weights_of(model, node=2)
    with_bias = np.column_stack([X.toarray(), np.ones(X.shape[0])]).astype(np.float64)
    for output in (0, 9):
        y = np.where(Y.toarray()[:, 10 + output] > 0, 1.0, -1.0)
        best = reference_train.train_output(with_bias, y, np.ones(y.size), reference_train.SQUARED_HINGE)
        np.testing.assert_allclose(np.append(W[output], b[output]), best, atol=3e-3)
    teacher = LinearTree(rare_label_weight=0.0, solver=TIGHT, threads=1).fit(X, Y, tree=tree)
    assert np.abs(weights_of(teacher, node=2)[0] - W).max() > 0.01
    np.testing.assert_array_equal(weights_of(teacher, node=0)[0], weights_of(model, node=0)[0])


def test_matcher_negatives_work_in_deep_trees_with_leaves_at_different_depths(problem):
    X, Y = problem
    tree = random_tree(np.random.default_rng(3), 20, 4)
    assert np.unique(tree.depth[tree.leaves]).size > 1
    models = [LinearTree(solver=Solver(negatives="teacher+matcher"), threads=t).fit(X, Y, tree=tree) for t in (1, 2)]
    assert same_arrays(models[0].trees_[0], models[1].trees_[0])
    best = models[0].rank(X, k=1).labels
    assert Y[np.arange(X.shape[0]), best].mean() > 0.9


@pytest.mark.parametrize(
    "params, message",
    [
        ({"arity": 1}, "arity must be a whole number from 2"),
        ({"arity": 6}, "arity must be a power of two; got 6"),
        ({"max_leaf_size": 0}, "max_leaf_size must be a whole number of at least 1; got 0"),
        ({"n_trees": 0}, "n_trees must be a whole number of at least 1; got 0"),
        ({"C": 0}, "C must be a number from 1e-09 to 1000000000.0; got 0"),
        ({"C": float("nan")}, "C must be a number"),
        ({"C": 1e-300}, "C must be a number"),
        ({"solver": Solver(negatives="matcher")}, "negatives must be one of 'teacher', 'teacher\\+matcher'"),
        ({"rare_label_weight": 1.5}, "rare_label_weight must be a number from 0 to 1; got 1.5"),
        ({"solver": Solver(link="l5-hinge")}, "link must be one of 'sigmoid'"),
        ({"solver": "fast"}, "solver must be a Solver; got str"),
        ({"solver": Solver(loss="hinge")}, "loss must be one of 'squared-hinge', 'logistic'"),
        ({"solver": Solver(weights="int4")}, "weights must be one of .* Did you mean 'int8'"),
        ({"solver": Solver(bias=-1)}, "bias must be a number of at least 0"),
        ({"solver": Solver(tolerance=0)}, "tolerance must be a number greater than 0"),
        ({"solver": Solver(threshold=-0.1)}, "threshold must be a number of at least 0"),
        ({"solver": Solver(max_sweeps=0)}, "max_sweeps must be a whole number from 1"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 1 << 64}, "seed must be a whole number"),
        ({"threads": 0}, "threads must be a whole number from 1 to 1024; got 0"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_by_fit(problem, params, message):
    model = LinearTree(**params)  # the constructor only stores
    with pytest.raises(InputError, match=message):
        model.fit(*problem)


def test_progress_is_told_by_stage_and_rises_to_1(problem):
    told = []
    LinearTree(max_leaf_size=3, threads=1).fit(*problem, progress=lambda stage, share: told.append((stage, share)))
    assert [stage for stage, _ in told][:2] == ["label features", "label tree"]
    shares = [share for stage, share in told if stage == "training"]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("stage", ["label features", "label tree", "training"])
def test_an_interrupted_fit_leaves_the_model_as_it_was(problem, stage):
    X, Y = problem

    def interrupt(now, _):
        if now == stage:
            raise KeyboardInterrupt

    model = LinearTree(max_leaf_size=3, threads=1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, progress=interrupt)
    assert set(vars(model)) == set(model.get_params(deep=False))
    before = model.fit(X, Y).rank(X)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:50, :30], Y[:50], progress=interrupt)
    assert model.n_features_ == X.shape[1]
    assert model.rank(X) == before


def test_a_label_without_rows_is_returned_only_if_it_is_asked_for(problem):
    X, Y = problem
    wider = sparse.csr_array(sparse.hstack([sparse.csr_array((X.shape[0], 3)), Y]))
    for arity in (2, 64):
        model = LinearTree(arity=arity, max_leaf_size=4, threads=1).fit(X, wider)
        for search in ("beam", "exact"):
            for limits in ({}, {"exclude": [22]}):
                assert model.rank(X, k=23, beam_width=30, search=search, **limits).labels.min() == 3
            for row in model.rank(X, k=23, beam_width=30, search=search, restrict=np.arange(23)):
                unseen = [label < 3 for label, _ in row]
                assert sum(unseen) == 3
                assert all(unseen[-3:])
