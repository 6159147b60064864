"""`Log`: one JSON object a line on stderr. In: events. Out: lines without tokens, addresses or texts."""

from __future__ import annotations

import os
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

import orjson


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
