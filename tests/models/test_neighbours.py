"""`Neighbours` and `Centroids`: similar rows, added and removed rows, storage."""

import numpy as np
import pytest
from scipy import sparse

from tagwood import load, save
from tagwood.errors import InputError, NotFittedError
from tagwood.models.centroids import Centroids
from tagwood.models.neighbours import Neighbours
from tagwood.models.row_index import RowIndex


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = sparse.random_array((200, 40), density=0.2, rng=rng, dtype=np.float32, format="csr")
    return X, [[int(label)] for label in rng.integers(0, 12, 200)]


def test_a_row_is_its_own_nearest_neighbour(rows):
    X, y = rows
    model = Neighbours(n_neighbours=1, threads=1).fit(X, y)
    filled = np.flatnonzero(np.diff(X.indptr))
    assert model.nearest(X[filled]).ids.tolist() == filled.tolist()


def test_votes_are_shares(rows):
    X, y = rows
    ranking = Neighbours(n_neighbours=5, threads=1).fit(X, y).rank(X, k=12)
    sums = np.add.reduceat(ranking.scores, ranking.indptr[:-1])
    np.testing.assert_allclose(sums[np.diff(ranking.indptr) > 0], 1, rtol=1e-5)


def test_added_rows_vote_at_once_as_if_they_had_been_there(rows):
    X, y = rows
    whole = Neighbours(threads=1).fit(X, y)
    grown = Neighbours(threads=1).fit(X[:150], [*y[:150]])
    grown.grow(12).add_rows(X[150:], y[150:])
    # The weights' one-byte codes depend on the largest of each index, so scores may differ a little.
    np.testing.assert_allclose(grown.rank(X, 3).scores, whole.rank(X, 3).scores, atol=0.02)


def test_removed_rows_do_not_vote_and_are_not_stored(rows, tmp_path):
    X, y = rows
    model = Neighbours(n_neighbours=3, threads=1).fit(X, y).remove_rows([0, 7])
    assert not {0, 7} & set(model.nearest(X).ids.tolist())
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").segments_[0].n_rows == 198


@pytest.mark.parametrize("model", [Neighbours(threads=1), Centroids(threads=1)])
def test_restrict_and_exclude(model, rows):
    X, y = rows
    model.fit(X, y)
    assert set(model.rank(X, 5, restrict=[1, 2]).labels.tolist()) == {1, 2}
    assert 3 not in model.rank(X, 12, exclude=[3]).labels


def test_centroids_of_labels_are_compared(rows):
    X = np.array([[1, 0, 0], [0.8, 0.6, 0], [0, 0, 1]], dtype=np.float32)
    ranking = Centroids(threads=1).fit(X, [[0], [0], [1]]).rank(X[:1], k=2)
    assert ranking.labels.tolist() == [0]
    centroid = X[:2].sum(axis=0)
    assert ranking.scores[0] == pytest.approx(centroid[0] / np.linalg.norm(centroid), abs=0.01)


def test_misuse_is_explained(rows):
    X, y = rows
    with pytest.raises(InputError, match="must not hold negative features"):
        Neighbours().fit(-X, y)
    with pytest.raises(NotFittedError):
        Neighbours().rank(X)
    model = Neighbours(threads=1).fit(X, y)
    with pytest.raises(InputError, match="must have the 40 features"):
        model.rank(X[:, :39])
    with pytest.raises(InputError, match="at most 12 labels"):
        model.add_rows(X[:1], [[12]])
    with pytest.raises(InputError, match="from 0 to 199"):
        model.remove_rows([200])


def test_a_forged_index_is_refused(rows):
    X, y = rows
    state = Neighbours(threads=1).fit(X, y).state().part("index")
    for name, value in (("rows", 200), ("rows", -1), ("feature_ptr", 2**63 - 1), ("scale", np.nan)):
        forged = {**state.arrays, name: state.arrays[name].copy()}
        forged[name][3] = value
        with pytest.raises(InputError, match="must fit together"):
            RowIndex.from_state(type(state)(state.kind, params=state.params, arrays=forged))


def test_a_model_without_rows_left_answers_with_nothing(rows, tmp_path):
    X, y = rows
    model = Neighbours(threads=1).fit(X, y).remove_rows(np.arange(200))
    assert model.rank(X).labels.size == 0
    loaded = load(save(model, tmp_path / "model"))
    assert loaded.rank(X).labels.size == 0
    assert loaded.add_rows(X[3:4], [y[3]]).rank(X[3:4], 1).labels.tolist() == y[3]


def test_a_stored_model_gives_the_answers_of_the_one_in_memory_with_rows_added_and_removed(rows, tmp_path):
    X, y = rows
    model = Neighbours(n_neighbours=4, threads=1).fit(X[:120], y[:120]).grow(12)
    model.add_rows(X[120:160], y[120:160]).add_rows(X[160:], y[160:]).remove_rows([5, 130, 199])
    assert load(save(model, tmp_path / "model")).rank(X, 3) == model.rank(X, 3)


