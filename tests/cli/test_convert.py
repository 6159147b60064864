"""`tagwood convert` turns one format into another, never overwrites by accident, and says what was lost."""

import json

import pytest

from tagwood.cli import app
from tagwood.data import read_dataset


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a", "labels": ["x y", "z"], "group": "g"}\n{"text": "b", "labels": []}\n')
    return path


def test_a_file_is_converted_by_the_name_of_the_target(source, tmp_path):
    assert app.run(["convert", str(source), str(tmp_path / "out.csv.gz")]) == 0
    before, after = read_dataset(source), read_dataset(tmp_path / "out.csv.gz")
    assert after.fingerprint() == before.fingerprint()


def test_what_the_format_cannot_hold_is_said(source, tmp_path, capsys):
    target = tmp_path / "out.txt"
    assert app.run(["convert", str(source), str(target), "--to", "fasttext", "--json"]) == 0
    out, err = capsys.readouterr()
    facts = json.loads(out)
    assert facts["reading"].pop("files")[0]["label_column"] == "labels"
    assert {name: value for name, value in facts.items() if name != "reading"} == {
        **{"rows": 2, "labels": 2, "lost": ["groups"], "lost_columns": [], "bad_lines": 0},
    }
    assert "cannot hold the groups" in " ".join(err.split())
    assert target.read_text() == "__label__x_y __label__z a\nb\n"


def test_an_existing_target_is_kept_without_force(source, tmp_path, capsys):
    target = tmp_path / "out.csv"
    target.write_text("precious")
    assert app.run(["convert", str(source), str(target)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert target.read_text() == "precious"
    assert app.run(["convert", str(source), str(target), "--force"]) == 0
    assert target.read_text().startswith("text,group,labels\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["out.txt"], "does not determine a format to write"),
        (["out.txt", "--to", "fastext"], "Did you mean 'fasttext'?"),
        (["out", "--to", "repository"], "contains features, but this dataset has none"),
        (["out.csv", "--from", "pecos"], "line 1: has no tab"),
    ],
)
def test_mistakes_end_with_code_two_and_leave_nothing(arguments, message, source, tmp_path, capsys):
    assert app.run(["convert", str(source), str(tmp_path / arguments[0]), *arguments[1:]]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert [file.name for file in tmp_path.iterdir()] == ["in.jsonl"]


def test_bad_lines_are_skipped_and_shown(source, tmp_path, capsys):
    with source.open("a") as file:
        file.write("broken\n")
    assert app.run(["convert", str(source), str(tmp_path / "out.csv"), "--skip-bad"]) == 0
    words = " ".join(capsys.readouterr().err.split())
    assert "line 3: is not JSON" in words
    assert "2 rows, 2 labels, 1 lines skipped" in words
