"""The quality dial: what answers together, when the model stays alone, and what is measured."""

from __future__ import annotations

import pytest
from ensemble_problem import mixed_rows

from tagwood import Ensemble, LinearTree, Tagger
from tagwood.errors import InputError
from tagwood.metrics import evaluate
from tagwood.recipe import Recipe, recipe_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows():
    texts, labels, names = mixed_rows()
    return texts, [[names[label] for label in row] for row in labels]


@pytest.fixture(scope="module")
def balanced(rows):
    texts, labels = rows
    return Tagger().fit(texts[:700], labels[:700])


def measured(tagger, rows):
    texts, labels = rows
    kept = [(text, own) for text, own in zip(texts[700:], labels[700:], strict=True)]
    known = [[tagger.vocab_.find(name) for name in own if tagger.vocab_.find(name) is not None] for _, own in kept]
    ranking = tagger.rank([text for text, _ in kept], 5)
    return evaluate([own or [0] for own in known], ranking, metrics=["nDCG@5"])["nDCG@5"]


def test_the_default_fuses_several_sources_and_is_better_than_the_tree(rows, balanced):
    assert isinstance(balanced.model_, Ensemble)
    assert [one.name for one in balanced.members()] == [
        "LinearTree",
        "Neighbours",
        "Centroids",
        "NameMatcher",
        "labels together",
    ]
    fast = Tagger(quality="fast").fit(rows[0][:700], rows[1][:700])
    assert isinstance(fast.model_, LinearTree)
    assert fast.members() == []
    assert measured(balanced, rows) > measured(fast, rows)


def test_measures_are_those_of_new_rows(rows, balanced):
    assert balanced.measures_.n_rows == 700
    assert balanced.measures_.values["nDCG@5"] == pytest.approx(measured(balanced, rows), abs=0.08)  # few rows


def test_a_given_model_stays_alone_unless_a_quality_is_asked_for(rows):
    texts, labels = rows[0][:600], rows[1][:600]
    assert isinstance(Tagger(model=LinearTree(threads=1)).fit(texts, labels).model_, LinearTree)
    both = Tagger(model=LinearTree(C=0.5, threads=1), quality="balanced").fit(texts, labels)
    assert both.model_.members_[0].model.C == 0.5


def test_best_adds_trees_with_copies(rows):
    best = Tagger(quality="best").fit(rows[0][:600], rows[1][:600])
    names = ["LinearTree", "Neighbours", "Centroids", "NameMatcher"]
    assert [one.name for one in best.members()][:4] == names
    assert [one.name for one in best.members()][4:] == [
        "LinearTree, words",
        "LinearTree, counts",
        "Disentangled",
        "labels together",
    ]
    seeds = {one.model.base_tree().seed for one in best.model_.members_ if hasattr(one.model, "trees_")}
    assert len(seeds) == sum(hasattr(one.model, "trees_") for one in best.model_.members_)
    assert best.model_.fusion_trees == 200
    assert best.model_.members_[0].model.n_trees == 3


def test_what_cannot_be_fused_says_why(rows):
    texts, labels = rows
    few = Tagger().fit(texts[:100], labels[:100])
    assert isinstance(few.model_, LinearTree)
    assert few.simpler_because_ == "100 rows with labels are fewer than 500"
    grouped = Tagger().fit(texts, labels, groups=[str(row // 4) for row in range(len(texts))])
    assert grouped.simpler_because_ == "labels are known for groups only"


def test_a_stored_tagger_answers_alike_and_can_be_fitted_again(rows, balanced, tmp_path):
    balanced.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model")
    assert again.rank(rows[0][700:]) == balanced.rank(rows[0][700:])
    assert again.measures_ == balanced.measures_
    assert isinstance(again.fit(rows[0][:600], rows[1][:600]).model_, Ensemble)
    assert again.model_.members_[0].name == "LinearTree"


def test_recipes_know_the_quality(balanced):
    assert Recipe().tagger().quality == "balanced"
    assert Recipe().override(["tree.arity=8"]).tagger().quality == "fast"
    assert Recipe().override(["tree.arity=8", "model.quality=best"]).tagger().quality == "best"
    assert recipe_of(balanced).tagger().quality == "balanced"
    with pytest.raises(InputError, match="Did you mean 'best'"):
        Recipe().override(["model.quality=bets"]).tagger()


def test_without_refit_the_measured_model_is_kept(rows):
    from tagwood.tagger import SetRules

    tagger = Tagger(sets=SetRules(refit=False)).fit(rows[0][:700], rows[1][:700])
    assert tagger.model_.refit is False
