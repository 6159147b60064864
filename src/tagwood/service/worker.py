"""One worker process of the service, started by the `Supervisor`. In: a job on stdin. Out: answers.

The socket is open before the worker starts and stays open after it ends, so that connections in between wait. When its
stdin is closed, the supervisor is gone: the worker stops, after a few seconds whatever it is doing, and removes the run
folder. A worker that fails writes the reason to stdout, for the supervisor.

`GuardedProtocol` is uvicorn's HTTP parser with timeouts and a limit for headers. Bodies have limits of their own (see
`security`), which answer with a problem; the timeouts here also close connections that send nothing or endless headers.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import shutil
import signal
import socket
import sys
import threading
import time
from asyncio import TimerHandle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tagwood.service.app import create_app
from tagwood.service.observability import EventLog, ServiceMetrics
from tagwood.service.problems import ProblemError, problem_response
from tagwood.service.settings import COUNTS, GRACEFUL, NO_MODEL, ServedModel, ServiceSettings
from tagwood.service.state import ServiceState

_HEADER_BYTES = 65_536
_GRACE = 5.0  # seconds in which a route may still answer a slow body
_ORPHAN_SECONDS = 3.0  # for open requests, once the supervisor is gone
_MODEL_PAUSE = 0.1  # seconds between looks for a model
_KEEP_ALIVE = 75  # seconds; longer than usual proxies, so that they never use a connection being closed


class GuardedProtocol(HttpToolsProtocol):
    """One connection; `header_seconds` and `body_seconds` are its timeouts."""

    header_seconds = 15.0
    body_seconds = 20.0
    _timer: TimerHandle | None = None
    _size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout of the first request."""
        super().connection_made(transport)
        self._set_timeout(self.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout."""
        self._set_timeout(None)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Start the timeout of the headers."""
        self._size = 0
        self._set_timeout(self.header_seconds)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the URL as a header."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the timeout of the body."""
        self._set_timeout(self.body_seconds + _GRACE)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Stop the timeout: the request is complete."""
        self._set_timeout(None)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer input that is not HTTP, or has too large headers."""
        too_large = self._size > _HEADER_BYTES
        status, phrase = (431, b"Request Header Fields Too Large") if too_large else (400, b"Bad Request")
        problem = ProblemError("headers-too-large" if too_large else "invalid-request", msg)
        body = bytes(problem_response(problem, os.urandom(8).hex(), status).body)
        head = b"HTTP/1.1 %d %s\r\ncontent-type: application/problem+json\r\n" % (status, phrase)
        self.transport.write(head + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body)
        self.transport.close()

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > _HEADER_BYTES:
            raise ValueError("headers too large")  # the parser turns it into an error of its own

    def _set_timeout(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._close)

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


class Acceptor:
    """Accepts one connection per turn of the event loop, so that several workers share them evenly.

    `protocol` returns the protocol of a new connection.
    """

    def __init__(self, sock: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._sock = sock
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[Any]] = set()
        self._open = True
        sock.setblocking(False)
        self._loop.add_reader(sock, self._accept)

    def close(self) -> None:
        """Accept no more connections."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._sock)

    async def wait_closed(self) -> None:
        """Wait for connections that are being set up."""
        if self._opening:
            await asyncio.wait(self._opening)

    def _accept(self) -> None:
        try:
            connection, _ = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another worker accepted it, or the client is gone
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                raise
            self._loop.remove_reader(self._sock)  # too many open files: try again later
            self._loop.call_later(0.5, self._resume)
            return
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._talk(connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _talk(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:
            connection.close()

    def _resume(self) -> None:
        if self._open:
            self._loop.add_reader(self._sock, self._accept)


class WorkerServer(uvicorn.Server):
    """uvicorn on a shared socket; it reloads the models on SIGHUP and stops when the supervisor is gone."""

    def __init__(
        self, config: uvicorn.Config, states: Sequence[ServiceState], log: EventLog, *, patience: float = 0.0
    ) -> None:
        super().__init__(config)
        self._states = states
        self._event_log = log
        self._patience = patience
        self._metrics = states[0].metrics

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Load the models, then accept connections."""
        await self.lifespan.startup()
        if self.lifespan.should_exit or not (self._has_models() or self._states[0].settings.wait_for_model):
            await self._give_up()
        await self._wait_for_models()
        if self.should_exit:
            await self.lifespan.shutdown()
            return

        def protocol() -> asyncio.Protocol:
            return GuardedProtocol(self.config, self.server_state, self.lifespan.state)

        for state in self._states:
            state.batcher.is_alone = lambda: len(self.server_state.tasks) <= 1
        loop = asyncio.get_running_loop()
        self.servers = [Acceptor(sock, protocol) for sock in sockets or []]  # type: ignore[misc]
        loop.add_signal_handler(signal.SIGHUP, self._refresh)
        self.started = True
        self._metrics.set_ready(self._has_models())
        current = [state.holder.current_or_none for state in self._states]
        self._event_log.event("ready", models=[None if model is None else model.name for model in current])
        with contextlib.suppress(OSError):
            os.write(1, b"ready\n")

    async def on_tick(self, counter: int) -> bool:
        """Tell the other workers whether this one has its models."""
        self._metrics.set_ready(self._has_models())
        return await super().on_tick(counter)

    async def _give_up(self) -> NoReturn:
        """End without a model; a failure that may pass, such as too little memory, is for the supervisor to retry."""
        if not self.lifespan.should_exit:
            await self.lifespan.shutdown()
        for state in self._states:
            if state.failure is not None:
                raise state.failure
        sys.exit(NO_MODEL)

    def _has_models(self) -> bool:
        return all(state.holder.current_or_none is not None for state in self._states)

    async def _wait_for_models(self) -> None:
        """Leave connections to workers that have their models; without any, wait `patience` seconds for a model.

        A worker may be restarted at the moment when its model folder is being replaced or is damaged.
        """
        until = time.monotonic() + self._patience
        while not self._has_models() and (self._metrics.others_ready() or time.monotonic() < until):
            await asyncio.sleep(_MODEL_PAUSE)
            if self.should_exit:
                return
            for state in self._states:
                if not state.settings.reload_seconds:  # nobody else checks the folder
                    await state.refresh()

    def _refresh(self) -> None:
        self._tasks = [asyncio.get_running_loop().create_task(state.refresh()) for state in self._states]


def stop_with_supervisor(server: WorkerServer, run_folder: Path | None) -> None:
    """Wait in a thread for the end of stdin; then stop the server, and after a few seconds the process."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        if run_folder is not None:
            shutil.rmtree(run_folder, ignore_errors=True)
        server.should_exit = True
        time.sleep(_ORPHAN_SECONDS)
        os._exit(1)

    threading.Thread(target=wait, name="supervisor", daemon=True).start()


class _LogHandler(logging.Handler):
    """Writes uvicorn's errors to the log of the service, without the input they contain."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(logging.ERROR)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        kind = None if record.exc_info is None or record.exc_info[0] is None else record.exc_info[0].__name__
        self._log.event("server", level=record.levelname, message=str(record.msg)[:200], error=kind)


def run_worker(job: dict[str, Any]) -> None:
    """Serve until a signal or the end of stdin."""
    settings = ServiceSettings.from_dict(job["settings"])
    log = EventLog(job["worker"], sys.stderr.fileno(), requests=job["log_requests"])
    logger = logging.getLogger("uvicorn")
    logger.handlers, logger.propagate = [_LogHandler(log)], False
    models = {project: ServedModel.from_dict(values) for project, values in job["models"].items()}
    metrics = None
    if settings.run_folder is not None:
        metrics = ServiceMetrics.shared(settings.run_folder / COUNTS, job["workers"], job["worker"], list(models))
    app = create_app(models, settings, metrics=metrics, log=log)
    GuardedProtocol.body_seconds = settings.limits.body_seconds
    config = uvicorn.Config(
        app,
        http=GuardedProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=GRACEFUL,
    )
    server = WorkerServer(config, list(app.state.projects.values()), log, patience=job["patience"])
    stop_with_supervisor(server, settings.run_folder)
    server.run([socket.socket(fileno=job["socket"])])


def main() -> None:
    """Read the job and serve; a failure is one line for the supervisor."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches the whole group; the supervisor decides
    with os.fdopen(0, "rb", buffering=0, closefd=False) as stdin:  # a thread reads the rest
        job = json.loads(stdin.readline())
    try:
        run_worker(job)
    except Exception as error:
        with contextlib.suppress(OSError):
            os.write(1, f"failed {type(error).__name__}: {error}\n".encode(errors="replace"))
        sys.exit(1)
