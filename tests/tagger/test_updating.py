"""Tests of `Tagger.update` and of ``tagwood update``."""

import json

import numpy as np
import pytest
from library import make_library

from tagwood import Disentangled, Ensemble, LinearTree, Neighbours, SoftmaxTree, Tagger, TfidfEncoder
from tagwood.cli.app import run
from tagwood.data import Dataset
from tagwood.errors import InputError, StorageError
from tagwood.models.centroids import Centroids
from tagwood.storage import read_manifest, save
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


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("x", r"old must be the texts and labels of the last training, or a Dataset; got a str\. Pass old="),
        ((1, 2, 3), "got a tuple of 3"),
        (Dataset([[0]], features=np.ones((1, 2))), "fitted on texts"),
        ((["a"], []), "labels must have one entry for each of the 1 texts"),
    ],
)
def test_an_update_with_wrong_earlier_rows_changes_nothing(old, words):
    tagger = Tagger(model=LinearTree(threads=1)).fit(*make_library())
    before = dict(vars(tagger))
    with pytest.raises(InputError, match=words):
        tagger.update(["copper wire"], ["metal"], old=old)
    assert all(vars(tagger)[name] is value for name, value in before.items())


@pytest.mark.parametrize("ensemble", [False, True])
def test_an_update_that_fails_on_the_way_changes_nothing(monkeypatch, ensemble):
    texts, labels = make_library(200)
    members = [Neighbours(threads=1), Centroids(threads=1), LinearTree(n_trees=2, threads=1)]
    model = Ensemble(members, fusion="mean", prune=False, refit=False, threads=1) if ensemble else LinearTree(threads=1)
    tagger = Tagger(model=model).fit(texts, labels)
    answers, counts = tagger.rank(texts, 5), tagger.label_counts_

    def fail(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LinearTree, "update", fail)
        with pytest.raises(KeyboardInterrupt):
            tagger.update(["copper wire"] * 3, ["metal"] * 3, old=[texts, labels])
    assert (tagger.rank(texts, 5), tagger.n_rows_, tagger.history_) == (answers, len(texts), [])
    assert tagger.label_counts_.tolist() == counts.tolist()
    assert tagger.vocab_.find("metal") is None
    tagger.update(["copper wire"] * 3, ["metal"] * 3, old=[texts, labels])
    assert "metal" in tagger.tag_one("copper wire", 5).names


def test_an_id_that_is_too_large_is_named():
    tagger = Tagger(model=LinearTree(threads=1)).fit(["oak wood", "sea water"] * 3, [10**9, 7] * 3)
    with pytest.raises(InputError, match=r"whole number of 64 bits or a tuple; got 1180591620717411303424"):
        tagger.update(["elm wood"], [2**70])


def write_rows(path, texts, labels):
    path.write_text("".join(json.dumps({"text": t, "labels": y}) + "\n" for t, y in zip(texts, labels, strict=True)))
    return str(path)


@pytest.fixture
def updated(tmp_path):
    """A folder with the rows of a training, those of an update and of a later one, and the model after the first."""
    texts, labels = make_library()
    tagger = Tagger(model=LinearTree(threads=1)).fit(texts, labels)
    metal = ["copper wire", "copper pipe", "iron wire"], [["metal"]] * 3
    tagger.update(*metal, old=(texts, labels)).save(tmp_path / "model", notes="spring")
    write_rows(tmp_path / "old.jsonl", texts, labels)
    write_rows(tmp_path / "metal.jsonl", *metal)
    write_rows(tmp_path / "next.jsonl", texts[:4], labels[:4])
    return tmp_path


def command(name, folder, *arguments):
    return run([name, str(folder / "model"), *(str(folder / one) if "." in one else one for one in arguments)])


