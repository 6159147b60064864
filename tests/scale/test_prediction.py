"""Batch prediction on a cluster: every row once and in order, killed actors, resumed runs, and clear refusals."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cluster_tasks import kill_an_actor
from library import make_library

pa = pytest.importorskip("pyarrow")
pytest.importorskip("ray", reason="Ray is not installed: pip install 'tagwood[scale]'")

from pyarrow import csv as arrow_csv  # noqa: E402
from pyarrow import parquet  # noqa: E402

from tagwood import Tagger  # noqa: E402
from tagwood.cli.app import run  # noqa: E402
from tagwood.errors import DataError, InputError, StorageError  # noqa: E402
from tagwood.models.linear_tree import LinearTree  # noqa: E402
from tagwood.scale import BatchRequest, predict_folder, prediction  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    tagger = Tagger(model=LinearTree(threads=1)).fit(*make_library(900))
    return tagger.save(tmp_path_factory.mktemp("model") / "model")


def table(n_rows, seed=1):
    texts, _ = make_library(n_rows, seed=seed)
    return pa.table({"id": [f"{i:05}" for i in range(n_rows)], "year": list(range(n_rows)), "title": texts})


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("in")
    rows = table(900)
    parquet.write_table(rows.slice(0, 400), folder / "a.parquet", row_group_size=70)
    lines = "".join(json.dumps(row) + "\n" for row in rows.slice(400, 300).to_pylist())
    (folder / "b.jsonl").write_text(lines)
    arrow_csv.write_csv(rows.slice(700), folder / "c.csv")
    parquet.write_table(rows.slice(0, 0), folder / "d.parquet")
    return folder


SMALL = BatchRequest(k=3, unit_rows=100, unit_bytes=5000)


def read(folder):
    """Return all rows of the output, in the order of the names of files."""
    rows = []
    for path in sorted(folder.glob("*.parquet")):
        rows += parquet.read_table(path).to_pylist()
    return rows


def check(rows, model, options):
    expected = table(900).to_pylist()
    tags = Tagger.load(model).tag([row["title"] for row in expected], **options)
    assert [row["id"] for row in rows] == [row["id"] for row in expected]
    assert [int(row["year"]) for row in rows] == [row["year"] for row in expected]
    assert [row["title"] for row in rows] == [row["title"] for row in expected]
    for row, tag in zip(rows, tags, strict=True):
        assert [item["label"] for item in row["predicted_labels"]] == tag.names
        assert [item["score"] for item in row["predicted_labels"]] == pytest.approx([t.score for t in tag])


def test_every_row_is_answered_once_in_order_with_all_its_columns(model, source, connected, tmp_path):
    found = predict_folder(model, source, tmp_path / "out", SMALL)
    assert (found.rows, found.found) == (900, 0)
    assert found.units > 8
    check(read(tmp_path / "out"), model, {"k": 3})
    again = predict_folder(model, source, tmp_path / "out", SMALL)
    assert again == (900, found.units, found.units)


def test_killed_actors_lose_and_repeat_nothing(model, source, connected, tmp_path):
    stop, killed, chance = threading.Event(), [], random.Random(1)

    def kill_now_and_then() -> None:
        while not stop.wait(chance.uniform(0.3, 1.5)) and len(killed) < 2:
            if kill_an_actor("ray::MapWorker", chance):
                killed.append(True)

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    request = BatchRequest(k=2, unit_rows=70, unit_bytes=2000)
    try:
        predict_folder(model, source, tmp_path / "out", request)
    finally:
        stop.set()
        killer.join()
    assert killed
    check(read(tmp_path / "out"), model, {"k": 2})


def test_a_second_start_tags_what_is_missing_and_refuses_other_files(model, source, connected, tmp_path):
    out = tmp_path / "out"
    first = predict_folder(model, source, out, SMALL)
    before = {path.name: path.read_bytes() for path in out.glob("*.parquet")}
    for name in list(before)[:3]:
        (out / name).unlink()
    (out / "_summary.json").unlink()
    again = predict_folder(model, source, out, SMALL)
    assert again == (900, first.units, first.units - 3)
    assert {path.name: path.read_bytes() for path in out.glob("*.parquet")} == before
    with pytest.raises(StorageError, match="this file is of another run"):
        predict_folder(model, source, out, BatchRequest(k=2, unit_rows=100, unit_bytes=5000))
    (out / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match="this file is not of the same run"):
        predict_folder(model, source, out, SMALL)


def test_an_altered_file_of_an_earlier_start_is_refused(model, source, connected, tmp_path):
    out = tmp_path / "out"
    predict_folder(model, source, out, SMALL)
    path = max(out.glob("*.parquet"), key=lambda path: path.stat().st_size)
    raw = bytearray(path.read_bytes())
    place = raw.find(b"trees")
    raw[place] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DataError, match="cannot be read"):
        predict_folder(model, source, out, SMALL)


def test_promises_thresholds_and_restrictions_reach_the_model(model, source, connected, tmp_path):
    request = BatchRequest(promise="precision>=0.9", unit_rows=10**6, unit_bytes=10**9)
    predict_folder(model, source, tmp_path / "a", request)
    rows = read(tmp_path / "a")
    check(rows, model, {"promise": "precision>=0.9"})
    assert all(isinstance(row["review"], bool) for row in rows)
    request = BatchRequest(restrict=("trees",), threshold=0.5, unit_rows=10**6, unit_bytes=10**9)
    predict_folder(model, source, tmp_path / "b", request)
    check(read(tmp_path / "b"), model, {"restrict": ["trees"], "threshold": 0.5})


def test_an_actor_that_sees_another_model_is_refused(model, source, connected, tmp_path, monkeypatch):
    monkeypatch.setattr(prediction, "model_checksum", lambda _: "another")
    with pytest.raises(InputError, match="all machines must see the same model"):
        predict_folder(model, source, tmp_path / "out", SMALL)
    assert not list((tmp_path / "out").glob("*.parquet"))


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.parquet", b"no table", "a.parquet: cannot be read"),
        ("a.jsonl", b'{"title": "oak"}\n{"title": \n', "a.jsonl: cannot be read"),
        ("a.csv", b"number,colour\n1,red\n", "a.csv: no column for text or title"),
        ("a.csv", b"title,predicted_labels\noak,x\n", "has a column 'predicted_labels' already"),
        ("a.doc", b"", "must hold .parquet, .jsonl, .csv or .tsv files"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(model, connected, tmp_path, capsys, name, content, message):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(content)
    arguments = ["predict", str(model), str(tmp_path / "in"), "-O", str(tmp_path / "out"), "--cluster", "local"]
    assert run(arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True


def test_the_command_tags_a_folder(model, source, connected, tmp_path, capsys):
    arguments = ["predict", str(model), str(source), "-O", str(tmp_path / "out"), "--cluster", "local", "--limit", "3"]
    assert run(arguments) == 0
    assert "900 rows" in " ".join(capsys.readouterr().err.split())
    check(read(tmp_path / "out"), model, {"k": 3})
    assert run(["predict", str(model), str(source), "--cluster", "local"]) == 2
    assert "--cluster needs a folder" in " ".join(capsys.readouterr().err.split())


def test_lines_of_rays_log_do_not_reach_the_terminal(model, source, tmp_path):
    program = str(Path(sys.executable).with_name("tagwood"))
    arguments = ["predict", str(model), str(source), "-O", str(tmp_path / "out"), "--cluster", "local", "-j", "1"]
    command = subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not kill_an_actor("ray::MapWorker", random.Random(0)):
        assert command.poll() is None
        time.sleep(0.02)
    said, told = command.communicate()
    assert (command.returncode, said) == (0, "")
    expected = f"{tmp_path / 'out'}: 900 rows in 4 files, 0 of them found finished"
    assert "".join(told.split()) == "".join(expected.split())  # lines are wrapped somewhere
