"""`save` and `load`: any storable model to a folder and back.

`save` writes all files to a hidden folder and renames it into place, so a model folder is complete or absent.
`load` memory-maps the arrays after checking manifest, sizes, headers and hashes.

Decisions: hashing gigabytes takes seconds, and loading should take milliseconds. So a file is hashed in full the
first time it is seen and remembered in the user's cache (see `folder`); after any change, or in another copy, it is
hashed again. `save` remembers its files at once. Bytes that a disk changes by itself, without a write, are found
with `verify=True`, which always hashes. A test flips bytes all over every file: none loads.

Golden inputs are a few rows with their ranking at the time of saving; `load(verify=True)` compares the loaded model
with them.
"""

from __future__ import annotations

import mmap
import os
import platform
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_float, check_int, check_threads
from tagwood._lazy import sparse
from tagwood.errors import InputError, MissingExtraError, StorageError, disk_hint
from tagwood.storage.folder import (
    ARRAYS,
    FILE_NAME,
    FORMAT_VERSION,
    GOLDEN,
    MANIFEST,
    MAX_BYTES,
    ArrayRecord,
    FileRecord,
    Manifest,
    Node,
    damaged,
    find_damage,
    has_stamp,
    hash_file,
    is_settled,
    manifest_bytes,
    read_manifest,
    unreadable,
    wait_until_settled,
    write_stamp,
)
from tagwood.storage.publish import check_replaceable, staged_folder
from tagwood.storage.state import State, Storable, class_of, pack_strings, plain_json, unpack_strings
from tagwood.storage.tensors import Tensor, map_tensor, read_header, write_tensors

Model = TypeVar("Model")
_TRIES = 5
GOLDEN_K = 5
TOLERANCE = 1e-4
_MAX_ROWS = 1000
_ADVICE = "Pass the same few rows that the model's rank takes: a CSR or dense matrix, or a list of texts."


