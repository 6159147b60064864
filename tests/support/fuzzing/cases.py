"""Cases by number. In: a stage and a number. Out: the arguments of a command, its stdin, and when to interrupt it."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tagwood.cli.app import COMMANDS, load_command

from .inputs import Random, mutate, odd_bytes, odd_string, odd_text
from .stage import Stage

QUICK = ("-j", "1", "--set", "model.keep_texts=3", "--set", "model.max_sweeps=20")
_LEFT_OUT = {
    "demo",
    "serve",
}  # one trains on the docstrings of this machine, the other runs until it is stopped
# Options that only make a case slow, or that a case needs for itself.
_LEFT_ALONE = {"--help", "--minutes", "--trials", "--output", "--debug"}


class Case(NamedTuple):
    """What is run; `interrupt` is the time in seconds after which Ctrl-C is pressed."""

    kind: str
    arguments: list[str]
    stdin: bytes = b""
    interrupt: float | None = None


def make_case(stage: Stage, number: int) -> Case:
    """Return a case; broken files are written to the work folder of the stage, which is emptied first."""
    random = np.random.default_rng([7, number])
    shutil.rmtree(stage.work, ignore_errors=True)
    stage.work.mkdir()
    kinds = (
        (0.34, broken_data),
        (0.16, broken_model),
        (0.24, odd_options),
        (0.10, odd_texts),
        (0.08, broken_recipe),
        (0.04, broken_side_file),
        (0.04, interrupted),
    )
    shares = np.array([share for share, _ in kinds])
    make = kinds[int(random.choice(len(kinds), p=shares / shares.sum()))][1]
    case: Case = make(stage, random)
    return case._replace(kind=make.__name__)


def broken_data(stage: Stage, random: Random) -> Case:
    """A file of a dataset with broken bytes."""
    name = str(random.choice(sorted(stage.data)))
    path = _broken_copy(stage, name, random)
    arguments = _on_data(stage, random, str(path))
    if random.random() < 0.4 and arguments[0] not in ("predict",):
        arguments += ["--from" if arguments[0] == "convert" else "--format", name]
    if random.random() < 0.3 and arguments[0] in ("train", "check", "convert"):
        arguments.append("--skip-bad")
    return Case("", arguments)


def broken_model(stage: Stage, random: Random) -> Case:
    """A model folder with a broken, missing or foreign file."""
    model = stage.work / "model"
    shutil.copytree(stage.model, model)
    files = sorted(p for p in model.rglob("*") if p.is_file())
    victim = files[int(random.integers(len(files)))]
    match int(random.integers(6)):
        case 0:
            victim.unlink()
        case 1:
            victim.write_bytes(odd_bytes(random))
        case 2:
            (model / "more.bin").write_bytes(odd_bytes(random))
        case _:
            victim.write_bytes(mutate(victim.read_bytes(), random))
    arguments = {
        0: ["predict", str(model), "oak sea"],
        1: ["show", str(model)],
        2: ["info", str(model)],
        3: ["explain", str(model), "oak sea", "--label", "trees"],
        4: ["eval", str(model), str(stage.data["jsonl"])],
        5: ["vocab", "list", str(model)],
    }[int(random.integers(6))]
    return Case("", arguments)


def odd_options(stage: Stage, random: Random) -> Case:
    """A command with a few options that have odd values, are unknown, or lack their value."""
    name = str(random.choice([one for one in COMMANDS if one not in _LEFT_OUT]))
    arguments = _base(stage, random, name)
    options = _options(name)
    for _ in range(int(random.integers(1, 4))):
        kind = random.random()
        if kind < 0.75 and options:
            option, takes_value = options[int(random.integers(len(options)))]
            arguments += [option, *([odd_string(random)] if takes_value else [])]
        elif kind < 0.85 and len(arguments) > 1:
            del arguments[int(random.integers(1, len(arguments)))]
        else:
            arguments.insert(int(random.integers(0, len(arguments) + 1)), odd_string(random))
    return Case("", arguments, odd_text(random).encode("utf-8", "surrogatepass"))


def odd_texts(stage: Stage, random: Random) -> Case:
    """Odd texts as an argument, on stdin or in a file."""
    text = odd_text(random)
    match int(random.integers(5)):
        case 0:
            return Case("", ["predict", str(stage.model), text])
        case 1:
            return Case("", ["explain", str(stage.model), text, *_maybe(random, ["--label", "water", "--json"])])
        case 2:
            return Case("", ["predict", str(stage.model), "-"], odd_bytes(random) + text.encode(errors="replace"))
        case 3:
            return Case("", ["explain", str(stage.model), "-", "--html"], odd_bytes(random))
    path = stage.work / "texts.txt"
    path.write_bytes(odd_bytes(random) + b"\n" + text.encode("utf-8", "surrogatepass"))
    output = str(random.choice(["o.jsonl", "o.csv", "o.tsv", "o.parquet", "o.jsonl.gz", "o.xyz", ""]))
    return Case("", ["predict", str(stage.model), str(path), "-O", str(stage.out / output)])


def broken_recipe(stage: Stage, random: Random) -> Case:
    """A recipe with broken bytes, and odd settings on the command line."""
    from tagwood.recipe import KEYS

    path = stage.work / "recipe.toml"
    path.write_bytes(mutate(stage.recipe.read_bytes(), random))
    arguments = ["train", str(stage.data["csv"]), "-O", str(stage.out / "model"), *QUICK]
    if random.random() < 0.5:
        return Case("", [*arguments, "--recipe", str(path)])
    section = str(random.choice(list(KEYS)))
    key = str(random.choice(KEYS[section]))
    return Case("", [*arguments, "--set", f"{section}.{key}={odd_string(random)}"])


def broken_side_file(stage: Stage, random: Random) -> Case:
    """A broken label table or a broken file of predictions."""
    truth = str(stage.data["jsonl"])
    if random.random() < 0.5:
        path = stage.work / "predictions.jsonl"
        path.write_bytes(mutate(stage.predictions.read_bytes(), random))
        return Case("", ["eval", str(path), truth, *_maybe(random, ["-m", odd_string(random)])])
    table = stage.work / str(random.choice(["table.tsv", "table.csv", "table.ttl", "table.rdf"]))
    table.write_bytes(mutate(stage.table.read_bytes(), random))
    commands = [
        ["check", truth, "--vocab", str(table)],
        ["convert", truth, str(stage.out / "o.csv"), "--vocab", str(table), "--on-unknown", "add"],
        ["vocab", "list", str(table)],
        ["vocab", "diff", str(stage.model), str(table)],
    ]
    return Case("", commands[int(random.integers(len(commands)))])


def interrupted(stage: Stage, random: Random) -> Case:
    """Ctrl-C somewhere in a command that writes."""
    target, data = str(stage.out / "model"), str(stage.data["csv"])
    commands = [
        ["train", data, "-O", target, *QUICK],
        ["convert", data, str(stage.out / "o.jsonl")],
        ["predict", str(stage.model), data, "-O", str(stage.out / "o.csv")],
    ]
    arguments = commands[int(random.choice(3, p=[0.8, 0.1, 0.1]))]
    return Case("", arguments, interrupt=float(random.uniform(0.001, 0.08)))


def _broken_copy(stage: Stage, name: str, random: Random) -> Path:
    """Write the files of a format with one of them broken; return the path that commands get."""
    files = stage.files[name]
    victim = str(random.choice(sorted(files)))
    for file, content in files.items():
        place = stage.work / file
        place.parent.mkdir(parents=True, exist_ok=True)
        if file != victim:
            place.write_bytes(content)
        elif random.random() < 0.97:
            place.write_bytes(mutate(content, random))
    return stage.work / stage.data[name].name


def _on_data(stage: Stage, random: Random, path: str) -> list[str]:
    """Return a command that reads a dataset."""
    commands = [
        ["check", path],
        [
            "convert",
            path,
            str(stage.out / str(random.choice(["o.jsonl", "o.csv", "o.ft", "o.txt", "folder"]))),
        ],
        ["train", path, "-O", str(stage.out / "model"), *QUICK],
        ["eval", str(stage.model), path],
        ["predict", str(stage.model), path, "-O", str(stage.out / "o.jsonl")],
        ["eval", str(stage.predictions), path],
        ["check", str(stage.data["jsonl"]), "--test", path],
    ]
    commands += [["plan", path, "--no-probe"]] if "plan" in COMMANDS else []
    return commands[int(random.integers(len(commands)))]


def _base(stage: Stage, random: Random, name: str) -> list[str]:
    """Return a command that would work."""
    data, model = str(stage.data[str(random.choice(["csv", "jsonl", "tsv"]))]), str(stage.model)
    known = {
        "check": ["check", data],
        "convert": ["convert", data, str(stage.out / "o.jsonl")],
        "eval": ["eval", model, data],
        "explain": ["explain", model, "oak sea", "--label", "trees"],
        "info": ["info", model],
        "predict": ["predict", model, "oak sea"],
        "suggest": ["suggest", model, "oak sea"],
        "show": ["show", model],
        "train": ["train", data, "-O", str(stage.out / "model"), *QUICK],
        "tune": [
            "tune",
            "--minutes",
            "0.001",
            "--trials",
            "1",
            "-j",
            "1",
        ],  # without data: only what it refuses
        "plan": ["plan", data, "--no-probe"],
        "vocab": ["vocab", "list", model],
    }
    return known.get(name, [name, model, data])


@cache
def _options(name: str) -> list[tuple[str, bool]]:
    """Return the options of a command, and whether they take a value."""
    command: Any = load_command(name)
    found = [(o, not p.is_flag) for p in command.params if hasattr(p, "is_flag") for o in p.opts]
    return [(option, takes) for option, takes in found if option not in _LEFT_ALONE]


def _maybe(random: Random, arguments: list[str]) -> list[str]:
    return arguments if random.random() < 0.5 else []
