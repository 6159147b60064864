"""SHA-256 of files: of the whole, as `sha256sum` prints it, and of blocks, which threads share out."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

BLOCK = 16 << 20
_CHUNK = 1 << 20


class Digest(NamedTuple):
    """The hashes of one file.

    `sha256` is of the whole file. `blocks` is the hashes of its 16 MiB blocks, written one after the other,
    and empty for a file of at most one block. Both are lower-case hex.
    """

    sha256: str
    blocks: str

    @property
    def key(self) -> str:
        """One short text for both."""
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
    # pread, not the memory map: a failing disk then is an OSError instead of the end of the process.
    hasher = hashlib.sha256()
    while begin < end:
        chunk = os.pread(fd, min(_CHUNK, end - begin), begin)
        if not chunk:
            break
        hasher.update(chunk)
        begin += len(chunk)
    return hasher.hexdigest()
