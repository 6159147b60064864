"""`Telemetry`: counts of all workers of a service, as Prometheus reads them. In: events. Out: text.

Each worker writes its own row of one memory-mapped file, and any worker can add the rows up. A worker that is started
again goes on counting in the row of the one before.
"""

from __future__ import annotations

import os
import sys
import traceback
from bisect import bisect_left
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

# SECTION service.logs
# `Log`: one JSON object a line on stderr. In: events. Out: lines without tokens, addresses or texts.


class Log:
    """Writes events.

    Parameters
    ----------
    worker
        Number of the worker that writes.
    file
        File descriptor; None writes nothing.
    requests
        Whether every request gets a line; failures always do.
    """

    def __init__(self, worker: int = 0, file: int | None = 2, *, requests: bool = True) -> None:
        self._worker = worker
        self._file = file
        self._requests = requests

    def event(self, event: str, **facts: Any) -> None:
        """Write an event with its facts."""
        if self._file is None:
            return
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = orjson.dumps({"time": time, "event": event, "worker": self._worker, **facts}, default=str)
        try:
            os.write(self._file, line + b"\n")
        except OSError:  # nobody reads the log any more: that must not stop the service
            self._file = None

    def request(self, request_id: str, method: str, route: str, status: int, seconds: float) -> None:
        """Write that a request was answered."""
        if self._requests:
            shown = method if method.isascii() and len(method) < 20 else "other"
            ms = round(1000 * seconds, 3)
            self.event("request", id=request_id, method=shown, route=route, status=status, ms=ms)

    def failure(self, request_id: str, error: BaseException) -> None:
        """Write an error of ours with the places it came from, but without its words: they may hold a text."""
        frames = traceback.extract_tb(error.__traceback__)[-8:]
        places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
        self.event("failure", id=request_id, error=type(error).__name__, places=places)


def stderr_log(worker: int = 0, *, requests: bool = True) -> Log:
    """Return a log on this process's stderr."""
    return Log(worker, sys.stderr.fileno(), requests=requests)


ROUTES = (
    "/v1/suggest",
    "/v1/explain",
    "/v1/labels",
    "/v1/labels/{label}",
    "/v1/tree",
    "/v1/model",
    "/v1/feedback",
    "/v1/groups",
    "/v1/groups/{group}",
    "/v1/groups/{group}/corrections",
    "/v1/corrections",
    "/health",
    "/ready",
    "/metrics",
    "other",
)
STATUSES = ("1xx", "2xx", "3xx", "4xx", "5xx")
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 1000)
COUNTERS = ("texts", "feedback", "reloads", "reload_failures")
GAUGES = ("in_flight", "model_loaded_seconds")
_HELP = {
    "texts": "Texts that were tagged.",
    "feedback": "Feedback and corrections stored.",
    "reloads": "Models loaded, the first included.",
    "reload_failures": "Model folders that could not be loaded.",
    "in_flight": "Requests in work.",
    "model_loaded_seconds": "Unix time at which the newest model was loaded.",
}
_ROUTE = {route: number for number, route in enumerate(ROUTES)}
_N_TIMES, _N_BATCHES = len(SECONDS) + 1, len(BATCHES) + 1
_TIMES = len(ROUTES) * len(STATUSES)
_SUMS = _TIMES + len(ROUTES) * _N_TIMES
_BATCH = _SUMS + len(ROUTES)
_BATCH_SUM = _BATCH + _N_BATCHES
_SINGLE = {name: _BATCH_SUM + 1 + place for place, name in enumerate(COUNTERS + GAUGES)}
_WIDTH = _BATCH_SUM + 1 + len(_SINGLE)


