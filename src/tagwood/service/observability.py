"""What operators see: `EventLog` (JSON lines on stderr) and `ServiceMetrics` (counts for Prometheus).

In: events and requests. Out: log lines without tokens, addresses or texts, and the text of /metrics.

Decisions: prometheus_client formats the metrics but does not hold them. Its multi-process mode needs an environment
variable and a file per process and metric, and loses track of workers that were killed. Here each worker adds to its
own row of one memory-mapped table, and any worker can sum the rows; a restarted worker continues its row.
"""

from __future__ import annotations

import os
import time
import traceback
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class EventLog:
    """Writes the events of a worker to a file descriptor (None: nowhere), one JSON object per line.

    Every request has a line if `requests` is true; failures always have one.
    """

    def __init__(self, worker: int = 0, file: int | None = 2, *, requests: bool = True) -> None:
        self._worker = worker
        self._file = file
        self._requests = requests

    def event(self, event: str, **facts: Any) -> None:
        """Write an event."""
        if self._file is None:
            return
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = orjson.dumps({"time": time, "event": event, "worker": self._worker, **facts}, default=str)
        try:
            os.write(self._file, line + b"\n")
        except OSError:  # the reader of the log is gone, which must not stop the service
            self._file = None

    def request(self, request_id: str, method: str, route: str, status: int, seconds: float) -> None:
        """Write that a request was answered."""
        if self._requests:
            shown = method if method.isascii() and len(method) < 20 else "other"
            ms = round(1000 * seconds, 3)
            self.event("request", id=request_id, method=shown, route=route, status=status, ms=ms)

    def failure(self, request_id: str, error: BaseException) -> None:
        """Write where an internal error was raised, but not its message, which may contain a text."""
        frames = traceback.extract_tb(error.__traceback__)[-8:]
        places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
        self.event("failure", id=request_id, error=type(error).__name__, places=places)


_ROUTES = (
    *(
        "/v1/suggest",
        "/v1/explain",
        "/v1/labels",
        "/v1/labels/{label}",
        "/v1/tree",
        "/v1/model",
        "/v1/feedback",
    ),
    *("/v1/groups", "/v1/groups/{group}", "/v1/groups/{group}/corrections", "/v1/corrections"),
    *("/v1/", "/v1/vocabs", "/v1/projects", "/v1/projects/{project_id}", "/v1/projects/{project_id}/suggest"),
    *("/v1/projects/{project_id}/suggest-batch", "/v1/projects/{project_id}/learn", "/v1/detect-language"),
    *("/v1/projects/{project_id}/reconcile", "/v1/projects/{project_id}/reconcile/suggest/entity"),
    *("/v1/projects/{project_id}/reconcile/preview", "/v1/projects/{project_id}/reconcile/view"),
    *("/health", "/ready", "/metrics", "other"),
)
_ROUTE_NUMBER = {route: number for number, route in enumerate(_ROUTES)}
_STATUSES = ("1xx", "2xx", "3xx", "4xx", "5xx")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 1000)
_COUNTERS = {
    "texts": "Texts tagged.",
    "feedback": "Records of feedback and corrections stored.",
    "reloads": "Models loaded, including the first.",
    "reload_failures": "Model folders that could not be loaded.",
}
_ROW = np.dtype(
    [
        ("requests", "f8", (len(_ROUTES), len(_STATUSES))),
        ("seconds", "f8", (len(_ROUTES), len(_SECONDS) + 1)),
        ("seconds_sum", "f8", (len(_ROUTES),)),
        ("batches", "f8", (len(_BATCHES) + 1,)),
        ("batches_sum", "f8"),
        *((name, "f8") for name in _COUNTERS),
        ("in_flight", "f8"),
        ("model_loaded_seconds", "f8"),
        ("model_saved_seconds", "f8"),
    ]
)


