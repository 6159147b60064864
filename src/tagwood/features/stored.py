"""`StoredRows`: features in files, for data larger than memory. In: rows of an encoder. Out: mapped CSR rows.

Kernels read the rows from memory maps and release the pages when they have read them, so that the memory of a process
is what it allocates and not the size of the files. `CountFiles` holds counts of n-grams that do not fit into memory.

Decisions: a folder is written beside its place and renamed, so its presence is its done-marker. Its name is a hash of
all that its content depends on, and its files have checksums, which are compared before a later start uses them.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from tagwood import _kernels
from tagwood._sparse import CsrParts
from tagwood.errors import InputError, StorageError
from tagwood.storage.folder import hash_file
from tagwood.storage.publish import replace_path, writing_errors

PREFIX = "features-"  # of the folders with stored rows
ENTRY_BYTES = 8  # of a stored feature
_FACTS, _INDPTR, _INDICES, _DATA = "rows.json", "indptr.bin", "indices.bin", "data.bin"
_TYPES: dict[str, Any] = {_INDPTR: np.int64, _INDICES: np.int32, _DATA: np.float32}


@dataclass(frozen=True, eq=False)
class StoredRows:
    """A CSR matrix in a folder, of which a limited part is in memory at a time.

    Parameters
    ----------
    folder
        Where the files are; on a cluster, storage that all machines share.
    parts
        The arrays; indices and data are maps of the files.
    fingerprint
        Hash of all that the content depends on.
    max_entries
        Most stored features in memory at a time, each of 8 bytes.
    """

    folder: Path
    parts: CsrParts
    fingerprint: str
    max_entries: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.parts.n_rows

    @property
    def n_cols(self) -> int:
        """Number of features."""
        return self.parts.n_cols

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(n_rows,) number of stored features of each row."""
        return np.diff(self.parts.indptr)

    def take(self, rows: NDArray[np.integer[Any]]) -> CsrParts:
        """Return rows (rising) in memory, under their own numbers: all others are empty."""
        return_memory()  # of the rows before
        taken = _kernels.take_rows(*self.parts[:3], rows.astype(np.int32), True)
        return CsrParts(*taken, self.n_cols)

    def __reduce__(self) -> tuple[Callable[..., StoredRows], tuple[Path, int, str]]:
        """Send the place of the files to other processes, not their content."""
        return _open_same_rows, (self.folder, self.max_entries, self.fingerprint)


def _open_same_rows(folder: Path, max_entries: int, fingerprint: str) -> StoredRows:
    """Map the rows that another process, maybe on another machine, has in this folder."""
    try:
        rows = open_rows(folder, max_entries)
        given = None if rows.fingerprint == fingerprint else "features of other data"
    except StorageError as error:
        given = error.reason
    if given is not None:
        hint = "Name a --work-dir on storage that all machines share."
        raise InputError(f"all machines of the cluster must see the same features in {folder}", given=given, hint=hint)
    return rows


