"""How fast datasets are read, and how much memory that takes: ``python -m benchmarks.reading``.

In: EURLEX57K from the shared data, if it is there, and a repository file of 500,000 rows made on the spot.
Out: docs/benchmarks/reading.md and .json. Every figure comes from a process of its own; CPU seconds (user and
system) and the growth of the peak resident set are counted after the imports.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
EURLEX = ROOT.parent / "shared" / "data" / "eurlex57k" / "train.jsonl.gz"
OUTPUT = ROOT / "docs" / "benchmarks"
N_ROWS, N_FEATURES, N_LABELS = 500_000, 100_000, 50_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=N_ROWS, help="rows of the repository file")
    parser.add_argument("--worker", nargs=2, metavar=("READER", "PATH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(measure(*arguments.worker)))
        return
    with tempfile.TemporaryDirectory(prefix="tagwood-reading-") as folder:
        path = Path(folder) / "train.txt"
        make_repository_file(path, arguments.rows)
        results = [run("tagwood", path), run("python loop", path)]
        if EURLEX.exists():
            results.append(run("tagwood", EURLEX))
        else:
            print(f"skipped: EURLEX57K ({EURLEX} is not there)")
    write_report(results)


def make_repository_file(path: Path, n_rows: int) -> None:
    """Write a file like the repository's large sets: 5 labels and 40 features a row, six digits a value."""
    random = np.random.default_rng(0)
    block = min(n_rows, 20_000)
    features = np.cumsum(random.integers(1, N_FEATURES // 40, size=(block, 40)), axis=1).tolist()
    values = random.random((block, 40)).round(6).tolist()
    labels = random.integers(0, N_LABELS, size=(block, 5)).tolist()
    rows = [
        ",".join(map(str, ids)) + " " + " ".join(f"{f}:{v}" for f, v in zip(fs, vs, strict=True)) + "\n"
        for ids, fs, vs in zip(labels, features, values, strict=True)
    ]
    with path.open("w") as file:
        file.write(f"{n_rows} {N_FEATURES} {N_LABELS}\n")
        for begin in range(0, n_rows, block):
            file.writelines(rows[: min(block, n_rows - begin)])


def read_with_tagwood(path: str) -> tuple[int, int]:
    from tagwood.data import read_dataset

    data = read_dataset(path)
    return data.n_rows, int(data.labels.nnz)


def read_with_python_loop(path: str) -> tuple[int, int]:
    """Read a repository file as one does without a library: split every line, collect lists, build CSR."""
    from scipy import sparse

    label_ids, label_ends, columns, values, ends = [], [0], [], [], [0]
    with Path(path).open() as file:
        n_rows, n_features, n_labels = map(int, file.readline().split())
        for line in file:
            head, *pairs = line.split()
            label_ids.extend(map(int, head.split(",")))
            label_ends.append(len(label_ids))
            for pair in pairs:
                column, value = pair.split(":")
                columns.append(int(column))
                values.append(float(value))
            ends.append(len(columns))
    features = sparse.csr_array(
        (np.array(values, dtype=np.float32), np.array(columns, dtype=np.int32), np.array(ends)),
        shape=(n_rows, n_features),
    )
    ones = np.ones(len(label_ids), dtype=np.float32)
    labels = sparse.csr_array(
        (ones, np.array(label_ids, dtype=np.int32), np.array(label_ends)), shape=(n_rows, n_labels)
    )
    return features.shape[0], int(labels.nnz)


READERS = {"tagwood": read_with_tagwood, "python loop": read_with_python_loop}


def measure(reader: str, path: str) -> dict[str, float]:
    import scipy.sparse  # noqa: F401  imports do not count

    import tagwood.data  # noqa: F401

    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    n_rows, n_pairs = READERS[reader](path)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "rows": n_rows,
        "pairs": n_pairs,
        "seconds": seconds,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_mb": (after.ru_maxrss - before.ru_maxrss) / 1024,
    }


def run(reader: str, path: Path) -> dict[str, object]:
    command = [sys.executable, "-m", "benchmarks.reading", "--worker", reader, str(path)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
    data = "EURLEX57K, JSON lines, gzip" if path == EURLEX else "repository format"
    result = {"data": data, "reader": reader, "file_mb": path.stat().st_size / 1e6, **found}
    print(f"{data}, {reader}: {found['cpu_seconds']:.2f} CPU s, peak {found['peak_mb']:.0f} MB")
    return result


def write_report(results: list[dict[str, object]]) -> None:
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "processor": processor()}
    OUTPUT.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "results": results}
    (OUTPUT / "reading.json").write_text(json.dumps(content, indent=2) + "\n")
    lines = [
        "# Reading data",
        "",
        "`python -m benchmarks.reading` makes this page. Each line is one process; imports are not counted.",
        "Memory is the growth of the peak resident set, the result included.",
        "",
        "| data | reader | rows | file MB | CPU s | rows per CPU s | MB per CPU s | peak MB |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for r in results:
        cpu = r["cpu_seconds"]
        cells = [r["data"], r["reader"], f"{r['rows']:,}", f"{r['file_mb']:.0f}", f"{cpu:.2f}"]
        cells += [f"{r['rows'] / cpu:,.0f}", f"{r['file_mb'] / cpu:.0f}", f"{r['peak_mb']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    ours, loop = results[0]["cpu_seconds"], results[1]["cpu_seconds"]
    lines += [
        "",
        f"The native parser takes {loop / ours:.1f} times less CPU time than the plain Python loop.",
        f"Machine: {machine['processor']}, {machine['cores']} cores, Python {machine['python']}.",
    ]
    (OUTPUT / "reading.md").write_text("\n".join(lines) + "\n")


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = (
        [line for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    return names[0].partition(":")[2].strip() if names else platform.processor()


if __name__ == "__main__":
    main()
