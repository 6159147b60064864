"""`Supervisor`: starts the workers of a service, restarts them when they die, and stops them gracefully.

In: model folders, settings, a socket. Out: a running service. SIGTERM and SIGINT stop it after the open requests,
SIGHUP makes all workers check for new models. Needs a Unix system.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from tagwood.errors import InputError, TagwoodError
from tagwood.service.observability import EventLog, ServiceMetrics
from tagwood.service.settings import COUNTS, GRACEFUL, NO_MODEL, ServedModel, ServiceSettings

_BACKLOG = 2048
_HEALTHY = 5.0  # seconds after which a worker counts as healthy
_MAX_PAUSE = 10.0
_PATIENCE = 5.0  # seconds that a restarted worker waits for a model before it answers that it has none
_MAX_FAILURES = 4  # after which a service that was never ready gives up
_STUCK = 30.0  # seconds without CPU time after which a worker that is not ready is ended
_PREFIX = "tagwood-serve-"
_REASONS = {
    "SIGBUS": "SIGBUS: a file of the model was cut off while it was in use, or the temporary folder is full",
    "SIGKILL": "SIGKILL: killed, perhaps because memory ran out",
}
# An import fails if memory is short; the supervisor is told why.
_WORKER = """
try:
    from tagwood.service.worker import main
except Exception as error:
    print(f"failed {type(error).__name__}: {error}", flush=True)
    raise SystemExit(1)
main()
"""


@dataclass
class _Worker:
    """The process of a worker, and its recent failures."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    ready: bool = False
    failures: int = 0
    start_at: float = 0.0
    reason: str = ""  # what it wrote when it failed
    cpu_ticks: int = -1
    busy_at: float = 0.0  # when it was last seen to use CPU time

    def is_stuck(self, now: float) -> bool:
        """Whether the process sleeps and has used no CPU time for long: a thread that died for lack of memory, say.

        One that waits for a slow disk does not sleep, in the words of Linux; elsewhere nothing is known.
        """
        assert self.process is not None
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        ticks = int(fields[11]) + int(fields[12])
        if fields[0] != "S" or ticks != self.cpu_ticks:
            self.cpu_ticks, self.busy_at = ticks, now
        return now - self.busy_at > _STUCK


