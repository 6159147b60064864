"""`LabelIndex` against brute force, exact and approximate, and its storage."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tagwood
from tagwood.errors import InputError
from tagwood.neural.prime import label_index
from tagwood.neural.prime.label_index import FLAT_UP_TO, HNSW_UP_TO, LabelIndex
from tagwood.storage import State


def unit(n, d, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def search(index, *query, **choice):
    """Return labels and scores of a ranking, one row per query, filled up with -1 and -inf."""
    ranking = index.rank(*query, **choice)
    sizes = np.diff(ranking.indptr)
    real = np.arange(sizes.max(initial=0)) < sizes[:, None]
    labels, scores = np.full(real.shape, -1), np.full(real.shape, -np.inf)
    labels[real], scores[real] = ranking.labels, ranking.scores
    return labels, scores


def brute_force(vectors, queries, k, allowed=None):
    scores = queries @ vectors.T
    if allowed is not None:
        scores[:, np.setdiff1d(np.arange(len(vectors)), allowed)] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


@given(st.integers(0, 1000), st.integers(1, 60), st.integers(1, 70))
@settings(max_examples=30, deadline=None)
def test_flat_search_equals_brute_force(seed, n_labels, k):
    vectors, queries = unit(n_labels, 8, seed), unit(5, 8, seed + 1)
    labels, scores = search(LabelIndex(vectors, threads=1), queries, k)
    expected, values = brute_force(vectors, queries, k)
    np.testing.assert_allclose(scores, values, atol=1e-6)
    np.testing.assert_allclose(np.sum(queries[:, None] * vectors[labels], axis=2), values, atol=1e-6)
    assert labels.shape == expected.shape == (5, min(k, n_labels))


@given(st.integers(0, 1000), st.sets(st.integers(0, 399)), st.sets(st.integers(0, 399)), st.booleans())
@settings(max_examples=40, deadline=None)
def test_choices_of_labels_equal_brute_force_over_them(seed, restrict, exclude, limited):
    vectors, queries = unit(400, 8, seed), unit(4, 8, seed + 1)
    allowed = np.setdiff1d(sorted(restrict) if limited else np.arange(400), sorted(exclude))
    index = LabelIndex(vectors, threads=1)
    labels, scores = search(index, queries, 7, restrict if limited else None, exclude)
    expected, values = brute_force(vectors, queries, min(7, allowed.size), allowed)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_allclose(scores, values, atol=1e-6)


def test_many_excluded_labels_are_left_out():
    vectors, queries = unit(900, 8), unit(3, 8, 1)
    excluded = np.arange(0, 900, 2)
    labels, _ = search(LabelIndex(vectors, threads=1), queries, 5, exclude=excluded)
    np.testing.assert_array_equal(labels, brute_force(vectors, queries, 5, np.arange(1, 900, 2))[0])


def test_ties_go_to_the_lower_label():
    labels, _ = search(LabelIndex(np.ones((4, 2)), threads=1), [[1.0, 0.0]], 4)
    assert labels.tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_approximate_kinds_find_most_of_the_best_and_never_what_is_excluded(kind, monkeypatch):
    monkeypatch.setattr(label_index, "PROBES", 0.2)
    centres = unit(40, 16, 3)
    random = np.random.default_rng(1)
    vectors = np.repeat(centres, 50, axis=0) + 0.3 * random.normal(size=(2000, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = vectors[::40]
    index = LabelIndex(vectors, kind, threads=1)
    expected = brute_force(vectors, queries, 10)[0]
    labels, scores = search(index, queries, 10)
    shared = [len(set(found) & set(best)) / 10 for found, best in zip(labels, expected, strict=True)]
    assert np.mean(shared) > 0.9
    assert (np.diff(scores, axis=1) <= 0).all()
    excluded = expected[:, 0]
    assert not np.isin(search(index, queries, 10, exclude=excluded)[0], excluded).any()
    allowed = np.arange(0, 2000, 3)
    assert set(search(index, queries, 10, restrict=allowed)[0].ravel()) <= set(allowed)


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_approximate_kinds_restrict_large_choices_without_an_exact_search(kind, monkeypatch):
    monkeypatch.setattr(label_index, "FLAT_UP_TO", 40)
    monkeypatch.setattr(label_index, "PROBES", 0.5)
    vectors = unit(2000, 8)
    index = LabelIndex(vectors, kind, threads=1)
    allowed = np.arange(0, 2000, 2)
    labels, _ = search(index, vectors[:20:2], 5, restrict=allowed)
    assert labels[:, 0].tolist() == list(range(0, 20, 2))
    assert set(labels.ravel()) <= set(allowed) | {-1}


def test_size_chooses_the_kind():
    class Sized(LabelIndex):
        size = 1

        def __len__(self):
            return self.size

    index = Sized(np.eye(2))
    used = []
    for index.size in (FLAT_UP_TO, FLAT_UP_TO + 1, HNSW_UP_TO + 1):
        used.append(index.used)
    assert used == ["flat", "hnsw", "ivf"]


def test_index_comes_back_from_its_state(tmp_path):
    vectors, queries = unit(50, 4), unit(3, 4, 1)
    index = LabelIndex(vectors, "hnsw", threads=1)
    tagwood.save(index, tmp_path / "index")
    back = tagwood.load(tmp_path / "index")
    assert back.kind == "hnsw"
    np.testing.assert_array_equal(search(back, queries, 5)[0], search(index, queries, 5)[0])
    again = pickle.loads(pickle.dumps(index))  # after a search: the graph is not pickled
    np.testing.assert_array_equal(search(again, queries, 5)[0], search(index, queries, 5)[0])


def test_added_labels_are_found_behind_the_others():
    index = LabelIndex(np.eye(3)[:2], threads=1).add(np.eye(3)[2:])
    assert search(index, [[0.0, 0.1, 1.0]], 2)[0].tolist() == [[2, 1]]


def test_no_queries_and_no_allowed_labels_give_empty_answers():
    index = LabelIndex(np.eye(3), threads=1)
    assert len(index.rank(np.empty((0, 3)), 2)) == 0
    assert index.rank(np.eye(3), 2, restrict=[]).indptr.tolist() == [0, 0, 0, 0]
    assert index.rank(np.eye(3), 2, exclude=[0, 1, 2]).labels.size == 0


def test_scores_are_inner_products():
    ranking = LabelIndex(np.eye(3), threads=1).rank([[0.6, 0.8, 0.0]], 2)
    assert list(ranking[0]) == [(1, pytest.approx(0.8)), (0, pytest.approx(0.6))]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: LabelIndex(np.zeros(3)), "vectors must be a matrix"),
        (lambda: LabelIndex(np.eye(3), "float"), "kind must be one of"),
        (lambda: LabelIndex([[np.nan]]), "finite"),
        (lambda: LabelIndex(np.eye(3)).rank(np.eye(2), 1), "matrix of 3 columns"),
        (lambda: LabelIndex(np.eye(3)).rank(np.eye(3), 0), "k must be"),
        (
            lambda: LabelIndex(np.eye(3)).rank(np.eye(3), 1, exclude=[3]),
            "exclude must hold labels from 0 to 2",
        ),
        (lambda: LabelIndex.from_state(State("LabelIndex", params={"kind": "flat"})), "vectors"),
    ],
)
def test_misuse_is_named(call, words):
    with pytest.raises(InputError, match=words):
        call()
