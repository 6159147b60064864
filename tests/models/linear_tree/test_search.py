"""Searches of a `LinearTree`: beams, exact search, budgets, allowed labels and scores of given labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import search as reference_search
from tree_problems import planted_problem, random_tree

from tagwood import LinearTree, Solver
from tagwood._sparse import check_features, csr_parts
from tagwood.errors import InputError
from tagwood.models.label_filter import LabelFilter
from tagwood.models.linear_tree.weights import LINKS, pair_scores

TIGHT = Solver(tolerance=1e-4, max_sweeps=3000, threshold=0.0, weights="float32")


@pytest.fixture(scope="module")
def problem():
    return planted_problem()


def scores_of(model, X, pairs, merge):
    """Scores of (row, label) pairs in the only tree, with the given merge of copies."""
    scores = pair_scores(model.trees_[0], csr_parts(check_features(X)), np.asarray(pairs), merge, 1)
    return scores.astype(np.float32)


def small_problem():
    return planted_problem(n_rows=60)


@pytest.fixture(scope="module")
def model(problem):
    return LinearTree(max_leaf_size=3, arity=4, threads=1).fit(*problem)


def twin_search(model, X, k, *, exact, width=10, copies=reference_search.MEAN, tree=0):
    one = model.trees_[tree]
    head = one.head
    merge = copies if one.tree.has_copies else 0
    empty = np.empty(0, np.uint8)
    return reference_search.search(*head, *csr_parts(X), exact, k, width, 0, merge, empty, empty, 1)


@pytest.mark.parametrize("search, exact", [("beam", False), ("exact", True)])
def test_rankings_are_those_of_the_twin(model, problem, search, exact):
    X = problem[0][:30]
    ranking = model.rank(X, k=5, search=search, beam_width=3)
    labels, scores, found = twin_search(model, X, 5, exact=exact, width=3)
    np.testing.assert_allclose(ranking.scores, scores, rtol=1e-4, atol=1e-6)
    assert found.tolist() == np.diff(ranking.indptr).tolist()
    assert np.mean(ranking.labels == labels) > 0.95  # all but ties


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.integers(0, 4),
    st.sampled_from(list(LINKS)),
    st.integers(1, 14),
)
def test_exact_search_equals_the_scores_of_all_labels(seed, n_labels, n_copies, link, k):
    rng = np.random.default_rng(seed)
    X, Y = planted_problem(seed, 12, n_labels, 8)
    model = LinearTree(solver=Solver(link=link), threads=1).fit(X, Y, tree=random_tree(rng, n_labels, n_copies))
    pairs = [(row, label) for row in range(12) for label in range(n_labels)]
    every = scores_of(model, X, pairs, "max").reshape(12, n_labels)
    ranking = model.rank(X, k=k, search="exact")
    for row in range(12):
        mine = ranking[row]
        assert len(mine) == min(k, n_labels)
        np.testing.assert_allclose([s for _, s in mine], -np.sort(-every[row])[: len(mine)], rtol=1e-4, atol=2e-6)
        np.testing.assert_allclose([s for _, s in mine], [every[row, label] for label, _ in mine], rtol=1e-4, atol=2e-6)


def test_a_beam_as_wide_as_the_tree_finds_what_exact_search_finds(model, problem):
    exact = model.rank(problem[0], k=4, search="exact")
    wide = model.rank(problem[0], k=4, beam_width=model.trees_[0].tree.n_nodes)
    np.testing.assert_array_equal(exact.scores, wide.scores)
    assert model.rank(problem[0], k=4, beam_width=10**30) == wide


def test_only_allowed_labels_are_returned(model, problem):
    X = problem[0]
    some = [0, 3, 4, 17]
    for search in ("beam", "exact"):
        only = model.rank(X, k=20, search=search, restrict=some)
        assert set(only.labels.tolist()) <= set(some)
        assert np.diff(only.indptr).tolist() == [4] * X.shape[0]
        without = model.rank(X, k=20, beam_width=99, search=search, exclude=some)
        assert set(without.labels.tolist()) == set(range(20)) - set(some)
        both = model.rank(X, k=20, search=search, restrict=some, exclude=[3])
        assert set(both.labels.tolist()) == {0, 4, 17}
        assert model.rank(X, search=search, restrict=[]).labels.size == 0
        assert model.rank(X, search=search, exclude=[]) == model.rank(X, search=search)
    wide = model.rank(X, k=20, beam_width=99)
    kept = wide.to_csr().toarray()[:, some]
    np.testing.assert_array_equal(model.rank(X, k=20, beam_width=99, restrict=some).to_csr().toarray()[:, some], kept)


@pytest.mark.parametrize("name", ["restrict", "exclude"])
def test_masks_and_filters_stand_for_the_ids_in_them(model, problem, name):
    X, _ = problem
    ids, mask = [2, 3, 5, 7, 11, 13], np.zeros(20, dtype=bool)
    mask[ids] = True
    expected = model.rank(X, k=4, **{name: ids})
    for labels in (mask, LabelFilter(mask), LabelFilter.of(ids, 20), LabelFilter.of(ids, 14), np.array(ids, np.uint16)):
        assert model.rank(X, k=4, **{name: labels}).labels.tolist() == expected.labels.tolist()
    with pytest.raises(InputError, match=f"{name} as a mask must have one entry for each of the 20 labels"):
        model.rank(X, **{name: mask[:5]})


@pytest.mark.parametrize("name", ["restrict", "exclude"])
@pytest.mark.parametrize("ids", [[20], [-1], [0.5], ["a"], [[1, 2]]])
def test_ids_that_are_no_labels_are_refused(model, problem, name, ids):
    with pytest.raises(InputError, match=f"{name} must hold label ids from 0 to 19"):
        model.rank(problem[0], **{name: ids})


def test_scores_of_given_labels_are_those_of_the_ranking(model, problem):
    X = problem[0][:20]
    ranking = model.rank(X, k=20, beam_width=99)
    rows = np.repeat(np.arange(20), np.diff(ranking.indptr))
    pairs = np.column_stack([rows, ranking.labels])
    np.testing.assert_allclose(model.score_labels(X, pairs), ranking.scores, rtol=1e-4, atol=1e-6)
    shuffled = np.random.default_rng(0).permutation(pairs.shape[0])
    np.testing.assert_array_equal(model.score_labels(X, pairs[shuffled]), model.score_labels(X, pairs)[shuffled])
    assert model.score_labels(X, []).size == 0


@pytest.mark.parametrize("merge", ["mean", "max"])
def test_scores_of_labels_with_copies_are_merged(problem, merge):
    X, Y = problem
    model = LinearTree(threads=1).fit(X, Y, tree=random_tree(np.random.default_rng(1), 20, 8))
    ranking = model.rank(X, k=20, **({"beam_width": 99} if merge == "mean" else {"search": "exact"}))
    pairs = np.column_stack([np.repeat(np.arange(X.shape[0]), np.diff(ranking.indptr)), ranking.labels])
    np.testing.assert_allclose(scores_of(model, X, pairs, merge), ranking.scores, rtol=1e-4, atol=1e-6)
    if merge == "mean":
        np.testing.assert_array_equal(model.score_labels(X, pairs), scores_of(model, X, pairs, merge))


def test_scores_of_an_ensemble_are_means(problem):
    X, Y = problem
    model = LinearTree(n_trees=2, max_leaf_size=4, threads=1).fit(X, Y)
    ranking = model.rank(X, k=20, beam_width=99)  # all labels: no tree leaves out one that another finds
    pairs = np.column_stack([np.repeat(np.arange(X.shape[0]), np.diff(ranking.indptr)), ranking.labels])
    np.testing.assert_allclose(model.score_labels(X, pairs), ranking.scores, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "pairs, message",
    [
        ([[0, 20]], "rows below 150 and labels below 20"),
        ([[150, 0]], "rows below 150"),
        ([[0, -1]], "rows below 150"),
        ([0, 1], "whole numbers of shape"),
        ([[0, 1, 2]], "whole numbers of shape"),
        ([[0.0, 1.0]], "whole numbers of shape"),
    ],
)
def test_pairs_that_do_not_fit_are_refused(model, problem, pairs, message):
    with pytest.raises(InputError, match=message):
        model.score_labels(problem[0], pairs)


def test_a_budget_limits_the_nodes_of_an_exact_search(model, problem):
    X = problem[0]
    nodes, bound, _ = model.search_effort(X, k=3)
    assert not bound.any()
    few, few_bound, _ = model.search_effort(X, k=3, max_nodes=2)
    assert few.max() == 2
    assert few_bound.max() > 0
    assert np.all(few <= nodes)
    wide, beam_bound, _ = model.search_effort(X[:60], k=3, search="beam", beam_width=10)
    assert set(beam_bound.tolist()) == {-1}
    assert nodes[:60].mean() <= wide.mean()  # both visit the best node first and stop early
    assert wide.mean() < 1 + model.trees_[0].tree.n_nodes / 2
    assert np.all(model.search_effort(X, k=3, search="beam", beam_width=10)[0][:60] - wide <= 2)  # leaves in one go
    full = model.rank(X, k=3, search="exact")
    short = model.rank(X, k=3, search="exact", max_nodes=2)
    for row in np.flatnonzero(few_bound > 0):
        seen = {label for label, _ in short[row]}
        assert all(score <= few_bound[row] + 1e-6 for label, score in full[row] if label not in seen)
    for row in np.flatnonzero(few_bound == 0):
        assert short[row] == full[row]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"beam_width": 0}, "beam_width must be a whole number of at least 1; got 0"),
        ({"search": "best"}, "search must be one of 'beam', 'exact'; got 'best'"),
        ({"search": "exact", "max_nodes": 0}, "max_nodes must be a whole number of at least 1; got 0"),
        ({"max_nodes": 5}, "max_nodes belongs to search='exact'; got search='beam'"),
    ],
)
def test_options_of_rank_that_do_not_fit_are_refused(model, problem, options, message):
    with pytest.raises(InputError, match=message):
        model.rank(problem[0], **options)
