"""`ShardStore`: results of finished tasks in a folder, so that interrupted work goes on where it stopped.

A shard is a folder like a model's: it is written beside its place and renamed, and its manifest has the checksums of
its arrays. So the presence of a shard is its done-marker, and one that was altered or damaged is refused.

Decisions: the name of a shard is a hash of everything its content depends on, the version of tagwood included. Other
data, settings or versions therefore never find it, and nothing has to be compared.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import os
from pathlib import Path
from typing import Any, Self

import numpy as np

from tagwood.errors import StorageError
from tagwood.storage.folder import MANIFEST
from tagwood.storage.publish import STAGING, remove_model
from tagwood.storage.save_load import load, save
from tagwood.storage.state import State, storable

_NOT_HASHED = ("threads", "progress")  # fields that change no result


@storable("Shard")
class Shard:
    """The result of one task, in the form in which any model is stored."""

    def __init__(self, result: State) -> None:
        self.result = result

    def state(self) -> State:
        """Return the stored form."""
        return State("Shard", parts={"result": self.result})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the shard; its arrays are maps of the file."""
        return cls(state.part("result"))


class ShardStore:
    """A folder of shards.

    Parameters
    ----------
    folder
        Created if it is absent. On a cluster it is on storage that all machines share.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = ShardStore(Path(folder))
    ...     before = "a1" in store
    ...     store.write("a1", State("Sum", params={"sum": 3}))
    ...     before, "a1" in store, store.read("a1").param("sum", int)
    (False, True, 3)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"the folder of shards cannot be created ({error.strerror})"
            raise StorageError(reason, path=folder, hint="Choose another --work-dir.") from error

    def __contains__(self, name: str) -> bool:
        return (self.folder / name / MANIFEST).exists()

    def __len__(self) -> int:
        found = (manifest.parent.name for manifest in self.folder.glob(f"*/{MANIFEST}"))
        return sum(not name.startswith(STAGING) for name in found)  # one that is being written is not finished

    def remove(self) -> None:
        """Remove all shards, and the folder if nothing else is in it."""
        for manifest in self.folder.glob(f"*/{MANIFEST}"):
            remove_model(manifest.parent)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def write(self, name: str, result: State) -> None:
        """Store a result, unless another worker has done so meanwhile."""
        try:
            save(Shard(result), self.folder / name, threads=1)
        except StorageError as error:
            full = isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)
            if full:
                raise StorageError(
                    "the disk is full; what was finished before is kept",
                    path=self.folder,
                    hint="Free some space and start the same command with --resume.",
                ) from error
            if name not in self:
                raise

    def read(self, name: str) -> State:
        """Return a stored result, after checking its bytes."""
        try:
            shard = load(self.folder / name, threads=1)
        except StorageError as error:
            raise StorageError(
                f"a shard of unfinished work cannot be used ({error.reason})",
                path=error.path,
                hint=f"Remove the folder {self.folder / name}; the same command with --resume computes it again.",
            ) from error
        assert isinstance(shard, Shard)
        return shard.result


def digest(*values: Any) -> str:
    """Return a hash of arrays, numbers, texts, and tuples, dicts and dataclasses of them; threads do not count.

    What has a `fingerprint` of its own is hashed by it.

    Examples
    --------
    >>> digest(np.arange(3)) == digest(np.arange(3)), digest(np.arange(3)) == digest(np.arange(3.0)), len(digest(1))
    (True, False, 40)
    """
    from importlib.metadata import version

    found = hashlib.sha256(version("tagwood").encode())
    _add(found, values)
    return found.hexdigest()[:40]


def _add(found: Any, value: Any) -> None:
    found.update(f"<{type(value).__name__}>".encode())
    if isinstance(value, np.ndarray):
        found.update(f"{value.dtype.str}{value.shape}".encode())
        found.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    elif isinstance(value, dict):
        for name, item in value.items():
            _add(found, (name, item))
    elif isinstance(value, tuple | list):
        found.update(str(len(value)).encode())
        for item in value:
            _add(found, item)
    elif isinstance(getattr(value, "fingerprint", None), str):
        found.update(value.fingerprint.encode())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value) if field.name not in _NOT_HASHED]
        _add(found, {name: getattr(value, name) for name in fields})
    elif hasattr(value, "get_params"):
        params = value.get_params(deep=False)
        _add(found, {name: item for name, item in params.items() if name not in _NOT_HASHED})
    elif callable(value):
        found.update(f"{value.__module__}.{value.__qualname__}".encode())
    elif value is None or isinstance(value, bool | int | float | str | os.PathLike | np.generic):
        found.update(repr(value).encode())
    else:
        raise TypeError(f"no hash of a {type(value).__name__}")
