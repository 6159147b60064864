"""`tagwood eval`: the numbers of `evaluate`, from files."""

import json

import numpy as np
import pytest
from scipy import sparse

from tagwood import Ranking
from tagwood.cli.app import run
from tagwood.data import Dataset, LabelVocab
from tagwood.data.predictions import write_ranking
from tagwood.metrics import evaluate

TRUTH = [["oak", "ash"], ["elm"], ["oak"]]
TRAIN = [["oak", "ash"], ["oak"], ["pine"], ["elm", "oak"], ["oak"], ["ash"]]
PREDICTED = [[("oak", 0.9), ("elm", 0.1)], [("ash", 0.7), ("elm", 0.5)], []]
NAMES = ["oak", "ash", "pine", "elm"]  # in order of first appearance in the training file


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def files(tmp_path):
    return (
        write_lines(
            tmp_path / "p.jsonl",
            [{"labels": [x for x, _ in r], "scores": [s for _, s in r]} for r in PREDICTED],
        ),
        write_lines(tmp_path / "truth.jsonl", [{"text": "t", "labels": labels} for labels in TRUTH]),
        write_lines(tmp_path / "train.jsonl", [{"text": "t", "labels": labels} for labels in TRAIN]),
    )


def expected(**options):
    ids = [[NAMES.index(x) for x in row] for row in TRUTH]
    train = Dataset([[NAMES.index(x) for x in row] for row in TRAIN]).labels
    ranking = Ranking.from_lists([[(NAMES.index(x), s) for x, s in row] for row in PREDICTED], 4)
    return evaluate(ids, ranking, train_labels=train, **options)


def test_json_holds_the_report_of_evaluate(files, capsys):
    predictions, truth, train = files
    options = [
        "-m",
        "P@1",
        "-m",
        "psp@2",
        "--propensity",
        "amazon",
        "--slices",
        "--confidence",
        "0.9",
        "--seed",
        "3",
    ]
    assert run(["eval", predictions, truth, "--train", train, *options, "--json"]) == 0
    out, err = capsys.readouterr()
    report = expected(metrics=["P@1", "PSP@2"], propensity="amazon", slices=True, confidence=0.9, seed=3)
    found = json.loads(out)
    reading, unknown, filtered = (found.pop(name) for name in ("reading", "unknown_labels", "filtered_pairs"))
    assert (reading["rows"], unknown, filtered) == (report.n_rows, 0, 0)
    assert found == json.loads(report.to_json())
    assert err == ""


def test_table_goes_to_stdout(files, capsys):
    assert run(["eval", *files[:2], "-m", "P@1"]) == 0
    out, _ = capsys.readouterr()
    assert "P@1" in out
    assert "33.33" in out


def test_metrics_file_and_results_file_are_written(files, tmp_path, capsys):
    predictions, truth, train = files
    paths = [tmp_path / "m.json", tmp_path / "labels.tsv"]
    assert run(["eval", predictions, truth, "--train", train, "-M", str(paths[0]), "-r", str(paths[1])]) == 0
    assert json.loads(paths[0].read_text()) == json.loads(expected().to_json())
    header, *lines = [line.split("\t") for line in paths[1].read_text().splitlines()]
    assert header == [
        "label",
        "name",
        "train_rows",
        "true_rows",
        "returned_rows",
        "hits",
        "precision",
        "recall",
        "f1",
    ]
    assert lines[0] == ["0", "oak", "4", "2", "1", "1", "1", "0.5", "0.666667"]
    assert [line[1] for line in lines] == ["oak", "ash", "elm"]
    capsys.readouterr()


def test_limit_looks_at_the_first_labels_only(files, capsys):
    assert run(["eval", *files[:2], "-m", "micro-R", "--limit", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measures"]["micro-R"]["value"] == 1 / 4


def test_docs_limit_looks_at_the_first_rows_only(files, capsys):
    for rows, hits in (("1", 1.0), ("2", 1 / 2), ("9", 1 / 3)):
        assert run(["eval", *files[:2], "-m", "P@1", "-d", rows, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["measures"]["P@1"]["value"] == hits


def test_unknown_labels_count_as_wrong_and_are_reported(files, tmp_path, capsys):
    predictions = write_lines(tmp_path / "q.jsonl", [["yew", "oak"], ["elm"], []])
    assert run(["eval", predictions, files[1], "-m", "P@1", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["measures"]["P@1"]["value"] == 1 / 3
    assert "1 predicted labels are unknown to truth.jsonl" in err


def test_matrices_of_scores_meet_matrices_of_labels(tmp_path, capsys):
    rng = np.random.default_rng(0)
    truth = sparse.csr_array((rng.random((20, 6)) < 0.4).astype(np.float32))
    ranking = Ranking.from_csr(sparse.csr_array(rng.random((20, 6))), k=3)
    (tmp_path / "data").mkdir()
    sparse.save_npz(tmp_path / "data" / "Y.trn.npz", truth)
    sparse.save_npz(tmp_path / "data" / "X.trn.npz", sparse.csr_array(np.ones((20, 1), dtype=np.float32)))
    for name, vocab in (("p.npz", None), ("p.jsonl", LabelVocab.numbered(6))):
        write_ranking(ranking, tmp_path / name, vocab)
        assert run(["eval", str(tmp_path / name), str(tmp_path / "data"), "-m", "nDCG@3", "--json"]) == 0
        value = json.loads(capsys.readouterr().out)["measures"]["nDCG@3"]["value"]
        assert value == evaluate(truth, ranking, metrics=["nDCG@3"])["nDCG@3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "P@x"], "unknown metric 'P@x'. Did you mean 'P@5'?"),
        (
            ["-m", "PSP@1"],
            "PSP@1 must know how often each label occurs in the training data. Give it with --train",
        ),
        (["--slices"], "--slices must know how often"),
        (["--propensity", "amazn"], "Did you mean 'amazon'?"),
        (["--propensity", "1,2,3"], "--propensity must be a preset or two numbers A,B; got '1,2,3'"),
        (["--limit", "0"], "'--limit' / '-l': Input should be greater than or equal to 1"),
        (["--train", "nowhere.jsonl"], "nowhere.jsonl"),
    ],
)
def test_mistakes_of_the_user_are_named_with_exit_code_2(files, arguments, message, capsys):
    assert run(["eval", *files[:2], *arguments]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""


def test_files_that_do_not_fit_are_named(files, tmp_path, capsys):
    short = write_lines(tmp_path / "short.jsonl", [["oak"]])
    assert run(["eval", short, files[1]]) == 2
    assert f"{short} must have one ranking for each of the 3 rows of {files[1]}; got 1" in capsys.readouterr().err
    assert run(["eval", str(tmp_path), files[1]]) == 2
    assert "manifest.json" in capsys.readouterr().err


def test_the_metrics_of_annif_are_printed_under_its_names(files, capsys, tmp_path):
    predictions, truth, _ = files
    assert run(["eval", predictions, truth, "--annif", "--json", "-M", str(tmp_path / "m.json")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((tmp_path / "m.json").read_text())
    assert found["True positives"] == 2
    assert found["Precision (doc avg)"] == pytest.approx(1 / 3)
    assert run(["eval", predictions, truth, "--annif"]) == 0
    assert "F1 score (weighted subj avg)" in capsys.readouterr().out
    assert run(["eval", predictions, truth, "--annif", "-m", "P@1"]) == 2
    assert "--annif must stand alone" in capsys.readouterr().err
