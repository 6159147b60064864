"""Odd and bad files as libraries have them: each is read rightly, or refused with the option that helps."""

import gzip
import io
import json
import re
from typing import Any, NamedTuple

import pytest

from tagwood.data import BadLines, LabelVocab, ReadReport, read_dataset
from tagwood.errors import DataError, InputError

ROWS = [("Bäume im Wald", ["trees", "forest"]), ("Öl und Wasser", ["water"]), ("Über Sterne", ["stars"])]
TEXTS = [text for text, _ in ROWS]
LABELS = [labels for _, labels in ROWS]
VOCAB = LabelVocab.from_names(["trees", "forest", "water"], uris=[f"http://e.org/{n}" for n in range(3)])
COLUMNS = {"text_columns": ["Werktitel"], "label_column": "Schlagwort"}


class Case(NamedTuple):
    """A file, the options it needs, and what is read of it or the words of the refusal."""

    content: Any
    options: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    texts: Any = TEXTS
    labels: Any = LABELS
    refused: str = ""
    warned: str = ""
    n_lines: int | None = None  # rows of the input where it is not that of the result
    name: str = "rows.csv"


def table(mark=",", head=("text", "labels"), separator=";", end="\n", rows=ROWS, quote=False):
    lines = [list(head), *([text, separator.join(labels)] for text, labels in rows)]
    cell = '"{}"'.format if quote else str
    return end.join(mark.join(map(cell, line)) for line in lines) + end


def xlsx(rows, sheets=1):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for number in range(1, sheets):
        book.create_sheet(f"more {number}").append(["x"])
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


NAMED = table(";", ("Werktitel", "Schlagwort"), "|")
SHEET = [["title", "labels", "year"], *([text, ";".join(labels), 1999] for text, labels in ROWS)]
UNKNOWN = "text,labels\na,trees;moon\nb,moon\nc,water\n"
LINES = "".join(json.dumps({"text": text, "labels": labels}, ensure_ascii=False) + "\n" for text, labels in ROWS)
CASES = {
    "comma": Case(table(quote=True)),
    "semicolon": Case(table(";", separator="|")),
    "semicolons, labels with semicolons in quotes": Case(table(";", quote=True)),
    "tab": Case(table("\t")),
    "tab in a file called csv": Case(table("\t"), name="rows.csv"),
    "pipe": Case(table("|")),
    "line sep=; of Excel": Case("sep=;\n" + table(";", separator="|")),
    "CRLF": Case(table(end="\r\n")),
    "no line break at the end": Case(table().rstrip("\n")),
    "every cell in quotes": Case(table(quote=True)),
    "commas in quoted texts": Case('text,labels\n"one, two, three",a;b\n', {}, ["one, two, three"], [["a", "b"]]),
    "line breaks in quoted texts": Case('text,labels\n"one\ntwo",a\n', {}, ["one\ntwo"], [["a"]]),
    "doubled quotes": Case('text,labels\n"say ""oak""",a\n', {}, ['say "oak"'], [["a"]]),
    "UTF-8 with BOM": Case(table().encode("utf-8-sig")),
    "UTF-16 with BOM, tabs": Case(table("\t").encode("utf-16")),
    "UTF-16 big endian without BOM": Case(table("\t").encode("utf-16-be")),
    "cp1252": Case(table(";", separator="|").encode("cp1252"), warned="cp1252 is a guess"),
    "Latin-1, named": Case(table().encode("latin-1"), {"encoding": "latin-1"}),
    "gzip without .gz": Case(gzip.compress(table().encode())),
    "other column names": Case(NAMED, COLUMNS),
    "other column names, not given": Case(NAMED, refused="--text-columns"),
    "a name that is not there": Case(
        NAMED, {**COLUMNS, "label_column": "Thema"}, refused=r"no column 'Thema'.*--label-column"
    ),
    "no column for labels": Case(
        "text,year\na,1\n", refused="no column for labels among 'text', 'year'.*--label-column"
    ),
    "names in capitals with spaces": Case(" Text , LABELS \na,b\n", {}, ["a"], [["b"]]),
    "a column twice": Case("text,labels,text\na,b,c\n", refused="the column 'text' twice.*Rename"),
    "columns without a name": Case("text,labels,,\na,b,,\n", {}, ["a"], [["b"]]),
    "labels joined by commas": Case(
        table("\t", separator=", "), labels=[[", ".join(row)] for row in LABELS], warned="--label-separator ','"
    ),
    "labels joined by commas, said": Case(table("\t", separator=", "), {"separator": ","}),
    "keywords beside subjects": Case(
        "text,subjects,keywords\na,b,c\n", {}, ["a"], [["b"]], warned="'keywords' may hold labels too.*--label-column"
    ),
    "empty cells": Case("text,labels\na,\n,b\n", {}, ["a", ""], [[], ["b"]]),
    "rows of delimiters only": Case("text;labels\na;b\n;\n;\n", {}, ["a"], [["b"]], n_lines=3),
    "a row that is too short": Case(
        "text,labels\na,b\nc\n", refused=r"line 3: the header has 2 columns, this row 1\. .*--delimiter.*--skip-bad"
    ),
    "a row that is too short, skipped": Case(
        "text,labels\na,b\nc\nd,e\n", {"skip_bad": True}, ["a", "d"], [["b"], ["e"]], n_lines=3
    ),
    "duplicate ids": Case(
        "id,text,labels\n1,a,b\n1,c,d\n", {}, ["a", "c"], [["b"], ["d"]], warned="id of an earlier row: 1, such as 1"
    ),
    "unknown labels": Case(
        UNKNOWN, {"vocab": VOCAB}, refused=r"line 2: label 'moon' is not in the vocabulary.*--on-unknown"
    ),
    "unknown labels, skipped": Case(
        UNKNOWN,
        {"vocab": VOCAB, "on_unknown": "skip"},
        ["a", "b", "c"],
        [["trees"], [], ["water"]],
        warned="not in the vocabulary: 2, such as moon.*lost all their labels.*: 1",
    ),
    "unknown URIs": Case(
        "document_id,text,subject_uris\n1,a,<http://e.org/0> <http://e.org/9>\n",
        {"vocab": VOCAB, "on_unknown": "skip"},
        ["a"],
        [["trees"]],
        warned="such as http://e.org/9",
    ),
    "URIs in a column of another name": Case(
        "text;uris\na;<http://e.org/0>|<http://e.org/2>\n",
        {"vocab": VOCAB, "label_column": "uris"},
        ["a"],
        [["trees", "water"]],
    ),
    "a label twice in a row": Case("text,labels\na,b;b;c\n", {}, ["a"], [["b", "c"]]),
    "JSON lists in cells": Case('text,labels\na,"[""b;c"", ""d""]"\n', {}, ["a"], [["b;c", "d"]]),
    "spreadsheet": Case(lambda: xlsx(SHEET), name="rows.xlsx"),
    "spreadsheet with two sheets": Case(
        lambda: xlsx(SHEET, sheets=2), name="rows.xlsx", warned="only the first sheet, 'Sheet', is read.*'more 1'"
    ),
    "damaged spreadsheet": Case(lambda: xlsx(SHEET)[:-300], name="rows.xlsx", refused="not a readable|--format"),
    "old Excel": Case(
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
        name="rows.xls",
        refused=r"old Excel file.*Save it as \.xlsx or CSV",
    ),
    "JSON lines": Case(LINES, name="rows.jsonl"),
    "JSON lines with blank lines": Case(LINES.replace("\n", "\n\n"), name="rows.jsonl"),
    "JSON lines with other fields": Case(
        LINES.replace('"text"', '"Werktitel"').replace('"labels"', '"Schlagwort"'), COLUMNS, name="rows.jsonl"
    ),
    "JSON lines with a damaged one": Case(LINES + "{oops\n", {"skip_bad": True}, n_lines=4, name="rows.jsonl"),
    "JSON lines with separated labels": Case(
        '{"text": "a", "labels": "b; c"}\n', {"separator": ";"}, ["a"], [["b", "c"]], name="rows.jsonl"
    ),
    "empty": Case("", refused="is empty"),
    "header only": Case("text,labels\n", {}, [], []),
    "prose": Case("Just some words\nand more of them\n", name="rows.txt", refused="fits no known format.*--format"),
    "a quote that is never closed": Case(
        'text,labels\n"a,b\nc,d\n', refused=r"line 2: the header has 2 columns, this row 1.*--delimiter"
    ),
    "a missing file": Case(None, refused="there is no such file"),
}


