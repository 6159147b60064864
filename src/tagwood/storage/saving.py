"""`save`: any registered model into a folder, all or nothing."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from tagwood._check import check_float, check_int, check_threads
from tagwood.errors import InputError, StorageError
from tagwood.storage.folder import (
    ARRAYS,
    FORMAT_VERSION,
    GOLDEN,
    MANIFEST,
    MAX_BYTES,
    ArrayRecord,
    FileRecord,
    Manifest,
    Node,
    hash_file,
    seal_manifest,
)
from tagwood.storage.passport import record_golden, wait_until_settled, write_stamp
from tagwood.storage.publish import check_replaceable, staged_folder
from tagwood.storage.registry import Storable, class_of
from tagwood.storage.state import State, plain_json
from tagwood.storage.tensors import write_tensors


class Passport(NamedTuple):
    """What the caller tells about a model."""

    notes: str | None
    seed: int | None
    training_seconds: float | None
    fingerprint: str | None


def save(
    model: Storable,
    folder: str | os.PathLike[str],
    *,
    notes: str | None = None,
    golden: Any = None,
    fingerprint: str | None = None,
    seed: int | None = None,
    training_seconds: float | None = None,
    overwrite: bool = False,
    threads: int | None = None,
) -> Path:
    """Save a model into a folder: a sealed manifest.json and safetensors files, no pickle.

    The folder appears complete or not at all: files are written beside it, flushed to disk and renamed into
    place. A failure, or a kill at any moment, leaves an older model as it was.

    Parameters
    ----------
    model
        An object of a class registered with `storable`.
    folder
        Where to; must be absent or empty, or hold a model if `overwrite` is set.
    notes
        Text for whoever opens the model later.
    golden
        A few rows (at most 1,000) in the form the model's `rank` takes: CSR or dense matrix, or list of
        texts. They are ranked now and stored with the result; `load(verify=True)` ranks them again and
        compares. Default: what the model's `golden_inputs()` offers, if it has that method. Ten typical rows
        are plenty.
    fingerprint
        Fingerprint of the training data.
    seed, training_seconds
        Default: the model's attributes `seed` and `training_seconds_`, if it has them.
    overwrite
        Replace a model that is there. A folder that holds anything else is never replaced.
    threads
        Threads for hashing; default all cores.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tagwood.storage import State, load, storable
    >>> @storable("SaveExample")
    ... class Example:
    ...     def __init__(self, weights):
    ...         self.weights = weights
    ...     def state(self):
    ...         return State("SaveExample", arrays={"weights": self.weights})
    ...     @classmethod
    ...     def from_state(cls, state):
    ...         return cls(state.array("weights", np.float32, (None,)))
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = save(Example(np.arange(3, dtype=np.float32)), parent + "/example", notes="first try")
    ...     load(folder).weights.tolist(), sorted(path.name for path in folder.iterdir())
    ([0.0, 1.0, 2.0], ['arrays.safetensors', 'manifest.json'])
    """
    target = Path(os.path.realpath(folder))
    threads = check_threads(threads)
    passport = _check_passport(model, notes, seed, training_seconds, fingerprint)
    try:
        check_replaceable(target, overwrite=overwrite)  # before the golden rows are ranked
        state = _state_of(model)
        recorded = record_golden(model, golden)
        target.parent.mkdir(parents=True, exist_ok=True)
        with staged_folder(target, overwrite=overwrite) as staged:
            stamps = _write(staged, state, recorded, passport, threads)
    except OSError as error:
        raise StorageError(
            f"the model could not be written ({error.strerror or error})",
            path=target,
            hint="Check free space and permissions; what was there before is unchanged.",
        ) from error
    for info, digest in stamps:
        write_stamp(info, digest)
    return Path(folder)


def _check_passport(
    model: object, notes: Any, seed: Any, training_seconds: Any, fingerprint: Any
) -> Passport:
    if training_seconds is None:
        training_seconds = getattr(model, "training_seconds_", None)
    if seed is None and isinstance(getattr(model, "seed", None), int):
        seed = model.seed  # type: ignore[attr-defined]
    for name, text in (("notes", notes), ("fingerprint", fingerprint)):
        if text is not None and not isinstance(text, str):
            raise InputError(f"{name} must be a text", given=repr(text)[:80])
    return Passport(
        plain_json(notes, "notes"),
        None if seed is None else check_int(seed, "seed"),
        None if training_seconds is None else check_float(training_seconds, "training_seconds", low=0),
        plain_json(fingerprint, "fingerprint"),
    )


def _state_of(model: Storable) -> State:
    if not callable(getattr(model, "state", None)):
        raise InputError(
            "save takes a model of a class registered with storable", given=f"a {type(model).__name__}"
        )
    state = model.state()
    if not isinstance(state, State) or class_of(state.kind) is not type(model):
        kind = f"kind '{state.kind}'" if isinstance(state, State) else f"a {type(state).__name__}"
        raise InputError(
            f"state() of {type(model).__name__} must return a State of its class's registered kind",
            given=kind,
            hint="Decorate the class with @storable and that kind.",
        )
    return state


def _write(
    staged: Path, state: State, golden: State | None, passport: Passport, threads: int
) -> list[tuple[os.stat_result, str]]:
    """Write all files; return what the stamps of the array files need."""
    records: dict[str, FileRecord] = {}
    infos: dict[str, os.stat_result] = {}
    for name, root in ((ARRAYS, state), (GOLDEN, golden)):
        arrays = {} if root is None else _flatten(root)
        if arrays:
            write_tensors(staged / name, arrays)
            records[name], infos[name] = _hash_and_sync(staged / name, threads)
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        versions=_versions(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        model=_to_node(state, ARRAYS),
        golden=None if golden is None else _to_node(golden, GOLDEN),
        files=records,
        **passport._asdict(),
    )
    _write_manifest(staged / MANIFEST, manifest)
    settled = all(wait_until_settled(info) for info in infos.values())
    return [(infos[name], records[name].digest.key) for name in infos] if settled else []


def _write_manifest(path: Path, manifest: Manifest) -> None:
    raw = seal_manifest(manifest)
    if len(raw) > MAX_BYTES:
        raise InputError(
            f"parameters and notes of a model must fit into {MAX_BYTES:,} bytes",
            given=f"{len(raw):,}",
            hint="Put large parameters into arrays.",
        )
    with path.open("xb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())


def _hash_and_sync(path: Path, threads: int) -> tuple[FileRecord, os.stat_result]:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        info = os.fstat(fd)
        return FileRecord(info.st_size, hash_file(fd, info.st_size, threads)), info
    finally:
        os.close(fd)


def _flatten(state: State, prefix: str = "") -> dict[str, NDArray[Any]]:
    arrays = {prefix + name: array for name, array in state.arrays.items()}
    for name, part in state.parts.items():
        arrays |= _flatten(part, f"{prefix}{name}/")
    return arrays


def _to_node(state: State, file: str) -> Node:
    return Node(
        state.kind,
        state.params,
        {name: ArrayRecord(file, array.dtype.name, array.shape) for name, array in state.arrays.items()},
        {name: _to_node(part, file) for name, part in state.parts.items()},
    )


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("tagwood", "numpy", "scipy")}
    return {"tagwood": packages.pop("tagwood"), "python": platform.python_version(), **packages}
