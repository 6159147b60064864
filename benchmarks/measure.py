"""Measure in separate processes: CPU seconds, wall time, additional peak memory, latencies.

`run_job` starts a worker with the interpreter of a tool and returns what it measured. The rest runs inside the worker
and needs numpy only, because the environments of other tools do not have tagwood.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT

WARM_UP_ROWS = 20
LATENCY_SECONDS = 60.0


class JobFailedError(Exception):
    """A measured process failed or took too long."""


def run_job(
    python: Path, module: str, job: dict[str, Any], log: Path, *, threads: int, minutes: float
) -> dict[str, Any]:
    """Run ``python -m module`` on a job in a new process and return its result; the output goes to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    answer = log.with_suffix(".answer.json")
    answer.unlink(missing_ok=True)
    pools = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, **dict.fromkeys(pools, str(threads)), "PYTHONPATH": path}
    command = [str(python), "-m", module, json.dumps({**job, "answer": str(answer)})]
    with log.open("w") as output:
        options = {"stdout": output, "stderr": output, "cwd": ROOT, "env": environment}
        try:
            code = subprocess.run(command, check=False, timeout=60 * minutes, **options).returncode
        except subprocess.TimeoutExpired:
            raise JobFailedError(f"stopped after {minutes:g} minutes") from None
    if code != 0 or not answer.exists():
        raise JobFailedError(f"ended with code {code}, see {log.relative_to(ROOT)}")
    result: dict[str, Any] = json.loads(answer.read_text())
    answer.unlink()
    return result


def fastest(jobs: dict[str, Callable[[], object]], turns: tuple[int, int], seconds: float = 0.0) -> dict[str, float]:
    """Return the wall milliseconds of the fastest run of each job; the jobs take turns.

    `turns` are the fewest and most runs of each job; between these, no more start after `seconds`.
    """
    best = dict.fromkeys(jobs, float("inf"))
    begin = time.perf_counter()
    for turn in range(turns[1]):
        if turn >= turns[0] and time.perf_counter() - begin > seconds:
            break
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            best[name] = min(best[name], 1e3 * (time.perf_counter() - start))
    return best


class Meter:
    """Measure what happens inside a ``with`` block.

    Attributes after the block: `wall` and `cpu` seconds (all threads and child processes), `peak_mb` (the
    highest resident set beyond that at the start, so data loaded before does not count) and `others` (mean number of
    cores that other processes used meanwhile: 0 on a quiet machine).
    """

    def __enter__(self) -> Meter:
        gc.collect()
        give_back_memory()
        self._before = resident_mb("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the highest resident set starts anew
        self._busy, self._cpu, self._wall = _machine_cpu(), cpu_seconds(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self._wall
        self.cpu = cpu_seconds() - self._cpu
        self.others = max(0.0, _machine_cpu() - self._busy - self.cpu) / max(self.wall, 1e-9)
        self.peak_mb = max(0.0, resident_mb("VmHWM") - self._before)

    def as_dict(self, prefix: str) -> dict[str, float]:
        """Return the figures, their names starting with `prefix`."""
        return {f"{prefix}_{key}": getattr(self, key) for key in ("wall", "cpu", "peak_mb", "others")}


def cpu_seconds() -> float:
    """Return the CPU seconds of this process, its threads and its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def least_cpu_seconds(work: Callable[[], object], repeats: int = 1) -> float:
    """Return the CPU seconds of this process in the fastest of several runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def latencies_ms(ask: Callable[[Any], object], rows: Sequence[Any]) -> dict[str, float]:
    """Ask for one row at a time; return p50, p99 and the first answer, in milliseconds."""
    times: list[float] = []
    started = time.perf_counter()
    for i in range(WARM_UP_ROWS + len(rows)):
        before = time.perf_counter_ns()
        ask(rows[i % len(rows)])
        times.append((time.perf_counter_ns() - before) / 1e6)
        if i > 2 * WARM_UP_ROWS and time.perf_counter() - started > LATENCY_SECONDS:
            break
    p50, p99 = np.percentile(times[WARM_UP_ROWS:], [50, 99])
    return {"p50_ms": float(p50), "p99_ms": float(p99), "first_ms": times[0]}


def repeated(work: Callable[[], Any], least_seconds: float, most: int = 5) -> tuple[Any, list[Meter]]:
    """Repeat the work up to `most` times or for `least_seconds`; return the last result and all meters."""
    meters: list[Meter] = []
    result = None
    while not meters or (sum(m.wall for m in meters) < least_seconds and len(meters) < most):
        result = None  # memory of the last result is free before the next
        with Meter() as meter:
            result = work()
        meters.append(meter)
    return result, meters


def folder_mb(folder: Path) -> float:
    """Return the size of all files of a folder in MB (10^6 bytes)."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def resident_mb(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"/proc/self/status has no {field}; this benchmark needs Linux")


def _machine_cpu() -> float:
    """Return the CPU seconds of all processes since the start of the machine."""
    user, nice, system, _idle, _wait, irq, soft, *_ = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def give_back_memory() -> None:
    """Let glibc return freed pages, so that memory freed before does not hide growth."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