class ServiceMetrics(Collector):
    """Counts of one worker, kept in its row of a table that all workers share."""

    def __init__(self, table: NDArray[np.void], worker: int) -> None:
        self._table = table
        self._worker = worker
        self._requests = table["requests"][worker]
        self._seconds = table["seconds"][worker]
        self._seconds_sum = table["seconds_sum"][worker]
        self._batches = table["batches"][worker]
        self._in_flight = table["in_flight"][worker : worker + 1]
        self.set_in_flight(0)  # a worker that was killed could not reset it
        self._saved: dict[object, float] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    @classmethod
    def in_memory(cls) -> ServiceMetrics:
        """Return the counts of a service with one worker."""
        return cls(np.zeros(1, _ROW), 0)

    @classmethod
    def shared(cls, path: Path, workers: int, worker: int) -> ServiceMetrics:
        """Return the counts of one of several workers; the first worker creates the file."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # New bytes are zero, existing counts stay. A full disk is an error here, not a signal at the first count.
            os.posix_fallocate(file, 0, workers * _ROW.itemsize)
        finally:
            os.close(file)
        return cls(np.memmap(path, dtype=_ROW, mode="r+", shape=(workers,)), worker)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        number = _ROUTE_NUMBER.get(route, len(_ROUTES) - 1)
        self._requests[number, min(max(status // 100, 1), 5) - 1] += 1
        self._seconds[number, bisect_left(_SECONDS, seconds)] += 1
        self._seconds_sum[number] += seconds

    def batch(self, size: int) -> None:
        """Count a batch of texts that were answered together."""
        self._batches[bisect_left(_BATCHES, size)] += 1
        self._table["batches_sum"][self._worker] += size

    def add(self, name: str, amount: float = 1.0) -> None:
        """Add to a counter: texts, feedback, reloads or reload_failures."""
        self._table[name][self._worker] += amount

    def set_in_flight(self, requests: int) -> None:
        """Set the number of open requests."""
        self._in_flight[0] = requests

    def set_model(self, holder: object, loaded: float, saved: float) -> None:
        """Set the Unix times at which the model of a holder was loaded and saved."""
        self._saved[holder] = saved
        self._table["model_loaded_seconds"][self._worker] = loaded
        self._table["model_saved_seconds"][self._worker] = min(self._saved.values())

    def collect(self) -> Iterator[Metric]:
        """Yield the sums over all workers."""
        table = np.asarray(self._table)
        requests = CounterMetricFamily("tagwood_requests", "Requests answered.", labels=("route", "status"))
        answered = table["requests"].sum(axis=0)
        for route, status in np.argwhere(answered):
            requests.add_metric((_ROUTES[route], _STATUSES[status]), answered[route, status])
        yield requests
        latency = HistogramMetricFamily("tagwood_request_seconds", "Time to answer.", labels=("route",))
        counts, sums = table["seconds"].sum(axis=0), table["seconds_sum"].sum(axis=0)
        for route in np.flatnonzero(counts.any(axis=1)):
            latency.add_metric((_ROUTES[route],), _buckets(_SECONDS, counts[route]), sums[route])
        yield latency
        batches = HistogramMetricFamily("tagwood_batch_texts", "Texts answered together.")
        batches.add_metric((), _buckets(_BATCHES, table["batches"].sum(axis=0)), table["batches_sum"].sum())
        yield batches
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"tagwood_{name}", text, value=table[name].sum())
        yield GaugeMetricFamily("tagwood_in_flight", "Open requests.", value=table["in_flight"].sum())
        loaded = table["model_loaded_seconds"].max()
        yield GaugeMetricFamily(
            "tagwood_model_loaded_seconds", "Unix time at which the newest model was loaded.", value=loaded
        )
        saved = table["model_saved_seconds"]
        age = time.time() - saved[saved > 0].min() if (saved > 0).any() else 0.0
        yield GaugeMetricFamily(
            "tagwood_model_age_seconds", "Seconds since the oldest model in use was saved.", value=max(0.0, age)
        )

    def text(self) -> bytes:
        """Return the sums over all workers in the text format of Prometheus."""
        return generate_latest(self._registry)


def _buckets(bounds: Sequence[float], counts: NDArray[np.float64]) -> list[tuple[str, float]]:
    names = [*(f"{bound:g}" for bound in bounds), "+Inf"]
    return list(zip(names, np.cumsum(counts).tolist(), strict=True))
