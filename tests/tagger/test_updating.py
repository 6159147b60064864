"""Tests of `Tagger.update` and of ``tagwood update``."""

import json

import numpy as np
import pytest
from library import make_library

from tagwood import LinearTree, Tagger
from tagwood.cli.app import run
from tagwood.data import Dataset
from tagwood.errors import InputError
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
        assert one.n_rows_ == len(texts) + 3
        assert one.label_counts_[one.find("metal")] == 3
        assert (one.history_[0].rows, one.history_[0].new_labels) == (3, 1)
        assert (
            one.tag_one(texts[0], 1).names
            == Tagger(model=LinearTree(threads=1)).fit(texts, labels).tag_one(texts[0], 1).names
        )


def test_a_model_without_stored_rows_needs_the_old_ones():
    texts, labels = make_library()
    tagger = Tagger(model=LinearTree(threads=1)).fit(texts, labels)
    with pytest.raises(InputError, match="needs the rows of the last training"):
        tagger.update(texts[:2], labels[:2])
    assert tagger.history_ == []


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
def test_a_balanced_tagger_updates_all_members_from_what_it_has_stored():
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


def test_the_command_updates_a_model_in_place(tmp_path, capsys):
    texts, labels = make_library()
    old, new, model = tmp_path / "old.jsonl", tmp_path / "new.jsonl", tmp_path / "model"
    old.write_text("".join(json.dumps({"text": t, "labels": y}) + "\n" for t, y in zip(texts, labels, strict=True)))
    new.write_text("".join(json.dumps({"text": "copper wire", "labels": ["metal"]}) + "\n" for _ in range(3)))
    Tagger(model=LinearTree(threads=1)).fit(texts, labels).save(model)

    def update(*arguments):
        return run(["update", str(model), str(new), *arguments]), capsys.readouterr()

    code, shown = update()
    assert code == 2
    assert "needs the rows of the last training" in shown.err
    code, shown = update("--data", str(old), "--json")
    assert code == 0
    facts = json.loads(shown.out)
    assert (facts["rows"], facts["new_labels"], facts["updates"]) == (3, 1, 1)
    assert "metal" in [Tagger.load(model).vocab_.name(label) for label in range(len(Tagger.load(model).vocab_))]
    assert update("--full")[0] == 2
    assert update("--full", "--data", str(old))[0] == 0
    assert Tagger.load(model).history_ == []
