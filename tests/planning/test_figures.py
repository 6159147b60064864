"""Figures of the data: exact where the sample is everything, near the truth where it is a part."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks import synthetic
from tagwood import Dataset, LinearTree, Solver, TfidfEncoder
from tagwood.errors import InputError
from tagwood.features.base import label_centroids
from tagwood.planning import figures as label_figures
from tagwood.planning import figures as text_figures
from tagwood.planning.figures import extrapolate, measure_figures
from tagwood.planning.forecast import tree_shape

ENCODER = TfidfEncoder(ngrams=(1, 1), threads=1)


@pytest.fixture(scope="module")
def data():
    made = synthetic.power_law(6000, 10, 1500, 8000, nnz_per_row=40.0, seed=0)
    texts = [" ".join(f"w{j}" for j in made.X_train[[row]].indices) for row in range(6000)]
    return Dataset(made.Y_train, texts=texts)


def test_figures_of_a_sample_that_is_everything_are_exact(data):
    figures = measure_figures(data, ENCODER)
    X = TfidfEncoder(ngrams=(1, 1), threads=1).fit_transform(list(data.texts))
    assert figures.texts.n_features == X.shape[1]
    assert figures.texts.per_row == pytest.approx(X.nnz / X.shape[0])
    assert figures.labels.pairs == data.labels.nnz
    assert figures.labels.n_labels == 1500
    assert figures.labels.used == np.unique(data.labels.indices).size
    assert figures.characters == sum(map(len, data.texts))
    assert not figures.grouped


def test_figures_of_a_small_sample_are_near(data, monkeypatch):
    monkeypatch.setattr(text_figures, "SAMPLE_ROWS", 1500)
    figures = measure_figures(data, ENCODER, seed=1)
    X = TfidfEncoder(ngrams=(1, 1), threads=1).fit_transform(list(data.texts))
    assert figures.texts.n_features == pytest.approx(X.shape[1], rel=0.15)
    assert figures.texts.per_row == pytest.approx(X.nnz / X.shape[0], rel=0.1)


def test_features_of_labels_are_near_the_truth(data):
    figures = measure_figures(data, ENCODER)
    X = TfidfEncoder(ngrams=(1, 1), threads=1).fit_transform(list(data.texts))
    sizes = np.diff(label_centroids(X, data.labels, threads=1).indptr)
    assert figures.labels.features == pytest.approx(sizes.sum(), rel=0.2)
    assert figures.labels.tree_features == pytest.approx(np.minimum(sizes, 512).sum(), rel=0.2)


def test_a_share_of_the_rows_has_fewer_pairs_and_features(data):
    whole, half = measure_figures(data, ENCODER), measure_figures(data, ENCODER, share=0.5)
    assert half.rows == 3000
    assert half.labels.pairs == pytest.approx(whole.labels.pairs / 2, abs=1)
    assert half.labels.features < whole.labels.features


def test_limits_of_the_encoder_are_kept(data):
    few = measure_figures(data, TfidfEncoder(ngrams=(1, 1), max_features=50, threads=1))
    rare = measure_figures(data, TfidfEncoder(ngrams=(1, 1), min_df=20, threads=1))
    assert few.texts.n_features == 50
    assert rare.texts.n_features < measure_figures(data, ENCODER).texts.n_features
    pairs = measure_figures(data, TfidfEncoder(ngrams=(1, 2), threads=1))
    assert pairs.texts.distinct > 5 * measure_figures(data, ENCODER).texts.distinct


def test_growth_is_carried_on_and_never_backwards():
    sizes, values = [100, 200, 400], [50.0, 80.0, 120.0]
    found = [extrapolate(sizes, values, size) for size in (400, 800, 1600, 6400)]
    assert found[0] == 120.0
    assert all(a < b for a, b in pairwise(found))
    assert found[1] < 2 * 120.0


@pytest.mark.parametrize(("arity", "leaf"), [(64, 100), (2, 10), (8, 20), (64, 2000)])
def test_the_shape_is_that_of_the_tree_that_is_built(data, arity, leaf):
    figures = measure_figures(data, ENCODER)
    model = LinearTree(arity=arity, max_leaf_size=leaf, threads=1)
    X = TfidfEncoder(ngrams=(1, 1), threads=1).fit_transform(list(data.texts))
    tree = model.fit(X[:300], data.labels[:300]).trees_[0].tree
    shape = tree_shape(figures.labels, model, (0.6, 0.4))
    assert shape.depth == tree.depth.max()
    assert sum(level.nodes for level in shape.levels) == tree.n_nodes


def test_rows_visit_at_least_one_node_and_at_most_one_per_label(data):
    labels = measure_figures(data, ENCODER).labels
    for together in (0.0, 0.5, 1.0):
        for level in tree_shape(labels, LinearTree(max_leaf_size=10), (together, together)).levels:
            assert data.n_rows - 1 <= level.visits <= data.labels.nnz


def test_matcher_negatives_add_visits(data):
    labels = measure_figures(data, ENCODER).labels
    plain, matched = (
        tree_shape(labels, LinearTree(max_leaf_size=10, solver=Solver(negatives=kind)), (0.6, 0.4))
        for kind in ("teacher", "teacher+matcher")
    )
    assert matched.levels[-1].visits > plain.levels[-1].visits


def test_few_rows_and_odd_texts_have_figures():
    for texts, labels in (
        [["oak"], [[0]]],
        [["", "", "oak oak"], [[0], [], [1]]],
        [["日本語"] * 3, [[0]] * 3],
    ):
        figures = measure_figures(Dataset(labels, texts=texts), TfidfEncoder(threads=1))
        assert figures.texts.tokens >= 0
        assert np.isfinite(figures.labels.features)


def test_misuse_is_named():
    with pytest.raises(InputError, match="a forecast needs texts; got features only"):
        measure_figures(Dataset([[0]], features=[[1.0]]), ENCODER)
    with pytest.raises(InputError, match="a forecast needs labels"):
        measure_figures(Dataset(np.zeros((1, 2)), texts=["oak"]), ENCODER)


def test_labels_are_drawn_by_size_and_stand_for_all(data):
    counts = np.arange(1.0, 1001.0)
    places, weight = label_figures._draw(counts, np.random.default_rng(0))
    assert (weight * counts[places]).sum() == pytest.approx(counts.sum(), rel=0.05)
    assert weight.sum() == pytest.approx(1000, rel=0.25)
