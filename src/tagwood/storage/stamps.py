"""Remember which files were hashed already, so that loading again takes milliseconds whatever the size.

A stamp is an empty file in the user's cache folder. Its name is a hash of the model file's device, inode,
size, times of change and expected SHA-256: any later write, copy or replacement gives another name, and the
file is hashed again. Without a usable cache folder there are no stamps, and every load hashes.

Decisions: `ctime` is part of the name because no ordinary program can set it back, unlike `mtime`. A file
that changed a moment ago gets no stamp, because a second change within the same clock tick would leave the
same times.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

_TICK_NS = 20_000_000  # twice the coarsest kernel tick (100 Hz)
_COARSE_NS = 2_000_000_000  # file systems that keep whole seconds
_MAX_STAMPS = 4096


def is_settled(info: os.stat_result) -> bool:
    """Return whether a change from now on is sure to give the file another time of change."""
    last = max(info.st_mtime_ns, info.st_ctime_ns)
    coarse = info.st_ctime_ns % 1_000_000_000 == 0
    return time.time_ns() - last > (_COARSE_NS if coarse else _TICK_NS)


def wait_until_settled(info: os.stat_result) -> bool:
    """Wait one tick, if that is all it takes, and return whether the file has settled."""
    if not is_settled(info):
        time.sleep(1.5 * _TICK_NS / 1e9)
    return is_settled(info)


def has_stamp(info: os.stat_result, digest: str) -> bool:
    """Return whether this very file was found to have this digest before."""
    folder = _cache_folder()
    # os.path.exists also answers where the folder may not be entered.
    return folder is not None and os.path.exists(folder / _name(info, digest))  # noqa: PTH110


def write_stamp(info: os.stat_result, digest: str) -> None:
    """Remember that this file has this digest; a cache that cannot be written is no error."""
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
