"""Outputs appear complete or not at all: models (`staged_folder`), other files and folders (`replace_path`).

Files are written to a hidden sibling folder, flushed to disk and renamed into place. An old folder is exchanged with
the new one in a single call on Linux; elsewhere it is renamed first, and renamed back on failure. Folders left by a
killed process have recognisable names and are removed by the next output beside them.

Decisions: a model that was loaded, changed and saved again replaces only the model that was loaded, because changes of
another process would be lost. Models beside each other are published one at a time, under a lock that the system
releases when a process dies: between comparing and renaming nobody else publishes. No lock is held while a model is
trained, so that a command that hangs stops no other one.

A data file and the label table beside it cannot be replaced in one call. The old pair is moved aside first,
so that a crash between the calls leaves no data (and a hint where the old ones are), never new rows with old names.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tagwood.errors import InputError, StorageError, disk_hint
from tagwood.storage.folder import ASIDE, FILE_NAME, MANIFEST, OPENING, Manifest, find_aside, read_manifest

STAGING = ".tagwood-tmp-"  # a model that is being written
PART = ".tagwood-part-"  # a folder with other outputs that are being written
_STALE_SECONDS = 5
_TRIES = 20
_NOT_SUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
_PART_NAME = re.compile(re.escape(PART) + "[0-9a-f]{12}")


@contextlib.contextmanager
def staged_folder(target: Path, *, overwrite: bool, replaces: Manifest | None = None) -> Iterator[Path]:
    """Yield a new folder beside `target`; on a clean exit it becomes `target`, otherwise it is removed.

    With `replaces`, only the model with that manifest is replaced; another one raises `StorageError`.
    """
    check_replaceable(target, overwrite=overwrite)
    # After a failure the folder is the unfinished model, after an exchange the old one.
    with _locked_folder(target.parent, STAGING, remove_model) as staged:
        yield staged
        sync_folder(staged)
        with _locked(target.parent):
            if replaces is not None:
                _check_unchanged(target, replaces)
            _publish(staged, target, overwrite=overwrite)
        _confirm(target)
        _remove_stale(target)


@contextlib.contextmanager
def replace_path(
    path: Path, *, overwrite: bool = False, folder: bool = False, companions: Iterable[str] = ()
) -> Iterator[Path]:
    """Yield a temporary path of the same name; what is written there becomes `path` if no error occurs.

    `companions` are names of files that may be written beside the file or inside the folder. Old ones that are not
    written again are removed, so that they are not read as part of the new data; other files stay. A disk that is
    full or fails raises `StorageError`, and what was there before is unchanged.
    """
    check_target(path, overwrite=overwrite, folder=folder)
    target = Path(os.path.realpath(path))
    with writing_errors(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked_folder(target.parent, PART, _remove_tree) as staged:
            yield staged / target.name
            _sync_tree(staged)
            if folder:
                _publish_folder(staged / target.name, target, set(companions))
            else:
                _publish_files(staged, target, set(companions))
            _confirm(target)
            _remove_stale(target)


def write_file(path: Path, content: str | bytes, *, overwrite: bool = True) -> None:
    """Write a small file, complete and flushed to disk, or raise `StorageError` and leave the old one."""
    with replace_path(path, overwrite=overwrite) as place:
        place.write_bytes(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def writing_errors(path: Path) -> Iterator[None]:
    """Raise failures of the disk as `StorageError` with the path and what to do."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        ours = error.filename is None or PART in str(error.filename) or Path(str(error.filename)) == path
        if not ours:  # a file that is being read meanwhile
            raise
        hint = f"{disk_hint(error)} What was there before is unchanged."
        raise StorageError(f"it could not be written ({error.strerror or error})", path=path, hint=hint) from error


def check_target(path: Path, *, overwrite: bool, folder: bool) -> None:
    """Raise `InputError` if `path` must not be written."""
    if not path.exists() or (folder and path.is_dir() and not any(path.iterdir())):
        return
    if not path.is_dir() and not path.is_file():
        raise InputError(f"{path} must be a file or folder", given="a device or pipe", hint="Choose another name.")
    if not overwrite:
        raise InputError(f"{path} exists already", hint="Replace it with overwrite=True (--force).")
    if folder != path.is_dir():
        kinds = ("a folder", "a file") if folder else ("a file", "a folder")
        raise InputError(f"this format is written as {kinds[0]}, but {path} is {kinds[1]}")


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


def _check_unchanged(target: Path, loaded: Manifest) -> None:
    """Raise `StorageError` if the model in a folder is not the one with this manifest."""
    if read_manifest(target) != loaded:
        raise StorageError(
            "the model was changed by another process after it was loaded here; that change is kept, this one is not",
            path=target,
            hint="Run this again: it then starts from the changed model.",
        )


