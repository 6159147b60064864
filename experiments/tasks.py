"""Runs of an experiment, one after the other or as tasks of a Ray cluster (``--cluster local`` or ``HOST:PORT``).

In: calls without arguments, one for each seed of each setting, none of which needs the result of another. Out: their
results, which do not depend on where they were computed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

Call = Callable[[], Any]


class Run(NamedTuple):
    """The result of a call, and the CPU seconds that it took."""

    result: Any
    cpu_seconds: float


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--cluster`` to the parser of an experiment."""
    parser.add_argument("--cluster", metavar="ADDRESS", help="compute runs as tasks of Ray: local, or HOST:PORT")


def run_calls(calls: Sequence[Call], cluster: str | None = None) -> Iterator[tuple[int, Run]]:
    """Yield the place and the run of each call as it is finished; without a cluster, that is in their order.

    Examples
    --------
    >>> [(place, run.result) for place, run in run_calls([lambda: "a", lambda: "b"])]
    [(0, 'a'), (1, 'b')]
    """
    if cluster is None or not calls:
        for place in range(len(calls)):
            yield place, _timed(calls, place)
        return
    from tagwood.scale import connect, run_tasks

    with connect(cluster):
        yield from run_tasks(_timed, list(calls), range(len(calls)))


def run_seeds(settings: Sequence[Sequence[Call]], cluster: str | None = None) -> Iterator[list[Any]]:
    """Yield the results of the calls of each setting, in their order, as soon as all of them are finished.

    Examples
    --------
    >>> list(run_seeds([[lambda: 1, lambda: 2], [lambda: 3]]))
    [[1, 2], [3]]
    """
    results: dict[int, Any] = {}
    waiting = iter(settings)
    due, begin = next(waiting, ()), 0
    for place, run in run_calls([call for calls in settings for call in calls], cluster):
        results[place] = run.result
        while due and all(begin + seed in results for seed in range(len(due))):
            yield [results.pop(begin + seed) for seed in range(len(due))]
            begin += len(due)
            due = next(waiting, ())


def _timed(calls: Sequence[Call], place: int) -> Run:
    began = time.process_time()
    return Run(calls[place](), round(time.process_time() - began, 1))
