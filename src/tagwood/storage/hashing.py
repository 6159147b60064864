"""SHA-256 of files, and stamps that remember which files were hashed already.

A stamp is an empty file in the user's cache folder. Its name is a hash of the model file's device, inode, size,
times of change and expected SHA-256: any later write, copy or replacement gives another name, and the file is
hashed again. Without a writable cache folder there are no stamps, and every load hashes.

Decisions: `ctime` is part of the name because ordinary programs cannot set it back, unlike `mtime`. A file that
changed a moment ago gets no stamp, because a second change within the same clock tick would leave the same times.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

BLOCK = 16 << 20
_CHUNK = 1 << 20
_TICK_NS = 20_000_000  # twice the coarsest kernel tick (100 Hz)
_COARSE_NS = 2_000_000_000  # file systems that keep whole seconds
_MAX_STAMPS = 4096


class Digest(NamedTuple):
    """The hashes of one file, in lower-case hex.

    `sha256` is that of the whole file, `blocks` the concatenated hashes of its 16 MiB blocks (empty for a file of
    at most one block), which threads compute in parallel.
    """

    sha256: str
    blocks: str

    @property
    def key(self) -> str:
        """A short hash of both."""
        return hashlib.sha256((self.sha256 + self.blocks).encode()).hexdigest()


def hash_file(fd: int, size: int, threads: int) -> Digest:
    """Hash the `size` bytes of an open file, whole and by blocks."""
    if size <= BLOCK:
        return Digest(_hash_range(fd, 0, size), "")
    with ThreadPoolExecutor(threads) as pool:
        whole = pool.submit(_hash_range, fd, 0, size)
        blocks = pool.map(
            lambda begin: _hash_range(fd, begin, min(begin + BLOCK, size)), range(0, size, BLOCK)
        )
        return Digest(whole.result(), "".join(blocks))


def find_damage(fd: int, size: int, expected: Digest, threads: int) -> tuple[int, int] | None:
    """Return the first byte range whose hash is not the expected one, or None if all are."""
    if size <= BLOCK:
        return None if _hash_range(fd, 0, size) == expected.sha256 else (0, size)
    begins = range(0, size, BLOCK)
    with ThreadPoolExecutor(min(threads, len(begins))) as pool:
        hashes = list(pool.map(lambda begin: _hash_range(fd, begin, min(begin + BLOCK, size)), begins))
    for place, (begin, found) in enumerate(zip(begins, hashes, strict=True)):
        if found != expected.blocks[64 * place : 64 * (place + 1)]:
            return begin, min(begin + BLOCK, size)
    return None


def _hash_range(fd: int, begin: int, end: int) -> str:
    # pread, not the memory map: a failing disk raises OSError instead of killing the process.
    hasher = hashlib.sha256()
    while begin < end:
        chunk = os.pread(fd, min(_CHUNK, end - begin), begin)
        if not chunk:
            break
        hasher.update(chunk)
        begin += len(chunk)
    return hasher.hexdigest()


def is_settled(info: os.stat_result) -> bool:
    """Return whether any later change is certain to give the file another time of change."""
    last = max(info.st_mtime_ns, info.st_ctime_ns)
    coarse = info.st_ctime_ns % 1_000_000_000 == 0
    return time.time_ns() - last > (_COARSE_NS if coarse else _TICK_NS)


def wait_until_settled(info: os.stat_result) -> bool:
    """Wait one tick if necessary, and return whether the file has settled."""
    if not is_settled(info):
        time.sleep(1.5 * _TICK_NS / 1e9)
    return is_settled(info)


def has_stamp(info: os.stat_result, digest: str) -> bool:
    """Return whether this file is known to have this digest."""
    folder = _cache_folder()
    # os.path.exists also works where the folder may not be entered.
    return folder is not None and os.path.exists(folder / _name(info, digest))  # noqa: PTH110


def write_stamp(info: os.stat_result, digest: str) -> None:
    """Remember that this file has this digest; an unwritable cache is not an error."""
    folder = _cache_folder()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _name(info, digest)).touch()
        _forget_oldest(folder)


def _name(info: os.stat_result, digest: str) -> str:
    facts = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, digest)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _cache_folder() -> Path | None:
    # XDG base directory rules: an unset, empty or relative value means the default.
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # noqa: PTH117 - Path() would have to be built first
        return Path(base) / "tagwood" / "verified"
    try:
        return Path.home() / ".cache" / "tagwood" / "verified"
    except RuntimeError:
        return None


def _forget_oldest(folder: Path) -> None:
    stamps = list(os.scandir(folder))
    if len(stamps) > _MAX_STAMPS:
        stamps.sort(key=lambda entry: entry.stat().st_mtime_ns)
        for entry in stamps[: len(stamps) // 2]:
            os.unlink(entry.path)  # noqa: PTH108 - DirEntry has the path as text
