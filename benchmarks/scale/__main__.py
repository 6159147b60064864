"""What training, prediction and serving on Ray cost, and whether bits and rows stay right: see docs/scale.md.

``python -m benchmarks.scale bits|kills|actors|disk|predict|serve|simulate``; every part prints one JSON object. All run
on this machine; times are CPU seconds of all processes, since the machine may be shared.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import gzip
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.scale.simulation import Cluster, forecast_tasks, simulate
from benchmarks.synthetic import amazon_670k_like

DATA = Path("../shared/data")
SETS = {"eurlex57k": "eurlex57k/train.jsonl.gz", "tibkat": "tibkat-gnd-en/train.jsonl.gz"}
_STORE = 400 << 20


def rows_of(name: str, n_rows: int) -> tuple[list[str], list[list[str]]]:
    """Return the first texts and labels of a set."""
    with gzip.open(DATA / SETS[name], "rt") as file:
        rows = [json.loads(line) for line in itertools.islice(file, n_rows)]
    texts = [" ".join(str(row[key]) for key in ("title", "text", "body") if row.get(key)) for row in rows]
    labels = [
        [str(item.get("uri", item)) if isinstance(item, dict) else str(item) for item in row_labels(row)]
        for row in rows
    ]
    return texts, labels


def row_labels(row: dict[str, Any]) -> list[Any]:
    return next(row[key] for key in ("labels", "concepts", "eurovoc_concepts", "subjects") if key in row)


def problem(name: str, n_rows: int) -> tuple[Any, Any]:
    """Return X and Y of a real set, or of the synthetic one with the shape of Amazon-670K at a share of its rows."""
    if name == "synthetic":
        made = amazon_670k_like(n_rows / 490_449)
        return made.X_train, made.Y_train
    from tagwood.features.tfidf import TfidfEncoder
    from tagwood.tagger.fitting import label_sets

    texts, labels = rows_of(name, n_rows)
    return TfidfEncoder().fit_transform(texts), label_sets(labels, None)[0]


def bits_of(model: Any) -> str:
    arrays = [array for weights in model.trees_ for array in weights.arrays]
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]


def measure_bits(name: str, n_rows: int) -> dict[str, Any]:
    """Train in one process and on Ray with 1, 2 and 4 workers; compare bits, wall time, memory beyond the features."""
    from tagwood.models.linear_tree import LinearTree
    from tagwood.scale import RayRunner, connect

    X, Y = problem(name, n_rows)
    shared = sum(array.nbytes for matrix in (X, Y) for array in (matrix.data, matrix.indices, matrix.indptr))
    found: dict[str, Any] = {"set": name, "rows": n_rows, "labels": Y.shape[1], "feature_mb": X.nnz * 8 / 1e6}
    whole, alone = measured(lambda: bits_of(LinearTree(threads=2).fit(X, Y)), shared)
    found["one process, 2 threads"] = alone
    for workers in (1, 2, 4):
        with connect("local", workers, object_store=_STORE):
            bits, costs = measured(lambda: bits_of(LinearTree(threads=2).fit(X, Y, runner=RayRunner())), shared)
        found[f"ray, {workers} workers"] = {**costs, "same bits": bits == whole}
        if workers == 2:
            found["2 workers to 2 threads"] = {key: round(costs[key] / alone[key], 2) for key in ("wall", "cpu", "MB")}
    return found


def measured(work: Any, shared: int) -> tuple[Any, dict[str, float]]:
    """Run work; return its result, wall and CPU seconds, and the most anonymous memory of this process and all workers.

    Workers count with their interpreters; the agents that Ray has once per machine are a figure of their own. Features
    in this process are taken off, those in Ray's object store are no anonymous memory.
    """
    from tagwood.features.stored import return_memory

    gc.collect()
    return_memory()
    stop, peaks, agents = threading.Event(), [], [0]

    def watch() -> None:
        while not stop.wait(0.1):
            others = set(ray_children("Agent"))
            agents.append(sum(map(anonymous_bytes, others)))
            peaks.append(sum(map(anonymous_bytes, {os.getpid(), *ray_children("ray::")} - others)))

    watcher = threading.Thread(target=watch)
    start, cpu = time.perf_counter(), children_cpu()
    watcher.start()
    try:
        result = work()
    finally:
        costs = {"wall": time.perf_counter() - start, "cpu": children_cpu() - cpu}
        stop.set()
        watcher.join()
    return result, costs | {"MB": (max(peaks) - shared) / 1e6, "MB of agents": max(agents) / 1e6}


def anonymous_bytes(pid: int) -> int:
    """Return the resident memory of a process without files and shared memory."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def ray_children(mark: str) -> list[int]:
    """Return processes below this one whose command line has a mark."""
    parents, marked = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if mark in (folder / "cmdline").read_text():
                marked.append(int(folder.name))
        except (OSError, ValueError):
            continue

    def ours(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == os.getpid():
                return True
        return False

    return [pid for pid in marked if ours(pid)]


def with_kills(mark: str, work: Any, most: int, chance: random.Random, longest: float = 0.6) -> tuple[Any, int]:
    """Run work while processes with a mark are killed at random moments; return its result and the kills."""
    stop, killed = threading.Event(), []

    def kill() -> None:
        while not stop.wait(chance.uniform(0.05, longest)) and len(killed) < most:
            pids = ray_children(mark)
            if pids:
                os.kill(chance.choice(pids), signal.SIGKILL)
                killed.append(pids)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        return work(), len(killed)
    finally:
        stop.set()
        killer.join()


def measure_kills(trials: int, n_rows: int) -> dict[str, Any]:
    """Kill workers at random moments of training; kill the driver and start it again."""
    from tagwood.models.linear_tree import LinearTree
    from tagwood.scale import RayRunner, connect

    X, Y = problem("eurlex57k", n_rows)
    whole, chance, same, kills = bits_of(LinearTree(threads=2).fit(X, Y)), random.Random(0), 0, 0
    with connect("local", 2, object_store=_STORE):
        for _ in range(trials):
            found, killed = with_kills(
                "ray::_run_task", lambda: LinearTree(threads=2).fit(X, Y, runner=RayRunner()), 2, chance
            )
            same += bits_of(found) == whole
            kills += killed
    return {
        "training trials": trials,
        "workers killed": kills,
        "same bits": same,
        **kill_driver(n_rows),
    }


def kill_actors(trials: int, n_rows: int) -> dict[str, Any]:
    """Kill actors at random moments of batch predictions; compare every row with an undisturbed run."""
    from tagwood import Tagger
    from tagwood.models.linear_tree import LinearTree
    from tagwood.scale import BatchRequest, connect, predict_folder

    folder, chance, same, kills = Path(tempfile.mkdtemp()), random.Random(2), 0, 0
    try:
        model = Tagger(model=LinearTree(threads=1)).fit(*rows_of("tibkat", 3000)).save(folder / "model")
        write_titles(folder / "in", n_rows, 500)
        request = BatchRequest(unit_rows=500)
        with connect("local", 2, object_store=_STORE):
            predict_folder(model, folder / "in", folder / "out", request)
            for _ in range(trials):
                _, killed = with_kills(
                    "ray::MapWorker",
                    lambda: predict_folder(model, folder / "in", folder / "again", request),
                    2,
                    chance,
                    longest=2.0,
                )
                same += rows_written(folder / "out").equals(rows_written(folder / "again"))
                kills += killed
                shutil.rmtree(folder / "again")
        return {"prediction trials": trials, "actors killed": kills, "same rows": same}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def rows_written(folder: Path) -> Any:
    """Return all predictions of a folder, in the order of the names of its files."""
    from pyarrow import parquet

    return parquet.read_table(sorted(folder.glob("*.parquet"))).replace_schema_metadata(None)


def kill_driver(n_rows: int) -> dict[str, Any]:
    """Kill `tagwood train --resume` early, in the middle and late, and finish it."""
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(sys.executable).with_name("tagwood"))
        command = [program, "train", str(DATA / SETS["eurlex57k"]), "-d", str(n_rows), "--quality", "fast", "-j", "2"]

        def train(name: str, most: float = float("inf")) -> int:
            """Train, at most until so many parts are finished; return how many are seen."""
            quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            driver = subprocess.Popen([*command, "-O", f"{folder}/{name}", "--resume"], **quiet)
            seen = 0
            while driver.poll() is None:
                seen = max(seen, len(list(Path(f"{folder}/{name}.parts").glob("[!.]*/manifest.json"))))
                if seen >= most:
                    driver.kill()
                    driver.wait()
                time.sleep(0.005)
            assert driver.returncode in (0, -signal.SIGKILL)
            return seen

        whole = train("a")
        kept = [train("b", share * whole) for share in (0.1, 0.5, 0.9)]
        if not Path(f"{folder}/b").exists():
            train("b")
        files = [Path(f"{folder}/{name}/arrays.safetensors").read_bytes() for name in "ab"]
        return {
            "parts": whole,
            "parts kept by killed drivers": kept,
            "resumed model has the same bytes": files[0] == files[1],
        }


