"""`tagwood tune-threshold`: tables of cuts, and a rule that the model keeps and `predict --sets` and `eval` use."""

import json

import pytest
from library import make_library

from tagwood import LinearTree, Tagger
from tagwood.cli.app import run
from tagwood.storage import read_manifest
from tagwood.tagger import SetRules


@pytest.fixture(scope="module")
def trained():
    return Tagger(model=LinearTree(threads=1), keep_texts=0).fit(*make_library(600))


@pytest.fixture
def folder(trained, tmp_path):
    trained.save(tmp_path / "model", notes="noted")
    with (tmp_path / "new.jsonl").open("w") as file:
        for text, labels in zip(*make_library(80, seed=5), strict=True):
            file.write(json.dumps({"text": text, "labels": labels}) + "\n")
    return tmp_path


def tune(folder, *more):
    return run(["tune-threshold", str(folder / "model"), str(folder / "new.jsonl"), "-j", "1", *more])


def test_tables_show_thresholds_sizes_and_promises(folder, capsys):
    before = read_manifest(folder / "model")
    assert tune(folder) == 0
    out, err = capsys.readouterr()
    assert out.split()[:4] == ["threshold", "size", "micro-P", "micro-R"]
    for words in ("\n0.5 ", "\nk ", "\npromise ", "\nf1 ", "\nprecision>=0.9 ", "\nrecall>=0.8 "):
        assert words in out
    assert out.count("*") == 2
    assert err.startswith("micro-F1 on 80 rows: threshold>=")
    assert read_manifest(folder / "model") == before


def test_the_best_threshold_is_the_best_of_all(folder, capsys):
    assert tune(folder, "-m", "example-F1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    values = [cut["measures"]["example-F1"] for cut in found["thresholds"]]
    assert found["best_threshold"]["measures"]["example-F1"] == max(values)
    assert (found["rows"], found["rule"], len(found["sizes"])) == (80, "f1", 20)


def test_a_written_threshold_is_what_predict_and_eval_then_use(folder, capsys):
    assert tune(folder, "--write", "--json") == 0
    best = json.loads(capsys.readouterr().out)["best_threshold"]
    model = Tagger.load(folder / "model", verify=True)
    assert model.sets.rule == best["rule"]
    assert read_manifest(folder / "model").notes == "noted"
    assert run(["eval", str(folder / "model"), str(folder / "new.jsonl"), "-m", "micro-F1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["measures"]["micro-F1"]["value"]
    assert report == pytest.approx(best["measures"]["micro-F1"])
    text = make_library(80, seed=5)[0][0]
    assert run(["predict", str(folder / "model"), text, "--sets", "--json"]) == 0
    found = [one["label"] for one in json.loads(capsys.readouterr().out)["labels"]]
    threshold = float(best["rule"].removeprefix("threshold>="))
    assert found == [tag.name for tag in model.tag_one(text, k=50) if tag.score >= threshold]


def test_an_interrupt_leaves_the_rule_as_it_was(folder, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    before = read_manifest(folder / "model")
    monkeypatch.setattr("tagwood.storage.save_load._write", interrupt)
    assert tune(folder, "--write") == 130
    assert read_manifest(folder / "model") == before
    assert sorted(path.name for path in folder.iterdir()) == ["model", "new.jsonl"]


def test_a_model_without_probabilities_has_thresholds_but_no_promises(folder, capsys):
    small = Tagger(model=LinearTree(threads=1), sets=SetRules(holdout=0.0)).fit(*make_library(60))
    small.save(folder / "model", overwrite=True)
    assert tune(folder, "--write") == 0
    out, err = capsys.readouterr()
    assert "promise" not in out
    assert "no probabilities" in " ".join(err.split())
    again = Tagger.load(folder / "model")
    threshold = float(again.sets.rule.removeprefix("threshold>="))
    texts = make_library(20, seed=6)[0]
    assert again.rank_sets(texts) == again.rank(texts, k=50).above(threshold)
    assert again.tag(texts, promise="top-1") == again.tag(texts, k=1)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["-m", "P@5"], "must be one of label sets; got P@5"),
        (["-m", "microF1"], "Did you mean 'micro-F1'?"),
        (["-d", "0"], "'--docs-limit' / '-d': Input should be greater than or equal to 1"),
    ],
)
def test_mistakes_are_named(folder, more, message, capsys):
    assert tune(folder, *more) == 2
    assert message in capsys.readouterr().err


def test_unknown_labels_count_as_missed(folder, capsys):
    (folder / "new.jsonl").write_text('{"text": "oak bark", "labels": ["trees", "unicorns"]}\n')
    assert tune(folder, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert max(cut["measures"]["micro-R"] for cut in found["thresholds"]) == 0.5
