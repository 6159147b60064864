"""`tagwood tune`: a folder of trials, a recipe that `train` reads, and what Ctrl-C and mistakes say."""

import json
import sys

import pytest
from library import make_library

from tagwood import Tagger
from tagwood.cli.app import run
from tagwood.tuning import search

pytest.importorskip("optuna")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    with (folder / "library.jsonl").open("w") as file:
        for text, labels in zip(*make_library(120), strict=True):
            file.write(json.dumps({"text": text, "labels": labels}) + "\n")
    (folder / "ranges.toml").write_text("[model]\nC = [0.5, 2]\n[features]\nngrams = [[1, 1]]\n")
    return folder


@pytest.fixture
def tune(folder, tmp_path):
    """Return a function that runs the command on the library; the last --trials counts."""
    base = ["tune", str(folder / "library.jsonl"), "-O", str(tmp_path / "t"), "-j", "1", "-m", "P@1"]
    return lambda *more: run([*base, "--ranges", str(folder / "ranges.toml"), "--trials", "4", *more])


def test_the_recipe_found_trains_a_model(folder, tmp_path, tune, capsys):
    assert tune() == 0
    out, err = capsys.readouterr()
    assert out.split()[:4] == ["trial", "P@1", "seconds", "settings"]
    assert "as given" in out
    assert "best.toml: the best of 4 trials on 24 held-out rows" in err.replace("\n", "")
    assert tune("--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["metric"], facts["finished_trials"], facts["failed_trials"]) == ("P@1", 8, 0)
    best = facts["best"][0]["settings"]
    target = str(tmp_path / "m")
    arguments = ["train", str(folder / "library.jsonl"), "-O", target, "--recipe", facts["recipe"], "-j", "1"]
    assert run(arguments) == 0
    model = Tagger.load(target)
    expected = (tuple(best.get("features.ngrams", (1, 2))), best.get("model.C", 1.0))
    assert (model.encoder_.ngrams, model.model_.C) == expected


def test_ctrl_c_shows_and_keeps_what_was_finished(tmp_path, tune, monkeypatch, capsys):
    real, calls = search.measure, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(search, "measure", interrupted)
    assert tune("--json") == 130
    out, err = capsys.readouterr()
    assert json.loads(out)["finished_trials"] == 2
    assert "all finished trials are kept" in err
    assert (tmp_path / "t" / "best.toml").is_file()
    assert tune("--trials", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["finished_trials"] == 3


def test_ctrl_c_before_the_first_result_is_an_interrupt(tune, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "measure", interrupt)
    assert tune() == 130
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--metric", "P@x"], "unknown metric 'P@x'"),
        (["--set", "model.CC=1"], "Did you mean 'C'?"),
        (["--ranges", "none.toml"], "none.toml: No such file"),
        (["--minutes", "-1"], "minutes must be a number greater than 0"),
        (["--docs-limit", "1"], "must have labels"),
    ],
)
def test_mistakes_are_named_and_leave_nothing_behind(tmp_path, tune, more, message, capsys):
    assert tune(*more) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_without_optuna_the_message_says_what_to_install(tmp_path, tune, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert tune() == 1
    assert "pip install 'tagwood[tune]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
