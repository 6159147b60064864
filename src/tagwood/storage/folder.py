"""`Manifest`: the contents of manifest.json, read with a check of every field.

`read_manifest` returns frozen records of the model's tree, its arrays and its files; `manifest_bytes` returns the
bytes of the file. The second line of manifest.json is a checksum of everything after it, and the bytes before it
are fixed, so any edit is detected, even of a space.

`hash_file` computes the SHA-256 of the other files. A stamp remembers that a file was hashed: an empty file in the
user's cache folder, named by a hash of the model file's device, inode, size, times of change and expected SHA-256. Any
later write, copy or replacement gives another name, and the file is hashed again. Without a writable cache folder there
are no stamps, and every load hashes.

Decisions: `ctime` is part of the name because ordinary programs cannot set it back, unlike `mtime`. A file that changed
a moment ago gets no stamp, because a second change within the same clock tick would leave the same times.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tagwood.errors import StorageError
from tagwood.storage.state import DTYPES, MAX_DEPTH, NAME, Json
from tagwood.storage.tensors import parse_json, render_json

FORMAT = "tagwood model"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
ARRAYS = "arrays.safetensors"
GOLDEN = "golden.safetensors"
OPENING = f'{{\n  "format": "{FORMAT}",\n  "checksum": "'.encode()
ASIDE = ".tagwood-old-"
MAX_BYTES = 64 << 20
RESTORE = "Copy the folder again from its source, or save the model again."

# A plain name without separator or leading dot cannot point out of the folder.
FILE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\.safetensors")
_HEX = re.compile(r"[0-9a-f]*")
_NONE = type(None)
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


@dataclass(frozen=True)
class ArrayRecord:
    """One array: its file, dtype and shape."""

    file: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """One model, or part of a model, in the tree of a manifest."""

    kind: str
    params: dict[str, Json]
    arrays: dict[str, ArrayRecord]
    parts: dict[str, Node]

    def walk(self, prefix: str = "") -> list[tuple[str, ArrayRecord]]:
        """Return (key in the file, record) of every array in this node and below: ``members/0/weights``."""
        found = [(prefix + name, record) for name, record in self.arrays.items()]
        for name, part in self.parts.items():
            found += part.walk(f"{prefix}{name}/")
        return found


@dataclass(frozen=True)
class FileRecord:
    """One file of the folder: its size and hashes."""

    bytes: int
    digest: Digest


@dataclass(frozen=True)
class Manifest:
    """The contents of manifest.json."""

    format_version: int  # version of the folder format
    versions: dict[str, str]  # tagwood, python, numpy and scipy at the time of saving
    created: str  # UTC time of saving, ISO 8601
    # notes, fingerprint: as given to `save`, or None
    notes: str | None
    # seed, training_seconds: attributes `seed` and `training_seconds_` of the model, or None
    seed: int | None
    training_seconds: float | None
    fingerprint: str | None
    model: Node  # tree of kinds, parameters and arrays
    golden: Node | None  # stored inputs and their expected rankings, or None
    files: dict[str, FileRecord]  # size and hashes of every other file, by name

    @property
    def folder_bytes(self) -> int:
        """Size of the model folder: of the manifest and of every other file."""
        return len(manifest_bytes(self)) + sum(file.bytes for file in self.files.values())

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as JSON values, in the order of the file."""
        values: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["model"] = _node_to_json(self.model)
        values["golden"] = None if self.golden is None else _node_to_json(self.golden)
        values["files"] = {name: {"bytes": file.bytes, **file.digest._asdict()} for name, file in self.files.items()}
        return values

    @classmethod
    def from_json(cls, value: dict[str, Json]) -> Manifest:
        """Read JSON values as `to_json` writes them; raise ValueError for anything else."""
        text, number = (str, _NONE), (int, _NONE)
        fields = _check_fields(
            value,
            "the manifest",
            {"format_version": int, "versions": dict, "created": str, "notes": text, "seed": number}
            | {"training_seconds": (float, _NONE), "fingerprint": text}
            | {"model": dict, "golden": (dict, _NONE), "files": dict},
        )
        if not all(isinstance(version, str) for version in fields["versions"].values()):
            raise ValueError("'versions' must hold strings")
        golden = fields["golden"]
        read = {
            "model": _read_node(fields["model"], "model", MAX_DEPTH),
            "golden": None if golden is None else _read_node(golden, "golden", 1),
            "files": {name: _read_file(name, file) for name, file in fields["files"].items()},
        }
        manifest = cls(**fields | read)
        _check_files(manifest)
        return manifest


def _node_to_json(node: Node) -> dict[str, Any]:
    return {
        "kind": node.kind,
        "params": node.params,
        "arrays": {
            name: {"file": array.file, "dtype": array.dtype, "shape": list(array.shape)}
            for name, array in node.arrays.items()
        },
        "parts": {name: _node_to_json(part) for name, part in node.parts.items()},
    }


