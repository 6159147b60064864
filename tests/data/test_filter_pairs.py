"""Filter files remove pairs of row and label from predictions as well as from the truth."""

import gzip
import json

import numpy as np
import pytest
from scipy import sparse

from tagwood import Ranking, evaluate, read_dataset
from tagwood.cli.app import run
from tagwood.data import BadLines, ReadReport
from tagwood.errors import DataError, InputError

RANKING = Ranking.from_lists([[(0, 0.9), (2, 0.5)], [(1, 0.8), (0, 0.4)]], n_labels=3)
PAIRS = sparse.csr_array(([1.0, 1.0], ([0, 1], [0, 2])), shape=(2, 3))
TRUTH = [[0, 2], [0]]


def test_a_ranking_without_pairs_and_its_measures():
    assert [list(row) for row in RANKING.without(PAIRS)] == [[(2, 0.5)], [(1, 0.8), (0, 0.4)]]
    plain = evaluate(TRUTH, RANKING, metrics=["P@1", "R@2"])
    assert (plain["P@1"], plain["R@2"]) == (0.5, 1.0)
    filtered = evaluate(TRUTH, RANKING, metrics=["P@1", "R@2"], filter_pairs=PAIRS)
    assert (filtered["P@1"], filtered["R@2"]) == (0.5, 1.0)
    # A pair that leaves the truth only would count as an error of the model.
    truth_only = evaluate([[2], [0]], RANKING, metrics=["P@1"])
    assert truth_only["P@1"] == 0.0
    for wrong in (PAIRS.toarray(), PAIRS[:1]):
        with pytest.raises(InputError, match="pairs must be a sparse matrix of 2 rows and 3 labels"):
            RANKING.without(wrong)


@pytest.fixture
def json_folder(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    for part in ("trn", "tst"):
        rows = [
            {"uid": str(i), "title": f"{name} {part}", "content": "", "target_ind": [i, 2]}
            for i, name in enumerate("ab")
        ]
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        (folder / f"{part}.json.gz").write_bytes(gzip.compress(content))
    (folder / "lbl.json").write_text("".join(json.dumps({"title": name}) + "\n" for name in ("ash", "oak", "elm")))
    (folder / "filter_labels_test.txt").write_text("0 0\n1 2\n1 0\n")
    return folder


def test_json_of_the_repository_keeps_its_pairs(json_folder):
    report = ReadReport()
    test = read_dataset(json_folder, split="test", report=report)
    assert test.label_lists() == [[2], [1]]
    assert test.filter_pairs.toarray().tolist() == [[1, 0, 0], [1, 0, 1]]
    assert (report.labels, report.labels_used, report.labels_filtered) == (4, 2, 2)
    assert test.rows([1]).filter_pairs.toarray().tolist() == [[1, 0, 1]]
    assert read_dataset(json_folder).filter_pairs is None
    (json_folder / "filter_labels_test.txt").write_text("9 0\n")
    with pytest.raises(DataError, match=r"line 1: '9 0' is beyond the 2 rows or 3 labels"):
        read_dataset(json_folder, split="test")


def test_pairs_follow_their_rows_when_bad_lines_are_skipped(json_folder):
    rows = gzip.decompress((json_folder / "tst.json.gz").read_bytes())
    (json_folder / "tst.json.gz").write_bytes(b"{oops\n" + rows)
    (json_folder / "filter_labels_test.txt").write_text("1 0\n2 2\n")
    test = read_dataset(json_folder, split="test", skip_bad=BadLines())
    assert test.label_lists() == [[2], [1]]


def test_sparse_files_keep_their_pairs(tmp_path):
    files = {"tst_X_Xf.txt": "2 2\n0:1\n1:1\n", "tst_X_Y.txt": "2 3\n0:1 2:1\n0:1\n", "filter_labels_test.txt": "0 0\n"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    test = read_dataset(tmp_path)
    assert (test.label_lists(), test.filter_pairs.nnz) == ([[2], [0]], 1)


def test_eval_filters_predictions_and_truth(json_folder, tmp_path, capsys):
    predictions = tmp_path / "p.jsonl"
    predictions.write_text('{"labels": ["ash", "elm"]}\n{"labels": ["elm", "oak"]}\n')
    command = ["eval", str(predictions), str(json_folder), "-m", "P@1", "--json"]
    assert run(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["measures"]["P@1"]["value"], found["filtered_pairs"]) == (1.0, 2)
    assert found["reading"]["labels_filtered"] == 2
    (json_folder / "filter_labels_test.txt").rename(tmp_path / "pairs.txt")
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out)["filtered_pairs"] == 0
    assert run([*command, "--filter", str(tmp_path / "pairs.txt")]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["measures"]["P@1"]["value"], again["filtered_pairs"]) == (1.0, 2)


def test_a_model_ranks_more_labels_where_some_are_filtered(tmp_path, capsys):
    random = np.random.default_rng(0)
    labels = random.integers(0, 6, 80)
    X = sparse.csr_array(np.eye(6, dtype=np.float32)[labels])
    for name, matrix in (("X.trn", X), ("X.tst", X)):
        sparse.save_npz(tmp_path / f"{name}.npz", matrix)
    Y = sparse.csr_array(np.eye(6, dtype=np.float32)[labels])
    for name in ("Y.trn", "Y.tst"):
        sparse.save_npz(tmp_path / f"{name}.npz", Y)
    model = str(tmp_path / "model")
    assert run(["train", str(tmp_path), "-O", model, "--set", "tree.max_leaf_size=2", "-j", "1"]) == 0
    (tmp_path / "pairs.txt").write_text("".join(f"{row} {label}\n" for row, label in enumerate(labels)))
    out = ["-m", "P@1", "-m", "P@2", "--json"]
    capsys.readouterr()
    assert run(["eval", model, str(tmp_path), *out]) == 0
    assert json.loads(capsys.readouterr().out)["measures"]["P@1"]["value"] == 1.0
    assert run(["eval", model, str(tmp_path), *out, "--filter", str(tmp_path / "pairs.txt")]) == 0
    filtered = json.loads(capsys.readouterr().out)
    assert (filtered["filtered_pairs"], filtered["measures"]["P@1"]["value"]) == (80, 0.0)
