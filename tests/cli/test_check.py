"""`tagwood check` shows the figures of a dataset, warns in words, and names bad lines."""

import json

import pytest

from tagwood.cli import app


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "a", "labels": ["x", "y"]}\n{"text": "b", "labels": ["x"]}\n')
    return path


def test_figures_and_warnings_go_to_their_streams(train, tmp_path, capsys):
    test = tmp_path / "test.jsonl"
    test.write_text('{"text": "a", "labels": ["z"]}\n')
    assert app.run(["check", str(train), "--test", str(test)]) == 0
    out, err = capsys.readouterr()
    assert "labels per row" in out
    assert "1.50 on average" in out
    assert "Test rows that are also in the training set: 1 of 1" in " ".join(err.split())


def test_json_has_the_figures_and_the_warnings(train, capsys):
    assert app.run(["check", str(train), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["labels"], found["pairs"], found["bad_lines"]) == (2, 2, 3, 0)
    assert found["test"] is None


def test_a_bad_line_ends_the_command_unless_skipped(train, capsys):
    with train.open("a") as file:
        file.write("broken\n")
    assert app.run(["check", str(train)]) == 2
    assert f"{train}, line 3: is not JSON" in capsys.readouterr().err
    assert app.run(["check", str(train), "--skip-bad", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bad_lines"] == 1


def test_labels_can_be_looked_up_in_a_table(train, tmp_path, capsys):
    table = tmp_path / "labels.tsv"
    table.write_text("x\tEx\ny\tYps\nunused\tOther\n")
    assert app.run(["check", str(train), "--vocab", str(table), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == 3


def test_an_undecidable_file_says_how_to_name_the_format(tmp_path, capsys):
    path = tmp_path / "words.txt"
    path.write_text("only words\n")
    assert app.run(["check", str(path)]) == 2
    assert "--format" in capsys.readouterr().err


def test_check_says_that_training_stops_at_unknown_labels(train, tmp_path, capsys):
    table = tmp_path / "labels.tsv"
    table.write_text("x\tEx\n")
    assert app.run(["check", str(train), "--vocab", str(table)]) == 0
    assert "stops at labels that are not in the vocabulary" in " ".join(capsys.readouterr().err.split())