def test_stored_centroids_give_the_answers_of_those_in_memory_and_move_as_they_do(rows, tmp_path):
    X, y = rows
    model = Centroids(threads=1).fit(X[:60], y[:60]).grow(14)
    model.add_rows(X[60:65], y[60:65]).add_rows(X[65:66], [[13]])
    loaded = load(save(model, tmp_path / "model"))
    assert loaded.rank(X, 3) == model.rank(X, 3)
    assert 13 in loaded.rank(X, 14).labels
    assert loaded.add_rows(X[80:81], [[13]]).rank(X, 3) == model.add_rows(X[80:81], [[13]]).rank(X, 3)


@pytest.mark.parametrize(("kind", "array"), [(Centroids, "row_label"), (Neighbours, "label_ptr")])
def test_forged_labels_of_stored_rows_are_refused(kind, array, rows):
    X, y = rows
    state = kind(threads=1).fit(X[:60], y[:60]).add_rows(X[60:65], y[60:65]).state()
    for value in (0, -1, 2**31 - 1):
        forged = {**state.arrays, array: state.arrays[array].copy()}
        forged[array][3] = value
        with pytest.raises(InputError, match="stored"):
            kind.from_state(type(state)(state.kind, params=state.params, arrays=forged, parts=state.parts))


def test_refused_rows_leave_the_model_as_it_was(rows):
    X, y = rows
    model = Neighbours(threads=1).fit(X, y)
    before = model.rank(X)
    with pytest.raises(InputError, match="negative"):
        model.add_rows(-X[:2], y[:2])
    with pytest.raises(InputError, match="one row for each"):
        model.add_rows(X[:2], y[:1])
    with pytest.raises(InputError, match="n_labels must be"):
        model.grow(3)
    assert model.rank(X) == before


def test_rejected_labels_are_voted_against_and_stored(rows, tmp_path):
    X, y = rows
    model = Neighbours(n_neighbours=5, threads=1).fit(X, y)
    before = model.rank(X[:1], k=1)[0][0]
    model.add_rows(X[:1], [[]], rejected=[[before[0]]])
    after = dict(model.rank(X[:1], k=8)[0])
    assert after.get(before[0], 0.0) < before[1]
    save(model, tmp_path / "model")
    assert dict(load(tmp_path / "model").rank(X[:1], k=8)[0]) == after


def test_rows_that_only_reject_take_nothing_from_other_labels(rows):
    X, y = rows
    model = Neighbours(n_neighbours=200, threads=1).fit(X, y)
    before = dict(model.rank(X[:1], k=8)[0])
    model.add_rows(X[:1], [[]], rejected=[[7]])
    after = dict(model.rank(X[:1], k=8)[0])
    for label in before.keys() - {7}:
        assert after[label] == pytest.approx(before[label], rel=0.02)


def test_rows_added_one_by_one_are_kept_in_few_indexes(rows):
    X, y = rows
    whole = Neighbours(n_neighbours=5, threads=1).fit(X, y)
    grown = Neighbours(n_neighbours=5, threads=1).fit(X[:100], y[:100])
    for row in range(100, 200):
        grown.add_rows(X[[row]], [y[row]])
    assert len(grown.segments_) < 10
    same = [a[0][0] == b[0][0] for a, b in zip(whole.rank(X, 1), grown.rank(X, 1), strict=True)]
    assert np.mean(same) > 0.95


def test_centroids_that_were_replaced_are_left_out_when_indexes_are_joined(rows):
    X, y = rows
    model = Centroids(threads=1).fit(X[:60], y[:60])
    for row in np.tile(np.arange(60, 200), 3):
        model.add_rows(X[[row]], [y[row]])
    n_labels = model.n_labels_
    assert sum(one.n_rows for one in model.segments_) == model.dead_.size == model.row_label_.size
    assert model.dead_.size <= 4 * n_labels, "replaced centroids do not pile up"
    in_use = model.row_label_[model.dead_ == 0]
    assert sorted(in_use.tolist()) == list(range(n_labels)), "each label has one centroid"
    centroids = np.vstack([one.to_rows().to_scipy().toarray() for one in model.segments_])[model.dead_ == 0]
    expected = model._centroids_of(in_use).toarray()
    np.testing.assert_allclose(centroids, expected, atol=0.02)


def test_centroids_move_towards_new_rows(rows, tmp_path):
    X, y = rows
    whole = Centroids(threads=1).fit(X, y)
    few = Centroids(threads=1).fit(X[:60], y[:60])
    grown = Centroids(threads=1).fit(X[:60], y[:60])
    for row in range(60, 200):
        grown.add_rows(X[[row]], [y[row]])
    right = {name: model.score(X, y) for name, model in (("whole", whole), ("few", few), ("grown", grown))}
    assert right["grown"] > right["few"]
    assert right["grown"] > right["whole"] - 0.05
    save(grown, tmp_path / "model")
    stored, kept = load(tmp_path / "model").rank(X, 3), grown.rank(X, 3)
    np.testing.assert_allclose(stored.scores, kept.scores, atol=0.02)  # one-byte codes depend on their index
    assert grown.rank(X[:1], 8, exclude=[0, 1]).labels.min() > 1
