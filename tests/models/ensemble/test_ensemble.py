"""Ensembles: fusion on held-out rows, members that read texts and features, left-out members, storage, misuse."""

from __future__ import annotations

import numpy as np
import pytest
from ensemble_problem import LABELS, TEXTS, Fixed, members, mixed_rows

import tagwood
from tagwood import Ensemble, LinearTree, Ranking, SoftmaxTree, Tagger, TfidfEncoder
from tagwood.errors import InputError, NotFittedError
from tagwood.features.base import takes_texts
from tagwood.metrics import evaluate
from tagwood.models.centroids import Centroids
from tagwood.models.ensemble.members import plan_splits
from tagwood.models.label_filter import allowed_labels
from tagwood.models.name_matcher import NameMatcher
from tagwood.models.neighbours import Neighbours

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def problem():
    return mixed_rows()


@pytest.fixture(scope="module")
def fitted(problem):
    texts, labels, names = problem
    parts = [LinearTree(threads=1), Neighbours(threads=1), Centroids(threads=1), NameMatcher(threads=1)]
    return Ensemble(parts, threads=1).fit(texts[:700], labels[:700], label_texts=names)


def ndcg(model, texts, labels):
    return evaluate(labels, model.rank(texts, 5), metrics=["nDCG@5"])["nDCG@5"]


def test_the_ensemble_is_better_than_each_member(problem, fitted):
    texts, labels, _ = problem
    whole = ndcg(fitted, texts[700:], labels[700:])
    features = fitted.encoder_.transform(texts[700:])
    for member in fitted.members_:
        alone = ndcg(member.model, texts[700:] if takes_texts(member.model) else features, labels[700:])
        assert whole > alone


def test_probabilities_are_calibrated_on_new_rows(problem, fitted):
    texts, labels, _ = problem
    ranking = fitted.rank(texts[700:], 20)
    right = sum(label in labels[700 + row] for row in range(200) for label, _ in ranking[row])
    assert ranking.scores.sum() == pytest.approx(right, rel=0.15)


def test_held_out_rows_measure_what_new_rows_get(problem, fitted):
    texts, labels, _ = problem
    held = fitted.held_out_
    estimate = evaluate(held.truth, held.ranking, metrics=["nDCG@5"])["nDCG@5"]
    assert estimate == pytest.approx(ndcg(fitted, texts[700:], labels[700:]), abs=0.06)
    assert sorted(held.rows.tolist()) == list(range(700))  # few rows: each was held out once


def test_the_report_says_what_each_member_brings(fitted):
    report = {one.name: one for one in fitted.report_}
    assert set(report) == {"LinearTree", "Neighbours", "Centroids", "NameMatcher", "labels together"}
    assert report["NameMatcher"].lost > 0.02
    assert 0 < report["LinearTree"].alone < 1
    assert [member.name for member in fitted.members_] == [one.name for one in fitted.report_[:-1] if one.used]


def test_a_member_that_does_not_help_is_left_out(problem):
    texts, labels, names = problem
    noise = [f"absent{label}" for label in range(len(names))]  # names that never occur
    ensemble = Ensemble([LinearTree(threads=1), NameMatcher(threads=1)], threads=1)
    ensemble.fit(texts[:700], labels[:700], label_texts=noise)
    assert [member.name for member in ensemble.members_] == ["LinearTree"]
    assert not ensemble.report_[1].used
    whole = Ensemble([LinearTree(threads=1), NameMatcher(threads=1)], prune=False, threads=1)
    assert len(whole.fit(texts[:700], labels[:700], label_texts=noise).members_) == 2


@pytest.mark.parametrize("fusion", ["boosted", "logistic"])
def test_both_fusions_learn_and_are_stored(problem, fusion, tmp_path):
    texts, labels, names = problem
    ensemble = Ensemble([LinearTree(threads=1), NameMatcher(threads=1)], fusion=fusion, threads=1)
    ensemble.fit(texts[:700], labels[:700], label_texts=names)
    assert type(ensemble.fusion_).__name__.lower() == fusion
    tagwood.save(ensemble, tmp_path / "model")
    assert tagwood.load(tmp_path / "model").rank(texts[700:]) == ensemble.rank(texts[700:])


