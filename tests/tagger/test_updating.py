"""Tests of `Tagger.update` and of ``tagwood update``."""

import json

import numpy as np
import pytest
from library import make_library

from tagwood import Disentangled, Ensemble, LinearTree, Neighbours, SoftmaxTree, Tagger, TfidfEncoder
from tagwood.cli.app import run
from tagwood.data import Dataset
from tagwood.errors import InputError
from tagwood.models.neighbours import Centroids
from tagwood.storage import read_manifest
from tagwood.tagger.fitting import label_sets


def rows(texts, labels, vocab=None):
    Y, table = label_sets(labels, vocab, on_unknown="add")
    return Dataset(Y, table, texts=texts)


def test_new_labels_are_learned_from_few_rows_and_the_history_is_stored(tmp_path):
    texts, labels = make_library()
    tagger = Tagger(model=LinearTree(threads=1)).fit(texts, labels)
    old = rows(texts, labels, tagger.vocab_)
    tagger.update(["copper wire", "copper pipe", "iron wire"], [["metal"]] * 3, old=old)
    tagger.save(tmp_path / "model")
    for one in (tagger, Tagger.load(tmp_path / "model")):
        assert one.rank(texts, 5) == tagger.rank(texts, 5)
        assert one.n_rows_ == len(texts) + 3
        assert one.label_counts_[one.find("metal")] == 3
        assert (one.history_[0].rows, one.history_[0].new_labels) == (3, 1)
        assert (
            one.tag_one(texts[0], 1).names
            == Tagger(model=LinearTree(threads=1)).fit(texts, labels).tag_one(texts[0], 1).names
        )


def test_only_new_labels_need_the_old_rows():
    texts, labels = make_library()
    tagger = Tagger(model=LinearTree(threads=1)).fit(texts, labels)
    with pytest.raises(InputError, match="needs the rows of the last training; got 'metal'"):
        tagger.update(["copper wire"], [["metal"]])
    assert tagger.history_ == []
    assert "metal" not in [tagger.vocab_.name(label) for label in range(len(tagger.vocab_))]
    tagger.update(texts[:2], labels[:2])
    assert tagger.history_[0].rows == 2