def save(
    model: Storable,
    folder: str | os.PathLike[str],
    *,
    notes: str | None = None,
    golden: Any = None,
    fingerprint: str | None = None,
    overwrite: bool = False,
    replaces: Manifest | None = None,
    threads: int | None = None,
) -> Path:
    """Save a model to a folder: manifest.json with a checksum, and safetensors files.

    The folder is written completely or not at all: files are written beside it, flushed to disk and renamed into
    place. After a failure or a kill, an older model in the folder is unchanged. The model's attributes `seed` and
    `training_seconds_` are recorded if it has them.

    Parameters
    ----------
    model
        An object of a class registered with `storable`.
    folder
        Target folder, which is returned: absent or empty, or with `overwrite` a model folder.
    notes, fingerprint
        Free text and the fingerprint of the training data, stored with the model.
    golden
        A few rows (at most 1,000; ten are plenty) in the form that the model's `rank` takes: CSR or dense matrix,
        or list of texts. They are ranked and stored with the result, and `load(verify=True)` compares. Default:
        the model's `golden_inputs()`, if it has that method.
    overwrite
        Replace an existing model. A folder with other files in it is never replaced.
    replaces
        The manifest that the model was loaded with (`load_with_manifest`), to save a changed model in its place: if
        the folder has another model by now, because another process changed it, `StorageError` is raised and that
        model stays.
    threads
        Threads for hashing; default all cores.

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
    target = Path(os.path.realpath(_path_of(folder)))
    threads = check_threads(threads)
    facts = _collect_facts(model, notes, fingerprint)
    try:
        overwrite = overwrite or replaces is not None
        check_replaceable(target, overwrite=overwrite)  # before the golden rows are ranked
        state = _state_of(model)
        recorded = record_golden(model, golden)
        target.parent.mkdir(parents=True, exist_ok=True)
        with staged_folder(target, overwrite=overwrite, replaces=replaces) as staged:
            stamps = _write(staged, state, recorded, facts, threads)
    except OSError as error:
        raise StorageError(
            f"the model could not be written ({error.strerror or error})",
            path=target,
            hint=f"{disk_hint(error)} An older model in the folder is still complete.",
        ) from error
    for info, digest in stamps:
        write_stamp(info, digest)
    return Path(folder)


@overload
def load(
    folder: str | os.PathLike[str], kind: None = None, *, verify: bool = False, threads: int | None = None
) -> Any: ...


@overload
def load(
    folder: str | os.PathLike[str], kind: type[Model], *, verify: bool = False, threads: int | None = None
) -> Model: ...


def load(
    folder: str | os.PathLike[str], kind: type[Any] | None = None, *, verify: bool = False, threads: int | None = None
) -> Any:
    """Return a model that `save` wrote.

    Every load checks the manifest and the sizes and headers of all files. Their SHA-256 is checked the first time a
    file is loaded on this machine and after any change; later loads rely on a stamp in the user's cache folder
    (``$XDG_CACHE_HOME/tagwood`` or ``~/.cache/tagwood``) and take milliseconds for models of any size. Arrays are
    read-only maps of the files: do not change files in place while a model is in use; `save` with ``overwrite`` is
    safe.

    Parameters
    ----------
    folder
        The model folder; if anything in it is missing, damaged, altered, inconsistent or of a newer format,
        `StorageError` is raised.
    kind
        The class of the model: ``load("model", Tagger)`` is a `Tagger`, also for type checkers; another model raises
        `InputError`.
    verify
        Hash every file even if it has a stamp, and compare the ranking of the stored golden inputs: same labels up
        to ties, scores within 1e-4. Use it after moving a model to other hardware or library versions.
    threads
        Threads for hashing; default all cores.
    """
    if kind is not None and not isinstance(kind, type):
        hint = "Pass the class itself: load(folder, Tagger)."
        raise InputError("kind must be a class", given=repr(kind)[:60], hint=hint)
    loaded, _ = load_with_manifest(folder, verify=verify, threads=threads)
    if kind is not None and not isinstance(loaded, kind):
        raise InputError(f"{folder} must hold a {kind.__name__}", given=type(loaded).__name__)
    return loaded


def load_with_manifest(
    folder: str | os.PathLike[str], *, verify: bool = False, threads: int | None = None
) -> tuple[Any, Manifest]:
    """Return a model and the manifest it was loaded by, also while the folder is being replaced; see `load`."""
    folder = _path_of(folder)
    threads = check_threads(threads)
    for left in reversed(range(_TRIES)):
        before = _identity(folder)
        try:
            manifest = read_manifest(folder)
            model, golden = _open(folder, manifest, verify, threads)
            break
        except StorageError:
            # If a save has replaced the folder meanwhile, read the new one.
            if not left or _identity(folder) == before:
                raise
    loaded = _restore(model, folder)
    if verify and golden is not None:
        _check_golden(loaded, golden, folder)
    return loaded, manifest


def _path_of(folder: Any) -> Path:
    if not isinstance(folder, str | os.PathLike):
        raise InputError("folder must be the path of a model folder", given=repr(folder)[:60])
    return Path(folder)


def _collect_facts(model: object, notes: Any, fingerprint: Any) -> dict[str, Any]:
    """Return the fields of the manifest that describe the model's origin."""
    for name, text in (("notes", notes), ("fingerprint", fingerprint)):
        if text is not None and not isinstance(text, str):
            raise InputError(f"{name} must be a str", given=repr(text)[:80])
    seed, seconds = getattr(model, "seed", None), getattr(model, "training_seconds_", None)
    return {
        "notes": plain_json(notes, "notes"),
        "seed": check_int(seed, "seed") if isinstance(seed, int) else None,
        "training_seconds": None if seconds is None else check_float(seconds, "training_seconds", low=0),
        "fingerprint": plain_json(fingerprint, "fingerprint"),
    }


def _state_of(model: Storable) -> State:
    if not callable(getattr(model, "state", None)):
        raise InputError("save takes a model of a class registered with storable", given=f"a {type(model).__name__}")
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
    staged: Path, state: State, golden: State | None, facts: dict[str, Any], threads: int
) -> list[tuple[os.stat_result, str]]:
    """Write all files; return the arguments of `write_stamp` for the array files."""
    records: dict[str, FileRecord] = {}
    infos: dict[str, os.stat_result] = {}
    for name, root in ((ARRAYS, state), (GOLDEN, golden)):
        arrays = {} if root is None else _flatten(root)
        if arrays:
            write_tensors(staged / name, arrays)
            records[name], infos[name] = _hash_and_sync(staged / name, threads)
    from importlib.metadata import version  # slow to import, and needed for writing only

    versions = {"tagwood": version("tagwood"), "python": platform.python_version()}
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        versions=versions | {name: version(name) for name in ("numpy", "scipy")},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        model=_to_node(state, ARRAYS),
        golden=None if golden is None else _to_node(golden, GOLDEN),
        files=records,
        **facts,
    )
    _write_manifest(staged / MANIFEST, manifest)
    settled = all(wait_until_settled(info) for info in infos.values())
    return [(infos[name], records[name].digest.key) for name in infos] if settled else []


