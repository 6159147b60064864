"""`impute`, and `train` on labels of groups: columns of any name, tables of group labels, review, mistakes."""

import json

import numpy as np
import pytest
from library import make_library

from tagwood import Tagger
from tagwood.cli.app import run


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Texts in boxes of three; labels stand on the first text of a box, and in a table."""
    folder = tmp_path_factory.mktemp("boxes")
    texts, labels = make_library(240)
    table, rows, plain = [], [], []
    for begin in range(0, 240, 3):
        box = f"box {begin // 3}"
        names = sorted({name for row in labels[begin : begin + 3] for name in row})
        table.append("\t".join([box, *names]))
        for row in range(begin, begin + 3):
            content = {"id": f"r{row}", "text": texts[row], "box": box}
            plain.append(json.dumps(content))
            rows.append(json.dumps({**content, "labels": names if row == begin else []}))
    (folder / "boxes.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "plain.jsonl").write_text("\n".join(plain) + "\n")
    (folder / "labels.tsv").write_text("\n".join(table) + "\n")
    (folder / "truth.json").write_text(json.dumps([sorted(row) for row in labels]))
    return folder


def test_labels_go_to_the_rows_they_belong_to(folder, tmp_path, capsys):
    output = tmp_path / "out.jsonl"
    arguments = ["impute", str(folder / "boxes.jsonl"), "-O", str(output), "--groups", "box", "-j", "1"]
    assert run([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rows"], facts["groups"]) == (240, 80)
    lines = read_lines(output)
    assert [line["id"] for line in lines] == [f"r{row}" for row in range(240)]
    assert lines[3]["from_group"] == "box 1"
    truth = json.loads((folder / "truth.json").read_text())
    given = [(row, label["label"]) for row, line in enumerate(lines) for label in line["labels"]]
    assert np.mean([name in truth[row] for row, name in given]) > 0.8
    assert len(given) == facts["labels"]
    sure = [label["confidence"] for line in lines for label in line["labels"]]
    assert all(0 < value <= 1 for value in sure)
    assert sum(value < 0.9 for value in sure) == facts["unsure"]


def test_a_table_of_group_labels_gives_the_same(folder, tmp_path):
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    assert run(["impute", str(folder / "boxes.jsonl"), "-O", str(one), "--groups", "box"]) == 0
    table = ["--group-labels", str(folder / "labels.tsv")]
    assert run(["impute", str(folder / "plain.jsonl"), "-O", str(two), "--groups", "box", *table]) == 0
    assert read_lines(one) == read_lines(two)


def test_doubtful_groups_come_first_and_stay_together(folder, tmp_path):
    output = tmp_path / "out.jsonl"
    options = ["--groups", "box", "--margin", "0.5", "--doubtful-first"]
    assert run(["impute", str(folder / "boxes.jsonl"), "-O", str(output), *options]) == 0
    lines = read_lines(output)
    means = []
    for begin in range(0, 240, 3):
        box = lines[begin : begin + 3]
        assert len({line["from_group"] for line in box}) == 1
        means.append(np.mean([label["confidence"] for line in box for label in line["labels"]]))
    assert np.all(np.diff(means) > -1e-3)
    assert means[0] < 0.9


def test_the_result_is_training_data(folder, tmp_path):
    output = tmp_path / "out.jsonl.gz"
    assert run(["impute", str(folder / "boxes.jsonl"), "-O", str(output), "--groups", "box"]) == 0
    assert run(["train", str(output), "-O", str(tmp_path / "m"), "-j", "1"]) == 0
    assert Tagger.load(tmp_path / "m").vocab_ is not None


def test_train_learns_from_groups_with_one_option(folder, tmp_path):
    options = ["--groups", "box", "--set", "groups.steps=3", "-j", "1"]
    assert run(["train", str(folder / "boxes.jsonl"), "-O", str(tmp_path / "m"), *options]) == 0
    table = [*options, "--group-labels", str(folder / "labels.tsv")]
    assert run(["train", str(folder / "plain.jsonl"), "-O", str(tmp_path / "n"), *table]) == 0
    texts = [line["text"] for line in read_lines(folder / "plain.jsonl")]
    one, two = (Tagger.load(tmp_path / name) for name in "mn")
    assert one.groups.steps == 3
    truth = json.loads((folder / "truth.json").read_text())
    for tagger in (one, two):
        best = [tags[0].name for tags in tagger.tag(texts, k=1)]
        assert np.mean([name in row for name, row in zip(best, truth, strict=True)]) > 0.8


def test_a_recipe_may_choose_the_baseline(folder, tmp_path):
    (tmp_path / "r.toml").write_text('[groups]\nmethod = "baseline"\n')
    output = tmp_path / "out.jsonl"
    options = ["--groups", "box", "--recipe", str(tmp_path / "r.toml")]
    assert run(["impute", str(folder / "boxes.jsonl"), "-O", str(output), *options]) == 0
    lines = read_lines(output)
    assert [label["label"] for label in lines[0]["labels"]] == [label["label"] for label in lines[1]["labels"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["boxes.jsonl"], "must have groups; got no column named group. Name the column: --groups COLUMN."),
        (["boxes.jsonl", "--groups", "bxo"], "no row has a group in a field or column 'bxo'"),
        (["boxes.jsonl", "--groups", "box", "--margin", "3"], "--margin must be a number from 0.0 to 1.0"),
        (
            ["plain.jsonl", "--group-labels", "labels.tsv"],
            "80 without, such as 'box 0'. Name the column with",
        ),
        (["boxes.jsonl", "--groups", "box", "--set", "groups.method=eagel"], "Did you mean 'eagle'?"),
    ],
)
def test_mistakes_are_named(folder, tmp_path, capsys, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    assert run(["impute", *arguments, "-O", str(tmp_path / "out.jsonl")]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_that_is_there_is_kept(folder, tmp_path, capsys):
    output = tmp_path / "out.jsonl"
    output.write_text("mine")
    assert run(["impute", str(folder / "boxes.jsonl"), "-O", str(output), "--groups", "box"]) == 2
    assert "--force" in capsys.readouterr().err
    assert output.read_text() == "mine"
