import numpy as np
import pytest
from checkerboard import checkerboard
from scipy import sparse

from benchmarks import synthetic
from tagwood.errors import InputError
from tagwood.features.base import label_centroids
from tagwood.ranking import Ranking


def ranked_by_centroid(problem: synthetic.Problem, k: int) -> Ranking:
    centroids = label_centroids(problem.X_train, problem.Y_train, threads=1)
    return Ranking.from_csr(sparse.csr_array(problem.X_test @ centroids.T.tocsr()), k)


def hits(problem: synthetic.Problem, ranking: Ranking) -> float:
    return problem.Y_test.multiply(ranking.to_sets()).sum() / ranking.labels.size


def parts(problem: synthetic.Problem) -> list[sparse.csr_array]:
    return [problem.X_train, problem.Y_train, problem.X_test, problem.Y_test]


@pytest.fixture(scope="module")
def zipf() -> synthetic.Problem:
    return synthetic.power_law(4000, 800, 3000, 5000, labels_per_row=5, nnz_per_row=40, seed=3)


@pytest.mark.parametrize("n_colours", [2, 3, 12])
def test_centroids_solve_the_checkerboard_exactly(n_colours):
    problem = checkerboard(n_labels=12, n_colours=n_colours)
    assert hits(problem, ranked_by_centroid(problem, 12 // n_colours)) == 1.0


def test_checkerboard_shows_each_label_and_each_row_something():
    for seed in range(20):
        problem = checkerboard(n_rows=7, n_labels=9, n_colours=4, n_features=5, seed=seed)
        assert problem.Y_train.sum(axis=0).min() >= 1
        assert problem.Y_train.sum(axis=1).min() >= 1
        assert problem.Y_train.sum() < problem.Y_test.sum()


def test_checkerboard_rows_have_norm_one():
    norms = sparse.linalg.norm(checkerboard().X_train, axis=1)
    np.testing.assert_allclose(norms, 1, rtol=1e-6)


def test_power_law_meets_its_means(zipf):
    assert zipf.X_train.nnz / 4000 == pytest.approx(40, rel=0.06)
    assert zipf.Y_train.nnz / 4000 == pytest.approx(5, rel=0.06)
    assert zipf.Y_test.nnz / 800 == pytest.approx(5, rel=0.06)


def test_power_law_covers_every_label_in_train_and_every_row_has_one(zipf):
    assert zipf.Y_train.sum(axis=0).min() >= 1
    assert min(zipf.Y_train.sum(axis=1).min(), zipf.Y_test.sum(axis=1).min()) >= 1


def test_power_law_has_a_head_and_a_tail(zipf):
    counts = np.sort(np.asarray(zipf.Y_train.sum(axis=0)))[::-1]
    assert counts[0] > 50
    assert np.median(counts) < 5
    assert counts[:300].sum() > 0.3 * counts.sum()


def test_power_law_matrices_are_canonical_and_compact(zipf):
    for matrix in parts(zipf):
        fresh = sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
        assert fresh.has_canonical_format
        assert matrix.indices.dtype == np.int32
        assert matrix.dtype == np.float32
    np.testing.assert_allclose(sparse.linalg.norm(zipf.X_test, axis=1), 1, rtol=1e-5)
    assert set(np.unique(zipf.Y_train.data)) == {1.0}
    assert zipf.X_train.data.min() > 0


def test_power_law_can_be_learned_and_is_not_trivial(zipf):
    assert 0.2 < hits(zipf, ranked_by_centroid(zipf, 1)) < 0.95


def test_labels_that_stand_together_look_alike(zipf):
    centroids = label_centroids(zipf.X_train, zipf.Y_train, threads=1)
    rng = np.random.default_rng(0)
    together = sparse.triu(zipf.Y_train.T @ zipf.Y_train, k=1).tocoo()
    pick = rng.integers(together.nnz, size=2000)
    near = centroids[together.row[pick]].multiply(centroids[together.col[pick]]).sum(axis=1).mean()
    left, right = rng.integers(3000, size=(2, 2000))
    far = centroids[left].multiply(centroids[right]).sum(axis=1).mean()
    assert near > 2 * far


def test_same_seed_same_problem_and_other_seed_another():
    sizes = {"labels_per_row": 3, "nnz_per_row": 20}
    first, again, other = (synthetic.power_law(300, 50, 200, 400, **sizes, seed=seed) for seed in (5, 5, 6))
    for left, right in zip(parts(first), parts(again), strict=True):
        assert (left != right).nnz == 0
    assert (first.X_train != other.X_train).nnz > 0


def test_amazon_670k_like_scales_rows_labels_and_features():
    problem = synthetic.amazon_670k_like(scale=0.002, seed=1)
    assert problem.X_train.shape == (981, 6078)
    assert problem.Y_train.shape == (981, 1340)
    assert problem.X_test.shape[0] == 306


def test_amazon_3m_like_has_many_labels_per_row():
    problem = synthetic.amazon_3m_like(scale=0.001)
    assert problem.Y_train.shape == (1718, 2812)
    assert problem.Y_train.nnz / 1718 == pytest.approx(36, rel=0.2)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"n_labels": 5000}, "n_train \\* labels_per_row must be at least the 5,000 labels"),
        ({"noise": 1.0}, "noise must be a number from 0 to 0.95"),
        ({"nnz_per_row": 400}, "nnz_per_row must be a number from 1 to 100"),
        ({"n_train": 0}, "n_train must be a whole number of at least 1"),
    ],
)
def test_sizes_that_cannot_be_are_refused(change, message):
    sizes = {
        "n_train": 300,
        "n_test": 50,
        "n_labels": 200,
        "n_features": 400,
        "labels_per_row": 3,
        "nnz_per_row": 20,
    }
    with pytest.raises(InputError, match=message):
        synthetic.power_law(**(sizes | change))


def test_scale_must_be_a_share():
    with pytest.raises(InputError, match="scale must be a number of at most 1"):
        synthetic.amazon_670k_like(scale=2)


def test_amazon_3m_few_has_the_same_sizes_and_few_labels_per_row():
    few, many = synthetic.amazon_3m_few(scale=0.001), synthetic.amazon_3m_like(scale=0.001)
    assert few.Y_train.shape == many.Y_train.shape
    assert few.X_train.shape == many.X_train.shape
    assert few.Y_train.nnz < many.Y_train.nnz / 4
