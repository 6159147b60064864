"""What operators see: `EventLog` (JSON lines on stderr) and `ServiceMetrics` (counts for Prometheus).

In: events and requests. Out: log lines without tokens, addresses or texts, and the text of /metrics.

Decisions: prometheus_client formats the metrics but does not hold them. Its multi-process mode needs an environment
variable and a file per process and metric, and loses track of workers that were killed. Here each worker adds to its
own row of one memory-mapped table, and any worker can sum the rows; a restarted worker continues its row.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

from tagwood.tagger.drift import N_BANDS, TrainingFigures


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
        "/v1/filters",
        "/v1/filters/{name}",
        "/v1/model",
        "/v1/feedback",
        "/v1/learn",
        "/v1/progress",
        "/v1/queue",
    ),
    *("/v1/groups", "/v1/groups/{group}", "/v1/groups/{group}/corrections", "/v1/corrections"),
    *("/v1/", "/v1/vocabs", "/v1/projects", "/v1/projects/{project_id}", "/v1/projects/{project_id}/suggest"),
    *("/v1/projects/{project_id}/suggest-batch", "/v1/projects/{project_id}/learn", "/v1/detect-language"),
    *("/v1/projects/{project_id}/reconcile", "/v1/projects/{project_id}/reconcile/suggest/entity"),
    *("/v1/projects/{project_id}/reconcile/preview", "/v1/projects/{project_id}/reconcile/view"),
    *("/health", "/ready", "/metrics", "/openapi.json", "other"),
)
_ROUTE_NUMBER = {route: number for number, route in enumerate(_ROUTES)}
_STATUSES = ("1xx", "2xx", "3xx", "4xx", "5xx")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 1000)
_STAGES = ("queue", "tag")
_SCORES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_CAUSES = ("SIGKILL", "SIGSEGV", "SIGBUS", "SIGABRT", "SIGTERM", "other signal", "no model", "error")
_COUNTERS = {
    "texts": "Texts tagged.",
    "feedback": "Records of feedback and corrections stored.",
    "reloads": "Models loaded, including the first.",
    "reload_failures": "Model folders that could not be loaded.",
}
_TRAFFIC = np.dtype(
    [
        ("top_scores", "f8", (len(_SCORES) + 1,)),
        ("top_scores_sum", "f8"),
        ("bands", "f8", (N_BANDS,)),
        *((name, "f8") for name in ("words", "unknown_words", "compared", "agreement")),
        ("training", "f8", (len(TrainingFigures._fields),)),
    ]
)
_ROW = np.dtype(
    [
        ("requests", "f8", (len(_ROUTES), len(_STATUSES))),
        ("seconds", "f8", (len(_ROUTES), len(_SECONDS) + 1)),
        ("seconds_sum", "f8", (len(_ROUTES),)),
        ("batches", "f8", (len(_BATCHES) + 1,)),
        ("batches_sum", "f8"),
        ("stages", "f8", (len(_STAGES), len(_SECONDS) + 1)),
        ("stages_sum", "f8", (len(_STAGES),)),
        ("deaths", "f8", (len(_CAUSES),)),
        *((name, "f8") for name in _COUNTERS),
        ("in_flight", "f8"),
        ("ready", "f8"),
        ("model_loaded_seconds", "f8"),
        ("model_saved_seconds", "f8"),
    ]
)


class ProjectCounts:
    """Counts of the texts and answers of one project in one worker; `table` has a row per worker."""

    def __init__(self, table: NDArray[np.void], worker: int) -> None:
        self._table = table
        self._row = table[worker : worker + 1]

    def add_answer(self, top_score: float, bands: Sequence[int]) -> None:
        """Count the answer to a text by its best score and the bands of its labels."""
        self._row["top_scores"][0, bisect_left(_SCORES, top_score)] += 1
        self._row["top_scores_sum"] += top_score
        for band in bands:
            self._row["bands"][0, band] += 1

    def add_words(self, words: int, unknown: int) -> None:
        """Count words, and those among them that the encoder does not know."""
        self._row["words"] += words
        self._row["unknown_words"] += unknown

    def add_comparison(self, agreement: float) -> None:
        """Count a text that two models answered."""
        self._row["compared"] += 1
        self._row["agreement"] += agreement

    def set_training(self, figures: TrainingFigures | None) -> None:
        """Set the figures of held-out training texts of this worker's model; NaN is what is not known."""
        known = [None] * len(TrainingFigures._fields) if figures is None else figures
        self._row["training"] = [np.nan if value is None else value for value in known]

    def training(self) -> TrainingFigures:
        """Return the figures of held-out training texts of this worker's model."""
        return TrainingFigures(*(None if np.isnan(value) else float(value) for value in self._row["training"][0]))

    def sums(self) -> dict[str, Any]:
        """Return the sums over all workers, by field."""
        return {name: self._table[name].sum(axis=0) for name in _TRAFFIC.names or () if name != "training"}