@pytest.mark.parametrize("limits", [{}, {"restrict": list(range(0, 400, 2))}, {"exclude": [0, 1, 2, 3]}])
def test_contributions_add_up_to_the_log_odds(problem, fitted, limits):
    text = problem[0][701:702]
    ranked = dict(fitted.rank(text, 40, **limits)[0])
    for label, probability in ranked.items():
        found = fitted.evidence(text, label, **limits)
        assert [one.member for one in found.members] == fitted.members_
        added = sum(one.contribution for one in found.members) + (found.together or 0.0)
        assert found.base + added == pytest.approx(found.log_odds)
        assert 1 / (1 + np.exp(-found.log_odds)) == pytest.approx(probability, abs=1e-6)
    best = fitted.evidence(text, next(iter(ranked)), **limits)
    assert best.log_odds > best.base
    for one in best.members:
        allowed = allowed_labels(limits.get("restrict"), limits.get("exclude"), 400)
        own = [label for label, _ in one.member.rank(one.rows, 40, allowed)[0]]
        assert one.place == (own.index(next(iter(ranked))) + 1 if next(iter(ranked)) in own else None)


def test_a_label_that_no_member_found_has_the_log_odds_of_any_label(problem, fitted):
    text = problem[0][701:702]
    members = fitted.evidence(text, 0).members
    candidates = {label for one in members for label in one.member.rank(one.rows, 40).labels.tolist()}
    found = fitted.evidence(text, next(label for label in range(400) if label not in candidates))
    assert found.log_odds == found.base == fitted.base_logit_
    assert [(one.contribution, one.place) for one in found.members] == [(0.0, None)] * len(found.members)


def test_up_to_fifty_labels_the_number_asked_for_does_not_change_probabilities(problem, fitted):
    texts = problem[0][700:720]
    many = fitted.rank(texts, 50)
    for k in (1, 5, 45):
        assert fitted.rank(texts, k) == many.top(k)


def test_new_labels_are_found_by_their_names(problem, fitted, tmp_path):
    texts, _, _ = problem
    tagwood.save(fitted, tmp_path / "model")
    ensemble = tagwood.load(tmp_path / "model")
    before = ensemble.rank(texts[700:710])
    assert ensemble.add_labels(["brandnew"]).tolist() == [400]
    assert ensemble.n_labels_ == 401
    assert 400 in ensemble.rank(["noise1 brandnew noise2 noise3"], 10).labels
    after = ensemble.rank(texts[700:710])
    assert after.labels.tolist() == before.labels.tolist()


def test_restrictions_hold_for_every_member(problem, fitted):
    texts = problem[0]
    assert set(fitted.rank(texts[700:720], 5, restrict=[1, 2, 3]).labels.tolist()) <= {1, 2, 3}
    one, two = Fixed([[0.9, 0.5, 0.1]]), Fixed([[0.9, 0.1, 0.5]])  # their rank takes no limits
    assert set(Ensemble([one, two]).rank([0], k=3, restrict=[1, 2]).labels.tolist()) == {1, 2}


def test_without_held_out_rows_scaled_scores_are_averaged():
    one, two = Fixed([[0.0, 1.0, 0.5]]), Fixed([[30.0, 10.0, 20.0]])
    ranking = Ensemble([one, two]).rank([0], k=3)
    assert ranking.labels.tolist() == [1, 2, 0]
    np.testing.assert_allclose(ranking.scores, [2 / 3, 7 / 12, 1 / 2], atol=1e-3)


def test_fitted_members_are_calibrated_on_new_rows(problem):
    texts, labels, names = problem
    encoder = TfidfEncoder().fit(texts[:300])
    Y = Ranking.from_lists([[(label, 1.0) for label in row] for row in labels], len(names)).to_sets()
    tree = LinearTree(threads=1).fit(encoder.transform(texts[:300]), Y[:300])
    matcher = NameMatcher(threads=1).fit(texts[:300], Y[:300], label_names=names)
    ensemble = Ensemble([(encoder, tree), matcher], threads=1)
    before = ndcg(ensemble, texts[700:], labels[700:])
    assert ndcg(ensemble.calibrate(texts[300:700], Y[300:700]), texts[700:], labels[700:]) > before


def test_rows_are_held_out_once_or_as_a_share():
    few, many = (plan_splits(Ranking.from_lists([[(0, 1.0)]] * n, 1).to_sets(), 0.2, 0) for n in (500, 40_000))
    assert sorted(row for split in few for row in split.held) == list(range(500))
    assert [split.held.size for split in many] == [6000]
    for split in [*few, *many]:
        assert not set(split.train.tolist()) & set(split.held.tolist())
    assert plan_splits(Ranking.from_lists([[(0, 1.0)]] * 50, 1).to_sets(), 0.2, 0) == []


