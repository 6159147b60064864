"""Time and memory of reading datasets: ``python -m benchmarks.reading``.

In: EURLEX57K from the shared data, if present, and a generated repository file of 500,000 rows. Every figure comes from
its own process; CPU seconds (user and system) and the growth of the peak resident set are counted after the imports.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT, SHARED
from benchmarks.report import Page, machine, machine_line, number, table

PAGE = Page("benchmarks", "reading")
EURLEX = SHARED / "eurlex57k" / "train.jsonl.gz"
N_ROWS, N_FEATURES, N_LABELS = 500_000, 100_000, 50_000


def main() -> None:
    parser = PAGE.parser(__doc__)
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
    content = {"machine": machine(), "results": results}
    PAGE.save(arguments.out, content)
    PAGE.write(arguments.out, page_blocks(content))


def make_repository_file(path: Path, n_rows: int) -> None:
    """Write a file like the large sets of the repository: 5 labels and 40 features per row."""
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
    """Read a repository file without a library: split every line, collect lists, build CSR."""
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


def page_blocks(content: dict[str, Any]) -> Iterator[str]:
    """Yield the table."""
    header = ["data", "reader", "rows", "file MB", "CPU s", "rows per CPU s", "MB per CPU s", "peak MB"]
    cells = []
    for r in content["results"]:
        cpu = r["cpu_seconds"]
        figures = (r["file_mb"], cpu, r["rows"] / cpu, r["file_mb"] / cpu, r["peak_mb"])
        cells.append([r["data"], r["reader"], f"{r['rows']:,}", *map(number, figures)])
    yield table(header, cells)
    yield machine_line(content["machine"])


if __name__ == "__main__":
    main()
