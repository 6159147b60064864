"""`Supervisor`: starts the workers of a service, starts them again when they die, and ends them in peace.

In: a model folder, settings, an address. Out: a service, until a signal ends it: SIGTERM and SIGINT stop it after the
requests in work, SIGHUP makes all workers look for a new model. Needs a system of the Unix family.
"""

from __future__ import annotations

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
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from tagwood.errors import InputError
from tagwood.service.settings import GRACEFUL, NO_MODEL, Settings

_BACKLOG = 2048
_SETTLED = 5.0  # seconds after which a worker counts as healthy
_LONGEST_PAUSE = 10.0


@dataclass
class _Worker:
    """A worker's process and how its starts went."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    ready: bool = False
    failures: int = 0
    start_at: float = 0.0


def open_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket, or raise `InputError` if the address cannot be had."""
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


class Supervisor:
    """Runs a service.

    Parameters
    ----------
    model
        The model folder.
    settings
        Of the service.
    sock
        Listening.
    workers
        Number of processes.
    log_requests
        Whether each request gets a line in the log.
    on_ready
        Called once, when all workers answer.
    """

    def __init__(
        self,
        model: Path,
        settings: Settings,
        sock: socket.socket,
        *,
        workers: int = 1,
        log_requests: bool = True,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        self._model = model
        self._settings = settings
        self._sock = sock
        self._log_requests = log_requests
        self._on_ready = on_ready
        self._workers = [_Worker(number) for number in range(workers)]
        self._selector = selectors.DefaultSelector()
        self._stopping = False
        self._gave_up = False

    def run(self) -> bool:
        """Serve until a signal comes; False if no worker could load the model."""
        folder = Path(tempfile.mkdtemp(prefix="tagwood-serve-"))
        self._settings = replace(self._settings, run_folder=folder)
        before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)
        }
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._on_hangup)
        try:
            while not self._stopping:
                self._turn()
            self._stop()
        finally:
            for worker in self._workers:
                if worker.process is not None and worker.process.poll() is None:
                    worker.process.kill()
            for number, handler in before.items():
                signal.signal(number, handler)
            shutil.rmtree(folder, ignore_errors=True)
        return not self._gave_up

    def _turn(self) -> None:
        """Start who should run, and hear what happened."""
        now = time.monotonic()
        for worker in self._workers:
            if worker.process is None and now >= worker.start_at:
                self._start(worker)
        for key, _ in self._selector.select(0.2):
            worker = key.data
            said = os.read(key.fd, 4096)
            if said:
                self._on_word(worker)
            else:
                self._on_end(worker)

    def _start(self, worker: _Worker) -> None:
        job: dict[str, Any] = {
            "model": str(self._model),
            "settings": self._settings.to_dict(),
            "worker": worker.number,
            "workers": len(self._workers),
            "socket": self._sock.fileno(),
            "log_requests": self._log_requests,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "tagwood.service.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self._sock.fileno()],
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it is gone already, which its stdout will say
        self._selector.register(process.stdout, selectors.EVENT_READ, worker)
        worker.process, worker.started, worker.ready = process, time.monotonic(), False

    def _on_word(self, worker: _Worker) -> None:
        worker.ready = True
        if self._on_ready is not None and all(one.ready for one in self._workers):
            self._on_ready()
            self._on_ready = None

    def _on_end(self, worker: _Worker) -> None:
        """Start a dead worker again: at once if it had been healthy, else after a pause that grows."""
        process = worker.process
        assert process is not None
        assert process.stdout is not None
        assert process.stdin is not None
        self._selector.unregister(process.stdout)
        process.stdout.close()
        process.stdin.close()
        code = process.wait()
        if code == NO_MODEL and self._on_ready is not None:
            self._gave_up = self._stopping = True  # it never worked: better to say so than to try for ever
        settled = worker.ready and time.monotonic() - worker.started > _SETTLED
        worker.failures = 0 if settled else worker.failures + 1
        pause = 0.0 if worker.failures <= 1 else min(_LONGEST_PAUSE, 0.25 * 2**worker.failures)
        worker.process, worker.ready, worker.start_at = None, False, time.monotonic() + pause

    def _stop(self) -> None:
        """Ask all workers to end, and wait for the requests in work."""
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
                    pipe.close()
        self._selector.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _on_hangup(self, number: int, frame: FrameType | None) -> None:
        for worker in self._workers:
            if worker.process is not None and worker.ready:
                worker.process.send_signal(signal.SIGHUP)