@pytest.mark.parametrize("n_rows", [1000, 40_000])
def test_groups_are_held_out_as_a_whole(n_rows):
    Y = Ranking.from_lists([[(0, 1.0)]] * n_rows, 1).to_sets()
    groups = np.random.default_rng(0).integers(n_rows // 7, size=n_rows)
    splits = plan_splits(Y, 0.2, 0, groups)
    held = [split.held.size for split in splits]
    assert (len(splits), sum(held)) == (5, 1000) if n_rows == 1000 else len(splits) == 1
    assert max(held) < (260 if n_rows == 1000 else 6100)
    for split in splits:
        assert not set(groups[split.train].tolist()) & set(groups[split.held].tolist())


def test_members_that_read_texts_and_features_are_fitted_together():
    given = members()
    ensemble = Ensemble(given)
    assert takes_texts(ensemble)
    found = ensemble.fit(TEXTS, LABELS).rank(["wood of an oak", "salt of the sea"], k=1)
    assert found.labels.tolist() == [0, 1]
    assert not hasattr(given[0], "n_labels_")  # copies were fitted
    assert ensemble.predict(["wood of an oak"]).shape == (1, 2)


def test_fitted_models_and_taggers_are_joined_by_one_line():
    tree = Tagger(TfidfEncoder(ngrams=(1, 1)), LinearTree(threads=1)).fit(TEXTS, LABELS)
    softmax = SoftmaxTree(tree="huffman", epochs=30, threads=1).fit(TEXTS, LABELS)
    for first in (tree, (tree.encoder_, tree.model_)):
        assert Ensemble([first, softmax]).rank(["salt of the sea"], k=1).labels.tolist() == [1]


def test_a_tagger_takes_an_ensemble(tmp_path):
    tagger = Tagger(model=Ensemble(members())).fit(TEXTS, [["tree"] if row == [0] else ["water"] for row in LABELS])
    assert tagger.tag_one("salt of the sea", k=1).names == ["water"]
    tagger.save(tmp_path / "model")
    assert Tagger.load(tmp_path / "model").tag_one("wood of an oak", k=1).names == ["tree"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Ensemble([]), "members must be a list of models"),
        (lambda: Ensemble([3]), r"a member must be a model, a pair .* got int"),
        (
            lambda: Ensemble([Fixed(), Fixed([[0.0, 1.0]])]),
            r"members must have the same labels; got \[1, 2\]",
        ),
        (lambda: Ensemble([Fixed()], fusion="mien"), "fusion must be one of .* Did you mean 'mean'"),
        (lambda: Ensemble([Fixed()], holdout=1), "holdout must be a number from 0.0 to 0.9"),
        (
            lambda: Ensemble(
                [
                    LinearTree(threads=1).fit(np.eye(2), [[0], [1]]),
                    SoftmaxTree(epochs=1, threads=1).fit(TEXTS, LABELS),
                ]
            ),
            r"needs its encoder.*Give the pair",
        ),
    ],
)
def test_misuse_is_named(make, words):
    with pytest.raises(InputError, match=words):
        make().rank(["oak"])


def test_unfitted_members_are_named():
    with pytest.raises(NotFittedError, match="must be fitted first"):
        Ensemble([LinearTree()]).rank(np.eye(2))


def test_a_settled_ensemble_is_unfitted_and_keeps_what_members_chose():
    class Chooser(Fixed):
        def settled(self):
            return Chooser([[0.1, 0.2]])

    pairs = [(TfidfEncoder(), one) for one in (Chooser([[0.9, 0.5]]), Fixed([[0.1, 0.5]]))]
    again = Ensemble(pairs, candidates=7).settled()
    assert again.candidates == 7
    assert [model.scores for _, model in again.members] == [[[0.1, 0.2]], [[0.1, 0.5]]]


@pytest.mark.parametrize("place", range(4))
def test_forged_fusion_trees_are_refused(fitted, place):
    state = fitted.state()
    trees = state.parts["fusion"]
    if trees.kind != "Boosted":
        pytest.skip("the fusion has no trees")
    name, value = [("left", 0), ("feature", 99), ("roots", -1), ("right", 10**6)][place]
    inner = int(np.flatnonzero(trees.arrays["feature"] >= 0)[0]) if name != "roots" else 0
    trees.arrays[name] = trees.arrays[name].copy()
    trees.arrays[name][inner] = value
    with pytest.raises(InputError, match="must fit together"):
        Ensemble.from_state(state)
