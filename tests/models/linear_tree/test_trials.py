"""Choosing λ: trials on held-out rows, the recommendation, and what a fitted and a stored model say of it."""

import numpy as np
import pytest
from scipy import sparse

import tagwood
from tagwood import LinearTree
from tagwood.errors import InputError
from tagwood.models.linear_tree.trials import (
    SweepPlan,
    SweepPoint,
    TreeSweep,
    Trial,
    paired_gains,
    single_row_times,
    split_rows,
    sweep_trees,
)
from tagwood.trees import build_balanced_tree, build_interpolated_tree
from tagwood.trees.label_tree import LabelTree

SMALL = {"arity": 2, "max_leaf_size": 1, "threads": 1}


@pytest.fixture(scope="module")
def problem():
    """400 rows; 16 labels with a word each, label i twice as frequent as label i + 2; noise words."""
    rng = np.random.default_rng(3)
    share = 0.5 ** (np.arange(16) // 2)
    labels = rng.choice(16, size=400, p=share / share.sum())
    X = sparse.random_array((400, 40), density=0.05, rng=rng, dtype=np.float32).tolil()
    X[np.arange(400), labels] = 1.0
    return sparse.csr_array(X), [[label] for label in labels.tolist()]


@pytest.fixture(scope="module")
def labels(problem):
    return tagwood._sparse.check_labels(problem[1])


def point(lam, precision, cost, base=0.5, width=0.002):
    gain = precision - base
    return SweepPoint(lam, {"P@1": precision, "us": cost}, gain, gain - width, gain + width)


def test_lam_shapes_the_tree(problem):
    X, Y = problem
    depths = {lam: LinearTree(lam=lam, **SMALL).fit(X, Y).trees_[0].tree.label_depths() for lam in (0.0, 1.0, 2.0)}
    assert set(depths[0.0]) == {4}
    for lam in (1.0, 2.0):
        assert depths[lam][0] < 4 < depths[lam].max()


def test_lam_zero_is_the_balanced_tree_and_lam_one_the_interpolated_one(problem, labels):
    X, Y = problem
    V = tagwood.features.base.label_centroids(X, Y)
    expected = {
        0.0: build_balanced_tree(V, **SMALL),
        1.0: build_interpolated_tree(V, labels, lam=1.0, **SMALL),
    }
    for lam, tree in expected.items():
        built = LinearTree(lam=lam, **SMALL).fit(X, Y).trees_[0].tree
        assert np.array_equal(built.parent, tree.parent)
        assert np.array_equal(built.labels, tree.labels)


def test_auto_takes_only_trees_that_lose_nothing_and_evaluate_less(problem):
    model = LinearTree(tree="auto", **SMALL).fit(*problem)
    sweep = model.sweep_
    assert model.lam_ == sweep.lam
    assert sweep.cost == "exact_outputs_5"
    assert sweep.facts["seeds"] > 1
    chosen, base = sweep.point(model.lam_), sweep.points[0]
    assert chosen.gain_low >= -sweep.loss
    assert chosen.measures[sweep.cost] <= base.measures[sweep.cost]
    again = LinearTree(lam=model.lam_, **SMALL).fit(*problem)
    assert np.array_equal(model.trees_[0].tree.labels, again.trees_[0].tree.labels)


def test_auto_chooses_alike_with_any_number_of_threads(problem):
    one, two = (LinearTree(**{**SMALL, "threads": n}, tree="auto").fit(*problem) for n in (1, 2))
    assert one.sweep_.to_dict() == two.sweep_.to_dict()


def test_auto_with_few_rows_is_the_balanced_tree():
    X = np.eye(8, dtype=np.float32)
    model = LinearTree(tree="auto", **SMALL).fit(X, [[i] for i in range(8)])
    assert (model.lam_, model.sweep_) == (0.0, None)


def test_given_trees_need_no_lam(problem, labels):
    tree = build_balanced_tree(np.eye(16, dtype=np.float32), **SMALL)
    model = LinearTree(tree="auto", **SMALL).fit(*problem, tree=tree)
    assert (model.lam_, model.sweep_) == (None, None)


def test_the_trials_are_stored_with_the_model(problem, tmp_path):
    model = LinearTree(tree="auto", **SMALL).fit(*problem)
    loaded = tagwood.load(tagwood.save(model, tmp_path / "model"))
    assert loaded.lam_ == model.lam_
    assert loaded.sweep_ == model.sweep_


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": 2.5}, "lam must be a number from 0 to 2; got 2.5"),
        (
            {"tree": "automatic"},
            "tree must be one of 'interpolated', 'auto'; got 'automatic'. Did you mean 'auto'",
        ),
        ({"tree": "auto", "lam": 0.5}, "lam must be left out with tree='auto'; got 0.5"),
    ],
)
def test_settings_that_do_not_fit_are_named(problem, settings, message):
    with pytest.raises(InputError, match=message.replace("'", "['\"]")):
        LinearTree(**settings).fit(*problem)


def test_the_fastest_tree_without_loss_is_recommended():
    points = [point(0.0, 0.50, 10.0), point(0.4, 0.50, 8.0), point(1.0, 0.49, 5.0)]
    assert TreeSweep(tuple(points), "us").lam == 0.4
    assert TreeSweep(tuple(points), "us", loss=0.013).lam == 1.0


def test_a_gain_that_may_be_chance_is_not_enough():
    unsure = point(0.4, 0.505, 5.0, width=0.02)
    assert unsure.gain > 0
    assert TreeSweep((point(0.0, 0.5, 10.0), unsure), "us").lam == 0.0