def test_a_full_training_without_the_rows_of_an_update_is_refused(updated, capsys):
    full = ("next.jsonl", "--full", "--data")
    assert command("update", updated, *full, "old.jsonl") == 2
    assert "1 labels with fewer rows than it has learned, 1 of them with none, such as 'metal'" in (
        " ".join(capsys.readouterr().err.split())
    )
    assert len(Tagger.load(updated / "model").history_) == 1
    everything = (updated / "old.jsonl").read_text() + (updated / "metal.jsonl").read_text()
    (updated / "all.jsonl").write_text(everything)
    assert command("update", updated, *full, "all.jsonl", "-O", str(updated / "whole")) == 0
    assert Tagger.load(updated / "whole").label_counts_[-1] == 3
    (updated / "fewer.jsonl").write_text("".join(everything.splitlines(keepends=True)[1:]))  # a row of no update
    (updated / "none.jsonl").touch()
    assert command("update", updated, "none.jsonl", "--full", "--data", "fewer.jsonl") == 2
    assert command("update", updated, *full, "old.jsonl", "--force") == 0
    assert Tagger.load(updated / "model").history_ == []


def test_a_full_training_may_leave_out_masked_labels_and_bring_others(updated):
    Tagger.load(updated / "model").update_labels(mask=["metal"]).save(updated / "model", overwrite=True)
    with (updated / "old.jsonl").open("a") as file:
        file.write(json.dumps({"text": "a glass bottle", "labels": ["glass"]}) + "\n")
    assert command("update", updated, "next.jsonl", "--full", "--data", "old.jsonl") == 0
    found = Tagger.load(updated / "model")
    assert found.label_counts_[found.find("glass")] == 1


@pytest.mark.parametrize("name", ["update", "learn"])
def test_a_model_that_another_process_changed_meanwhile_is_kept(updated, monkeypatch, capsys, name):
    texts, labels = make_library()
    Tagger(model=Neighbours(threads=1)).fit(texts, labels).save(updated / "model", overwrite=True)
    if name == "update":
        Tagger(model=LinearTree(threads=1)).fit(texts, labels).save(updated / "model", overwrite=True)
    changed = Tagger.load(updated / "model").update_labels(mask=labels[-1])
    method = getattr(Tagger, name)

    def slow(self, *given, **options):
        if not (updated / "other").exists():
            changed.save(updated / "model", overwrite=True)
            (updated / "other").touch()
        return method(self, *given, **options)

    monkeypatch.setattr(Tagger, name, slow)
    assert command(name, updated, "next.jsonl") == 2
    assert "was changed by another process after it was loaded here" in " ".join(capsys.readouterr().err.split())
    assert Tagger.load(updated / "model").vocab_.removed_mask().any()
    assert command(name, updated, "next.jsonl") == 0
    assert Tagger.load(updated / "model").vocab_.removed_mask().any()
    assert Tagger.load(updated / "model").n_rows_ == len(texts) + 4


def test_save_replaces_the_model_that_was_loaded_only(updated):
    first, manifest = Tagger.load_with_manifest(updated / "model")
    save(first, updated / "model", replaces=manifest, notes="first")
    with pytest.raises(StorageError, match="was changed by another process"):
        save(first, updated / "model", replaces=manifest, notes="second")
    assert read_manifest(updated / "model").notes == "first"


def test_files_without_rows_change_nothing_but_the_notes(updated):
    (updated / "none.jsonl").touch()
    before = read_manifest(updated / "model")
    assert command("update", updated, "none.jsonl") == 0
    assert read_manifest(updated / "model") == before
    assert command("update", updated, "none.jsonl", "--notes", "no clicks") == 0
    assert read_manifest(updated / "model").notes == "no clicks"
    Tagger(model=Neighbours(threads=1)).fit(*make_library()).save(updated / "model", overwrite=True)
    before = read_manifest(updated / "model")
    assert command("learn", updated, "none.jsonl") == 0
    assert read_manifest(updated / "model") == before


def test_another_model_is_replaced_with_force_only(updated, capsys):
    Tagger.load(updated / "model").save(updated / "other")
    assert command("update", updated, "next.jsonl", "-O", str(updated / "other")) == 2
    assert "--force" in capsys.readouterr().err
    assert command("update", updated, "next.jsonl", "-O", str(updated / "other"), "--force") == 0
    assert len(Tagger.load(updated / "other").history_) == 2
