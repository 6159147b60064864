"""Work in parts: a `Job` is one function over many parts; a `Runner` computes the parts, here or on other machines.

Models cut their training into jobs whose parts do not depend on each other. A part's result depends on the job and the
part alone, never on the runner, the number of threads or the order, so every runner gives the same bits.

`LocalRunner` computes parts in threads of this process. With a `ShardStore` it stores every finished part and computes
only the missing ones. `tagwood.scale` has a runner for Ray clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Protocol

from tagwood._check import check_threads
from tagwood.models.base import Progress
from tagwood.storage.shards import ShardStore, digest
from tagwood.storage.state import State

Task = Callable[[Any, Any, int], State]


@dataclass(frozen=True, eq=False)
class Job:
    """One function over many parts.

    Parameters
    ----------
    name
        Stage of the training that progress reports name.
    task
        ``task(shared, part, threads) -> State``, a function of a module, so that other machines find it.
    shared
        What all parts need: arrays, numbers, texts, and tuples and dataclasses of them. It is sent to a machine once.
    parts
        One small value for each part, the largest work first.
    """

    name: str
    task: Task
    shared: Any
    parts: Sequence[Any]

    def keys(self) -> list[str]:
        """Return the name of each part's shard: a hash of all that its result depends on."""
        common = digest(self.task, self.shared)
        return [digest(common, part) for part in self.parts]

    def run_part(self, place: int, threads: int) -> State:
        """Compute one part."""
        return self.task(self.shared, self.parts[place], threads)


class Runner(Protocol):
    """What computes the parts of jobs."""

    def run(self, job: Job, progress: Progress | None = None) -> list[State]:
        """Return the results of all parts, in their order."""


class LocalRunner:
    """Compute parts in threads of this process, and keep finished ones in a store.

    Parameters
    ----------
    store
        Where finished parts are written and looked up; None keeps nothing.
    threads
        Parts computed at a time, each by one thread; default all cores.
    together
        Compute one part at a time, by all threads, so that the memory of one part suffices.
    """

    def __init__(self, store: ShardStore | None = None, threads: int | None = None, *, together: bool = False) -> None:
        self.store = store
        self.threads = threads
        self.together = together

    def run(self, job: Job, progress: Progress | None = None) -> list[State]:
        """Return the results of all parts, in their order."""
        return run_missing(job, self.store, self._compute, progress)

    def _compute(self, job: Job, missing: list[tuple[int, str]]) -> Iterator[tuple[int, State | None]]:
        threads = check_threads(self.threads)
        at_once = 1 if self.together else min(threads, len(missing))
        each = max(1, threads // at_once)  # a job of few parts uses the threads inside them
        with ThreadPoolExecutor(at_once) as pool:
            waiting = {pool.submit(compute_part, job, place, key, self.store, each): place for place, key in missing}
            try:
                for done in as_completed(waiting):
                    yield waiting[done], done.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


Compute = Callable[[Job, list[tuple[int, str]]], Iterator[tuple[int, State | None]]]


def compute_part(job: Job, place: int, key: str, store: ShardStore | None, threads: int) -> State | None:
    """Compute one part; with a store, write it there and return None."""
    result = job.run_part(place, threads)
    if store is None:
        return result
    store.write(key, result)
    return None


def run_missing(job: Job, store: ShardStore | None, compute: Compute, progress: Progress | None) -> list[State]:
    """Compute the parts that the store lacks, in any order, and return the results of all, in theirs.

    `compute` yields the place and result of each part as it is finished, or None where the store has the result.
    """
    if not job.parts:
        return []
    keys = [""] * len(job.parts) if store is None else job.keys()
    missing = [(place, key) for place, key in enumerate(keys) if store is None or key not in store]
    results: dict[int, State | None] = {}
    done = len(keys) - len(missing)
    for place, result in compute(job, missing) if missing else ():
        results[place] = result
        done += 1
        if progress is not None:
            progress(job.name, done / len(keys))
    return [_result(results.get(place), key, store) for place, key in enumerate(keys)]


def _result(computed: State | None, key: str, store: ShardStore | None) -> State:
    if computed is not None:
        return computed
    assert store is not None
    return store.read(key)
