"""`load`: a model out of its folder, memory-mapped, with every byte accounted for.

Decisions: hashing gigabytes on every load and loading in milliseconds exclude each other. So a file is hashed
in full the first time it is seen, by all threads, and remembered in the user's cache (see `stamps`); any
change to it, or another copy of it, is hashed again. `save` remembers at once. What remains is a disk that
changes bytes by itself, without a write: `verify=True` hashes in any case. A test flips bytes all over every
file: none loads.
"""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path
from typing import Any

from tagwood._check import check_threads
from tagwood.errors import InputError, MissingExtraError, StorageError
from tagwood.storage.folder import (
    FILE_NAME,
    MANIFEST,
    RESTORE,
    FileRecord,
    Manifest,
    Node,
    find_damage,
    read_manifest,
)
from tagwood.storage.passport import find_deviation, has_stamp, is_settled, write_stamp
from tagwood.storage.registry import class_of
from tagwood.storage.state import State
from tagwood.storage.tensors import Tensor, map_tensor, read_header

_TRIES = 5


def load(folder: str | os.PathLike[str], *, verify: bool = False, threads: int | None = None) -> Any:
    """Load a model that `save` wrote.

    The manifest, the sizes and the headers of all files are checked each time, and the SHA-256 of every byte
    the first time a file is loaded on this machine or after it changed. Later loads trust a stamp in the
    user's cache folder (``$XDG_CACHE_HOME/tagwood`` or ``~/.cache/tagwood``) and take milliseconds whatever
    the size. Arrays are read-only maps of the files: do not change files in place while a model is in use;
    `save` with ``overwrite`` is safe.

    Parameters
    ----------
    folder
        The model folder.
    verify
        Hash every file even if it has a stamp, and rank the golden inputs stored with the model again: labels
        must be the same up to ties, scores to 1e-4. Use it after moving a model to other hardware or library
        versions.
    threads
        Threads for hashing; default all cores.

    Returns
    -------
    object
        The model, of the class it was saved from.

    Raises
    ------
    StorageError
        If anything is missing, damaged, altered, of a newer format or inconsistent; names the file and what
        to do.
    """
    folder = Path(folder)
    threads = check_threads(threads)
    for left in reversed(range(_TRIES)):
        before = _identity(folder)
        try:
            model, golden = _open(folder, verify, threads)
            break
        except StorageError:
            # A save that replaced the folder meanwhile explains the failure; look at the new one.
            if not left or _identity(folder) == before:
                raise
    loaded = _restore(model, folder)
    if verify and golden is not None:
        _check_golden(loaded, golden, folder)
    return loaded


def _open(folder: Path, verify: bool, threads: int) -> tuple[State, State | None]:
    manifest = read_manifest(folder)
    _check_listing(folder, manifest)
    buffers = {name: _map(folder / name, file, verify, threads) for name, file in manifest.files.items()}
    roots = [node for node in (manifest.model, manifest.golden) if node is not None]
    places = {name: _match(folder / name, buffer, roots, name) for name, buffer in buffers.items()}
    try:
        states = [_to_state(node, buffers, places) for node in roots]
    except InputError as error:
        raise StorageError(
            f"the manifest does not make sense ({_words(error)})", path=folder / MANIFEST, hint=RESTORE
        ) from error
    return states[0], states[1] if len(states) == 2 else None


def _check_listing(folder: Path, manifest: Manifest) -> None:
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise StorageError(
            f"the folder cannot be read ({error.strerror})", path=folder, hint="Check its permissions."
        ) from error
    for name in sorted(manifest.files.keys() - names):
        raise StorageError("the file is missing", path=folder / name, hint=RESTORE)
    for name in sorted(names - manifest.files.keys()):
        if FILE_NAME.fullmatch(name):
            raise StorageError(
                "the file is not part of this model",
                path=folder / name,
                hint="Remove it, or copy the folder again: two models may have been copied into one.",
            )


