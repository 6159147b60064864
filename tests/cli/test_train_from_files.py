"""`train --max-ram --work-dir`: which way it goes, the same model either way, resumed starts, and clear refusals."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from library import make_library

from tagwood.cli.app import run
from tagwood.planning import disk


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    lines = (json.dumps({"text": text, "labels": names}) for text, names in zip(*make_library(900), strict=True))
    path.write_text("\n".join(lines))
    return str(path)


@pytest.fixture
def small_limit(monkeypatch):
    """A limit so small that features are read in many pieces."""
    monkeypatch.setattr(disk.DiskNeeds, "work_bytes", lambda *_: 2000)
    return ["--max-ram", "1MB", "--force"]


def train(rows, output, *options):
    return run(["train", rows, "-O", str(output), "--quality", "fast", "-j", "2", *options])


def words(capsys):
    """What was said, without line breaks."""
    return " ".join(capsys.readouterr().err.split())


def content(folder):
    return (folder / "arrays.safetensors").read_bytes()


def test_a_model_from_files_is_that_of_memory(rows, tmp_path, small_limit, capsys):
    assert train(rows, tmp_path / "here") == 0
    assert train(rows, tmp_path / "there", "--work-dir", str(tmp_path / "work"), *small_limit) == 0
    assert "quality fast is trained from files in" in words(capsys)
    assert content(tmp_path / "here") == content(tmp_path / "there")
    assert not (tmp_path / "work").exists()


def test_data_that_fit_are_trained_in_memory(rows, tmp_path, capsys):
    assert train(rows, tmp_path / "model", "--work-dir", str(tmp_path / "work"), "--max-ram", "8GB") == 0
    assert "from files" not in words(capsys)
    assert not (tmp_path / "work").exists()


def test_an_interrupted_training_from_files_is_resumed(rows, tmp_path, small_limit, monkeypatch, capsys):
    from tagwood.features.tfidf import TfidfEncoder
    from tagwood.models.linear_tree import training

    def interrupted(*_):
        raise KeyboardInterrupt

    work = ["--work-dir", str(tmp_path / "work"), *small_limit, "--no-refit"]
    with monkeypatch.context() as patch:
        patch.setattr(training, "train_part", interrupted)
        assert train(rows, tmp_path / "there", *work) == 130
    assert not (tmp_path / "there").exists()
    with monkeypatch.context() as patch:
        patch.setattr(TfidfEncoder, "fit_to_files", None)  # features are found
        assert train(rows, tmp_path / "there", *work) == 0
    assert "finished parts are used" in words(capsys)
    assert train(rows, tmp_path / "here", "--no-refit") == 0
    assert content(tmp_path / "here") == content(tmp_path / "there")


def test_a_limit_that_is_too_small_says_what_is_needed(rows, tmp_path, capsys):
    assert train(rows, tmp_path / "model", "--work-dir", str(tmp_path / "work"), "--max-ram", "1MB") == 2
    assert "--max-ram must be at least" in words(capsys)
    assert not (tmp_path / "model").exists()


def test_a_quality_that_needs_memory_is_refused_by_name_and_replaced_by_default(rows, tmp_path, small_limit, capsys):
    command = ["train", rows, "-O", str(tmp_path / "model"), "-j", "2", "--work-dir", str(tmp_path / "work")]
    assert run([*command, *small_limit, "--quality", "balanced"]) == 2
    said = words(capsys)
    assert "quality balanced must be trained with all features in memory (about" in said
    assert "--quality fast" in said
    assert run([*command, *small_limit, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["quality"] == "fast"


def test_a_disk_without_enough_space_is_one_sentence(rows, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(disk.DiskNeeds, "work_bytes", lambda *_: 2000)
    monkeypatch.setattr("tagwood.cli.plan.disk_way", lambda _, recipe, *__: (recipe, disk.DiskNeeds(0, 0, 1e15, 0, 0)))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 5, 5))
    options = ["--work-dir", str(tmp_path / "work"), "--max-ram", "1MB"]
    assert train(rows, tmp_path / "model", *options) == 2
    said = words(capsys)
    assert re.search("--work-dir must have about .* of free space; got .* Choose another disk", said)


def test_plan_says_which_way_training_goes(rows, capsys):
    assert run(["plan", rows, "--max-ram", "8GB", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["train"]["way"] == "memory"
    assert run(["plan", rows, "--max-ram", "1MB"]) == 2
    assert "no settings are within these limits" in words(capsys)


def test_plan_says_what_training_from_files_needs(rows, monkeypatch, capsys):
    monkeypatch.setattr(
        "tagwood.cli.plan.disk_way", lambda _, recipe, *__: (recipe, disk.DiskNeeds(5e5, 4e5, 2e9, 0, 60))
    )
    assert run(["plan", rows, "--max-ram", "1MB", "--no-probe"]) == 0
    said = words(capsys)
    assert "train --max-ram 1MB --work-dir DIR trains quality fast from files: at least about 500" in said
    assert "2.0 GB of disk, about 60 s of CPU time" in said
    assert "Within the limits" not in said