def read(case, folder):
    path = folder / case.name
    content = case.content() if callable(case.content) else case.content
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    report = ReadReport()
    options = {"skip_bad": BadLines(skip=case.options.get("skip_bad", False))}
    return read_dataset(path, report=report, **{**case.options, **options}), report


def test_there_are_forty_of_them():
    assert len(CASES) >= 40


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.refused])
def test_refusals_are_one_sentence_that_names_what_helps(name, tmp_path):
    with pytest.raises((DataError, InputError), match=f"(?s){CASES[name].refused}") as caught:
        read(CASES[name], tmp_path)
    assert CASES[name].name in str(caught.value)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.refused])
def test_odd_files_are_read_rightly_and_the_counts_add_up(name, tmp_path):
    case = CASES[name]
    data, report = read(case, tmp_path)
    assert list(data.texts) == case.texts
    found = [[data.vocab.name(label) for label in row] for row in data.label_lists()]
    assert [sorted(row) for row in found] == [sorted(row) for row in case.labels]
    said = " ".join(report.warnings())
    if case.warned:
        assert re.search(case.warned, said), said
    else:
        assert said == ""
    n_lines = len(case.texts) if case.n_lines is None else case.n_lines
    assert report.rows + report.bad_lines + sum(file.blank_rows for file in report.files) == n_lines
    assert report.rows == sum(file.rows for file in report.files) == data.n_rows
    used, lost = report.labels_used, (report.labels_repeated, report.labels_unknown, report.labels_filtered)
    assert report.labels == used + sum(lost)
    assert used == data.labels.nnz


def test_several_files_and_a_folder_are_one_dataset(tmp_path):
    (tmp_path / "a.csv").write_text(table())
    (tmp_path / "b.tsv").write_bytes(table("\t").encode("utf-16"))
    (tmp_path / "c.jsonl").write_text(LINES)
    (tmp_path / "notes.docx").write_text("x")
    report = ReadReport()
    whole = read_dataset(tmp_path, report=report)
    assert list(whole.texts) == TEXTS * 3
    assert whole.n_labels == 4
    assert [file.rows for file in report.files if file.format != "folder"] == [3, 3, 3]
    assert "not read: notes.docx" in " ".join(report.warnings())
    some = read_dataset([tmp_path / "c.jsonl", tmp_path / "a.csv"])
    assert list(some.texts) == TEXTS * 2
    with pytest.raises(DataError, match="there is no such file"):
        read_dataset([tmp_path / "a.csv", tmp_path / "missing.csv"])
    with pytest.raises(InputError, match="there must be a file or folder to read"):
        read_dataset([])