def test_a_tree_that_is_hardly_faster_is_not_recommended():
    assert TreeSweep((point(0.0, 0.5, 10.0), point(0.4, 0.6, 9.9)), "us").lam == 0.0


def test_the_front_has_every_point_that_none_beats():
    points = [point(0.0, 0.50, 10.0), point(0.4, 0.51, 8.0), point(0.6, 0.505, 9.0), point(1.0, 0.49, 5.0)]
    assert TreeSweep(tuple(points), "us").front() == [0.4, 1.0]
    assert TreeSweep((point(0.0, 0.5, 1.0), point(0.4, 0.5, 1.0)), "us").front() == [0.0, 0.4]


def test_a_sweep_comes_back_from_json():
    sweep = TreeSweep((point(0.0, 0.5, 10.0), point(0.4, 0.6, 9.0)), "us", 0.01, {"seeds": 2})
    assert TreeSweep.from_dict(sweep.to_dict()) == sweep


def test_a_sweep_without_the_balanced_tree_is_refused():
    with pytest.raises(InputError, match="must begin with λ=0"):
        TreeSweep((point(0.5, 0.5, 1.0),), "us")


def test_rows_are_either_trained_or_measured_on(labels):
    train, held = split_rows(labels, SweepPlan(holdout=0.2))
    assert held.size == 80
    assert np.array_equal(np.sort(np.concatenate([train, held])), np.arange(400))
    fewer, same = split_rows(labels, SweepPlan(holdout=0.2, train_rows=100))
    assert fewer.size == 100
    assert np.array_equal(same, held)


def test_too_few_rows_are_named(labels):
    with pytest.raises(InputError, match="takes 134 rows with labels or more; got 50"):
        split_rows(labels[:50], SweepPlan())


def test_gains_are_paired_by_row():
    hits = np.array([[[1.0, 0, 1, 0]], [[1, 1, 1, 1]]])  # two trees, one seed, four rows
    (base, gain) = paired_gains(hits, seed=0)
    assert base.tolist() == [0, 0, 0]
    assert gain[0] == 0.5
    assert 0 <= gain[1] < 0.5 < gain[2] <= 1


def test_a_sweep_measures_every_tree(problem, labels):
    plan = SweepPlan(lams=(1.0,), seeds=2, holdout=0.2)
    told = []
    weights = np.linspace(1, 2, 400)
    sweep = sweep_trees(
        LinearTree(**SMALL),
        problem[0],
        labels,
        plan,
        sample_weight=weights,
        progress=lambda stage, share: told.append((stage, share)),
    )
    assert [p.lam for p in sweep.points] == [0.0, 1.0]
    assert told[0] == ("trees, λ=0", 0.0)
    assert told[-1][0] == "latency"
    assert sweep.facts["seeds"] == 2
    for p in sweep.points:
        assert 0 < p.measures["exact_p50_1"] <= p.measures["exact_p99_1"]
        assert p.measures["depth@1"] <= p.measures["depth@5"]
        assert p.measures["exact_nodes_1"] <= p.measures["exact_nodes_5"]
    assert sweep.points[1].measures["depth@1"] < sweep.points[0].measures["depth@1"] == 4


def test_every_row_is_timed_for_every_model():
    asked = []
    times = single_row_times([asked.append, lambda row: None], np.eye(5, dtype=np.float32), passes=2, max_rows=3)
    assert times.shape == (2, 3)
    assert (times > 0).all()
    assert [int(row.indices[0]) for row in asked] == [0, 1, 2, 0, 1, 2]


def test_seeds_widen_the_interval():
    random = np.random.default_rng(0)
    rows = (random.random(2000) < 0.5).astype(float)
    tree = np.stack([np.clip(rows + shift, 0, 2) for shift in (-0.1, 0.0, 0.1)])  # seeds differ by a tenth
    gain = paired_gains(np.stack([np.stack([rows] * 3), tree]), seed=0)[1]
    alone = paired_gains(np.stack([rows[None], tree[1:2]]), seed=0)[1]
    assert gain[2] - gain[1] > 0.05 > alone[2] - alone[1]


@pytest.mark.parametrize("leaf_of_row", [lambda row: row % 4, lambda row: 3 if row % 8 == 7 else 0])
def test_the_cost_of_a_search_are_the_classifiers_of_its_nodes(leaf_of_row):
    """Each row has the five labels of a leaf: a search passes the root and that leaf once, however many it finds."""
    tree = LabelTree.from_nested([list(range(0, 12)), *(list(range(a, a + 6)) for a in (12, 18, 24))], 30)
    leaves = np.array([leaf_of_row(row) for row in range(160)])
    X = np.eye(4, dtype=np.float32)[leaves]
    first = np.array([0, 12, 18, 24])[leaves]
    Y = sparse.lil_array((160, 30))
    for row, label in enumerate(first.tolist()):
        Y[[row], label : label + 5] = 1
    model = LinearTree(threads=1, rare_label_weight=0).fit(X, Y.tocsr(), tree=tree)
    effort = model.search_effort(X, k=5)
    assert set(effort.nodes.tolist()) == {2}
    assert effort.outputs.tolist() == np.where(leaves == 0, 4 + 12, 4 + 6).tolist()


def test_trials_report_the_classifiers_that_searches_evaluate(problem, labels):
    X, model = problem[0], LinearTree(**SMALL)
    trial = Trial(model, X, labels, X[:50], labels[:50], {})
    fitted, measures, _ = trial.run(0.0, seed=0)
    for search in ("exact", "beam"):
        for k in (1, 5):
            effort = fitted.search_effort(X[:50], k, search=search)
            assert measures[f"{search}_outputs_{k}"] == effort.outputs.mean() > measures[f"{search}_nodes_{k}"]
