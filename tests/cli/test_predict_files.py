"""`predict` from every format to every format, through files and pipes; an interrupted run leaves no half file."""

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from library import make_library

from tagwood import LabelVocab, LinearTree, Tagger
from tagwood.cli.app import run
from tagwood.cli.predict import Sources, is_path

NAMES = {"trees": "trees; woods", "water": "water", "stars": "[stars]", "stones": "stones"}
TEXTS = ["oak bark\nforest", "sea, salt\ttide", 'comet "orbit" – näkö', "slate quarry"]
IDS = ["a", "b", "c", "d"]
INPUTS = ["csv", "tsv", "jsonl", "parquet"]
OUTPUTS = ["jsonl", "csv", "tsv", "parquet"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    texts, labels = make_library(200)
    vocab = LabelVocab.from_names(NAMES.values(), uris=[f"urn:{name}" for name in NAMES])
    tagger = Tagger(model=LinearTree(threads=1), keep_texts=0)
    tagger.fit(texts, [[NAMES[name] for name in row] for row in labels], vocab=vocab)
    return str(tagger.save(tmp_path_factory.mktemp("predict") / "model"))


@pytest.fixture(scope="module")
def expected(model):
    tags = Tagger.load(model).tag(TEXTS, k=2)
    return [(one, text, found.names) for one, text, found in zip(IDS, TEXTS, tags, strict=True)]


def packed(kind):
    """The texts as the bytes of a file; no labels in it."""
    if kind == "parquet":
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        sink = io.BytesIO()
        pq.write_table(pa.table({"id": IDS, "vector": [[1.0]] * 4, "text": TEXTS}), sink)
        return sink.getvalue()
    if kind == "jsonl":
        rows = [json.dumps({"id": one, "text": text}) for one, text in zip(IDS, TEXTS, strict=True)]
        return ("\n".join(rows) + "\n").encode()
    file = io.StringIO()
    table = csv.writer(file, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
    table.writerows([("id", "text"), *zip(IDS, TEXTS, strict=True)])
    return file.getvalue().encode()


def unpacked(kind, content):
    """(id, text, label names) of each row of an output."""
    if kind == "parquet":
        import pyarrow.parquet as pq

        rows = pq.read_table(io.BytesIO(content)).to_pylist()
        return [(row["id"], row["text"], [one["label"] for one in row["labels"]]) for row in rows]
    lines = content.decode()
    if kind == "jsonl":
        found = map(json.loads, lines.splitlines())
        return [(row["id"], row["text"], [one["label"] for one in row["labels"]]) for row in found]
    rows = csv.DictReader(io.StringIO(lines, newline=""), delimiter="\t" if kind == "tsv" else ",")
    names = [(row["id"], row["text"], row["labels"]) for row in rows]
    return [(a, b, json.loads(c) if c.startswith("[") else c.split(";")) for a, b, c in names]


def stdin(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))


@pytest.mark.parametrize("output", [*OUTPUTS, "jsonl.gz", "csv.gz"])
@pytest.mark.parametrize("kind", [*INPUTS, "jsonl.gz", "tsv.gz"])
def test_every_file_format_becomes_every_other(model, expected, tmp_path, kind, output):
    plain, _, gz = kind.partition(".")
    source, target = tmp_path / f"in.{kind}", tmp_path / f"out.{output}"
    source.write_bytes(gzip.compress(packed(plain)) if gz else packed(plain))
    assert run(["predict", model, str(source), "-l", "2", "-O", str(target)]) == 0
    content = target.read_bytes()
    written = output.removesuffix(".gz")
    assert unpacked(written, gzip.decompress(content) if output.endswith(".gz") else content) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, target.name])


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", INPUTS)
def test_every_pipe_format_becomes_every_other(model, expected, monkeypatch, capsysbinary, kind, output):
    stdin(monkeypatch, packed(kind))
    assert run(["predict", model, "-", "-l", "2", "--format", kind, "-O", "-", "--to", output]) == 0
    assert unpacked(output, capsysbinary.readouterr().out) == expected


def test_what_was_written_can_be_read_again(model, expected, tmp_path):
    (tmp_path / "in.jsonl").write_bytes(packed("jsonl"))
    for kind in OUTPUTS:
        target = str(tmp_path / f"out.{kind}")
        assert run(["predict", model, str(tmp_path / "in.jsonl"), "-l", "2", "-O", target]) == 0
        found = [(one.id, one.text) for one in Sources([target]).documents()]
        assert found == [(one, text) for one, text, _ in expected]