def _write_manifest(path: Path, manifest: Manifest) -> None:
    raw = manifest_bytes(manifest)
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


def _open(folder: Path, manifest: Manifest, verify: bool, threads: int) -> tuple[State, State | None]:
    _check_listing(folder, manifest)
    buffers = {name: _map(folder / name, file, verify, threads) for name, file in manifest.files.items()}
    roots = [node for node in (manifest.model, manifest.golden) if node is not None]
    places = {name: _match(folder / name, buffer, roots, name) for name, buffer in buffers.items()}
    try:
        states = [_to_state(node, buffers, places) for node in roots]
    except InputError as error:
        raise damaged(folder / MANIFEST, f"the manifest is inconsistent ({_words(error)})") from error
    return states[0], states[1] if len(states) == 2 else None


def _check_listing(folder: Path, manifest: Manifest) -> None:
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise unreadable(folder, error) from error
    for name in sorted(manifest.files.keys() - names):
        raise damaged(folder / name, "the file is missing")
    for name in sorted(names - manifest.files.keys()):
        if FILE_NAME.fullmatch(name):
            raise StorageError(
                "the file is not part of this model",
                path=folder / name,
                hint="Remove it, or copy the folder again: two models may have been copied into one.",
            )


def _map(path: Path, record: FileRecord, verify: bool, threads: int) -> mmap.mmap:
    """Return the file mapped into memory after checking its size and bytes."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise damaged(path, "this must be a regular file, not a link or folder")
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            if size != record.bytes or size == 0:
                how = "cut short" if size < record.bytes else "changed"
                raise damaged(path, f"the file was {how}: it has {size:,} bytes instead of {record.bytes:,}")
            _check_bytes(fd, path, record, verify, threads)
            return mmap.mmap(fd, size, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
    except OSError as error:
        raise unreadable(path, error) from error


def _check_bytes(fd: int, path: Path, record: FileRecord, verify: bool, threads: int) -> None:
    info = os.fstat(fd)
    key = record.digest.key
    if not verify and has_stamp(info, key):
        return
    settled = is_settled(info)
    damage = find_damage(fd, record.bytes, record.digest, threads)
    if damage is not None:
        raise damaged(
            path,
            f"the file was altered or damaged: bytes {damage[0]:,} to {damage[1] - 1:,} "
            "do not have the SHA-256 they were saved with",
        )
    after = os.fstat(fd)
    if settled and (after.st_mtime_ns, after.st_ctime_ns) == (info.st_mtime_ns, info.st_ctime_ns):
        write_stamp(info, key)


def _match(path: Path, buffer: mmap.mmap, roots: list[Node], name: str) -> dict[str, Tensor]:
    """Return the header of a file after checking that it has exactly the arrays of the manifest."""
    try:
        tensors = read_header(buffer)
    except ValueError as error:
        raise damaged(path, f"the file is damaged: {error}") from None
    expected = {key: record for root in roots for key, record in root.walk() if record.file == name}
    for key in sorted(tensors.keys() ^ expected.keys()):
        where = "the manifest but not in the file" if key in expected else "the file but not in the manifest"
        raise damaged(path, f"array '{key}' is in {where}")
    for key, record in expected.items():
        found = tensors[key]
        if (found.dtype, found.shape) != (record.dtype, record.shape):
            raise damaged(
                path,
                f"array '{key}' is {found.dtype} of shape {found.shape}, but {record.dtype} of shape "
                f"{record.shape} in the manifest",
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
            f"unknown kind of model: '{state.kind}'",
            path=folder / MANIFEST,
            hint="Upgrade tagwood, or install or import the package that defines the class.",
        )
    try:
        return cls.from_state(state)
    except (StorageError, MissingExtraError):
        raise
    except Exception as error:
        raise damaged(folder, f"the stored values are not a valid {state.kind} ({_words(error)})") from error


def _check_golden(model: Any, golden: State, folder: Path) -> None:
    try:
        fault = find_deviation(model, golden)
    except Exception as error:
        fault = f"ranking the golden inputs failed ({_words(error)})"
    if fault:
        raise StorageError(
            f"the model gives other results than when it was saved: {fault}",
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


def record_golden(model: Any, inputs: Any) -> State | None:
    """Rank `inputs` and return both as a state.

    Without inputs, use the model's `golden_inputs()`; return None if it has none.
    """
    if inputs is None:
        offer = getattr(model, "golden_inputs", None)
        inputs = offer() if callable(offer) else None
    if inputs is None:
        return None
    if not callable(getattr(model, "rank", None)):
        raise InputError(
            "golden inputs need a model with a rank method",
            given=type(model).__name__,
            hint="Leave golden out.",
        )
    params, arrays = _pack_inputs(inputs)
    ranking = model.rank(unpack_inputs(params, arrays), k=GOLDEN_K)
    for name, dtype in (("indptr", np.int64), ("labels", np.int32), ("scores", np.float32)):
        arrays[f"expected_{name}"] = np.asarray(getattr(ranking, name), dtype=dtype)
    return State("golden", params={**params, "k": GOLDEN_K}, arrays=arrays)


def find_deviation(model: Any, golden: State) -> str | None:
    """Rank the stored inputs and describe the first difference from the stored ranking; None if there is none.

    Scores may differ by 1e-4 (relative above 1), and labels with scores that close may change places.
    """
    k = golden.param("k", int)
    ranking = model.rank(unpack_inputs(golden.params, golden.arrays), k=k)
    indptr = golden.array("expected_indptr", np.int64, (None,))
    labels = golden.array("expected_labels", np.int32, (int(indptr[-1]),))
    scores = golden.array("expected_scores", np.float32, (int(indptr[-1]),))
    if ranking.indptr.size != indptr.size:
        return f"{ranking.indptr.size - 1} rows instead of {indptr.size - 1}"
    for row in range(indptr.size - 1):
        want = slice(int(indptr[row]), int(indptr[row + 1]))
        have = slice(int(ranking.indptr[row]), int(ranking.indptr[row + 1]))
        fault = _compare_row(k, labels[want], scores[want], ranking.labels[have], ranking.scores[have])
        if fault:
            return f"golden row {row}: {fault}"
    return None


def _compare_row(
    k: int, labels: NDArray[Any], scores: NDArray[Any], new_labels: NDArray[Any], new_scores: NDArray[Any]
) -> str | None:
    if labels.size != new_labels.size:
        keep, new_keep = scores != 0, new_scores != 0
        if np.all(keep) and np.all(new_keep):
            return f"{new_labels.size} labels instead of {labels.size}"
        # Labels without evidence have score 0; whether they fill up a row is no part of the answer.
        return _compare_row(k, labels[keep], scores[keep], new_labels[new_keep], new_scores[new_keep])
    if not np.all(_close(scores, new_scores)):
        return f"scores {new_scores.tolist()} instead of {scores.tolist()}"
    expected = dict(zip(labels.tolist(), scores.tolist(), strict=True))
    found = dict(zip(new_labels.tolist(), new_scores.tolist(), strict=True))
    for label in expected.keys() | found.keys():
        # A label may be in only one ranking if its score ties with the last of k places.
        old = expected.get(label, scores[-1])
        new = found.get(label, new_scores[-1])
        lost = label not in expected or label not in found
        if (lost and labels.size < k) or not _close(old, new):
            return f"labels {new_labels.tolist()} instead of {labels.tolist()}"
    return None


def _close(expected: Any, found: Any) -> Any:
    return np.isclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def _pack_inputs(inputs: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    params: dict[str, Any]
    if sparse.issparse(inputs) and inputs.ndim == 2:
        matrix = sparse.csr_array(inputs)
        arrays = {"indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data}
        params = {"form": "csr", "shape": list(matrix.shape)}
    elif isinstance(inputs, np.ndarray) and inputs.ndim == 2:
        params, arrays = {"form": "dense"}, {"dense": inputs}
    elif isinstance(inputs, list | tuple) and all(isinstance(text, str) for text in inputs):
        params, arrays = {"form": "texts"}, dict(zip(("blob", "offsets"), pack_strings(inputs), strict=True))
    else:
        given = f"a {type(inputs).__name__}"
        raise InputError("golden must be a matrix or a list of texts", given=given, hint=_ADVICE)
    n_rows = len(inputs) if params["form"] == "texts" else inputs.shape[0]
    if not 1 <= n_rows <= _MAX_ROWS:
        hint = "Pass about ten rows."
        raise InputError(f"golden must be 1 to {_MAX_ROWS:,} rows", given=f"{n_rows:,}", hint=hint)
    return params, arrays


def unpack_inputs(params: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the stored inputs in the form that `rank` takes."""
    if params["form"] == "texts":
        return unpack_strings(arrays["blob"], arrays["offsets"])
    if params["form"] == "dense":
        return arrays["dense"].copy()
    parts = (arrays["data"].copy(), arrays["indices"].copy(), arrays["indptr"].copy())
    return sparse.csr_array(parts, shape=tuple(params["shape"]))
