"""Columns and fields that make the text of a row, chosen by name."""

from __future__ import annotations

import json

import pytest

from tagwood.cli.app import run
from tagwood.data import ReadReport, read_dataset, read_records
from tagwood.errors import DataError, InputError

ROWS = [
    {
        "title": "On\noaks",
        "text": "no",
        "abstract": "Oaks grow.",
        "keywords": ["oak", "tree"],
        "labels": ["trees"],
    },
    {"title": None, "text": "no", "abstract": "Salt water.", "keywords": [], "labels": ["water"]},
    {"text": "no", "abstract": "", "keywords": ["sea"], "labels": ["water"]},
]
COLUMNS = ["Title", "abstract", "keywords"]
TEXTS = ["On oaks\nOaks grow.\noak, tree", "\nSalt water.\n", "\n\nsea"]


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_chosen_fields_of_json_lines_make_the_text(lines):
    assert read_dataset(lines, text_columns=COLUMNS).texts == TEXTS
    assert [one.text for one in read_records(lines, text_columns=["abstract"])] == [
        "Oaks grow.",
        "Salt water.",
        "",
    ]
    with pytest.raises(DataError, match="has no field 'summary' among 'title', 'text'"):
        read_dataset(lines, text_columns=["summary"])


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_chosen_columns_of_tables_make_the_text(ending, tmp_path):
    path = tmp_path / f"rows.{ending}"
    if ending == "parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(ROWS), path)
    else:
        mark = "," if ending == "csv" else "\t"
        rows = [
            ["title", "text", "abstract", "keywords", "labels"],
            ["On oaks", "no", "Oaks grow.", "oak", "trees"],
        ]
        path.write_text("".join(mark.join(row) + "\n" for row in rows))
    found = read_dataset(path, text_columns=["title", "abstract"])
    assert found.texts[0] == "On oaks\nOaks grow."
    assert found.fields == ("title", "abstract")
    report = ReadReport()
    lenient = read_dataset(path, fields=["title", "summary"], report=report)
    assert lenient.texts[0] == "On oaks\n"
    assert any("no column 'summary'" in warning for warning in report.warnings())
    assert read_dataset(path, fields=["summary"]).texts[0].split() == ["On", "oaks", "no"]
    with pytest.raises(DataError, match="no column 'summary' among 'title', 'text'"):
        read_dataset(path, text_columns=["title", "summary"])


def test_other_formats_and_wrong_names_are_refused(tmp_path, lines):
    path = tmp_path / "rows.txt"
    path.write_text("__label__a some text\n")
    with pytest.raises(InputError, match="text_columns are for the formats jsonl, csv, tsv, xlsx, parquet"):
        read_dataset(path, "fasttext", text_columns=["title"])
    for wrong in ("title", [" "], [3]):
        with pytest.raises(InputError, match="text_columns must be a list of names"):
            read_dataset(lines, text_columns=wrong)


def test_commands_take_columns(lines, tmp_path):
    rows = [{**row, "summary": f"{row['labels'][0]} words"} for row in ROWS * 20]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model, columns = str(tmp_path / "model"), ["--text-columns", "title,summary"]
    assert run(["train", str(lines), "-O", model, *columns]) == 0
    for command in (["check", str(lines)], ["eval", model, str(lines)]):
        assert run([*command, *columns]) == 0
    predicted = []
    for name, more in (("named.jsonl", columns), ("stored.jsonl", [])):
        out = tmp_path / name
        assert run(["predict", model, str(lines), *more, "-O", str(out)]) == 0
        predicted.append(out.read_text())
    assert predicted[0] == predicted[1]
    assert "trees" in json.dumps(json.loads(predicted[0].splitlines()[0])["labels"])


def test_files_without_the_fields_of_a_model_are_read_with_a_word_about_it(lines, tmp_path, capsys):
    lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS * 20))
    model = str(tmp_path / "model")
    assert run(["train", str(lines), "-O", model, "--text-columns", "title,abstract,keywords"]) == 0
    assert run(["show", model]) == 0
    assert "abstract" in capsys.readouterr().out
    partly, others = tmp_path / "partly.csv", tmp_path / "others.csv"
    partly.write_text("title,abstract\n,Salt water.\n")
    others.write_text("id,text\n1,Salt water.\n")
    for path, words in ((partly, "no column 'keywords', as the model has it: it counts as empty"), (others, "as one")):
        assert run(["predict", model, str(path), "-O", str(tmp_path / f"{path.stem}.jsonl")]) == 0
        assert words in " ".join(capsys.readouterr().err.split())
        found = json.loads((tmp_path / f"{path.stem}.jsonl").read_text())
        assert found["labels"][0]["label"] == "water"
