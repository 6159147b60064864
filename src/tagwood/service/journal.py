"""`Journal`: a file of records that must not be lost. In: JSON values. Out: lines, on disk before `append` returns.

Several workers write to one file: each line is written whole, under a lock, and followed by fsync. If a crash cuts a
line short, the next writer ends it with a newline, so that only this unacknowledged line is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson

from tagwood.service.problems import ProblemError
from tagwood.storage.publish import sync_folder


class Journal:
    """Appends records to a file, which is created with its folder for the first record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._queue: list[tuple[bytes, asyncio.Future[bool]]] = []  # lines, and whether they are on disk
        self._task: asyncio.Task[None] | None = None  # a reference, since the loop holds tasks only weakly

    async def append(self, records: Sequence[Any]) -> None:
        """Store records; those that arrive during a write are written together next."""
        lines = b"".join(orjson.dumps(record) + b"\n" for record in records)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()
        self._queue.append((lines, done))
        if self._task is None:
            self._task = loop.create_task(self._write_queue())
        # An exception of the future would hold this frame, and the frame the future: a model of a request that ended
        # would stay in memory until the garbage collector runs.
        if not await done:
            raise ProblemError("not-stored", "The disk refused the record; try again later.")

    def read(self) -> bytes:
        """Return all complete lines."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return b""
        return content[: content.rfind(b"\n") + 1]

    def close(self) -> None:
        """Wait for the write in progress."""
        self._pool.shutdown(wait=True)

    async def _write_queue(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            batch, self._queue = self._queue, []
            stored = True
            try:
                lines = b"".join(line for line, _ in batch)
                await loop.run_in_executor(self._pool, append_lines, self.path, lines)
            except OSError:
                stored = False
            for done in (done for _, done in batch if not done.done()):
                done.set_result(stored)
        self._task = None


def append_lines(path: Path, lines: bytes) -> None:
    """Append complete lines to a file, all or none, and wait until they are on disk."""
    new = not path.exists()
    if new:
        path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            lines = b"\n" + lines
        try:
            _write_all(file, lines)
            os.fsync(file)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file, size)
            raise
    finally:
        os.close(file)  # this also releases the lock
    if new:
        sync_folder(path.parent)  # the name of the new file must be on disk too


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