def open_rows(folder: Path, max_entries: int, *, verify: bool = False) -> StoredRows:
    """Map the rows of a folder; with `verify`, after comparing its bytes with their checksums."""
    hint = f"Remove the folder {folder}; the same command writes it again."
    try:
        facts: dict[str, Any] = json.loads((folder / _FACTS).read_bytes())
        arrays: dict[str, NDArray[Any]] = {}
        for name, dtype in _TYPES.items():
            path, size = folder / name, facts["files"][name]["size"]
            if path.stat().st_size != size or (verify and _checksum(path) != facts["files"][name]["sha256"]):
                raise StorageError("the stored features were altered", path=path, hint=hint)
            arrays[name] = np.memmap(path, dtype, "r") if size else np.empty(0, dtype)
        indptr = np.array(arrays[_INDPTR])
        parts = CsrParts(indptr, arrays[_INDICES], arrays[_DATA], int(facts["n_cols"]))
        fingerprint = str(facts["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"the stored features cannot be read ({error})", path=folder, hint=hint) from error
    return StoredRows(folder, parts, fingerprint, max_entries)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hash_file(file.fileno(), os.fstat(file.fileno()).st_size, 1).sha256


def return_memory() -> None:
    """Return freed memory to the system, where the C library keeps it for later: glibc does, tens of megabytes."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


class RowWriter:
    """Appends rows to the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, BinaryIO] = {name: (folder / name).open("wb") for name in _TYPES}
        self._files[_INDPTR].write(np.zeros(1, dtype=np.int64).tobytes())
        self._stored = 0

    def add(self, rows: CsrParts) -> None:
        """Append the rows of a matrix."""
        self._files[_INDPTR].write((rows.indptr[1:] + self._stored).data)
        self._files[_INDICES].write(rows.indices.data)
        self._files[_DATA].write(rows.data.data)
        self._stored += rows.indices.size

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def finish(self, n_cols: int, fingerprint: str) -> None:
        """Write what is known about the rows; without it, the folder cannot be opened."""
        self.close()
        files = {
            name: {"size": (self.folder / name).stat().st_size, "sha256": _checksum(self.folder / name)}
            for name in _TYPES
        }
        facts = {"n_cols": n_cols, "fingerprint": fingerprint, "files": files}
        (self.folder / _FACTS).write_text(json.dumps(facts, indent=1), encoding="utf-8")


@contextmanager
def writing_rows(folder: Path) -> Iterator[RowWriter]:
    """Yield a writer of a new folder, which appears when `finish` was called and the context ends, or not at all."""
    with replace_path(folder, overwrite=True, folder=True) as staged:
        staged.mkdir()
        writer = RowWriter(staged)
        try:
            yield writer
        finally:
            writer.close()


def remove_rows(folder: Path) -> None:
    """Remove all stored rows in a folder."""
    for facts in folder.glob(f"{PREFIX}*/{_FACTS}"):
        shutil.rmtree(facts.parent, ignore_errors=True)


class CountFiles:
    """Counts of keys in a folder, in runs with rising keys; keys are hashes, spread evenly over 64 bits.

    Parameters
    ----------
    folder
        Removed when the context ends.
    most
        Most keys in memory at a time.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self.folder = folder
        self.most = max(1, most)
        self._runs: list[tuple[Path, Path]] = []

    def __enter__(self) -> Self:
        shutil.rmtree(self.folder, ignore_errors=True)  # of a start that was killed
        with writing_errors(self.folder):
            self.folder.mkdir(parents=True)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
        """Write a run."""
        if not keys.size:
            return
        paths = tuple(self.folder / f"{kind}-{len(self._runs)}.bin" for kind in ("keys", "counts"))
        with writing_errors(self.folder):
            for path, values in zip(paths, (keys, counts), strict=True):
                path.write_bytes(values.data)
        self._runs.append((paths[0], paths[1]))

    def merged(self, low: float, high: float) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
        """Return the keys with a count from `low` to `high` in all runs, rising, their counts, and how many keys are.

        Keys are merged a range at a time.
        """
        runs = [(np.memmap(keys, np.uint64, "r"), np.memmap(counts, np.int64, "r")) for keys, counts in self._runs]
        n_ranges = max(1, -(-sum(keys.size for keys, _ in runs) // self.most))
        borders = [np.uint64((part << 64) // n_ranges) for part in range(n_ranges)]
        starts = [[*np.searchsorted(keys, borders).tolist(), keys.size] for keys, _ in runs]
        kept: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = []
        n_keys = 0
        for part in range(n_ranges):
            found = (np.empty(0, np.uint64), np.empty(0, np.int64))
            for (keys, counts), at in zip(runs, starts, strict=True):
                own = slice(at[part], at[part + 1])
                found = _kernels.merge_counts(*found, np.array(keys[own]), np.array(counts[own]))
            use = (found[1] >= low) & (found[1] <= high)
            n_keys += found[0].size
            kept.append((found[0][use], found[1][use]))
        return np.concatenate([one for one, _ in kept]), np.concatenate([one for _, one in kept]), n_keys


def stored_centroids(rows: StoredRows, label_rows: CsrParts, max_features: int, threads: int) -> CsrParts:
    """Return what `centroid_parts` returns, from as many labels at a time as the memory for rows allows."""
    sizes = rows.sizes
    of_label = np.add.reduceat(np.append(sizes[label_rows.indices], 0), label_rows.indptr[:-1])
    of_label[np.diff(label_rows.indptr) == 0] = 0
    pieces: list[CsrParts] = []
    for first, last in runs_within(of_label, rows.max_entries):
        begin, end = label_rows.indptr[first], label_rows.indptr[last]
        own = label_rows.indices[begin:end]
        weights = (label_rows.indptr[first : last + 1] - begin, own, label_rows.data[begin:end])
        large = bool(of_label[first:last].sum() > rows.max_entries)  # one label with very many rows
        X = rows.parts if large else rows.take(np.unique(own))
        found = _kernels.label_centroids(*X, *weights, max_features, 1 if large else threads, large)
        pieces.append(CsrParts(*found, rows.n_cols))
    starts = np.cumsum([0, *(piece.indices.size for piece in pieces)])
    indptr = [piece.indptr[1:] + start for piece, start in zip(pieces, starts[:-1], strict=True)]
    return CsrParts(
        np.concatenate([np.zeros(1, dtype=np.int64), *indptr]),
        np.concatenate([piece.indices for piece in pieces]),
        np.concatenate([piece.data for piece in pieces]),
        rows.n_cols,
    )


def runs_within(sizes: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Yield runs of neighbours whose sizes sum to at most `most`, or that are one large item.

    Examples
    --------
    >>> list(runs_within(np.array([3, 4, 9, 1, 1]), 8))
    [(0, 2), (2, 3), (3, 5)]
    """
    ends = np.cumsum(sizes)
    first = 0
    while first < sizes.size:
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield first, last
        first = last
