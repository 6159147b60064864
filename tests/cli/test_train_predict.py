"""`train`, `predict`, `explain`, `show` and `eval MODEL`: from files to files, and what a mistake says."""

import csv
import io
import json
import re
import sys

import pytest
from library import make_library

from tagwood import Tagger
from tagwood.cli.app import run


def write_rows(path, texts, labels):
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["title", "subjects"])
        table.writerows((text, ";".join(names)) for text, names in zip(texts, labels, strict=True))
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    write_rows(folder / "library.csv", *make_library(600))
    write_rows(folder / "new.csv", *make_library(60, seed=9))
    assert run(["train", str(folder / "library.csv"), "-O", str(folder / "model"), "-j", "1"]) == 0
    return folder


@pytest.fixture
def model(folder):
    return str(folder / "model")


def test_train_says_what_it_made_and_measures_it(folder, tmp_path, capsys):
    arguments = ["--set", "tree.arity=2", "--set", "model.threads=1", "--notes", "a try", "--json"]
    assert run(["train", str(folder / "library.csv"), "-O", str(tmp_path / "m"), *arguments]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rows"], facts["test_rows"], facts["labels"]) == (600, 60, 4)
    assert facts["metrics"]["P@1"] > 0.9
    assert Tagger.load(tmp_path / "m").model_.arity == 2


def test_a_model_without_a_name_is_named_after_its_data(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["train", str(folder / "library.csv"), "-j", "1", "--quality", "fast"]) == 0
    assert Tagger.load(tmp_path / "library-model").n_rows_ == 600
    assert run(["train", str(folder / "library.csv")]) == 2
    assert "library-model: there is a model in this folder already" in " ".join(capsys.readouterr().err.split())


def test_the_forecast_shown_before_training_is_that_of_the_quality(folder, tmp_path, monkeypatch, capsys):
    from tagwood.cli import train
    from tagwood.planning import qualities

    monkeypatch.setattr(train, "_SHOWN_SECONDS", 0.0)
    monkeypatch.setitem(qualities.NEEDS, "balanced", qualities.NEEDS["balanced"]._replace(seconds=100.0))
    arguments = ["train", str(folder / "library.csv"), "-j", "1"]
    for quality, unit in (("fast", "ms"), ("balanced", "h")):
        assert run([*arguments, "-O", str(tmp_path / quality), "--quality", quality]) == 0
        shown = " ".join(capsys.readouterr().err.split())
        assert re.search(rf"Forecast: \S+ \S+ of memory, \S+ {unit} of CPU time", shown), shown


def test_a_training_that_was_interrupted_goes_on_to_the_same_model(folder, tmp_path, monkeypatch, capsys):
    from tagwood.models.linear_tree.training import TreeTraining

    target, parts = tmp_path / "m", tmp_path / "m.parts"
    arguments = ["train", str(folder / "library.csv"), "-O", str(target), "-j", "1", "--resume"]
    train_nodes, rows = TreeTraining.train_nodes, []

    def interrupted(training, *rest):
        rows.append(training.X)
        if rows[0] is not training.X:  # the tree of the second split; members of the first are complete
            raise KeyboardInterrupt
        return train_nodes(training, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(TreeTraining, "train_nodes", interrupted)
        assert run(arguments) == 130
    assert parts.is_dir()
    assert not target.exists()
    assert run(arguments) == 0
    used = re.search(r"(\d+) finished parts are used", " ".join(capsys.readouterr().err.split()))
    assert used is not None
    assert int(used[1]) >= 4
    assert not parts.exists()
    expected, found = ((path / "arrays.safetensors").read_bytes() for path in (folder / "model", target))
    assert found == expected


def test_train_reads_a_recipe_and_overrides_it(folder, tmp_path, capsys):
    (tmp_path / "r.toml").write_text("[features]\nngrams = [1, 1]\n[model]\nC = 2\nthreads = 1\n")
    target = str(tmp_path / "m")
    options = ["--recipe", str(tmp_path / "r.toml"), "--set", "model.C=0.5", "--set", "sets.holdout=0"]
    assert run(["train", str(folder / "library.csv"), "-O", target, *options]) == 0
    loaded = Tagger.load(target)
    assert (loaded.encoder_.ngrams, loaded.model_.C, loaded.n_rows_) == ((1, 1), 0.5, 600)
    assert "Nothing was measured" in capsys.readouterr().err


def test_a_text_gives_a_table_or_json(model, capsys):
    assert run(["predict", model, "oak bark forest", "-l", "2"]) == 0
    assert capsys.readouterr().out.split()[1] == "trees"
    assert run(["suggest", model, "oak bark forest", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["labels"][0]["label"] == "trees"


def test_thresholds_promises_and_label_filters_reach_the_model(model, capsys):
    assert run(["predict", model, "oak bark forest", "-t", "0.5", "--json"]) == 0
    assert [one["label"] for one in json.loads(capsys.readouterr().out)["labels"]] == ["trees"]
    assert run(["predict", model, "oak bark", "--promise", "f1", "--json"]) == 0
    assert [one["label"] for one in json.loads(capsys.readouterr().out)["labels"]] == ["trees"]
    assert run(["predict", model, "oak bark", "--exclude", "trees", "-l", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"][0]["label"] != "trees"
    assert run(["predict", model, "oak bark", "-t", "2"]) == 0
    assert "No label reaches the threshold" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "csv", "tsv", "parquet"])
def test_files_in_and_out_hold_the_same_labels_in_every_format(folder, model, tmp_path, ending, capsys):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    output = tmp_path / f"out.{ending}"
    assert run(["predict", model, str(folder / "new.csv"), "-l", "1", "-O", str(output)]) == 0
    texts, _ = make_library(60, seed=9)
    expected = [tags.names for tags in Tagger.load(model).tag(texts, k=1)]
    if ending == "parquet":
        import pyarrow.parquet as pq

        found = [[one["label"] for one in row] for row in pq.read_table(output)["labels"].to_pylist()]
    elif "jsonl" in ending:
        assert run(["eval", str(output), str(folder / "new.csv"), "-m", "P@1", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["measures"]["P@1"]["value"] > 0.9
        return
    else:
        with output.open(newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t" if ending == "tsv" else ","))
        found = [row["labels"].split(";") for row in rows]
    assert found == expected


def test_stdin_takes_lines_and_json_objects(model, monkeypatch, capsys):
    lines = 'oak bark\n\n{"id": "7", "text": "comet orbit"}\n'
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    assert run(["predict", model, "-", "-l", "1"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["labels"][0]["label"] == "trees"
    assert (second["id"], second["labels"][0]["label"]) == ("7", "stars")


def test_lines_of_stdin_that_are_not_text_are_named(model, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("oak\n\udcff\n"))
    assert run(["predict", model, "-", "-l", "1"]) == 2
    assert "standard input, line 2: is not UTF-8 text" in capsys.readouterr().err
    assert run(["predict", model, "oak \udcff", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "oak \ufffd"


def test_a_text_file_is_one_document_or_read_line_by_line(model, tmp_path, capsys):
    (tmp_path / "lines.txt").write_text("oak bark\ncomet orbit\n")
    assert run(["predict", model, str(tmp_path / "lines.txt"), "-O", "-", "-l", "1", "--lines"]) == 0
    found = [json.loads(line)["labels"][0]["label"] for line in capsys.readouterr().out.splitlines()]
    assert found == ["trees", "stars"]
    assert run(["predict", model, str(tmp_path / "lines.txt"), "-l", "2"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert (one["id"], one["file"]) == ("lines", str(tmp_path / "lines.txt"))
    assert {label["label"] for label in one["labels"]} == {"trees", "stars"}


def test_explain_writes_text_json_or_html(model, capsys):
    assert run(["explain", model, "oak bark", "--label", "trees"]) == 0
    assert capsys.readouterr().out.startswith("trees: suggested as number 1")
    assert run(["explain", model, "oak bark", "--label", "water", "-t", "0.5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"]["reason"] == "below the threshold"
    assert run(["explain", model, "oak <b>", "--html"]) == 0
    assert capsys.readouterr().out.startswith('<article class="tagwood-why"><h2>trees</h2>')


def test_show_names_passport_labels_tree_and_recipe(model, capsys):
    assert run(["show", model]) == 0
    out = capsys.readouterr().out
    for words in ("data fingerprint", "Largest labels", "[features]", "leaf 0: ", "calibrated"):
        assert words in out
    assert run(["show", model, "--json", "-l", "2"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert len(facts["largest_labels"]) == 2
    assert facts["labels"]["labels"] == 4


def test_eval_of_a_model_takes_the_first_rows_and_a_number_of_threads(folder, model, capsys):
    assert run(["eval", model, str(folder / "new.csv"), "-d", "10", "-j", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_rows"] == 10


def test_eval_asks_a_model_and_knows_its_training_labels(folder, model, tmp_path, capsys):
    names = ["-m", "P@1", "-m", "PSP@3", "-m", "micro-F1"]
    table = tmp_path / "labels.tsv"
    assert run(["eval", model, str(folder / "new.csv"), *names, "-r", str(table), "--slices", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["measures"]) == {"P@1", "PSP@3", "micro-F1"}
    assert all(one["value"] > 0.9 for one in report["measures"].values())
    assert len(table.read_text().splitlines()) == 5


def test_labels_that_the_model_does_not_know_count_as_missed(model, tmp_path, capsys):
    data = write_rows(tmp_path / "odd.csv", ["oak bark", "oak bark"], [["trees"], ["unicorns"]])
    assert run(["eval", model, data, "-m", "P@1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measures"]["P@1"]["value"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "{data}", "-O", "{model}"], "there is a model in this folder already"),
        (["train", "{none}", "-O", "{new}"], "there is no such file"),
        (["train", "{data}", "-O", "{new}", "--set", "tree.arty=3"], "Did you mean 'arity'?"),
        (["train", "{data}", "-O", "{new}", "--set", "model.C=-1"], "C must be a number"),
        (["train", "{data}", "-O", "{new}", "--recipe", "{none}"], "No such file"),
        (["train", "{data}", "-O", "{new}", "--quality", "bst"], "Did you mean 'best'?"),
        (["predict", "{none}", "text"], "nothing"),
        (["predict", "{model}", "text", "-l", "0"], "k must be a whole number of at least 1"),
        (["predict", "{model}", "text", "--promise", "precisio>=0.9"], "Did you mean"),
        (["predict", "{model}", "text", "--exclude", "treez"], "Did you mean 'trees'?"),
        (["predict", "{model}", "{data}", "-O", "{new}"], "must end in .jsonl, .csv, .tsv or .parquet"),
        (["predict", "{model}", "{data}", "-O", "{data}"], "exists already"),
        (["explain", "{model}", "text", "--label", "tres"], "Did you mean 'trees'?"),
        (["explain", "{model}", "text", "--json", "--html"], "cannot be combined"),
        (["show", "{data}"], "library.csv"),
    ],
)
def test_mistakes_are_named_with_exit_code_2_and_leave_nothing_behind(folder, tmp_path, arguments, message, capsys):
    places = {
        "data": folder / "library.csv",
        "model": folder / "model",
        "none": tmp_path / "nothing",
        "new": tmp_path / "new",
    }
    assert run([argument.format(**places) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_no_model_behind(folder, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tagwood.storage.save_load._write", interrupt)
    assert run(["train", str(folder / "library.csv"), "-O", str(tmp_path / "m"), "-j", "1"]) == 130
    assert list(tmp_path.iterdir()) == []


def test_long_documents_are_cut_by_a_rule_that_is_said(model, tmp_path, capsys):
    (tmp_path / "long.md").write_text("oak bark forest " * 200 + "comet orbit moon " * 2000)
    command = ["predict", model, str(tmp_path / "long.md"), "-l", "1"]
    assert run(command) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["labels"][0]["label"] == "trees"
    words = 2 * Tagger.load(model).words_per_text_
    assert f"1 documents were read up to word {words}; --words changes that." in err
    assert run([*command, "--words", "0"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["labels"][0]["label"] == "stars"
    assert "up to word" not in err
    assert run([*command, "--words", "-1"]) == 2
