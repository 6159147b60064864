"""Connect to a Ray cluster and compute jobs there. In: an address, a `Job`. Out: the results of its parts.

`connect` starts Ray on this machine or joins a cluster; `RayRunner` puts what all parts share into Ray's object store
once and makes each part a task of one CPU. Ray starts a task again whose worker was killed; nothing else is repeated.

Decisions: bits depend on the compiled kernels, so a worker refuses a task of a driver with another version or build of
tagwood. With a store, workers write their shards themselves, and only the driver reads them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from tagwood._check import check_threads
from tagwood.errors import InputError, MissingExtraError, TagwoodError
from tagwood.models.base import Progress
from tagwood.models.tasks import Job, compute_part, run_missing
from tagwood.storage.shards import ShardStore
from tagwood.storage.state import State

LOCAL = "local"
_SECONDS = 5.0  # to wait for an address
_RETRIES = 20  # of a task whose worker was killed
# Ray's own settings, which are environment variables: no reports of usage, no warning about machines without GPU, and
# no lines of its log on the terminal, about workers that were lost either: what fails is an exception.
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
}


class Failure(NamedTuple):
    """An error of a worker; exceptions of other packages stay what they are."""

    expected: str
    given: str | None
    hint: str | None
    by_input: bool

    @classmethod
    def of(cls, error: TagwoodError) -> Failure:
        """Return the words of an error."""
        return cls(error.expected, error.given, error.hint, isinstance(error, InputError))

    def error(self) -> TagwoodError:
        """Return the error again."""
        kind = InputError if self.by_input else TagwoodError
        return kind(self.expected, given=self.given, hint=self.hint)


def load_ray() -> Any:
    """Return the module ray, with its reports of usage switched off."""
    if find_spec("ray") is None:
        raise MissingExtraError("a cluster", extra="scale")
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


@contextlib.contextmanager
def connect(address: str, cpus: int | None = None, *, object_store: int | None = None) -> Iterator[None]:
    """Connect this process to a cluster for as long as the context is open.

    Parameters
    ----------
    address
        ``"local"`` starts Ray on this machine and stops it at the end; ``"HOST:PORT"`` is the address of a cluster of
        which this machine is a node. A process that is connected already stays so.
    cpus
        For ``"local"``: tasks at a time; default all cores.
    object_store
        For ``"local"``: bytes of the object store, which has to hold the features; default a third of the memory.
    """
    ray = load_ray()
    if address != LOCAL:
        check_address(address)
    if ray.is_initialized():
        yield
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    private = None
    if address == LOCAL:
        private = tempfile.mkdtemp(prefix="tagwood-ray-")
        quiet |= {"num_cpus": check_threads(cpus), "include_dashboard": False, "_temp_dir": private}
        quiet |= {} if object_store is None else {"object_store_memory": object_store}
    else:
        quiet["address"] = address
    try:
        _start(ray, address, quiet)
        yield
    finally:
        ray.shutdown()
        if private is not None:
            shutil.rmtree(private, ignore_errors=True)


def check_address(address: str) -> None:
    """Raise `InputError` unless something answers at HOST:PORT."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError("--cluster must be 'local' or HOST:PORT", given=repr(address))
    try:
        socket.create_connection((host, int(port)), _SECONDS).close()
    except OSError as error:
        raise InputError(
            f"a Ray cluster must answer at {address}",
            given=f"no answer ({error.strerror or error})",
            hint="'ray status' on a machine of the cluster shows its address; 'local' needs no cluster.",
        ) from error


def _start(ray: Any, address: str, options: dict[str, Any]) -> None:
    try:
        with _silent():
            ray.init(**options)
    except (ConnectionError, RuntimeError, TimeoutError, ValueError, OSError, SystemExit) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"this machine must be able to join the Ray cluster at {address}"
            if address != LOCAL
            else "Ray must be able to start on this machine",
            given=reason[:200] or type(error).__name__,
            hint="The versions of Ray and Python must be those of the cluster, and this machine one of its nodes.",
        ) from error


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep what Ray's C++ code says about its log settings from the terminal, which no setting of Ray does."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@lru_cache(maxsize=1)
def build_signature() -> str:
    """Return version and hash of the compiled kernels: the same wherever the same bits are computed."""
    from tagwood._kernels import _native

    native = Path(str(_native.__file__)).read_bytes()
    return f"tagwood {version('tagwood')}, kernels {hashlib.sha256(native).hexdigest()[:12]}"