def _read_node(value: Json, where: str, depth: int) -> Node:
    if depth == 0:
        raise ValueError(f"'{where}' is nested too deeply")
    kinds = {"kind": str, "params": dict, "arrays": dict, "parts": dict}
    kind, params, arrays, parts = _check_fields(value, f"'{where}'", kinds).values()
    for name in (kind, *arrays, *parts):
        if not NAME.fullmatch(name):
            raise ValueError(f"'{where}' contains the invalid name {name!r}")
    return Node(
        kind,
        params,
        {name: _read_array(array, f"{where}.{name}") for name, array in arrays.items()},
        {name: _read_node(part, f"{where}.{name}", depth - 1) for name, part in parts.items()},
    )


def _read_array(value: Json, where: str) -> ArrayRecord:
    kinds = {"file": str, "dtype": str, "shape": list}
    file, dtype, shape = _check_fields(value, f"'{where}'", kinds).values()
    _check_file_name(file)
    if dtype not in DTYPES:
        raise ValueError(f"'{where}' has the unknown dtype {dtype!r}")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"'{where}' has the invalid shape {shape}")
    return ArrayRecord(file, dtype, tuple(shape))


def _read_file(name: str, value: Json) -> FileRecord:
    _check_file_name(name)
    kinds = {"bytes": int, "sha256": str, "blocks": str}
    size, sha256, blocks = _check_fields(value, f"file '{name}'", kinds).values()
    n_blocks = -(-size // BLOCK) if size > BLOCK else 0
    if size < 0 or len(sha256) != 64 or len(blocks) != 64 * n_blocks or not _HEX.fullmatch(sha256 + blocks):
        raise ValueError(f"size and hashes of file '{name}' are inconsistent")
    return FileRecord(size, Digest(sha256, blocks))


def _check_file_name(name: str) -> None:
    if not FILE_NAME.fullmatch(name):
        raise ValueError(f"it lists the file {name!r}; only .safetensors files inside the model folder are allowed")


def _check_files(manifest: Manifest) -> None:
    if manifest.golden is not None and manifest.golden.kind != "golden":
        raise ValueError(f"'golden' is of the kind {manifest.golden.kind!r}")
    records = manifest.model.walk() + (manifest.golden.walk() if manifest.golden else [])
    named = {record.file for _, record in records}
    if named != manifest.files.keys():
        odd = sorted(named ^ manifest.files.keys())[0]
        raise ValueError(f"'{odd}' is not in both its list of files and its arrays")


def _check_fields(value: Json, what: str, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an object in the order of `kinds`: exactly these names, each of its type or types."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be an object")
    if value.keys() != kinds.keys():
        odd = sorted(value.keys() ^ kinds.keys())[0]
        raise ValueError(f"{what} {'may not have' if odd in value else 'must have'} the field '{odd}'")
    for key, types in kinds.items():
        types = types if isinstance(types, tuple) else (types,)
        if type(value[key]) not in types:  # not isinstance: True is not an int here
            wanted = " or ".join("null" if kind is _NONE else kind.__name__ for kind in types)
            raise ValueError(f"'{key}' must be {wanted}, not {str(value[key])[:40]!r}")
    return {key: value[key] for key in kinds}


def damaged(path: Path, message: str) -> StorageError:
    """Return the error for a file that is missing or not as it was saved."""
    return StorageError(message, path=path, hint=RESTORE)


def unreadable(path: Path, error: OSError) -> StorageError:
    """Return the error for a file or folder that the system does not let us read."""
    hint = "Check its permissions and the disk."
    return StorageError(f"it cannot be read ({error.strerror})", path=path, hint=hint)


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return the bytes of manifest.json, with its checksum."""
    raw = render_json({"format": FORMAT, "checksum": "", **manifest.to_json()})
    rest = raw[len(OPENING) :]
    return OPENING + hashlib.sha256(rest).hexdigest().encode() + rest


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """Return the manifest of a model folder, without opening its arrays.

    Raises `StorageError` if the folder does not exist, or its manifest is missing, damaged, edited or of a newer
    format.
    """
    folder = Path(folder)
    path = folder / MANIFEST
    raw = _read(folder, path)
    try:
        value = parse_json(raw)
    except ValueError as error:
        raise damaged(path, f"the manifest is damaged: {error}.") from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise StorageError(
            "this is not the manifest of a tagwood model",
            path=path,
            hint="Give the folder that `save` wrote.",
        )
    _check_version(value.get("format_version"), value.get("versions"), path)
    rest = raw[len(OPENING) + 64 :]
    if raw[: -len(rest)] != OPENING + hashlib.sha256(rest).hexdigest().encode():
        raise StorageError(
            "the manifest was edited or damaged after it was saved: its checksum does not match.",
            path=path,
            hint=f"{RESTORE} To change the notes, save the model again with other notes.",
        )
    del value["format"], value["checksum"]
    try:
        return Manifest.from_json(value)
    except ValueError as error:
        raise damaged(path, f"the manifest is inconsistent: {error}.") from None


def find_aside(folder: Path) -> list[Path]:
    """Return old models beside `folder` that interrupted saves have left."""
    name = re.escape(f"{ASIDE}{folder.name}-") + "[0-9a-f]{12}"  # exact: 'm' must not match 'm-2'
    if not folder.parent.is_dir():
        return []
    return sorted(path for path in folder.parent.iterdir() if re.fullmatch(name, path.name))


def _read(folder: Path, path: Path) -> bytes:
    try:
        info = path.lstat()
        if not stat.S_ISREG(info.st_mode):
            raise damaged(path, "this must be a regular file, not a link or folder")
        if info.st_size > MAX_BYTES:
            raise damaged(path, f"the manifest has {info.st_size:,} bytes; {MAX_BYTES:,} are allowed")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _explain(folder, path, error) from error


def _explain(folder: Path, path: Path, error: OSError) -> StorageError:
    if not os.path.lexists(folder):
        rescued = find_aside(folder)
        hint = (
            f"A save was interrupted; the model is safe in {rescued[-1]}: rename that folder back."
            if rescued
            else "Check the path; a model folder is what `tagwood train` or `save` wrote."
        )
        return StorageError("there is no such model folder", path=folder, hint=hint)
    if not folder.is_dir():
        return StorageError("a model is a folder, not a file", path=folder, hint="Give its folder.")
    if isinstance(error, FileNotFoundError):
        return damaged(path, "the file is missing; this is not a complete model folder")
    return unreadable(path, error)


def _check_version(version: object, versions: object, path: Path) -> None:
    if type(version) is not int or version < 1:
        raise damaged(path, f"the manifest has the invalid format version {version!r}")
    if version > FORMAT_VERSION:
        writer = versions.get("tagwood") if isinstance(versions, dict) else None
        by = f" by tagwood {writer}" if isinstance(writer, str) else ""
        raise StorageError(
            f"the model was saved{by} in format {version}; this tagwood reads formats up to {FORMAT_VERSION}",
            path=path,
            hint="Upgrade with: pip install --upgrade tagwood",
        )


def hash_file(fd: int, size: int, threads: int) -> Digest:
    """Hash the `size` bytes of an open file, whole and by blocks."""
    if size <= BLOCK:
        return Digest(_hash_range(fd, 0, size), "")
    with ThreadPoolExecutor(threads) as pool:
        whole = pool.submit(_hash_range, fd, 0, size)
        return Digest(whole.result(), "".join(_hash_blocks(fd, size, pool)))


def find_damage(fd: int, size: int, expected: Digest, threads: int) -> tuple[int, int] | None:
    """Return the first byte range whose hash is not the expected one, or None if all are."""
    if size <= BLOCK:
        return None if _hash_range(fd, 0, size) == expected.sha256 else (0, size)
    with ThreadPoolExecutor(threads) as pool:
        for place, found in enumerate(list(_hash_blocks(fd, size, pool))):
            if found != expected.blocks[64 * place : 64 * (place + 1)]:
                return place * BLOCK, min((place + 1) * BLOCK, size)
    return None


def _hash_blocks(fd: int, size: int, pool: ThreadPoolExecutor) -> Iterator[str]:
    return pool.map(lambda begin: _hash_range(fd, begin, min(begin + BLOCK, size)), range(0, size, BLOCK))


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
    folder = cache_folder("verified")
    # os.path.exists also works where the folder may not be entered.
    return folder is not None and os.path.exists(folder / _name(info, digest))  # noqa: PTH110


def write_stamp(info: os.stat_result, digest: str) -> None:
    """Remember that this file has this digest; an unwritable cache is not an error."""
    folder = cache_folder("verified")
    if folder is None:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _name(info, digest)).touch()
        _forget_oldest(folder)


def _name(info: os.stat_result, digest: str) -> str:
    facts = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, digest)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def cache_folder(name: str) -> Path | None:
    """Return the folder of this name in the user's cache; None without a home."""
    # XDG base directory rules: an unset, empty or relative value means the default.
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # noqa: PTH117 - Path() would have to be built first
        return Path(base) / "tagwood" / name
    try:
        return Path.home() / ".cache" / "tagwood" / name
    except RuntimeError:
        return None


def _forget_oldest(folder: Path) -> None:
    stamps = list(os.scandir(folder))
    if len(stamps) > _MAX_STAMPS:
        stamps.sort(key=lambda entry: entry.stat().st_mtime_ns)
        for entry in stamps[: len(stamps) // 2]:
            os.unlink(entry.path)  # noqa: PTH108 - DirEntry has the path as text
