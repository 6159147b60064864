"""Explanations of fused models: what each member found, and that its contributions add up."""

import json
from time import process_time

import numpy as np
import pytest
from ensemble_problem import mixed_rows

from tagwood import Ensemble, LabelVocab, LinearTree, Tagger
from tagwood.cli.app import run
from tagwood.models.centroids import Centroids
from tagwood.models.name_matcher import NameMatcher
from tagwood.models.neighbours import Neighbours
from tagwood.recipe import recipe_of

pytestmark = pytest.mark.slow

MEMBERS = ["LinearTree", "Neighbours", "Centroids", "NameMatcher", "labels together"]


@pytest.fixture(scope="module")
def problem():
    texts, labels, names = mixed_rows(700, 120)
    return texts, labels, [*names, "never<b>used"]


@pytest.fixture(scope="module")
def fused(problem):
    """Do not change it: all tests share it."""
    texts, labels, names = problem
    vocab = LabelVocab.from_names(names)
    tagger = Tagger(model=LinearTree(threads=1), quality="balanced", keep_texts=100_000)
    tagger.fit(texts, labels, vocab=vocab)
    assert [one.name for one in tagger.members()] == MEMBERS
    return tagger


def reasons(found):
    return {one.member: one for one in found.members}


@pytest.mark.parametrize("limits", [{}, {"restrict": list(range(60))}, {"exclude": [0, 1]}])
def test_contributions_add_up_to_the_log_odds_of_the_ensemble(fused, problem, limits):
    for text in problem[0][:3]:
        ranked = dict(fused.model_.rank([text], 10, **limits)[0])
        shown = {tag.label: tag.score for tag in fused.tag_one(text, 10, **limits)}
        for label, probability in ranked.items():
            found = fused.explain(text, label, **limits)
            assert found.base + sum(one.contribution for one in found.members) == pytest.approx(found.log_odds)
            assert found.model_score == pytest.approx(1 / (1 + np.exp(-found.log_odds)))
            assert found.model_score == pytest.approx(probability, abs=1e-6)
            assert found.score == pytest.approx(shown[label], abs=1e-5)


def test_calibration_keeps_the_order_of_log_odds(fused, problem):
    text = problem[0][5]
    found = [fused.explain(text, label) for label, _ in fused.model_.rank([text], 30)[0]]
    scores = [one.score for one in sorted(found, key=lambda one: one.log_odds)]
    assert np.all(np.diff(scores) >= 0)


def test_every_member_in_use_tells_what_it_found(fused, problem):
    texts, labels, _ = problem
    found = fused.explain(texts[1], labels[1][0])
    assert [one.member for one in found.members] == [one.name for one in fused.members() if one.used]
    tree = reasons(found)["LinearTree"]
    assert tree.place is not None
    assert tree.reason.startswith(f"number {tree.place} of its ranking, for ")
    near = reasons(found)["Neighbours"]
    voters = next(m.model for m in fused.model_.members_ if isinstance(m.model, Neighbours)).voters(
        fused.encoder_.transform([texts[1]]), labels[1][0]
    )
    assert near.reason.startswith(f"{voters.rows.size} of the {voters.n_nearest} most similar training texts ")
    # All texts are kept, the explained one is a training text, and it is its own nearest neighbour.
    assert near.texts[0].text == texts[1]
    assert near.texts[0].similarity == pytest.approx(voters.similarity[0])
    assert all(problem[2][labels[1][0]] in one.labels for one in near.texts)


def test_a_matched_name_is_quoted_and_its_words_share_the_contribution(fused):
    found = fused.explain("noise1 name7 noise2", "name7")
    match = reasons(found)["NameMatcher"]
    assert match.reason == "its name “name7” matches: name7"
    assert sum(word.weight for word in match.words) == pytest.approx(match.contribution)
    assert match.contribution > 0
    assert dict(found.words)["name7"] >= match.contribution
    marked = {part.text: part.weight for part in found.segments()}
    assert marked["name7"] == pytest.approx(dict(found.words)["name7"])


def test_why_not_tells_for_every_member_that_it_did_not_find_the_label(fused):
    found = fused.explain("noise1 noise2", "never<b>used")
    assert found.verdict.reason == "not found"
    assert (found.score, found.place) == (None, None)
    assert found.log_odds == found.base
    for member, reason in reasons(found).items():
        assert (reason.contribution, reason.place) == (0.0, None)
        assert f"{member}: {reason.reason}" in found.verdict.words
    assert list(reasons(found)) == ["Names of new labels"]
    assert "neither its names nor labels with similar names fit the text" in found.verdict.words


def test_a_text_without_known_words_is_explained(fused):
    found = fused.explain("", "name7")
    assert found.verdict.reason == "not found"
    assert reasons(found)["Neighbours"].reason == "no training text has a word of this text"


def test_a_masked_label_still_shows_what_members_found(fused, problem):
    text, label = problem[0][1], problem[1][1][0]
    before = fused.explain(text, label)
    found = fused.explain(text, label, exclude=[label])
    assert found.verdict.reason == "excluded"
    assert found.log_odds == pytest.approx(before.log_odds)


