import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tagwood.cli import common


@dataclass
class Pair:
    left: int
    right: Path


def test_json_understands_numpy_paths_dataclasses_and_sets(capsys):
    common.print_json({"a": np.float32(0.5), "b": np.arange(3), "c": Pair(1, Path("x")), "d": {"z", "y"}, "e": "ä"})
    text = capsys.readouterr().out
    assert json.loads(text) == {
        "a": 0.5,
        "b": [0, 1, 2],
        "c": {"left": 1, "right": "x"},
        "d": ["y", "z"],
        "e": "ä",
    }
    assert "ä" in text


def test_json_refuses_what_has_no_json_form():
    with pytest.raises(TypeError, match="object has no JSON form"):
        common.print_json(object())
    with pytest.raises(ValueError, match="Out of range"):
        common.print_json(float("nan"))


def test_messages_go_to_stderr_and_brackets_are_text(capsys):
    common.say("pip install 'tagwood[neural]'")
    captured = capsys.readouterr()
    assert captured.err == "pip install 'tagwood[neural]'\n"
    assert captured.out == ""


def test_tables_go_to_stdout(capsys):
    common.print_data(common.facts_table({"rows": 1234, "file": "a[1].txt", "seed": None}))
    captured = capsys.readouterr()
    assert [line.split() for line in captured.out.splitlines()] == [
        ["rows", "1,234"],
        ["file", "a[1].txt"],
        ["seed", "-"],
    ]
    assert captured.err == ""


def test_progress_is_silent_where_stderr_is_not_a_terminal(capsys):
    with common.progress("Reading") as advance:
        advance(1, 2)
    captured = capsys.readouterr()
    assert captured.err.strip() == ""
    assert captured.out == ""