def _publish_folder(place: Path, target: Path, companions: set[str]) -> None:
    """Replace a folder in one step; files of others in the old one are linked into the new one first."""
    old = sorted(target.iterdir()) if target.exists() else []
    written = {path.name for path in place.iterdir()}
    for path in old:
        if path.name in written | companions:
            continue
        if path.is_dir() and not path.is_symlink():
            hint = "Move it away, or write to a new folder."
            raise InputError(f"{target} must not contain folders", given=repr(path.name), hint=hint)
        try:
            os.link(path, place / path.name, follow_symlinks=False)
        except OSError:  # a file system without links
            shutil.copy2(path, place / path.name, follow_symlinks=False)
    _sync_tree(place)
    if not old:
        place.rename(target)
    elif not _exchange(place, target):
        _replace_in_two_steps(place, target, _remove_tree)


def _publish_files(staged: Path, target: Path, companions: set[str]) -> None:
    """Replace a file and its companions; a reader finds the old ones, the new ones, or for a moment no data file."""
    written = sorted(path.name for path in staged.iterdir())
    old = [name for name in {*written, *companions} if os.path.lexists(target.parent / name)]
    if written == [target.name] and set(old) <= {target.name}:
        (staged / target.name).replace(target)
        return
    aside = target.parent / f"{ASIDE}{target.name}-{secrets.token_hex(6)}"
    aside.mkdir()
    moves = [(target.parent / name, aside / name) for name in sorted(old, key=lambda name: name != target.name)]
    moves += [(staged / name, target.parent / name) for name in sorted(written, key=lambda name: name == target.name)]
    done: list[tuple[Path, Path]] = []
    try:
        for source, goal in moves:
            source.rename(goal)
            done.append((source, goal))
    except BaseException:
        for source, goal in reversed(done):
            goal.rename(source)
        aside.rmdir()
        raise
    _remove_tree(aside)


def _publish(staged: Path, target: Path, *, overwrite: bool) -> None:
    for _ in range(_TRIES):
        try:
            staged.rename(target)  # works if the target is absent or an empty folder
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        check_replaceable(target, overwrite=overwrite)
        if _exchange(staged, target) or _replace_in_two_steps(staged, target, remove_model):
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


def _replace_in_two_steps(staged: Path, target: Path, remove: Callable[[Path], None]) -> bool:
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
            remove(aside)
            return False
        aside.rename(target)
        raise
    remove(aside)
    return True


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, once other processes and threads have released it."""
    import fcntl

    fd = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def _locked_folder(parent: Path, prefix: str, remove: Callable[[Path], None]) -> Iterator[Path]:
    """Yield a new hidden folder; it is locked meanwhile, and removed at the end."""
    folder = parent / f"{prefix}{secrets.token_hex(6)}"
    folder.mkdir()
    try:
        lock = os.open(folder, os.O_RDONLY)
        try:
            _try_lock(lock)
            yield folder
        finally:
            os.close(lock)
    finally:
        remove(folder)


def _remove_stale(target: Path) -> None:
    """Remove leftovers of killed processes: unfinished outputs, and old ones that were replaced."""
    parts = [path for path in target.parent.glob(f"{PART}*") if _PART_NAME.fullmatch(path.name)]
    for folder in [*parts, *target.parent.glob(f"{STAGING}*"), *find_aside(target)]:
        is_model = folder.name.startswith(STAGING) or (folder / MANIFEST).exists()
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _STALE_SECONDS and _is_abandoned(folder):
                (remove_model if is_model else _remove_tree)(folder)


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


def remove_model(folder: Path) -> None:
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


def _remove_tree(folder: Path) -> None:
    for _ in range(2):  # again after a failure that passes, such as too many open files
        if folder.exists():
            shutil.rmtree(folder, ignore_errors=True)


def _confirm(target: Path) -> None:
    """Flush the new name of a target to disk; the target is in its place then, which a failure must say."""
    try:
        sync_folder(target.parent)
    except OSError as error:
        raise StorageError(
            f"it was written, but the disk did not confirm that it is stored ({error.strerror or error})",
            path=target,
            hint=f"{disk_hint(error)} Then write it again.",
        ) from error


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk; only a file system that cannot do this at all is no error."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)


def _sync_tree(folder: Path) -> None:
    """Flush all files below a folder, and the folders."""
    for path in folder.iterdir():
        if path.is_symlink():
            continue
        if path.is_dir():
            _sync_tree(path)
            continue
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    sync_folder(folder)