class ServiceMetrics(Collector):
    """Counts of one worker, kept in its row of a table that all workers share; the last row is the supervisor's.

    `traffic` has a row per worker for each project.
    """

    def __init__(self, table: NDArray[np.void], worker: int, traffic: Mapping[str, NDArray[np.void]]) -> None:
        self._table = table
        self.projects = {project: ProjectCounts(rows, worker) for project, rows in traffic.items()}
        self.filter_ages: dict[str, Callable[[], Mapping[str, float]]] = {}  # by project
        self._worker = worker
        self._requests = table["requests"][worker]
        self._seconds = table["seconds"][worker]
        self._seconds_sum = table["seconds_sum"][worker]
        self._batches = table["batches"][worker]
        self._in_flight = table["in_flight"][worker : worker + 1]
        self.set_in_flight(0)  # a worker that was killed could not reset it
        self.set_ready(False)
        self._saved: dict[object, float] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    @classmethod
    def in_memory(cls, projects: Iterable[str] = ()) -> ServiceMetrics:
        """Return the counts of a service with one worker."""
        return cls(np.zeros(1, _ROW), 0, {project: np.zeros(1, _TRAFFIC) for project in projects})

    @classmethod
    def shared(cls, path: Path, workers: int, worker: int, projects: Sequence[str]) -> ServiceMetrics:
        """Return the counts of one of several workers, or of the supervisor (`worker` = `workers`)."""
        rows = workers + 1
        size = rows * (_ROW.itemsize + len(projects) * _TRAFFIC.itemsize)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # New bytes are zero, existing counts stay. A full disk is an error here, not a signal at the first count.
            os.posix_fallocate(file, 0, size)
        finally:
            os.close(file)
        everything = np.memmap(path, dtype=np.uint8, mode="r+", shape=(size,))
        table, rest = everything[: rows * _ROW.itemsize], everything[rows * _ROW.itemsize :]
        parts = rest.reshape(len(projects), -1)
        traffic = {project: part.view(_TRAFFIC) for project, part in zip(projects, parts, strict=True)}
        return cls(table.view(_ROW), worker, traffic)

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

    def stage(self, name: str, seconds: float) -> None:
        """Count the time of a stage of an answer: queue or tag."""
        number = _STAGES.index(name)
        row = self._table[self._worker : self._worker + 1]
        row["stages"][0, number, bisect_left(_SECONDS, seconds)] += 1
        row["stages_sum"][0, number] += seconds

    def death(self, code: int, no_model: int) -> str:
        """Count the end of a worker with an exit code, which is `no_model` if it had none; return its cause."""
        cause = "no model" if code == no_model else "error"
        if code < 0:
            name = signal.Signals(-code).name if -code in {*signal.Signals} else ""
            cause = name if name in _CAUSES else "other signal"
        self._table["deaths"][self._worker, _CAUSES.index(cause)] += 1
        return cause

    def add(self, name: str, amount: float = 1.0) -> None:
        """Add to a counter: texts, feedback, reloads or reload_failures."""
        self._table[name][self._worker] += amount

    def set_in_flight(self, requests: int) -> None:
        """Set the number of open requests."""
        self._in_flight[0] = requests

    def set_ready(self, ready: bool) -> None:
        """Set whether this worker has its models."""
        self._table["ready"][self._worker] = ready

    def others_ready(self) -> bool:
        """Whether another worker has its models."""
        return bool(np.delete(self._table["ready"], self._worker).any())

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
        stages = HistogramMetricFamily("tagwood_stage_seconds", "Time of the stages of an answer.", labels=("stage",))
        for number, stage in enumerate(_STAGES):
            counted = _buckets(_SECONDS, table["stages"][:, number].sum(axis=0))
            stages.add_metric((stage,), counted, table["stages_sum"][:, number].sum())
        yield stages
        deaths = CounterMetricFamily(
            "tagwood_worker_deaths", "Workers that ended and were replaced.", labels=("cause",)
        )
        for cause, number in zip(_CAUSES, table["deaths"].sum(axis=0), strict=True):
            deaths.add_metric((cause,), number)
        yield deaths
        yield from self._collect_traffic()
        yield from self._collect_filters()
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"tagwood_{name}", text, value=table[name].sum())
        yield GaugeMetricFamily("tagwood_in_flight", "Open requests.", value=table["in_flight"].sum())
        yield GaugeMetricFamily("tagwood_ready_workers", "Workers that have their models.", value=table["ready"].sum())
        loaded = table["model_loaded_seconds"].max()
        yield GaugeMetricFamily(
            "tagwood_model_loaded_seconds", "Unix time at which the newest model was loaded.", value=loaded
        )
        saved = table["model_saved_seconds"]
        age = time.time() - saved[saved > 0].min() if (saved > 0).any() else 0.0
        yield GaugeMetricFamily(
            "tagwood_model_age_seconds", "Seconds since the oldest model in use was saved.", value=max(0.0, age)
        )

    def _collect_filters(self) -> Iterator[Metric]:
        ages = GaugeMetricFamily(
            "tagwood_filter_age_seconds", "Seconds since a named filter was stored.", labels=("project", "filter")
        )
        for project, known in self.filter_ages.items():
            for name, age in known().items():
                ages.add_metric((project, name), age)
        yield ages

    def _collect_traffic(self) -> Iterator[Metric]:
        """Yield what tells whether texts and answers change over time, by project."""
        by = ("project",)
        scores = HistogramMetricFamily("tagwood_top_score", "Best score of a text.", labels=by)
        bands = CounterMetricFamily(
            "tagwood_suggested_labels", "Suggested labels by frequency in training.", labels=("project", "band")
        )
        names = {
            "words": "Words looked up, in a sample of texts.",
            "unknown_words": "Words among them that the model does not know.",
            "compared": "Texts that the candidate model answered, too.",
            "agreement": "Sum of the agreement of both answers, 0 to 1 per text.",
        }
        counters = {name: CounterMetricFamily(f"tagwood_{name}", text, labels=by) for name, text in names.items()}
        training = GaugeMetricFamily(
            "tagwood_training_texts", "Figures of held-out training texts.", labels=("project", "figure")
        )
        for project, counts in self.projects.items():
            sums = counts.sums()
            scores.add_metric((project,), _buckets(_SCORES, sums["top_scores"]), sums["top_scores_sum"])
            for band, number in enumerate(sums["bands"], start=1):
                bands.add_metric((project, str(band)), number)
            for name, counter in counters.items():
                counter.add_metric((project,), sums[name])
            for name, value in counts.training()._asdict().items():
                if value is not None:
                    training.add_metric((project, name), value)
        yield from (scores, bands, *counters.values(), training)

    def text(self) -> bytes:
        """Return the sums over all workers in the text format of Prometheus."""
        return generate_latest(self._registry)


def _buckets(bounds: Sequence[float], counts: NDArray[np.float64]) -> list[tuple[str, float]]:
    names = [*(f"{bound:g}" for bound in bounds), "+Inf"]
    return list(zip(names, np.cumsum(counts).tolist(), strict=True))