def _map(path: Path, record: FileRecord, verify: bool, threads: int) -> mmap.mmap:
    """Return the file mapped into memory, once its size and its bytes are known to be right."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise StorageError(
                "this must be a regular file, not a link or folder",
                path=path,
                hint="Copy the real file here.",
            )
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            if size != record.bytes or size == 0:
                how = "cut short" if size < record.bytes else "changed"
                raise StorageError(
                    f"the file was {how}: it has {size:,} bytes instead of {record.bytes:,}",
                    path=path,
                    hint=RESTORE,
                )
            _check_bytes(fd, path, record, verify, threads)
            return mmap.mmap(fd, size, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
    except OSError as error:
        raise StorageError(
            f"the file cannot be read ({error.strerror})",
            path=path,
            hint="Check its permissions and the disk.",
        ) from error


def _check_bytes(fd: int, path: Path, record: FileRecord, verify: bool, threads: int) -> None:
    info = os.fstat(fd)
    key = record.digest.key
    if not verify and has_stamp(info, key):
        return
    settled = is_settled(info)
    damage = find_damage(fd, record.bytes, record.digest, threads)
    if damage is not None:
        raise StorageError(
            f"the file was altered or damaged: bytes {damage[0]:,} to {damage[1] - 1:,} "
            "do not have the SHA-256 they were saved with",
            path=path,
            hint=RESTORE,
        )
    after = os.fstat(fd)
    if settled and (after.st_mtime_ns, after.st_ctime_ns) == (info.st_mtime_ns, info.st_ctime_ns):
        write_stamp(info, key)


def _match(path: Path, buffer: mmap.mmap, roots: list[Node], name: str) -> dict[str, Tensor]:
    """Return the header of a file, which must hold exactly the arrays of the manifest."""
    try:
        tensors = read_header(buffer)
    except ValueError as error:
        raise StorageError(f"the file is damaged: {error}", path=path, hint=RESTORE) from None
    expected = {key: record for root in roots for key, record in root.walk() if record.file == name}
    for key in sorted(tensors.keys() ^ expected.keys()):
        where = "the manifest but not in the file" if key in expected else "the file but not in the manifest"
        raise StorageError(f"array '{key}' is in {where}", path=path, hint=RESTORE)
    for key, record in expected.items():
        found = tensors[key]
        if (found.dtype, found.shape) != (record.dtype, record.shape):
            raise StorageError(
                f"array '{key}' is {found.dtype} of shape {found.shape}, but the manifest says "
                f"{record.dtype} of shape {record.shape}",
                path=path,
                hint=RESTORE,
            )
    return tensors


def _to_state(
    node: Node, buffers: dict[str, mmap.mmap], places: dict[str, dict[str, Tensor]], prefix: str = ""
) -> State:
    arrays = {
        name: map_tensor(buffers[record.file], places[record.file][prefix + name])
        for name, record in node.arrays.items()
    }
    parts = {name: _to_state(part, buffers, places, f"{prefix}{name}/") for name, part in node.parts.items()}
    return State(node.kind, node.params, arrays, parts)


def _restore(state: State, folder: Path) -> Any:
    cls = class_of(state.kind)
    if cls is None:
        raise StorageError(
            f"the model is of the kind '{state.kind}', which this tagwood does not know",
            path=folder / MANIFEST,
            hint="Upgrade tagwood, or import the module that defines the class before you load.",
        )
    try:
        return cls.from_state(state)
    except (StorageError, MissingExtraError):
        raise
    except Exception as error:
        raise StorageError(
            f"the stored values do not make a {state.kind} ({_words(error)})", path=folder, hint=RESTORE
        ) from error


def _check_golden(model: Any, golden: State, folder: Path) -> None:
    try:
        fault = find_deviation(model, golden)
    except Exception as error:
        fault = f"ranking the golden inputs failed ({_words(error)})"
    if fault:
        raise StorageError(
            f"the model does not give the results it was saved with: {fault}",
            path=folder,
            hint="Compare the versions in manifest.json with the installed ones, or save the model again.",
        )


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(".")


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        info = folder.stat()
    except OSError:
        return None
    return info.st_dev, info.st_ino
