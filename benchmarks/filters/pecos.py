"""PECOS with `selected_outputs_csr`, which ranks given labels only. In: a problem. Out: CPU times, from its own Python.

Run as a module it is the worker: it needs numpy, SciPy and libpecos only.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.measure import run_job

_SIZES = (1_000, 3_000, 10_000)
_K = 5


def measure_pecos(problem: Any, folder: Path) -> dict[str, Any]:
    """Train XR-Linear in PECOS's environment and measure single rows, plain and with selected labels."""
    from benchmarks.peers import interpreter

    folder.mkdir(parents=True, exist_ok=True)
    for name in ("X_train", "Y_train", "X_test"):
        sparse.save_npz(folder / f"{name}.npz", sparse.csr_matrix(getattr(problem, name)), compressed=False)
    job = {"folder": str(folder.resolve())}
    return run_job(interpreter("pecos"), "benchmarks.filters.pecos", job, folder / "log.txt", threads=1, minutes=20)


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Train, and measure single rows."""
    from benchmarks.adapters.pecos import train_tree

    X, Y, test = (
        sparse.load_npz(Path(job["folder"]) / f"{name}.npz").tocsr() for name in ("X_train", "Y_train", "X_test")
    )
    model = train_tree(X, Y.tocsc(), {"nr_splits": 16, "max_leaf_size": 100, "threshold": 0.1}, 1)
    rng = np.random.default_rng(0)
    masks: dict[str, Any] = {"plain": None}
    for size in _SIZES:
        if size < Y.shape[1]:
            columns = np.sort(rng.choice(Y.shape[1], size, replace=False))
            ones = np.ones(size, dtype=np.float32)
            masks[f"selected {size:,}"] = sparse.csr_matrix((ones, columns, [0, size]), shape=(1, Y.shape[1]))
    times = {title: [] for title in masks}
    for turn in range(6):
        for title, mask in masks.items():
            start = time.process_time()
            for row in range(40):
                options = {} if mask is None else {"selected_outputs_csr": mask}
                model.predict(test[row], beam_size=10, only_topk=_K, threads=1, **options)
            if turn:
                times[title].append(1e3 * (time.process_time() - start) / 40)
    plain = np.median(times["plain"])
    calls = {title: (float(np.median(some)), float(np.median(some) / plain)) for title, some in times.items()}
    return {"n_labels": int(Y.shape[1]), "calls": calls}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    Path(given["answer"]).write_text(json.dumps(work(given)))
