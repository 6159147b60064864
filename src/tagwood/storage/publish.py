"""Move a finished folder into place in one step, so that a reader never sees half a model.

The files are written to a hidden sibling folder, which is then renamed to the target. An old model is exchanged with
the new one in a single call on Linux; elsewhere it is renamed first, and renamed back on failure. Folders left by a
killed process have recognisable names and are removed by the next save beside them.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tagwood.errors import StorageError
from tagwood.storage.folder import ASIDE, FILE_NAME, MANIFEST, OPENING, find_aside

STAGING = ".tagwood-tmp-"
_STALE_SECONDS = 60
_TRIES = 20
_NOT_SUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM}


@contextlib.contextmanager
def staged_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a new folder beside `target`; on a clean exit it becomes `target`, otherwise it is removed."""
    check_replaceable(target, overwrite=overwrite)
    staged = target.parent / f"{STAGING}{secrets.token_hex(6)}"
    staged.mkdir()
    lock = os.open(staged, os.O_RDONLY)
    try:
        _try_lock(lock)
        yield staged
        _sync_folder(staged)
        _publish(staged, target, overwrite=overwrite)
        _sync_folder(target.parent)
        _remove_stale(target)
    finally:
        os.close(lock)
        # After a failure this is the unfinished model, after an exchange the old one.
        _remove_model(staged)


def check_replaceable(target: Path, *, overwrite: bool) -> None:
    """Raise `StorageError` unless `target` is absent, empty, or a model folder that may be replaced."""
    try:
        paths = sorted(target.iterdir())
        ours = _starts_as_manifest(target / MANIFEST)
        foreign = [path for path in paths if not _is_ours(path)]
    except FileNotFoundError:  # absent, or just being replaced by another process
        return
    except NotADirectoryError:
        raise StorageError("a file has this name already", path=target, hint="Choose another name.") from None
    if not paths:
        return
    if not ours or foreign:
        what = f"it also contains '{foreign[0].name}'" if ours else "it is not a tagwood model"
        raise StorageError(
            f"the folder exists and is not replaced, because {what}",
            path=target,
            hint="Choose another name, or move those files away first.",
        )
    if not overwrite:
        raise StorageError(
            "there is a model in this folder already",
            path=target,
            hint="Choose another name, or pass overwrite=True to replace it (--force).",
        )


def _publish(staged: Path, target: Path, *, overwrite: bool) -> None:
    for _ in range(_TRIES):
        try:
            staged.rename(target)  # works if the target is absent or an empty folder
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        check_replaceable(target, overwrite=overwrite)
        if _exchange(staged, target) or _replace_in_two_steps(staged, target):
            return
    raise StorageError("other processes keep replacing this folder", path=target, hint="Save to another folder.")


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False if the system cannot do that."""
    if sys.platform != "linux":
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_SUPPORTED or code == errno.ENOENT:
        return False
    raise OSError(code, os.strerror(code), str(other))


def _replace_in_two_steps(staged: Path, target: Path) -> bool:
    """Replace `target` in two steps; False if another process interfered, so that the caller tries again."""
    aside = target.parent / f"{ASIDE}{target.name}-{secrets.token_hex(6)}"
    try:
        target.rename(aside)
    except FileNotFoundError:
        return False
    try:
        staged.rename(target)
    except BaseException:
        if os.path.lexists(target):  # a newer model of another process: replace that one
            _remove_model(aside)
            return False
        aside.rename(target)
        raise
    _remove_model(aside)
    return True


def _remove_stale(target: Path) -> None:
    """Remove leftovers of killed processes: unfinished folders, and old models that were replaced."""
    for folder in [*target.parent.glob(f"{STAGING}*"), *find_aside(target)]:
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _STALE_SECONDS and _is_abandoned(folder):
                _remove_model(folder)


def _is_abandoned(folder: Path) -> bool:
    fd = os.open(folder, os.O_RDONLY)
    try:
        return _try_lock(fd)
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    # The system releases the lock when the process ends for any reason.
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_model(folder: Path) -> None:
    """Remove the files of a model and then the folder, unless it contains other files."""
    with contextlib.suppress(OSError):
        for path in sorted(folder.iterdir()):
            if _is_ours(path):
                path.unlink(missing_ok=True)
        folder.rmdir()


def _is_ours(path: Path) -> bool:
    named = path.name == MANIFEST or FILE_NAME.fullmatch(path.name) is not None
    return named and stat.S_ISREG(path.lstat().st_mode)


def _starts_as_manifest(path: Path) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(len(OPENING)) == OPENING


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    with contextlib.suppress(OSError):  # some file systems cannot flush folders
        os.fsync(fd)
    os.close(fd)
