"""`tune --tree` and `train --tree auto`: a table, a recommendation, files; mistakes are named."""

import json

import pytest
from library import make_library
from scipy import sparse

from benchmarks.synthetic import power_law
from tagwood import Tagger
from tagwood.cli.app import run

OPTIONS = ["--set", "tree.arity=2", "--set", "tree.max_leaf_size=1", "-j", "1", "--lam", "1"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune") / "library.jsonl"
    texts, labels = make_library(300)
    lines = [json.dumps({"text": t, "labels": list(names)}) for t, names in zip(texts, labels, strict=True)]
    path.write_text("\n".join(lines))
    return str(path)


def test_a_table_and_a_recommendation_are_shown(data, capsys):
    assert run(["tune", data, "--tree", *OPTIONS, "--no-latency"]) == 0
    shown = capsys.readouterr()
    head, *rows = shown.out.splitlines()
    assert head.split()[:3] == ["λ", "P@1", "P@3"]
    assert [row.replace("*", "").replace("+", "", 1).split()[0] for row in rows] == ["0", "1"]
    assert "λ=" in shown.err


def test_results_go_to_a_folder_and_are_not_replaced_unasked(data, tmp_path, capsys):
    folder = tmp_path / "out"
    assert run(["tune", data, "--tree", *OPTIONS, "-O", str(folder), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert json.loads((folder / "sweep.json").read_text()) == printed
    assert [p["lam"] for p in printed["points"]] == [0, 1]
    assert printed["cost"] == "exact_p50_5"
    assert (folder / "pareto.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "pareto.html").read_text()
    assert run(["tune", data, "--tree", *OPTIONS, "-O", str(folder)]) == 2
    assert "must not hold an earlier result" in capsys.readouterr().err


def test_features_are_taken_as_they_are(tmp_path, capsys):
    problem = power_law(200, 1, 12, 40, labels_per_row=2, nnz_per_row=8)
    sparse.save_npz(tmp_path / "X.trn.npz", problem.X_train)
    sparse.save_npz(tmp_path / "Y.trn.npz", problem.Y_train)
    assert run(["tune", str(tmp_path), "--tree", *OPTIONS, "--no-latency", "-d", "190", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["facts"]
    assert facts["train_rows"] + facts["held_out_rows"] <= 190


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lam", "3"], "lam must be a number from 0 to 2"),
        (["--holdout", "0"], "holdout must be a number from 0.01 to 0.9"),
        (["-d", "50"], "takes 134 rows with labels or more; got 50"),
    ],
)
def test_mistakes_are_named(data, options, message, capsys):
    assert run(["tune", data, "--tree", *options]) == 2
    assert message in capsys.readouterr().err


def test_train_chooses_the_tree_and_keeps_the_trials(data, tmp_path, capsys):
    target = tmp_path / "model"
    assert run(["train", data, "-O", str(target), "--tree", "auto", "-j", "1"]) == 0
    model = Tagger.load(target).model_
    assert model.tree == "auto"
    assert model.sweep_.lam == model.lam_
    assert run(["train", data, "-O", str(tmp_path / "m"), "--tree", "best"]) == 2
    assert "tree must be one of" in capsys.readouterr().err