def check_signature(expected: str) -> None:
    """Raise `InputError` in a worker whose tagwood is not the driver's."""
    if build_signature() != expected:
        raise InputError(
            f"all machines of the cluster must have the {expected} of the driver",
            given=f"{build_signature()} on {socket.gethostname()}",
            hint="Install the same build of tagwood[scale] on every machine.",
        )


class RayRunner:
    """Compute the parts of jobs as tasks of the cluster that this process is connected to.

    Parameters
    ----------
    store
        Where workers write finished parts; on several machines, a folder that all of them share. None returns results
        through Ray, and nothing is kept.
    """

    def __init__(self, store: ShardStore | None = None) -> None:
        self.store = store

    def run(self, job: Job, progress: Progress | None = None) -> list[State]:
        """Return the results of all parts, in their order."""
        return run_missing(job, self.store, self._compute, progress)

    def fit_together(self, model: Any, X: Any, y: Any, options: dict[str, Any]) -> Any:
        """Return a neural model fitted by data-parallel processes; the given one stays unfitted."""
        from tagwood.scale.processes import fit_together

        return fit_together(model, X, y, options)

    def _compute(self, job: Job, missing: list[tuple[int, str]]) -> Iterator[tuple[int, State | None]]:
        parts = [(place, key, self.store) for place, key in missing]
        for done, result in run_tasks(run_part, job, parts):
            yield missing[done][0], result


def run_part(job: Job, part: tuple[int, str, ShardStore | None]) -> State | None:
    """Compute a part in a worker."""
    return compute_part(job, *part, threads=1)


def run_tasks(function: Callable[[Any, Any], Any], shared: Any, parts: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the place and result of ``function(shared, part)`` for each part, as they are finished.

    Every part is a task of one CPU. Tasks that have not started when the iterator is closed are not computed.
    """
    ray = load_ray()
    remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_run_task)
    common = put(shared)
    tasks = {remote.remote(function, common, part, build_signature()): place for place, part in enumerate(parts)}
    try:
        while tasks:
            done, _ = ray.wait(list(tasks), num_returns=1)
            place = tasks.pop(done[0])
            yield place, result_of(done[0])
    finally:
        for task in tasks:
            ray.cancel(task, force=True)


def _run_task(function: Callable[[Any, Any], Any], shared: Any, part: Any, signature: str) -> Any:
    """Compute a task in a worker; its errors are returned, so that the driver says them in its own words."""
    try:
        check_signature(signature)
        return function(shared, part)
    except TagwoodError as error:
        return Failure.of(error)


def put(value: Any) -> Any:
    """Put a value into the object store, from which all workers of a machine read it without a copy."""
    ray = load_ray()
    try:
        return ray.put(value)
    except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError) as error:
        raise TagwoodError(
            "the features must fit into Ray's object store, and it is full",
            hint="Give Ray more memory (ray start --object-store-memory), or train with --work-dir and --max-ram.",
        ) from error


def result_of(task: Any) -> Any:
    """Return the result of a finished task, or raise its error in one sentence."""
    ray = load_ray()
    try:
        found = ray.get(task)
    except ray.exceptions.WorkerCrashedError as error:
        raise TagwoodError(
            f"a task lost its worker {_RETRIES + 1} times",
            hint="The memory of the machines may not suffice; finished parts are kept with --resume.",
        ) from error
    except ray.exceptions.OutOfMemoryError as error:
        hint = "Use fewer workers per machine, or machines with more memory; finished parts are kept with --resume."
        raise TagwoodError("a task needed more memory than its machine has", hint=hint) from error
    except ray.exceptions.RayTaskError as error:
        arguments = getattr(error.cause, "client_exc", None)
        if isinstance(arguments, TagwoodError):  # a worker could not open what the task is given
            raise arguments from error
        missing = re.search("No module named '[^']+'", str(error))
        if missing is not None:
            raise InputError(
                "all machines of the cluster must be able to import tagwood and its plugins",
                given=missing.group(),
                hint="Install the same build of tagwood[scale] on every machine.",
            ) from error
        raise
    if isinstance(found, Failure):
        raise found.error()
    return found
