"""Labels that a Tagger of several members gets after training, by their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ensemble_problem import mixed_rows

from tagwood import LinearTree, NameMatcher, Tagger, load
from tagwood.data import read_dataset
from tagwood.data.vocab import LabelVocab
from tagwood.errors import InputError
from tagwood.metrics import evaluate
from tagwood.tagger.fitting import label_sets
from tagwood.tagger.new_labels import NewLabels, Usage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def problem():
    """Training and test rows, of which a tenth of the labels is left out, and the names of those left out.

    Test rows that have one of these lose all labels, so that they are not measured.
    """
    texts, labels, names = mixed_rows(1500, 200)
    later = {str(name) for name in np.random.default_rng(0).choice(names, 20, replace=False)}
    with_new = [any(names[label] in later for label in row) for row in labels]
    named = [[names[label] for label in row if names[label] not in later] for row in labels]
    named[1000:] = [[] if new else row for new, row in zip(with_new[1000:], named[1000:], strict=True)]
    return texts, named, sorted(later)


@pytest.fixture(scope="module")
def tagger(problem):
    texts, labels, _ = problem
    tagger = Tagger(quality="balanced").fit(texts[:1000], labels[:1000])
    assert "NameMatcher" in [member.name for member in tagger.members() if member.used]
    return tagger


def first_right(tagger, texts, labels):
    Y, _ = label_sets(labels, tagger.vocab_, on_unknown="skip")
    rows = np.flatnonzero(np.diff(Y.indptr))
    return evaluate(Y[rows], tagger.rank([texts[row] for row in rows], 5), metrics=["P@1"])["P@1"]


def test_new_labels_are_found_by_name_and_others_lose_nothing(problem, tagger, tmp_path):
    texts, labels, later = problem
    before = first_right(tagger, texts[1000:], labels[1000:])
    grown = load(tagger.save(tmp_path / "model")).update_labels(texts={name: name for name in later})
    assert len(grown.new_labels_.labels) == len(later)
    assert all(name in tags.names for name, tags in zip(later, grown.tag(later, 5), strict=True))
    assert first_right(grown, texts[1000:], labels[1000:]) >= before - 0.002
    again = load(grown.save(tmp_path / "grown"))
    assert again.tag(later, promise="f1") == grown.tag(later, promise="f1")


def test_all_names_of_new_and_known_labels_are_found(problem, tagger, tmp_path):
    grown = load(tagger.save(tmp_path / "model"))
    table = grown.vocab_.add(["scooter"], languages={"de": ["Roller"]}, alternatives=[["kick bike", "629.22"]])
    first = table.name(0)
    grown.update_labels(vocab=table, rename={first: "Erstes"})
    for text in ("scooter", "Roller", "kick bike", "629.22"):
        assert "scooter" in grown.tag_one(text, 5).names
    assert "Erstes" in grown.tag_one("Erstes", 5).names
    assert "Erstes" in grown.tag_one(first, 5).names
    assert "scooter" in grown.explain("a kick bike", "scooter").to_text()


def test_all_names_of_the_table_are_learned():
    texts, labels, names = mixed_rows(600, 50)
    vocab = LabelVocab.from_names(
        names,
        languages={"de": [f"deutsch{i}" for i in range(50)]},
        alternatives=[[f"other{i}"] for i in range(50)],
    )
    tagger = Tagger(model=NameMatcher(threads=1)).fit(texts, [[names[i] for i in row] for row in labels], vocab=vocab)
    for text in ("name7", "deutsch7", "other7"):
        assert tagger.tag_one(text, 1).names == ["name7"]


def test_names_without_words_leave_the_other_members():
    texts, labels, _ = mixed_rows(700, 30)
    names = ["+" * (label + 1) for label in range(30)]
    tagger = Tagger().fit(texts, [[names[label] for label in row] for row in labels])
    assert "NameMatcher" not in [member.name for member in tagger.members()]
    assert len(tagger.tag_one(texts[0], 3)) == 3


def test_a_label_added_to_a_small_model_is_found_by_its_whole_name():
    tagger = Tagger().fit(read_dataset(Path(__file__).parents[2] / "docs/examples/library.csv"))
    tagger.update_labels(texts={"Fishing": "Fishing, angling in rivers and lakes"})
    for text in ("angling in rivers and lakes", "fishing on the coast", "a handbook of fishing"):
        assert tagger.tag_one(text, 1).names == ["Fishing"]
    assert tagger.tag_one("angling in rivers and lakes", 1)[0].score > 0.5
    for text in ("Rain and wind on the coast", "Growing oak and beech in mixed forests"):
        assert all(tag.score < 0.1 for tag in tagger.tag_one(text, 9) if tag.name == "Fishing")


def test_bulk_additions_are_judged_as_rarely_used_and_few_as_wanted():
    counts = np.array([1] * 100 + [9] * 100)
    usage = Usage(counts, n_rows=500, n_known=200)
    few, many = usage.shifts(np.arange(200, 203)), usage.shifts(np.arange(200, 2200))
    assert np.allclose(few, np.log(2))
    assert many[0] < -1  # together no more than a tenth of all labels of texts, or what training has not seen
    assert usage.shifts(np.arange(50))[0] <= 0  # in the table, but never used


def test_adding_and_masking_is_not_part_of_a_call(problem, tagger, tmp_path):
    grown = load(tagger.save(tmp_path / "model")).update_labels(texts={name: name for name in problem[2]})
    evidence = grown.new_labels_.evidence
    grown.update_labels(mask=problem[2][:1])
    assert grown.new_labels_.evidence is evidence  # nothing is built again
    assert problem[2][0] not in grown.tag_one(problem[2][0], 5).names
    grown.update_labels(unmask=problem[2][:1])
    assert problem[2][0] in grown.tag_one(problem[2][0], 5).names


def test_models_stored_before_have_no_new_labels_part(tagger, tmp_path):
    state = tagger.state()
    del state.parts["new_labels"]
    old = Tagger.from_state(state)
    old.update_labels(texts={"kick scooter": "kick scooter"})
    assert old.tag_one("kick scooter", 1).names == ["kick scooter"]


def test_new_labels_that_get_rows_leave_the_others_as_they_are(problem, tagger, tmp_path, monkeypatch):
    texts, labels, later = problem
    grown = load(tagger.save(tmp_path / "model")).update_labels(texts={name: name for name in later})
    grown.new_labels_ = grown.new_labels_.only(grown.new_labels_.labels[3:], grown.vocab_, grown._usage())
    grown._prepare()
    built = NewLabels.build(
        grown.new_labels_.curve,
        grown.new_labels_.labels.tolist(),
        grown.new_labels_.descriptions(),
        grown.vocab_,
        grown._usage(),
    )
    same = load(tagger.save(tmp_path / "same")).update_labels(texts={name: name for name in later})
    same.new_labels_ = built
    same._prepare()
    assert grown.tag([*later, *texts[1000:1100]], 5) == same.tag([*later, *texts[1000:1100]], 5)
    assert load(grown.save(tmp_path / "stored")).tag(later, 5) == grown.tag(later, 5)
    # Rows for known, unknown and new labels index no names again.
    monkeypatch.setattr(NewLabels, "build", None)
    grown.update([texts[0], later[5], "quite other words"], [labels[0], [later[5]], ["quite other"]])
    assert grown.find(later[5]) not in grown.new_labels_.labels
    assert len(grown.new_labels_.labels) == len(later) - 4
    assert later[6] in grown.tag_one(later[6], 5).names
    assert load(grown.save(tmp_path / "updated")).tag(later[6:], 5) == grown.tag(later[6:], 5)


@pytest.mark.parametrize(("old", "new"), [(7_000_000, 999_999_937), (("de", 1), ("at", 5))])
def test_labels_are_added_by_ids_that_are_no_names(old, new):
    texts = ["oak wood", "elm wood", "sea water", "salt water"] * 5
    other = old + 1 if isinstance(old, int) else ("de", 2)
    tagger = Tagger(model=LinearTree(threads=1)).fit(texts, ([[old]] * 2 + [[other]] * 2) * 5)
    tagger.update_labels(texts={new: "brown giraffe neck"})
    assert tagger.tag_one("a brown giraffe neck", 1)[0].label == new
    assert tagger.tag_one("oak wood", 1)[0].label == old


@pytest.mark.parametrize(("old", "kind"), [((7, 10**9), "whole number"), ((("a", 1), ("b", 2)), "tuple")])
def test_a_label_without_an_id_is_refused_where_labels_are_called_by_ids(old, kind):
    tagger = Tagger(model=LinearTree(threads=1)).fit(["oak wood", "sea water"] * 5, [[one] for one in old] * 5)
    with pytest.raises(InputError, match=rf"a new label needs a {kind} as its id.*got 'giraffe'.*texts=\{{ID: NAME\}}"):
        tagger.update_labels(texts={"giraffe": "brown giraffe neck"})
    assert len(tagger.vocab_) == 2


def test_ids_that_the_table_cannot_have_are_refused():
    tagger = Tagger(model=LinearTree(threads=1)).fit(["oak wood", "sea water"] * 5, [["tree"], ["sea"]] * 5)
    with pytest.raises(InputError, match="the label must be"):
        tagger.update_labels(texts={10**9: "brown giraffe neck"})


def test_ids_without_gaps_can_be_followed_by_others(tmp_path):
    tagger = Tagger(model=LinearTree(threads=1)).fit(["oak wood", "sea water"] * 5, [[0], [1]] * 5)
    tagger.update_labels(mask=[0]).update_labels(texts={2: "brown giraffe neck", 70_000: "grey elephant ear"})
    tagger.update(["desert sand"] * 3, [[123_456]] * 3, old=(["oak wood", "sea water"] * 5, [[0], [1]] * 5))
    for one in (tagger, load(tagger.save(tmp_path / "model"))):
        best = [tags[0].label for tags in one.tag(["brown giraffe neck", "desert sand", "sea water"], 1)]
        assert best == [2, 123_456, 1]
        assert 70_000 in [tag.label for tag in one.tag_one("grey elephant", 9)]
        assert 0 not in [tag.label for tag in one.tag_one("oak wood", 9)]
