"""`TreeWeights`: links from margins to scores; searches with copies against brute force over all copies."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference import search as reference_search
from tree_problems import random_rows, random_tree, random_weights

from tagwood.errors import InputError
from tagwood.models.label_filter import LabelFilter
from tagwood.models.linear_tree.weights import LINKS, SearchPlan, link_power, log_probability, pair_scores

PROBLEMS = {
    "seed": st.integers(0, 10**6),
    "n_labels": st.integers(1, 30),
    "n_copies": st.integers(0, 20),
    "link": st.sampled_from(list(LINKS)),
    "k": st.integers(1, 35),
}


def made(seed, n_labels, n_copies, link, n_rows=6):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n_labels, n_copies)
    return random_weights(rng, tree, 8, link), random_rows(rng, n_rows, 8)


def all_scores(weights, X, merge):
    n_labels = weights.tree.n_labels
    pairs = np.stack(np.meshgrid(np.arange(X.n_rows), np.arange(n_labels), indexing="ij"), axis=-1)
    return pair_scores(weights, X, pairs.reshape(-1, 2), merge, 1).reshape(-1, n_labels)


def assert_best(found, k, scores):
    """The scores are the k best ones, each under a label that has it, no label twice."""
    n_rows, n_labels = scores.shape
    labels, given_scores = found.labels.reshape(n_rows, k), found.scores.reshape(n_rows, k)
    assert found.found.tolist() == [min(k, n_labels)] * n_rows
    for row in range(n_rows):
        used = slice(0, found.found[row])
        best = np.sort(scores[row])[::-1][:k]
        np.testing.assert_allclose(given_scores[row, used], best, rtol=2e-4, atol=1e-6)
        np.testing.assert_allclose(scores[row, labels[row, used]], best, rtol=2e-4, atol=1e-6)
        assert len(set(labels[row, used].tolist())) == found.found[row]
        assert (labels[row, found.found[row] :] == -1).all()


@settings(deadline=None, max_examples=60)
@given(**PROBLEMS, merge=st.sampled_from(["mean", "max"]))
def test_exact_search_is_exact_for_both_merges(seed, n_labels, n_copies, link, k, merge):
    weights, X = made(seed, n_labels, n_copies, link)
    found = weights.search(X, k, SearchPlan(exact=True, merge=merge), 1)
    assert_best(found, k, all_scores(weights, X, merge))


@settings(deadline=None, max_examples=60)
@given(**PROBLEMS)
def test_a_beam_over_everything_is_exact_too(seed, n_labels, n_copies, link, k):
    weights, X = made(seed, n_labels, n_copies, link)
    found = weights.search(X, k, SearchPlan(beam_width=weights.tree.n_nodes, merge="max"), 1)
    assert_best(found, k, all_scores(weights, X, "max"))


@settings(deadline=None, max_examples=60)
@given(**PROBLEMS, width=st.integers(1, 5), merge=st.sampled_from(["mean", "max"]), masked=st.booleans())
@example(
    seed=396176, n_labels=29, n_copies=2, link="l4-hinge", k=5, width=4, merge="mean", masked=False
)  # nearly equal scores
def test_beams_join_the_copies_they_find(seed, n_labels, n_copies, link, k, width, merge, masked):
    weights, X = made(seed, n_labels, n_copies, link)
    mask = np.random.default_rng(seed).random(n_labels) < 0.6 if masked else None
    found = weights.search(
        X, k, SearchPlan(beam_width=width, merge=merge, allowed=None if mask is None else LabelFilter(mask)), 1
    )
    bits = (np.empty(0, np.uint8),) * 2 if mask is None else (mask, weights.tree.nodes_with(mask))
    head = weights.head
    copies = {"mean": reference_search.MEAN, "max": reference_search.MAX}[merge]
    twin = reference_search.search(*head, *X, False, k, width, 0, copies, *(b.astype(np.uint8) for b in bits), 1)
    assert found.found.tolist() == twin[2].tolist()
    np.testing.assert_allclose(found.scores, twin[1], rtol=2e-4, atol=1e-6)


def test_rows_that_need_more_labels_for_their_means_are_asked_again():
    for seed in range(5):
        weights, X = made(seed, 40, 38, "l1-hinge", n_rows=30)
        found = weights.search(X, 3, SearchPlan(exact=True, merge="mean"), 1)
        once = weights.search_places(X, 6, SearchPlan(exact=True, merge="max"), 2, 1)
        assert (found.evaluated >= once.evaluated).all()
        assert (found.evaluated > once.evaluated).any()
        assert_best(found, 3, all_scores(weights, X, "mean"))


def test_a_budget_needs_the_maximum():
    weights, X = made(0, 10, 5, "l3-hinge")
    with pytest.raises(InputError, match="max_nodes needs copies merged by 'max'"):
        weights.search(X, 3, SearchPlan(exact=True, merge="mean", max_nodes=5), 1)
    found = weights.search(X, 3, SearchPlan(exact=True, merge="max", max_nodes=1), 1)
    assert (found.evaluated <= 1).all()


@given(st.sampled_from(list(LINKS)), st.lists(st.floats(-50, 50), min_size=2, max_size=20))
def test_scores_are_at_most_1_and_rise_with_the_margin(link, margins):
    z = np.sort(np.array(margins))
    log_p = log_probability(z, link)
    assert log_p.max() <= 0
    assert np.all(np.diff(log_p) >= 0)
    np.testing.assert_allclose(log_p, reference_search.log_link(z, link_power(link)))


@pytest.mark.parametrize(
    "link, p",
    [("sigmoid", 0.5), ("l1-hinge", np.exp(-1)), ("l2-hinge", np.exp(-1)), ("l4-hinge", np.exp(-1))],
)
def test_the_score_of_a_margin_of_0(link, p):
    assert np.exp(log_probability(np.zeros(1), link))[0] == pytest.approx(p)


def test_the_power_of_the_hinge_is_the_number_in_its_name():
    for power in (1, 2, 3, 4):
        assert log_probability(np.array([-1.0]), f"l{power}-hinge")[0] == -(2.0**power)


def test_an_unknown_link_is_refused():
    with pytest.raises(InputError, match=r"link must be one of .* Did you mean 'l3-hinge'"):
        link_power("l3hinge")