class Telemetry:
    """Counts of one worker, in a row of the file that all workers share.

    Parameters
    ----------
    table
        (n_workers, width) counts.
    worker
        Number of this worker.

    Examples
    --------
    >>> counts = Telemetry.alone()
    >>> counts.request("/v1/suggest", 200, 0.002)
    >>> 'tagwood_requests_total{route="/v1/suggest",status="2xx"} 1' in counts.text().splitlines()
    True
    """

    def __init__(self, table: NDArray[np.float64], worker: int) -> None:
        self._table = table
        self._row = table[worker]
        self._row[_SINGLE["in_flight"]] = 0.0  # a worker that was killed could not count down

    @classmethod
    def alone(cls) -> Telemetry:
        """Return the counts of a service with one worker."""
        return cls(np.zeros((1, _WIDTH)), 0)

    @classmethod
    def shared(cls, path: Path, workers: int, worker: int) -> Telemetry:
        """Return the counts of one of several workers; the first of them makes the file."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(file, 8 * workers * _WIDTH)  # zeros; what others have counted stays
        finally:
            os.close(file)
        return cls(np.memmap(path, dtype=np.float64, mode="r+", shape=(workers, _WIDTH)), worker)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        number = _ROUTE.get(route, len(ROUTES) - 1)
        row = self._row
        row[number * len(STATUSES) + min(max(status // 100, 1), 5) - 1] += 1
        row[_TIMES + number * _N_TIMES + bisect_left(SECONDS, seconds)] += 1
        row[_SUMS + number] += seconds

    def batch(self, size: int) -> None:
        """Count a batch that was answered together."""
        self._row[_BATCH + bisect_left(BATCHES, size)] += 1
        self._row[_BATCH_SUM] += size

    def add(self, name: str, amount: float = 1.0) -> None:
        """Add to a counter or gauge."""
        self._row[_SINGLE[name]] += amount

    def set(self, name: str, value: float) -> None:
        """Set a gauge."""
        self._row[_SINGLE[name]] = value

    def text(self) -> str:
        """Return the sums over all workers in Prometheus' text format."""
        total = np.asarray(self._table).sum(axis=0)
        newest = np.asarray(self._table)[:, _SINGLE["model_loaded_seconds"]].max()
        lines = ["# HELP tagwood_requests_total Requests answered.", "# TYPE tagwood_requests_total counter"]
        lines += [
            f'tagwood_requests_total{{route="{route}",status="{status}"}} {count:.0f}'
            for number, route in enumerate(ROUTES)
            for place, status in enumerate(STATUSES)
            if (count := total[number * len(STATUSES) + place])
        ]
        lines += [
            "# HELP tagwood_request_seconds Time to answer.",
            "# TYPE tagwood_request_seconds histogram",
        ]
        for number, route in enumerate(ROUTES):
            begin = _TIMES + number * _N_TIMES
            counts = total[begin : begin + _N_TIMES]
            if counts.any():
                label = f'route="{route}"'
                lines += _histogram("tagwood_request_seconds", label, SECONDS, counts, total[_SUMS + number])
        lines += [
            "# HELP tagwood_batch_texts Texts answered together.",
            "# TYPE tagwood_batch_texts histogram",
        ]
        sizes = total[_BATCH : _BATCH + _N_BATCHES]
        lines += _histogram("tagwood_batch_texts", "", BATCHES, sizes, total[_BATCH_SUM])
        for name, place in _SINGLE.items():
            kind, ending = ("counter", "_total") if name in COUNTERS else ("gauge", "")
            value = newest if name == "model_loaded_seconds" else total[place]
            lines += [f"# HELP tagwood_{name}{ending} {_HELP[name]}", f"# TYPE tagwood_{name}{ending} {kind}"]
            lines.append(f"tagwood_{name}{ending} {value:.0f}")
        return "\n".join(lines) + "\n"


def _histogram(
    name: str, label: str, bounds: tuple[float, ...], counts: NDArray[np.float64], total: float
) -> list[str]:
    below = np.cumsum(counts)
    comma = "," if label else ""
    lines = [
        f'{name}_bucket{{{label}{comma}le="{bound:g}"}} {count:.0f}'
        for bound, count in zip((*bounds, float("inf")), below, strict=True)
    ]
    lines = [line.replace('le="inf"', 'le="+Inf"') for line in lines]
    braces = f"{{{label}}}" if label else ""
    return [*lines, f"{name}_sum{braces} {total:.6f}", f"{name}_count{braces} {below[-1]:.0f}"]
