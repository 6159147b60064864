"""`plan`, and the forecast inside `train`: what is shown, chosen, written and refused."""

import csv
import json
import os

import pytest
from library import make_library

from tagwood import Tagger
from tagwood.cli.app import run
from tagwood.recipe import read_recipe


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "library.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["title", "subjects"])
        table.writerows((text, ";".join(names)) for text, names in zip(*make_library(600), strict=True))
    return str(path)


def test_a_forecast_is_a_table_or_json(library, capsys):
    assert run(["plan", library]) == 0
    out = capsys.readouterr().out
    for words in ("peak memory", "training CPU", "model size", "label tree", "one text"):
        assert words in out
    assert run(["plan", library, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["peak_bytes"]["low"] < found["peak_bytes"]["expected"] < found["peak_bytes"]["high"]
    assert found["changes"] == []
    assert found["depth"] == 0


def test_times_are_those_of_this_machine(library, capsys):
    def plan(*options):
        assert run(["plan", library, "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)

    constants, here = plan("--no-probe"), plan()
    assert constants["speed"] == {"factor": 1.0, "source": "constants"}
    assert here["speed"] == {"factor": 2.0, "source": "measured"}
    assert plan()["speed"]["source"] == "stored"
    assert plan("--probe")["speed"]["source"] == "measured"
    for name in ("cpu_seconds", "latency_seconds", "batch_seconds"):
        assert here[name]["expected"] == pytest.approx(2 * constants[name]["expected"])
    assert here["model_bytes"] == constants["model_bytes"]
    assert run(["plan", library, "--no-probe"]) == 0
    assert "the machine that the constants were measured on" in capsys.readouterr().err
    assert run(["plan", library]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "2.00 times the CPU time of the constants (measured earlier; --probe" in said


def test_limits_choose_settings_that_train_takes(library, tmp_path, capsys):
    assert run(["plan", library, "--json"]) == 0
    size = json.loads(capsys.readouterr().out)["qualities"]["fast"]["model_bytes"]["high"]
    recipe = tmp_path / "small.toml"
    assert run(["plan", library, "--max-size", f"{0.8 * size / 1e3:.3f}kB", "--write", str(recipe)]) == 0
    assert "To stay within the limits: " in capsys.readouterr().err
    chosen = read_recipe(recipe).tagger()
    assert chosen.model.solver.threshold > 0.1 or chosen.encoder.ngrams == (1, 1)
    model = str(tmp_path / "model")
    assert run(["train", library, "-O", model, "--recipe", str(recipe), "-j", "1"]) == 0
    assert Tagger.load(model).model_.solver == chosen.model.solver


def test_each_quality_has_a_forecast_and_the_highest_within_the_limits_is_chosen(library, capsys):
    assert run(["plan", library, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["quality"] == "balanced"
    cpu = {name: one["cpu_seconds"]["high"] for name, one in found["qualities"].items()}
    assert cpu["fast"] < cpu["balanced"] < cpu["best"]
    for quality, seconds in cpu.items():
        assert run(["plan", library, "--json", "--time", f"{1.01 * seconds / os.cpu_count():.3f}s"]) == 0
        assert json.loads(capsys.readouterr().out)["quality"] == quality
    assert run(["plan", library, "--max-size", "1GB"]) == 0
    out, err = capsys.readouterr()
    assert all(quality in out for quality in cpu)
    assert "Within the limits: quality best." in err


def test_prime_counts_only_where_it_reads_the_texts(library, monkeypatch, capsys):
    found = []
    for prime in (True, False):
        monkeypatch.setattr("tagwood.planning.qualities.has_prime", lambda texts, prime=prime: prime)
        assert run(["plan", library, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["qualities"]["best"])
    assert found[0]["cpu_seconds"]["expected"] > found[1]["cpu_seconds"]["expected"]
    assert found[0]["model_bytes"]["expected"] > 50e6 > found[1]["model_bytes"]["expected"]


@pytest.mark.slow
def test_train_keeps_to_limits_and_says_what_it_left_out(library, tmp_path, capsys):
    train = ["train", library, "-j", "1", "-O"]
    assert run([*train, str(tmp_path / "quick"), "--time", "1s"]) == 0
    assert "left out: time limit" in capsys.readouterr().err
    assert run([*train, str(tmp_path / "none"), "--max-size", "1kB"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "the limits must allow at least one tree; got a forecast of model size at least" in said
    assert run([*train, str(tmp_path / "wrong"), "--max-latency", "fast"]) == 2
    assert "latency must be a number above 0 with a unit" in capsys.readouterr().err


def test_train_refuses_what_does_not_fit_unless_it_is_forced(library, tmp_path, capsys):
    model = tmp_path / "model"
    assert run(["train", library, "-O", str(model), "--max-ram", "1MB", "-j", "1"]) == 2
    said = capsys.readouterr().err
    assert "training must fit into the 1.0 MB that --max-ram allows; got about" in said
    assert "tagwood plan DATA --max-ram 1MB" in said
    assert not model.exists()
    assert run(["train", library, "-O", str(model), "--max-ram", "1MB", "-j", "1", "--force"]) == 0
    assert model.exists()


def test_train_refuses_what_the_machine_cannot_hold(library, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tagwood.planning.forecast.largest_bytes", lambda: 5e6)
    assert run(["train", library, "-O", str(tmp_path / "model"), "-j", "1"]) == 2
    assert "the 5.0 MB that this machine has free" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--max-ram", "much"],
            "--max-ram must be a number above 0 with a unit, such as 500MB or 4GB; got 'much'",
        ),
        (["--max-latency", "0"], "--max-latency must be a number above 0 with a unit, such as 2ms or 500us"),
        (["--max-size", "1kB"], "no settings are within these limits"),
        (["--set", "tree.arty=2"], "Did you mean 'arity'?"),
        (["--write", "{data}"], "exists already"),
    ],
)
def test_mistakes_are_named(library, arguments, message, capsys):
    assert run(["plan", library, *(one.format(data=library) for one in arguments)]) == 2
    out, err = capsys.readouterr()
    assert message in " ".join(err.split())
    assert out == ""
