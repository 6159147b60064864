"""The command line on feature files: train, eval and predict."""

import json

import numpy as np
import pytest
from scipy import sparse

from tagwood import load, save
from tagwood.cli.app import run
from tagwood.data import Dataset, LabelVocab, write_dataset
from tagwood.errors import InputError
from tagwood.models.softmax_tree import SoftmaxTree
from tagwood.tagger.features import FeatureTagger


def make_rows(n_rows=60):
    labels = np.arange(n_rows) % 3
    X = np.zeros((n_rows, 9), dtype=np.float32)
    for row, label in enumerate(labels):
        X[row, 3 * label : 3 * label + 3] = (1, 1 + row % 2, 1)
    return Dataset([[int(label)] for label in labels], LabelVocab.numbered(3), features=X)


@pytest.mark.parametrize("kind", ["repository", "sparse-files", "csr"])
def test_train_eval_and_predict_on_each_format(kind, tmp_path, capsys):
    data, model = tmp_path / "data", tmp_path / "model"
    write_dataset(make_rows(), data, kind)
    assert run(["train", str(data), "-O", str(model), "-j", "1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rows"], facts["labels"], facts["features"], facts["reading"]["labels_used"]) == (60, 3, 9, 60)
    assert run(["eval", str(model), str(data), "-m", "P@1", "-m", "PSP@1", "--json"]) == 0
    measures = json.loads(capsys.readouterr().out)["measures"]
    assert measures["P@1"]["value"] == measures["PSP@1"]["value"] == 1.0
    out = tmp_path / "out.jsonl"
    assert run(["predict", str(model), str(data), "-l", "1", "-O", str(out)]) == 0
    assert [json.loads(line)["labels"] for line in out.read_text().splitlines()] == [[row % 3] for row in range(60)]


def with_test_split(folder, n_rows, pairs=()):
    """Write a training split of 60 rows and a test split of others, of the last label first."""
    write_dataset(make_rows(), folder, "sparse-files")
    rows = make_rows(n_rows)
    write_dataset(rows.rows(np.arange(n_rows)[::-1].tolist()), folder.with_name("other"), "sparse-files")
    for file in folder.with_name("other").glob("trn_*"):
        file.rename(folder / file.name.replace("trn_", "tst_"))
    if pairs:
        lines = [f"{row} {label}\n" for row, label in pairs]
        (folder / "filter_labels_test.txt").write_text("".join(lines))
    return str(folder)


@pytest.mark.parametrize("pairs", [(), [(0, 1), (3, 0)]])
def test_predict_reads_the_split_that_eval_measures(pairs, tmp_path, capsys):
    data, model = with_test_split(tmp_path / "data", 12, pairs), str(tmp_path / "model")
    assert run(["train", data, "-O", model, "-j", "1"]) == 0
    out = tmp_path / "out.jsonl"
    assert run(["predict", model, data, "-l", "2", "-O", str(out)]) == 0
    assert "12 rows of the test split" in " ".join(capsys.readouterr().err.split())
    first = [json.loads(line)["labels"][0] for line in out.read_text().splitlines()]
    assert first == [row % 3 for row in range(12)][::-1]
    assert run(["eval", str(out), data, "-m", "P@1", "--json"]) == 0
    stored = json.loads(capsys.readouterr().out)["measures"]
    assert run(["eval", model, data, "-m", "P@1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measures"] == stored


@pytest.mark.parametrize("pairs", [(), [(0, 1)]])
def test_predictions_of_other_rows_are_named(pairs, tmp_path, capsys):
    data, model = with_test_split(tmp_path / "data", 12, pairs), str(tmp_path / "model")
    assert run(["train", data, "-O", model, "-j", "1"]) == 0
    out = str(tmp_path / "out.jsonl")
    assert run(["predict", model, f"{data}/trn_X_Xf.txt", "-O", out]) == 0
    assert " 60 rows" in " ".join(capsys.readouterr().err.split())
    assert run(["eval", out, data]) == 2
    assert f"{out} must have one ranking for each of the 12 rows of {data}; got 60." in capsys.readouterr().err


def test_a_matrix_alone_is_enough_to_predict(tmp_path):
    rows = make_rows()
    write_dataset(rows, tmp_path / "data", "csr")
    assert run(["train", str(tmp_path / "data"), "-O", str(tmp_path / "model")]) == 0
    sparse.save_npz(tmp_path / "new.npz", sparse.csr_array(rows.features[:4]))
    out = tmp_path / "out.npz"
    assert run(["predict", str(tmp_path / "model"), str(tmp_path / "new.npz"), "-O", str(out), "-l", "1"]) == 0
    assert sparse.load_npz(out).indices.tolist() == [0, 1, 2, 0]


def test_scale_of_a_row_does_not_matter_and_names_are_kept(tmp_path):
    rows = make_rows()
    named = Dataset(rows.labels, LabelVocab.from_names(["ash", "oak", "elm"]), features=rows.features)
    tagger = FeatureTagger().fit(named)
    assert np.array_equal(tagger.rank(100 * rows.features).scores, tagger.rank(rows.features).scores)
    folder = tmp_path / "model"
    again = load(save(tagger, folder, golden=rows.features[:3]), verify=True)
    assert again.vocab_ == named.vocab
    assert again.rank(rows.features) == tagger.rank(rows.features)
    assert again.label_counts_.tolist() == [20, 20, 20]


def test_mistakes_are_one_sentence(tmp_path, capsys):
    write_dataset(make_rows(), tmp_path / "data", "csr")
    (tmp_path / "texts.csv").write_text("text,labels\na,b\n")
    model = str(tmp_path / "model")
    assert run(["train", str(tmp_path / "data"), "-O", model, "--quality", "best"]) == 2
    assert run(["train", str(tmp_path / "data"), "-O", model, "--model", "softmax-tree"]) == 2
    assert run(["train", str(tmp_path / "data"), "-O", model]) == 0
    assert run(["eval", model, str(tmp_path / "texts.csv")]) == 2
    assert run(["eval", model, str(tmp_path / "data"), "-m", "micro-F1"]) == 2
    assert run(["predict", model, "some text", "-O", str(tmp_path / "o.jsonl")]) == 2
    assert run(["predict", model, str(tmp_path / "data")]) == 2
    assert run(["plan", str(tmp_path / "data")]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    for words, line in zip(
        [
            "quality best needs texts",
            "must take features",
            "ranks features",
            "set rule",
            "one file",
            "--output",
            "hold texts",
        ],
        errors,
        strict=True,
    ):
        assert words in line
    with pytest.raises(InputError, match="fitted on features"):
        FeatureTagger().fit(Dataset([[0]], texts=["a"]))
    with pytest.raises(InputError, match="must take features; got SoftmaxTree"):
        FeatureTagger(SoftmaxTree()).fit(make_rows())