def write_long_texts(path: Path, n_rows: int, length: int, n_labels: int = 5000, n_words: int = 150_000) -> int:
    """Write rows of `length` words each, some of the row's three labels, the others by a power law; return features."""
    import numpy as np

    chance = np.random.default_rng(0)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)
    table = np.full((n_words, 8), ord(" "), dtype=np.uint8)
    table[:, :7] = letters[chance.integers(26, size=(n_words, 7))]
    topics = chance.integers(n_words, size=(n_labels, 60))
    n_features = 0
    with path.open("wb") as file:
        for _ in range(n_rows):
            labels = np.unique((n_labels * chance.random(3) ** 1.5).astype(int))
            own = topics[chance.choice(labels, length // 5), chance.integers(60, size=length // 5)]
            common = (n_words * chance.random(length - own.size) ** 2).astype(int)
            words = np.concatenate([own, common])
            n_features += np.unique(words).size
            text = table[words].tobytes().decode().strip()
            file.write(f'{{"text": "{text}", "labels": {json.dumps([f"label {one}" for one in labels])}}}\n'.encode())
    return n_features


def run_measured(command: list[str]) -> dict[str, Any]:
    """Run a command; return its CPU seconds and, from its own status, its memory."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peaks = {"VmHWM": 0, "RssAnon": 0, "RssFile": 0}
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        with contextlib.suppress(OSError):
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
            peaks = {name: max(most, int(lines.get(name, "0").split()[0])) for name, most in peaks.items()}
        time.sleep(0.02)
    assert process.stderr is not None
    said = process.stderr.read().decode()
    if process.returncode:
        raise SystemExit(said)
    return {**{f"{name} MB": round(most * 1024 / 1e6) for name, most in peaks.items()}, "said": said.splitlines()}


def measure_disk(n_rows: int, limit: str, length: int) -> dict[str, Any]:
    """Train the same rows in memory and from files within a limit; compare memory, CPU time and bytes."""
    folder = Path(tempfile.mkdtemp())
    try:
        n_features = write_long_texts(folder / "rows.jsonl", n_rows, length)
        program = str(Path(sys.executable).with_name("tagwood"))
        settings = ["--quality", "fast", "--no-refit", "--set", "features.ngrams=[1, 1]", "-j", "2"]
        command = [program, "train", str(folder / "rows.jsonl"), *settings, "-O"]
        found: dict[str, Any] = {
            "rows": n_rows,
            "limit": limit,
            "feature MB": n_features * 8 / 1e6,
            "text MB": (folder / "rows.jsonl").stat().st_size / 1e6,
        }
        work = ["--max-ram", limit, "--work-dir", str(folder / "work")]
        for name, options in (("files", work), ("memory", [])):
            before = os.times()
            found[name] = run_measured([*command, str(folder / name), *options])
            after = os.times()
            spent = after.children_user + after.children_system - before.children_user - before.children_system
            found[name]["cpu seconds"] = round(spent, 1)
        files = [(folder / name / "arrays.safetensors").read_bytes() for name in ("memory", "files")]
        return found | {
            "model MB": len(files[0]) / 1e6,
            "same bytes": files[0] == files[1],
            "cpu, files to memory": found["files"]["cpu seconds"] / found["memory"]["cpu seconds"],
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_titles(folder: Path, n_rows: int, group: int = 10_000) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    texts, _ = rows_of("tibkat", 50_000)
    folder.mkdir()
    for number in range(8):
        rows = range(number * n_rows // 8, (number + 1) * n_rows // 8)
        table = pa.table({"id": [str(row) for row in rows], "title": [texts[row % len(texts)] for row in rows]})
        parquet.write_table(table, folder / f"titles-{number}.parquet", row_group_size=group)


def measure_prediction(n_rows: int) -> dict[str, Any]:
    """Rows per CPU second of `Tagger.tag` in one process, and of batch prediction with kills of actors."""
    from pyarrow import parquet

    from tagwood import Tagger
    from tagwood.models.linear_tree import LinearTree
    from tagwood.scale import BatchRequest, connect, predict_folder

    folder = Path(tempfile.mkdtemp())
    try:
        tagger = Tagger(model=LinearTree(threads=1)).fit(*rows_of("tibkat", 10_000))
        model = tagger.save(folder / "model")
        tagger = Tagger.load(model)
        tagger.encoder_.threads = tagger.model_.threads = 1
        write_titles(folder / "in", n_rows)
        texts = parquet.read_table(folder / "in" / "titles-0.parquet").column("title").to_pylist()
        cpu = time.process_time()
        for begin in range(0, len(texts), 1000):
            tagger.tag(texts[begin : begin + 1000])
        alone = len(texts) / (time.process_time() - cpu)
        with connect("local", 2, object_store=_STORE):
            before = children_cpu()
            predict_folder(model, folder / "in", folder / "out", BatchRequest())
            spent = children_cpu() - before
        with connect("local", 2, object_store=_STORE):
            request = BatchRequest(unit_rows=10_000)
            _, killed = with_kills(
                "ray::MapWorker",
                lambda: predict_folder(model, folder / "in", folder / "again", request),
                10,
                random.Random(1),
            )
        tables = [rows_written(folder / name) for name in ("out", "again")]
        return {
            "rows": n_rows,
            "rows per cpu second, Tagger.tag": alone,
            "rows per cpu second, batch": n_rows / spent,
            "share": n_rows / spent / alone,
            "actors killed": killed,
            "same rows with kills": tables[0].equals(tables[1]) and tables[0].num_rows == n_rows,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def children_cpu() -> float:
    """Return the CPU seconds of this process and of all Ray processes below it that tag or run tasks."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = time.process_time()
    for pid in ray_children("ray::"):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / ticks
        except OSError:
            continue
    return total


def measure_serving(n_queries: int) -> dict[str, Any]:
    """Compare the answers of 4 shards with those of the whole model; time single requests."""
    from tagwood import Tagger
    from tagwood.models.linear_tree import LinearTree
    from tagwood.scale import connect
    from tagwood.scale.serving import build_app, split_model

    folder = Path(tempfile.mkdtemp())
    try:
        texts, labels = rows_of("tibkat", 10_000 + n_queries)
        model = Tagger(model=LinearTree(threads=1)).fit(texts[:10_000], labels[:10_000]).save(folder / "model")
        shards = split_model(model, folder / "shards", 4)
        tagger, queries, different = Tagger.load(model), texts[10_000:], 0
        times: dict[str, list[float]] = {"whole": [], "shards": []}
        with connect("local", 2, object_store=_STORE):
            from ray import serve

            whole = serve.run(build_app({"model": str(model), "cpus": 0.2}), name="whole", route_prefix="/whole")
            parts = serve.run(build_app({"model": str(shards), "cpus": 0.2}), name="shards", route_prefix="/shards")
            for begin in range(0, n_queries, 1000):
                answers = parts.tag.remote(queries[begin : begin + 1000], 5).result()
                for tags, answer in zip(tagger.tag(queries[begin : begin + 1000], 5), answers, strict=True):
                    different += [(t.name, t.score) for t in tags] != [(a["label"], a["score"]) for a in answer]
            for query in queries[:300]:
                for name, handle in (("whole", whole), ("shards", parts)):
                    start = time.perf_counter()
                    handle.tag.remote([query], 5).result()
                    times[name].append(1000 * (time.perf_counter() - start))
            serve.shutdown()
        middle = {f"p50 ms, {name}": sorted(values)[len(values) // 2] for name, values in times.items()}
        return {"queries": n_queries, "different": different, **middle}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_simulation(seconds_per_visit: float, figure: Path | None) -> dict[str, Any]:
    """Simulate 100 nodes of 16 CPUs for the two sizes of the forecast, with and without trouble."""
    found: dict[str, Any] = {"seconds per visit": seconds_per_visit}
    bars: list[tuple[str, float]] = []
    for name, n_rows, n_labels in (("100M x 10M", 1e8, 1e7), ("1B x 100M", 1e9, 1e8)):
        tasks = forecast_tasks(n_rows, n_labels, seconds_per_visit)
        ways = {
            "ideal": Cluster(straggler_share=0, failures=0),
            "stragglers": Cluster(failures=0),
            "stragglers and failures": Cluster(failures=1.0),
        }
        for way, cluster in ways.items():
            runs = [simulate(tasks, cluster, seed) for seed in range(5)]
            hours = sum(run.seconds for run in runs) / len(runs) / 3600
            lost = sum(run.lost for run in runs) / len(runs) / 3600
            found[f"{name}, {way}"] = {"hours": round(hours, 2), "lost cpu hours": round(lost, 1)}
            bars.append((f"{name}\n{way}", hours))
        found[f"{name}, cpu hours"] = round(float(tasks.sum()) / 3600)
        found[f"{name}, longest task hours"] = round(float(tasks.max()) / 3600, 2)
    if figure is not None:
        draw(bars, figure)
    return found


def draw(bars: list[tuple[str, float]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    chart, axes = pyplot.subplots(figsize=(8, 3))
    axes.barh([name for name, _ in bars][::-1], [hours for _, hours in bars][::-1], color="#4a7a5c")
    axes.set_xlabel("hours on 100 nodes of 16 CPUs (simulated)")
    axes.set_xscale("log")
    chart.tight_layout()
    chart.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("part", choices=["bits", "kills", "actors", "disk", "predict", "serve", "simulate"])
    parser.add_argument("--set", default="eurlex57k", choices=[*SETS, "synthetic"])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--limit", default="256MB", help="memory limit of disk")
    parser.add_argument("--length", type=int, default=700, help="words of a row of disk")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seconds-per-visit", type=float, default=4e-7)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    found = {
        "bits": lambda: measure_bits(given.set, given.rows),
        "kills": lambda: measure_kills(given.trials, given.rows),
        "actors": lambda: kill_actors(given.trials, given.rows),
        "disk": lambda: measure_disk(given.rows, given.limit, given.length),
        "predict": lambda: measure_prediction(given.rows),
        "serve": lambda: measure_serving(given.rows),
        "simulate": lambda: measure_simulation(given.seconds_per_visit, given.figure),
    }[given.part]()
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
