"""The process in which a tool trains or predicts, started by `measure.run_job`.

In: a job as JSON, ``{"step": "train" | "predict", ...}``. Out: the figures as JSON, and for predictions the
ranking as a CSR ``.npz``. Runs in the environment of the tool.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.adapters.base import Adapter, read_matrix
from benchmarks.measure import Meter, folder_mb, latencies_ms, repeated

LATENCY_ROWS = 1_000
MEMORY_SHARE = 0.92  # of the machine's memory: a tool that needs more fails alone


def train(adapter: Adapter, job: dict[str, Any]) -> dict[str, float]:
    """Train and save; data is read before the clock starts."""
    data = adapter.read(Path(job["data"]))
    folder = Path(job["folder"])
    with Meter() as meter:
        model = adapter.train(data, folder, job["settings"], job["threads"])
    started = time.perf_counter()
    adapter.save(model, folder)
    return {
        **meter.as_dict("train"),
        "save_wall": time.perf_counter() - started,
        "disk_mb": folder_mb(folder),
    }


def predict(adapter: Adapter, job: dict[str, Any]) -> dict[str, float]:
    """Load the model, rank all test rows with all threads, then single rows with one thread."""
    k, mode = job["k"], job["mode"]
    folder = adapter.compile(Path(job["folder"]), mode)
    X = read_matrix(Path(job["data"]) / "X.tst.npz")
    some = adapter.single_rows(X[:LATENCY_ROWS])
    model, loads = repeated(lambda: adapter.load(folder, mode, 1), least_seconds=1)
    found = {"load_ms": 1000 * float(np.median([m.wall for m in loads])), "disk_mb": folder_mb(folder)}
    found |= latencies_ms(lambda row: adapter.one(model, row, k), some)
    del model, some
    model, rows = adapter.load(folder, mode, job["threads"]), adapter.batch_input(X)
    answer, passes = repeated(lambda: adapter.batch(model, rows, k), least_seconds=10)
    best = min(passes, key=lambda m: m.cpu)
    _write(Path(job["ranking"]), adapter.to_csr(answer, job["n_labels"]))
    found |= adapter.more_figures(model, X, k)
    return {**found, **best.as_dict("batch"), "rows_per_cpu_s": X.shape[0] / best.cpu}


def _write(path: Path, scores: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    sparse.save_npz(path, scores, compressed=False)


def main() -> None:
    job = json.loads(sys.argv[1])
    most = int(MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    adapter = importlib.import_module(f"benchmarks.adapters.{job['adapter']}").Driver()
    steps = {"train": train, "predict": predict}
    Path(job["answer"]).write_text(json.dumps(steps[job["step"]](adapter, job)))


if __name__ == "__main__":
    main()