def test_text_html_and_json_show_members(fused, problem):
    found = fused.explain(problem[0][1], problem[1][1][0])
    text, html, values = found.to_text(), found.to_html(), json.loads(found.to_json())
    for one in found.members:
        assert f"{one.contribution:+7.3f}  {one.member}" in text
        assert f"<td>{one.member}</td>" in html
    near = reasons(found)["Neighbours"].texts[0]
    assert f"  {near.similarity:.2f}  {near.text}" in text
    assert f"<td>{near.similarity:.2f}</td><td>{near.text}</td>" in html
    assert f"to {found.log_odds:+.3f} (probability {found.model_score:.3f})" in text
    assert [one["member"] for one in values["members"]] == [one.member for one in found.members]
    assert values["base"] + sum(one["contribution"] for one in values["members"]) == pytest.approx(values["log_odds"])
    assert "<b>" not in fused.explain("x", "never<b>used").to_html()


def test_texts_that_are_not_kept_are_counted_only(fused, problem, tmp_path):
    fused.save(tmp_path / "model")
    without = Tagger.load(tmp_path / "model")
    without.examples_ = None  # as with keep_texts=0
    near = reasons(without.explain(problem[0][1], problem[1][1][0]))["Neighbours"]
    assert near.texts == ()
    assert "most similar training texts" in near.reason


def test_a_stored_model_explains_as_before(fused, problem, tmp_path):
    fused.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model")
    text, label = problem[0][3], problem[1][3][0]
    assert again.explain(text, label) == fused.explain(text, label)


def test_the_overview_and_show_keep_members_quality_and_measures(fused, tmp_path, capsys):
    fused.save(tmp_path / "model")
    facts = Tagger.load(tmp_path / "model").overview()
    assert [one["name"] for one in facts["members"]] == MEMBERS
    assert (facts["quality"], facts["simpler_because"], facts["measured_rows"]) == ("balanced", "", 700)
    assert facts["metrics"] == fused.measures_.values
    assert facts["tree"]["features"] == fused.encoder_.n_features
    assert run(["show", str(tmp_path / "model")]) == 0
    shown = capsys.readouterr().out
    assert "nDCG@5 alone" in shown
    assert all(name in shown for name in MEMBERS)
    assert 'quality = "balanced"' in shown
    assert run(["show", str(tmp_path / "model"), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["members"] == facts["members"]
    assert values["quality"]["nDCG@5"] == pytest.approx(facts["metrics"]["nDCG@5"], abs=1e-4)


def test_the_command_explains_members(fused, problem, tmp_path, capsys):
    fused.save(tmp_path / "model")
    assert run(["explain", str(tmp_path / "model"), problem[0][1]]) == 0
    shown = capsys.readouterr().out
    assert "What each member adds to the log odds" in shown
    assert "most similar training texts" in shown


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"quality": "balanced"},
        {"model": LinearTree(threads=1, C=2.0)},
        {"model": LinearTree(threads=1, C=2.0), "quality": "balanced"},
        {"model": Ensemble([LinearTree(threads=1), LinearTree(threads=1, C=2.0)])},
    ],
)
@pytest.mark.parametrize("n_rows", [60, 520])
def test_a_stored_tagger_has_the_quality_and_kind_of_model_it_was_given(settings, n_rows, problem, tmp_path):
    tagger = Tagger(**settings).fit(problem[0][:n_rows], problem[1][:n_rows])
    tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model")
    assert again.effective_quality == tagger.effective_quality
    assert again.simpler_because_ == tagger.simpler_because_
    assert type(again.model) is type(tagger.model)
    if isinstance(tagger.model, LinearTree):
        assert again.model.C == 2.0
        assert recipe_of(again).to_toml() == recipe_of(tagger).to_toml()


def test_a_single_model_has_no_members(problem):
    texts, labels, _ = problem
    found = Tagger(model=LinearTree(threads=1)).fit(texts[:60], labels[:60]).explain(texts[0], labels[0][0])
    assert (found.members, found.base, found.log_odds) == ((), None, None)


def test_the_best_of_several_names_is_quoted():
    model = NameMatcher(threads=1).fit(
        ["an oak tree", "salt in the sea", "deep water", "a wood"],
        [[0], [1], [1], []],
        label_names=[["Oak"], ["---", "Sea", "Deep water"]],
    )
    assert model.matched_name("the deep water of a lake", 1) == "Deep water"
    assert model.matched_name("a day at the sea", 1) == "Sea"
    assert model.matched_name("a day at the sea", 0) is None


def test_centroids_tell_the_cosine(problem):
    texts, labels, names = problem
    tagger = Tagger(model=Ensemble([LinearTree(threads=1), Centroids(threads=1)], prune=False))
    tagger.fit(texts, labels, vocab=LabelVocab.from_names(names))
    found = reasons(tagger.explain(texts[1], labels[1][0]))["Centroids"]
    model = tagger.model_.members_[1].model
    cosine = model.rank(tagger.encoder_.transform([texts[1]]), 1, restrict=[labels[1][0]]).scores[0]
    assert found.reason.startswith(f"cosine {cosine:.2f} with the mean of its training texts, ")
    tagger.update_labels(untrained=False)
    unknown = reasons(tagger.explain(texts[1], "never<b>used"))["Centroids"]
    assert unknown.reason == "its training texts have no word of this text"
    assert tagger.explain(texts[1], "never<b>used").verdict.reason == "never in training"


def test_an_explanation_takes_a_few_milliseconds(fused, problem):
    text, label = problem[0][1], problem[1][1][0]
    fused.explain(text, label)
    start = process_time()
    for _ in range(10):
        fused.explain(text, label)
    assert process_time() - start < 10 * 0.02