def test_lines_are_texts_whatever_the_name_of_the_file(model, tmp_path, capsys):
    (tmp_path / "notes.md").write_text("oak bark\n\nsea salt\n")
    assert run(["predict", model, str(tmp_path / "notes.md"), "--format", "lines", "-l", "1"]) == 0
    assert [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()] == [
        "oak bark",
        "sea salt",
    ]
    (tmp_path / "notes.txt.gz").write_bytes(gzip.compress(b"oak bark\n"))
    assert run(["predict", model, str(tmp_path / "notes.txt.gz"), "--lines", "--to", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "id,text,labels,uris,scores,review"


def test_a_table_of_titles_only_is_enough(model, tmp_path, capsys):
    (tmp_path / "new.csv").write_text("title\noak bark\n")
    assert run(["predict", model, str(tmp_path / "new.csv"), "-l", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"][0]["uri"] == "urn:trees"


def test_an_old_output_is_replaced_only_if_asked_and_may_be_the_input(model, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("title\noak bark\n")
    assert run(["predict", model, str(path), "-O", str(path)]) == 2
    assert path.read_text() == "title\noak bark\n"
    assert run(["predict", model, str(path), "-O", str(path), "--force"]) == 0
    assert path.read_text().startswith("title,labels,uris,scores,review\noak bark,")


@pytest.mark.parametrize("kind", [*OUTPUTS, "jsonl.gz"])
@pytest.mark.parametrize("old", [None, b"what was there"])
def test_an_interrupt_in_the_middle_leaves_the_output_as_it_was(model, tmp_path, monkeypatch, kind, old):
    source, target = tmp_path / "in.lst", tmp_path / "out" / f"o.{kind}"
    source.write_text("oak bark\n" * 2500)
    target.parent.mkdir()
    if old is not None:
        target.write_bytes(old)
    real, calls = Tagger.tag, []

    def interrupted(self, *arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, *arguments, **options)

    monkeypatch.setattr(Tagger, "tag", interrupted)
    assert run(["predict", model, str(source), "-O", str(target), "--force"]) == 130
    assert len(calls) == 3
    assert [path.read_bytes() for path in target.parent.iterdir()] == ([] if old is None else [old])


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_process_that_is_stopped_leaves_no_half_output(model, tmp_path, how, code):
    target = tmp_path / "out.jsonl"
    line = [sys.executable, "-c", "from tagwood.cli import main; main()"]
    line += ["predict", model, "-", "-j", "1", "-O", str(target)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(b"oak bark\n" * 3000)
        process.stdin.flush()
        limit = time.monotonic() + 60
        while not any(path.stat().st_size for path in tmp_path.glob(".tagwood-*/*")):
            assert time.monotonic() < limit
            time.sleep(0.02)
        os.kill(process.pid, how)
        process.stdin.close()
        assert process.wait(60) == code
        assert b"Traceback" not in process.stderr.read()
    assert not target.exists()
    if how == signal.SIGINT:
        assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_ends_without_words(model, tmp_path):
    (tmp_path / "in.lst").write_text("oak bark\n" * 20_000)
    line = [sys.executable, "-c", "from tagwood.cli import main; main()"]
    line += ["predict", model, str(tmp_path / "in.lst"), "-j", "1"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 1
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.csv"], "there is no file missing.csv"),
        (["{texts}", "-O", "{out}.xyz"], "Or name the format with --to"),
        (["{texts}", "--to", "xml"], "--to must be one of 'jsonl', 'csv', 'tsv', 'parquet'; got 'xml'"),
        (["{texts}", "-O", "{out}.parquet.gz"], "Parquet is already compressed"),
        (["-", "--format", "csr"], "--format of standard input must be one of"),
        (["-", "--format", "jsonl"], "standard input, line 2: is not JSON"),
        (["{texts}", "--format", "cvs"], "Did you mean 'csv'?"),
        (["oak", "--sets", "--promise", "f1"], "cannot be combined"),
        (["{empty}"], "The first line must name the columns"),
    ],
)
def test_mistakes_are_named_and_leave_nothing_behind(model, tmp_path, monkeypatch, arguments, message, capsys):
    stdin(monkeypatch, b'{"text": "oak"}\n{oops\n')
    (tmp_path / "texts.jsonl").write_bytes(packed("jsonl"))
    (tmp_path / "empty.csv").touch()
    places = {"texts": tmp_path / "texts.jsonl", "out": tmp_path / "out", "empty": tmp_path / "empty.csv"}
    assert run(["predict", model, *(argument.format(**places) for argument in arguments)]) == 2
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.csv", "texts.jsonl"]


@pytest.mark.parametrize("arguments", [["-O", "{out}.parquet"], ["--to", "parquet"]])
def test_without_pyarrow_the_message_says_what_to_install(model, tmp_path, monkeypatch, arguments, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "texts.jsonl").write_bytes(packed("jsonl"))
    line = [argument.format(out=tmp_path / "out") for argument in arguments]
    assert run(["predict", model, str(tmp_path / "texts.jsonl"), *line]) == 1
    assert "pip install 'tagwood[parquet]'" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]


def test_an_empty_text_is_not_the_current_folder():
    assert not is_path("")
    assert is_path(".")


def test_of_a_folder_with_two_splits_the_test_split_is_labelled(model, expected, tmp_path, capsys):
    folder, out = tmp_path / "data", tmp_path / "out.jsonl"
    folder.mkdir()
    for split, texts in (("train", ["sea salt"]), ("test", TEXTS)):
        (folder / f"{split}_texts.txt").write_text("".join(f"{' '.join(text.split())}\n" for text in texts))
        (folder / f"{split}_labels.txt").write_text("water\n" * len(texts))
    assert run(["predict", model, str(folder), "-l", "2", "-O", str(out)]) == 0
    labels = [json.loads(line)["labels"] for line in out.read_text().splitlines()]
    assert [[one["label"] for one in row] for row in labels] == [names for _, _, names in expected]
