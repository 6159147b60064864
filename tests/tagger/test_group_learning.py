"""Learning from groups: the rule that held-out groups choose, and label sets of the right size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tagwood import LinearTree, Tagger
from tagwood.errors import InputError
from tagwood.groups import GroupedLabels
from tagwood.metrics import set_scores
from tagwood.ranking import Ranking
from tagwood.tagger import group_learning
from tagwood.tagger.group_learning import GroupRule, choose_rule, draw_row_labels

SIZE, N_LABELS, WORDS = 4, 20, 40


def make_groups(alike: bool, n_groups: int = 300, seed: int = 0):
    """Rows of one label each in random groups, or groups whose rows all have the group's label: bags of words."""
    random = np.random.default_rng(seed)
    row_labels = random.integers(0, N_LABELS, n_groups * SIZE)
    if alike:
        row_labels = np.repeat(row_labels[:n_groups], SIZE)
    X = np.zeros((row_labels.size, WORDS * N_LABELS + 30))
    rows = np.arange(row_labels.size)[:, None]
    X[rows, WORDS * row_labels[:, None] + random.integers(0, WORDS, (row_labels.size, 2))] = 1.0
    X[rows, WORDS * N_LABELS + random.integers(0, 30, (row_labels.size, 3))] = 1.0
    X[rows, random.integers(0, WORDS * N_LABELS, (row_labels.size, 2))] = 1.0  # words of other labels
    members = sparse.csr_array(np.kron(np.eye(n_groups), np.ones((SIZE, 1))))
    truth = sparse.csr_array(np.eye(N_LABELS)[row_labels])
    return X, GroupedLabels(members, members.T @ truth), truth


@pytest.mark.parametrize("alike", [True, False])
def test_held_out_groups_tell_whether_all_rows_have_the_labels(alike):
    X, grouped, _ = make_groups(alike, n_groups=600)
    rule, likelihoods = choose_rule(X, grouped, GroupRule(), threads=1)
    assert (rule.method == "baseline") == alike
    assert (likelihoods["baseline"] > likelihoods["eagle-0, soft"]) == alike
    assert choose_rule(X, grouped, GroupRule(), threads=1)[1] == likelihoods


CLEAR, BY_CHANCE = [0.2, 0.1, 0.2, 0.1], [0.1, -0.1, 0.4, -0.3]


@pytest.mark.parametrize(
    ("likelier", "more_found", "method"),
    [(CLEAR, CLEAR, "eagle"), (CLEAR, BY_CHANCE, "eagle-0"), (BY_CHANCE, CLEAR, "eagle-0")],
)
def test_iterations_are_used_where_they_lead_by_a_standard_error_in_both_measures(
    monkeypatch, likelier, more_found, method
):
    X, grouped, _ = make_groups(alike=False)
    usual = group_learning._Trial(np.array([-3.0, -2.0, -2.5, -3.0]), np.array([0.4, 0.6, 0.5, 0.4]))
    worse = group_learning._Trial(usual.likelihood - 0.1, usual.found)
    better = group_learning._Trial(usual.likelihood + likelier, usual.found + more_found)
    trials = iter([usual, worse, worse, better])
    monkeypatch.setattr(group_learning, "_group_scores", lambda *args: None)
    monkeypatch.setattr(group_learning, "_measure", lambda scores, true: next(trials))
    rule, likelihoods = choose_rule(X, grouped, GroupRule(), threads=1)
    assert likelihoods["eagle, soft"] > likelihoods["eagle-0, soft"] > likelihoods["baseline"]
    assert (rule.method, rule.soft) == (method, True)


def test_the_share_found_counts_as_many_labels_as_the_group_has():
    true = np.array([[True, True, False], [False, True, False]] * 2)
    joint = np.array([[0.9, 0.1, 0.5], [0.2, 0.3, 0.1]] * 2)
    assert group_learning._measure(np.stack([joint, joint], axis=2), true).found.tolist() == [0.5, 1.0] * 2


def test_a_given_method_is_kept_and_groups_without_common_labels_are_not_asked():
    X, grouped, _ = make_groups(alike=True, n_groups=20)
    assert choose_rule(X, grouped, GroupRule("eagle-0"))[0] == GroupRule("eagle-0")
    own = GroupedLabels(grouped.sample_groups, np.eye(20))
    assert choose_rule(X, own, GroupRule()) == (GroupRule("eagle-0"), {})
    with pytest.raises(InputError, match="method must be one of"):
        GroupRule("autos").check()


def test_drawn_labels_are_those_of_the_groups_in_the_right_number():
    X, grouped, truth = make_groups(alike=False)
    scores = np.where(truth.toarray() > 0, 0.6, 0.2) + 0.1 * np.random.default_rng(1).random((X.shape[0], N_LABELS))
    ranking = Ranking.from_csr(sparse.csr_array(scores))
    drawn = draw_row_labels(ranking, grouped, GroupRule("eagle"))
    assert (drawn > grouped.spread()).nnz == 0
    assert drawn.nnz == pytest.approx(truth.nnz, rel=0.15)
    assert set_scores(truth, drawn).f1 > 0.8
    assert (draw_row_labels(ranking, grouped, GroupRule("baseline")) != grouped.spread()).nnz == 0


def test_rows_alone_in_their_group_have_its_labels():
    alone = GroupedLabels(np.eye(3), [[0], [1], [0, 1]])
    ranking = Ranking.from_lists([[(0, 0.1)], [(0, 0.9)], [(1, 0.2)]], n_labels=2)
    assert (draw_row_labels(ranking, alone, GroupRule("eagle")) != alone.group_labels).nnz == 0


def test_a_tagger_trained_from_groups_returns_sets_of_the_size_that_rows_have():
    random = np.random.default_rng(0)
    words = [[f"w{label}_{n}" for n in range(6)] for label in range(N_LABELS)]
    sets = [sorted(set(random.integers(0, N_LABELS, 2).tolist())) for _ in range(1200)]
    texts = [" ".join(w for label in row for w in random.choice(words[label], 3)) for row in sets]
    groups = [str(row // SIZE) for row in range(900)]
    together = {}
    for group, row in zip(groups, sets[:900], strict=True):
        together.setdefault(group, set()).update(row)
    tagger = Tagger(model=LinearTree(threads=1)).fit(texts[:900], [sorted(together[g]) for g in groups], groups)
    Y = np.zeros((300, N_LABELS))
    for place, row in enumerate(sets[900:]):
        Y[place, [tagger.find(str(label)) for label in row]] = 1
    found = tagger.predict(texts[900:])
    assert found.nnz == pytest.approx(Y.sum(), rel=0.25)
    assert set_scores(sparse.csr_array(Y), found).f1 > 0.85
    assert tagger.measures_ is None