def open_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket, or raise `InputError` if the address cannot be used."""
    sock = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        sock = socket.socket(found[0], found[1])
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(found[4])
    except OSError as error:
        if sock is not None:
            sock.close()
        raise InputError(
            f"the address {host}:{port} must be free and on this machine",
            given=error.strerror or str(error),
            hint="Choose another with --host or --port.",
        ) from error
    sock.listen(_BACKLOG)
    return sock


def _run_folder() -> Path:
    """Return a new folder for the files that the workers share; those of services that were killed are removed."""
    for old in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(old, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                mine = os.fstat(lock).st_uid == os.getuid() and time.time() - os.fstat(lock).st_mtime > _HEALTHY
                if mine:
                    shutil.rmtree(old, ignore_errors=True)
            finally:
                os.close(lock)
    return Path(tempfile.mkdtemp(prefix=_PREFIX))


class Supervisor:
    """Runs a service in `workers` processes on a listening socket; `on_ready` is called once, when all are ready.

    `models` are the served models by the ids of their projects.
    """

    def __init__(
        self,
        models: Mapping[str, ServedModel],
        settings: ServiceSettings,
        sock: socket.socket,
        *,
        workers: int = 1,
        log_requests: bool = True,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        self._models = models
        self._settings = settings
        self._sock = sock
        self._log_requests = log_requests
        self._on_ready = on_ready
        self._workers = [_Worker(number) for number in range(workers)]
        self._selector = selectors.DefaultSelector()
        self._stopping = False
        self._gave_up = False
        self._reason = ""
        self._log = EventLog(-1)

    def run(self) -> bool:
        """Serve until a signal arrives; return False if no worker could load the model.

        Workers that cannot start at all raise `TagwoodError` with the reason.
        """
        folder = _run_folder()
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._settings = replace(self._settings, run_folder=folder)
        workers = len(self._workers)
        self._metrics = ServiceMetrics.shared(folder / COUNTS, workers, workers, list(self._models))
        handlers = {
            signal.SIGTERM: self._on_stop,
            signal.SIGINT: self._on_stop,
            signal.SIGHUP: self._on_hangup,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            while not self._stopping:
                self._step()
            self._stop()
        finally:
            for worker in self._workers:
                if worker.process is not None and worker.process.poll() is None:
                    worker.process.kill()
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(lock)
            shutil.rmtree(folder, ignore_errors=True)
        if self._reason:
            raise TagwoodError(
                "the workers of the service could not be started",
                given=self._reason,
                hint="Free memory or disk space, or start fewer workers (--workers).",
            )
        return not self._gave_up

    def _step(self) -> None:
        """Start workers that should run, and handle events of the others."""
        now = time.monotonic()
        for worker in self._workers:
            if worker.process is None and now >= worker.start_at:
                self._start(worker)
            elif worker.process is not None and not worker.ready and worker.is_stuck(now):
                worker.reason = "it hangs while it starts, perhaps because memory ran out"
                worker.process.kill()
        for key, _ in self._selector.select(0.2):
            said = os.read(key.fd, 4096)
            if said.startswith(b"failed "):
                key.data.reason = said[7:].decode(errors="replace").strip()
            elif said.startswith(b"ready"):
                self._on_ready_line(key.data)
            elif not said:
                self._on_end(key.data)

    def _start(self, worker: _Worker) -> None:
        job: dict[str, Any] = {
            "models": {project: served.to_dict() for project, served in self._models.items()},
            "settings": self._settings.to_dict(),
            "worker": worker.number,
            "workers": len(self._workers),
            "socket": self._sock.fileno(),
            "log_requests": self._log_requests,
            "patience": _PATIENCE if self._on_ready is None else 0.0,
        }
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", _WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[self._sock.fileno()],
            )
        except OSError as error:  # too many processes or open files, or too little memory
            worker.reason = error.strerror or str(error)
            self._on_failure(worker, healthy=False)
            return
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended already; the end of its stdout will tell
        self._selector.register(process.stdout, selectors.EVENT_READ, worker)
        worker.process, worker.started, worker.ready, worker.reason = process, time.monotonic(), False, ""
        worker.cpu_ticks = -1

    def _on_ready_line(self, worker: _Worker) -> None:
        worker.ready = True
        if self._on_ready is not None and all(one.ready for one in self._workers):
            self._on_ready()
            self._on_ready = None
            # From here on, a worker that finds no model waits for one, and at last answers that it is not ready.
            self._settings = replace(self._settings, wait_for_model=True)

    def _on_end(self, worker: _Worker) -> None:
        """Collect a dead worker."""
        process = worker.process
        assert process is not None
        assert process.stdout is not None
        assert process.stdin is not None
        self._selector.unregister(process.stdout)
        process.stdout.close()
        with contextlib.suppress(OSError):  # the job of a worker that was killed at once is still in the buffer
            process.stdin.close()
        code = process.wait()
        if code == NO_MODEL and self._on_ready is not None:
            self._gave_up = self._stopping = True  # the model never loaded: give up instead of retrying
        if not self._stopping:
            cause = self._metrics.death(code, NO_MODEL)
            worker.reason = worker.reason or (f"exit code {code}" if code >= 0 else _REASONS.get(cause, cause))
        self._on_failure(worker, healthy=worker.ready and time.monotonic() - worker.started > _HEALTHY)

    def _on_failure(self, worker: _Worker, *, healthy: bool) -> None:
        """Restart a worker: at once if it was healthy, else after a growing pause; give up if none ever started."""
        worker.failures = 0 if healthy else worker.failures + 1
        if not self._stopping:
            self._log.event("worker ended", number=worker.number, reason=worker.reason, failures=worker.failures)
        if worker.failures >= _MAX_FAILURES and self._on_ready is not None:
            self._reason, self._stopping = worker.reason, True
        pause = 0.0 if worker.failures <= 1 else min(_MAX_PAUSE, 0.25 * 2**worker.failures)
        worker.process, worker.ready, worker.start_at = None, False, time.monotonic() + pause

    def _stop(self) -> None:
        """Stop all workers, and wait for their open requests; new connections are refused."""
        self._sock.close()  # each worker closes its own
        running = [worker.process for worker in self._workers if worker.process is not None]
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + GRACEFUL + 5
        for process in running:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        self._selector.close()

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _on_hangup(self, number: int, frame: FrameType | None) -> None:
        for worker in self._workers:
            if worker.process is not None and worker.ready:
                worker.process.send_signal(signal.SIGHUP)
