# ruff: noqa: T201
"""Forged model folders: mutations of arrays, parameters, headers and manifests under valid checksums.

A trial copies a folder of the zoo, changes it, seals it again, loads it and asks it. Allowed are a `TagwoodError` or an
answer with known labels and finite scores; a crash, a hang, another exception or NaN is a failure. Trials run in child
processes, which write the number of a trial before it starts, so that a crash is attributed to its trial.

``python -m tests.faults.forging ZOO --trials 5000`` runs them; ``--first N --trials 1`` repeats one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import tagwood
from tagwood.errors import TagwoodError
from tagwood.storage.folder import ARRAYS, GOLDEN, MANIFEST, OPENING
from tagwood.storage.tensors import map_tensor, read_header, write_tensors

CPU_SECONDS, SECONDS = 30, 300  # for one trial, which takes milliseconds; sanitizers and a busy machine take longer
NUMBERS = [0, 1, -1, 2, -2, 7, 255, 2**31 - 1, -(2**31), 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), 2**63]
FLOATS = [0.0, -0.0, 1.0, -1.0, 1e-45, 1e-30, 1e30, -1e30, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan]
VALUES = [*NUMBERS, 0.5, -1.5, 1e308, 1e-308, "", "x", "l2-hinge", None, True, False, [], {}, [1, 2], {"a": 1}]


def reseal(folder: Path, value: dict[str, Any]) -> None:
    """Write a manifest with valid hashes of the files and of itself."""
    for name in value["files"]:
        if (folder / name).is_file():
            raw = (folder / name).read_bytes()
            value["files"][name] = {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest(), "blocks": ""}
    raw = json.dumps({**value, "checksum": ""}, ensure_ascii=False, indent=2).encode() + b"\n"
    rest = raw[len(OPENING) :]
    (folder / MANIFEST).write_bytes(OPENING + hashlib.sha256(rest).hexdigest().encode() + rest)


def forge(folder: Path, rng: random.Random) -> str:
    """Change a folder in place and return what was changed."""
    value = json.loads((folder / MANIFEST).read_bytes())
    kind = rng.choices([_values, _sizes, _params, _structure, _header], [60, 12, 18, 5, 5])[0]
    words = kind(folder, value, rng)
    reseal(folder, value)
    return words


def _nodes(node: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    found = [(path, node)]
    for name, part in node["parts"].items():
        found += _nodes(part, f"{path}{name}/")
    return found


def _read(folder: Path) -> dict[str, np.ndarray]:
    raw = (folder / ARRAYS).read_bytes()
    return {name: map_tensor(raw, tensor).copy() for name, tensor in read_header(raw).items()}


def _write(folder: Path, value: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    (folder / ARRAYS).unlink()
    write_tensors(folder / ARRAYS, arrays)
    for path, node in _nodes(value["model"]):
        for name, record in node["arrays"].items():
            record["shape"] = list(arrays[path + name].shape)
            record["dtype"] = arrays[path + name].dtype.name


def _values(folder: Path, value: dict[str, Any], rng: random.Random) -> str:
    arrays = _read(folder)
    name = rng.choice([name for name, array in arrays.items() if array.size])
    flat = arrays[name].reshape(-1)
    how = rng.choice(["one", "one", "two", "some", "all", "swap", "add", "reverse", "flip", "last", "issue"])
    with np.errstate(all="ignore"):
        _change(flat, how, rng)
    _write(folder, value, arrays)
    return f"{name}: {how}"


def _change(flat: np.ndarray, how: str, rng: random.Random) -> None:
    places = {
        "one": [rng.randrange(flat.size)],
        "two": [rng.randrange(flat.size) for _ in range(2)],
        "some": [place for place in range(flat.size) if rng.random() < 0.2],
        "all": list(range(flat.size)),
        "last": [flat.size - 1],
    }
    if how in places:
        new = _number(flat.dtype, rng)
        for place in places[how]:
            flat[place] = new if how == "all" else _number(flat.dtype, rng)
    elif how == "swap":
        one, other = (rng.randrange(flat.size) for _ in range(2))
        flat[[one, other]] = flat[[other, one]]
    elif how == "add":
        step = np.array(rng.choice([1, -1, 2, -3, 5, 100]), dtype=np.int64)
        flat[rng.randrange(flat.size) :] += step.astype(flat.dtype)
    elif how == "reverse":
        flat[:] = flat[::-1].copy()
    elif how == "flip":
        flat.view(np.uint8)[rng.randrange(flat.nbytes)] ^= 1 << rng.randrange(8)
    else:  # pointers whose differences wrap around, with a right beginning and end
        inner = flat[1:-1]
        inner[:] = [_number(flat.dtype, rng) for _ in range(inner.size)]


def _number(dtype: np.dtype, rng: random.Random) -> Any:
    if dtype.kind == "f":
        return np.array(rng.choice(FLOATS)).astype(dtype)
    if dtype.kind == "b":
        return rng.random() < 0.5
    info = np.iinfo(dtype)
    near = [info.min, info.max, info.max - 1, *(number for number in NUMBERS if info.min <= number <= info.max)]
    return rng.choice(near) if rng.random() < 0.7 else rng.randrange(0, min(info.max, 40))


def _sizes(folder: Path, value: dict[str, Any], rng: random.Random) -> str:
    arrays = _read(folder)
    name = rng.choice(list(arrays))
    array = arrays[name]
    how = rng.choice(["shorter", "longer", "empty", "twice", "type"])
    if how == "type":
        arrays[name] = array.astype(rng.choice(["int32", "int64", "float32", "uint8", "float64", "int8"]))
    elif array.ndim == 0 or how == "empty":
        arrays[name] = np.zeros((0,) * max(1, array.ndim), array.dtype)
    elif how == "shorter":
        arrays[name] = array[: rng.randrange(len(array) + 1)]
    elif how == "longer":
        arrays[name] = np.concatenate([array, array[: rng.randrange(1, len(array) + 2)]])
    else:
        arrays[name] = np.concatenate([array, array])
    with np.errstate(all="ignore"):
        _write(folder, value, arrays)
    return f"{name}: {how}"


def _params(folder: Path, value: dict[str, Any], rng: random.Random) -> str:
    places: list[tuple[str, Any, Any]] = []

    def collect(path: str, holder: Any) -> None:
        for key in holder if isinstance(holder, dict) else range(len(holder)):
            places.append((f"{path}/{key}", holder, key))
            if isinstance(holder[key], dict | list):
                collect(f"{path}/{key}", holder[key])

    for path, node in _nodes(value["model"]):
        collect(path, node["params"])
    if not places:
        return _structure(folder, value, rng)
    path, holder, key = rng.choice(places)
    if rng.random() < 0.1:
        del holder[key]
        return f"{path}: removed"
    new = rng.choice(VALUES)
    if isinstance(holder[key], int) and not isinstance(holder[key], bool) and rng.random() < 0.6:
        new = rng.choice([holder[key] + step for step in (1, -1, 2, 7, 1000)] + NUMBERS)
    holder[key] = new
    return f"{path}: {new!r}"


def _structure(folder: Path, value: dict[str, Any], rng: random.Random) -> str:
    path, node = rng.choice(_nodes(value["model"]))
    how = rng.choice(["kind", "no array", "no part", "swap parts", "exchange arrays"])
    if how == "kind":
        node["kind"] = rng.choice([other["kind"] for _, other in _nodes(value["model"])] + ["Nothing", "Tagger"])
    elif how == "no part" and node["parts"]:
        gone = rng.choice(list(node["parts"]))
        arrays = _read(folder)
        for name in list(arrays):
            if name.startswith(f"{path}{gone}/"):
                del arrays[name]
        del node["parts"][gone]
        _write(folder, value, arrays)
    elif how == "swap parts" and len(node["parts"]) > 1:
        one, other = rng.sample(list(node["parts"]), 2)
        node["parts"][one], node["parts"][other] = node["parts"][other], node["parts"][one]
    elif node["arrays"]:
        arrays = _read(folder)
        if how == "no array":
            gone = rng.choice(list(node["arrays"]))
            del arrays[path + gone], node["arrays"][gone]
        else:
            one, other = (path + rng.choice(list(node["arrays"])) for _ in range(2))
            arrays[one], arrays[other] = arrays[other], arrays[one]
        _write(folder, value, arrays)
    return f"{path}: {how}"


def _header(folder: Path, value: dict[str, Any], rng: random.Random) -> str:
    name = rng.choice([name for name in (ARRAYS, GOLDEN) if (folder / name).exists()])
    raw = bytearray((folder / name).read_bytes())
    length = int.from_bytes(raw[:8], "little")
    if rng.random() < 0.2:
        raw[:8] = rng.choice([0, 1, length - 1, length + 1, 2**40, 2**64 - 1]).to_bytes(8, "little")
    else:
        for _ in range(rng.randrange(1, 4)):
            raw[8 + rng.randrange(length)] = rng.choice(b'0123456789{}[]",:-x \x00\xff')
    (folder / name).write_bytes(raw)
    return f"header of {name}"


def ask(folder: Path) -> str:
    """Load a folder and ask it; return how it ended, or raise what must not happen."""
    try:
        model = tagwood.load(folder)
        n_labels = model.n_labels_ if hasattr(model, "n_labels_") else len(model.vocab_)
        golden = _golden(folder)
        ranking = model.rank(golden, k=4)
        if hasattr(model, "tag"):
            for tags in model.tag(golden, 3):
                assert all(np.isfinite(tag.score) for tag in tags), "a probability that is not finite"
                for tag in list(tags)[:1]:
                    model.explain(golden[0], tag.label)
    except (TagwoodError, MemoryError) as error:
        return type(error).__name__
    labels, scores = np.asarray(ranking.labels), np.asarray(ranking.scores)
    assert np.isfinite(scores).all(), f"scores {scores[~np.isfinite(scores)][:3]}"
    assert labels.size == 0 or (labels.min() >= 0 and labels.max() < n_labels), "a label out of range"
    return "answered"


def _golden(folder: Path) -> Any:
    from tagwood.storage.save_load import unpack_inputs

    source = Path(os.environ["FORGED_FROM"]) / folder.name
    raw = (source / GOLDEN).read_bytes()
    arrays = {name: map_tensor(raw, tensor) for name, tensor in read_header(raw).items()}
    return unpack_inputs(json.loads((source / MANIFEST).read_bytes())["golden"]["params"], arrays)


def trial(zoo: Path, name: str, number: int, place: Path) -> tuple[str, str]:
    """Forge a copy and ask it; return what was changed and how it ended."""
    target = place / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(zoo / name, target)
    words = forge(target, random.Random(number))
    print(json.dumps({"number": number, "kind": name, "forged": words}), flush=True)
    _limit_time(CPU_SECONDS, SECONDS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        result = ask(target)
    _limit_time(0, 0)
    return words, result


def _limit_time(cpu_seconds: int, seconds: int) -> None:
    """End the process by a signal after some time, unless this is called again; 0 is no limit."""
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    signal.alarm(seconds)


def child(zoo: Path, names: list[str], first: int, last: int) -> None:
    """Run trials until one fails; two lines for each: before and after."""
    os.environ["FORGED_FROM"] = str(zoo)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        for name in names:
            tagwood.load(zoo / name)  # imports what it needs, which under sanitizers takes longer than a trial
        for number in range(first, last):
            _, result = trial(zoo, names[number % len(names)], number, Path(folder))
            print(json.dumps({"number": number, "result": result}), flush=True)


def run(
    zoo: Path, trials: int, first: int = 0, only: str | None = None, stop: int = 50
) -> tuple[Counter[str], list[str]]:
    """Run trials in child processes; return the counts of results and a line for each failure."""
    names = sorted(path.name for path in zoo.iterdir() if only is None or only in path.name)
    counts: Counter[str] = Counter()
    failures: list[str] = []
    at, last = first, first + trials
    while at < last and len(failures) < stop:
        command = [sys.executable, "-m", "tests.faults.forging", str(zoo), "--child", str(at), str(last)]
        done = subprocess.run([*command, "--names", *names], capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"number"')]
        results = [line for line in lines if "result" in line]
        counts.update(line["result"] for line in results)
        at = results[-1]["number"] + 1 if results else at
        if done.returncode:
            before = lines[-1] if lines else {}
            reason = " / ".join(done.stderr.strip().splitlines()[-4:])
            what = f"{at} {before.get('kind')}: {before.get('forged')}"
            failures.append(f"{what}: code {done.returncode}: {reason[-600:]}")
            print("FAILED", failures[-1], flush=True)
            at += 1
    return counts, failures


def main() -> None:
    """Run what the command line names; end with code 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.forging")
    parser.add_argument("zoo", type=Path)
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", help="part of the name of a folder")
    parser.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--names", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        child(args.zoo, args.names, *args.child)
        return
    began = time.process_time()
    counts, failures = run(args.zoo, args.trials, args.first, args.kind)
    print(f"forged folders: {sum(counts.values()) + len(failures):,} trials, {len(failures)} failures", dict(counts))
    print(f"{time.process_time() - began:.0f} CPU seconds in this process")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
