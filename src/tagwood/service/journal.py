"""`Journal`: records that must not be lost. In: JSON values. Out: one line each, on the disk before `append` returns.

Several workers write to one file: each line is written whole, under a lock, and followed by fsync. A line that a crash
cut short is closed off by the next writer, so that readers lose that line only, which nobody was told is stored.
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


class Journal:
    """Appends records to a file.

    Parameters
    ----------
    path
        The file; it is made, with its folder, when the first record comes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._working = False
        self._task: asyncio.Task[None] | None = None  # the loop itself holds tasks only weakly

    async def append(self, records: Sequence[Any]) -> None:
        """Store records; what comes while the disk is busy is written together."""
        lines = b"".join(orjson.dumps(record) + b"\n" for record in records)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((lines, done))
        if not self._working:
            self._working = True
            self._task = loop.create_task(self._work_off())
        await done

    def read(self) -> bytes:
        """Return all whole lines."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return b""
        return content[: content.rfind(b"\n") + 1]

    def close(self) -> None:
        """Wait for what is being written."""
        self._pool.shutdown(wait=True)

    async def _work_off(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await loop.run_in_executor(
                    self._pool, append_lines, self.path, b"".join(line for line, _ in batch)
                )
            except OSError:
                problem = ProblemError("not-stored", "The disk did not take the record; try again later.")
                for _, done in batch:
                    if not done.done():
                        done.set_exception(problem)
            else:
                for _, done in batch:
                    if not done.done():
                        done.set_result(None)
        self._working = False


def append_lines(path: Path, lines: bytes) -> None:
    """Append whole lines to a file, all or none, and wait until they are on the disk."""
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
        os.close(file)  # and with it the lock
    if new:
        _sync_folder(path.parent)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _sync_folder(folder: Path) -> None:
    """Put the new file's name on the disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