def test_a_full_training_is_due_when_much_is_new():
    texts, labels = make_library()
    tagger = Tagger(model=LinearTree(threads=1)).fit(texts, labels)
    old = rows(texts, labels, tagger.vocab_)
    assert tagger.full_training_due == ""
    tagger.update(texts[:3], labels[:3], old=old)
    assert tagger.full_training_due == ""
    tagger.update(texts[: len(texts) // 5], labels[: len(texts) // 5], old=old)
    assert "rows" in tagger.full_training_due


@pytest.mark.slow
def test_a_balanced_tagger_updates_all_members_and_is_stored_as_it_answers(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"topic{chr(97 + i)}" for i in range(20)]
    draw = rng.integers(0, 20, 700)
    texts = [f"{names[i]} word{i} word{i} other{rng.integers(50)}" for i in draw]
    tagger = Tagger(quality="balanced").fit(texts, [[names[i]] for i in draw])
    assert len(tagger.members()) > 1
    fresh = [f"word1 word2 word1 word2 other{i % 5}" for i in range(12)]
    stored = any(one.used and one.name == "Neighbours" for one in tagger.members())
    old = None if stored else rows(texts, [[names[i]] for i in draw], tagger.vocab_)
    tagger.update(fresh, [["mixture"]] * 12, old=old)
    assert tagger.n_rows_ == 712
    assert "mixture" in tagger.tag_one("word1 word2", 3).names
    assert tagger.tag_one(texts[0], 1).names == [names[draw[0]]]
    loaded = Tagger.load(tagger.save(tmp_path / "model"))
    assert loaded.rank([*texts, *fresh], 5) == tagger.rank([*texts, *fresh], 5)


@pytest.mark.slow
def test_a_tagger_of_the_best_quality_is_updated_and_stored_as_it_answers(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"topic{chr(97 + i)}" for i in range(12)]
    draw = rng.integers(0, 12, 600)
    texts = [f"{names[i]} word{i} word{i} other{rng.integers(50)}" for i in draw]
    labels = [[names[i]] for i in draw]
    tagger = Tagger(quality="best").fit(texts, labels)
    fresh = [f"word1 word2 word1 word2 other{i % 5}" for i in range(12)]
    tagger.update(fresh, [["mixture"]] * 12, old=rows(texts, labels, tagger.vocab_))
    assert tagger.history_[0].new_labels == 1
    assert "mixture" in tagger.tag_one("word1 word2", 3).names
    assert tagger.tag_one(texts[0], 1).names == labels[0]
    loaded = Tagger.load(tagger.save(tmp_path / "model"))
    assert loaded.rank([*texts[:50], *fresh], 5) == tagger.rank([*texts[:50], *fresh], 5)


def test_members_that_cannot_learn_stay_and_are_named(tmp_path, capsys):
    texts, labels = make_library(200)
    words = TfidfEncoder(ngrams=(1, 1))
    members = [LinearTree(n_trees=3, threads=1), Neighbours(threads=1), Centroids(threads=1)]
    members += [(words, Disentangled(LinearTree(max_leaf_size=3, threads=1), threads=1)), SoftmaxTree()]
    ensemble = Ensemble(members, fusion="mean", prune=False, refit=False, threads=1)
    tagger = Tagger(model=ensemble).fit(texts, labels)
    tagger.update(["oak and elm wood"] * 4, [["furniture"]] * 4)
    assert tagger.history_[0].unchanged == ["SoftmaxTree"]
    assert "furniture" in tagger.tag_one("oak and elm wood", 5).names
    loaded = Tagger.load(tagger.save(tmp_path / "model"))
    assert loaded.rank(texts, 5) == tagger.rank(texts, 5)
    assert loaded.overview()["updates"][0]["unchanged"] == ["SoftmaxTree"]
    assert run(["show", str(tmp_path / "model")]) == 0
    assert "unchanged: SoftmaxTree" in capsys.readouterr().out


def test_only_models_that_can_learn_are_updated():
    texts, labels = make_library()
    tagger = Tagger(model=SoftmaxTree()).fit(texts, labels)
    with pytest.raises(InputError, match="cannot be updated"):
        tagger.update(texts[:2], labels[:2])


def test_the_command_updates_a_model_in_place(tmp_path, capsys):
    texts, labels = make_library()
    old, new, model = tmp_path / "old.jsonl", tmp_path / "new.jsonl", tmp_path / "model"
    old.write_text("".join(json.dumps({"text": t, "labels": y}) + "\n" for t, y in zip(texts, labels, strict=True)))
    new.write_text("".join(json.dumps({"text": "copper wire", "labels": ["metal"]}) + "\n" for _ in range(3)))
    Tagger(model=LinearTree(threads=1)).fit(texts, labels).save(model, notes="spring")

    def update(*arguments):
        return run(["update", str(model), str(new), *arguments]), capsys.readouterr()

    code, shown = update()
    assert code == 2
    assert "needs the rows of the last training" in shown.err
    code, shown = update("--data", str(old), "--json")
    assert code == 0
    facts = json.loads(shown.out)
    assert (facts["rows"], facts["new_labels"], facts["updates"]) == (3, 1, 1)
    assert read_manifest(model).notes == "spring"
    before, learned = (model / "manifest.json").stat().st_mtime_ns, new.read_text()
    new.write_text("text,labels\n")  # an hour without clicks
    code, shown = update("--json", "--format", "csv")
    facts = json.loads(shown.out)
    assert (code, facts["rows"], facts["labels"], facts["updates"]) == (0, 0, 0, 1)
    assert (model / "manifest.json").stat().st_mtime_ns == before
    new.write_text(learned)
    assert "metal" in [Tagger.load(model).vocab_.name(label) for label in range(len(Tagger.load(model).vocab_))]
    assert update("--full")[0] == 2
    assert update("--full", "--data", str(old))[0] == 0
    assert Tagger.load(model).history_ == []
