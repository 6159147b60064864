"""Data-parallel training of neural models on a cluster. In: a model, texts, label sets. Out: the fitted model.

Every process is an actor with the whole model and the same rows; each computes its share of a batch, and gradients are
averaged over a gloo process group (`tagwood.neural.processes`). One process per machine uses all its CPUs; on a single
machine there is one process per CPU.

Decisions: a process that is lost ends the others, and all start again, from the last checkpoint if the model has a
folder for it. Results do not have the bits of one process: sums over processes are rounded in another order.
"""

from __future__ import annotations

import socket
from typing import Any

from tagwood.errors import TagwoodError
from tagwood.scale.cluster import Failure, build_signature, check_signature, load_ray, put
from tagwood.storage.state import State, restore

_TRIES = 3


class TrainingProcess:
    """One process of a data-parallel training."""

    def meeting(self) -> str:
        """Return an address of this machine at which the processes meet."""
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        return f"tcp://{load_ray().util.get_node_ip_address()}:{port}"

    def fit(self, task: tuple[Any, ...], meeting: str, rank: int, size: int, threads: int) -> State | Failure | None:
        """Fit a copy of the model together with the other processes; the first one returns it."""
        from tagwood.neural.processes import process_group

        model, X, y, options, signature = task
        own = type(model)(**model.get_params(deep=False))
        own.threads = threads
        try:
            check_signature(signature)
            with process_group(meeting, rank, size):
                own.fit(X, y, **options)
        except TagwoodError as error:
            return Failure.of(error)
        state: State = own.state()
        return state if rank == 0 else None


def fit_together(model: Any, X: Any, y: Any, options: dict[str, Any]) -> Any:
    """Return the model fitted by all processes of the cluster that this process is connected to.

    Parameters
    ----------
    model
        Unfitted model of `tagwood.neural`; it stays as it is.
    X, y
        Texts, and label sets, as its `fit` takes them.
    options
        Further arguments of `fit`, except progress.
    """
    ray = load_ray()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    cpus = [int(node["CPU"]) for node in nodes]
    threads = cpus if len(cpus) > 1 else [1] * cpus[0]
    task = put((model, X, y, options, build_signature()))
    for _ in range(_TRIES):
        try:
            fitted = restore(_run(ray, task, threads))
        except (ray.exceptions.RayActorError, ray.exceptions.RayTaskError) as error:
            if not _is_loss(error, ray):
                raise
            continue
        fitted.threads = model.threads
        return fitted
    raise TagwoodError(
        f"a process of the training was lost {_TRIES} times",
        hint="The memory of the machines may not suffice; start the same command again.",
    )


def _is_loss(error: Exception, ray: Any) -> bool:
    """Whether an error is that of a process which was lost, or of one that waited for it."""
    reason = getattr(error, "cause", None)
    return isinstance(error, ray.exceptions.RayActorError) or (
        isinstance(reason, RuntimeError) and any(word in str(reason) for word in ("gloo", "Connection", "peer"))
    )


def _run(ray: Any, task: Any, threads: list[int]) -> State:
    """Run one process for each number of threads; return the first one's state."""
    actors = [ray.remote(num_cpus=n, scheduling_strategy="SPREAD")(TrainingProcess).remote() for n in threads]
    try:
        meeting = ray.get(actors[0].meeting.remote())
        size = len(actors)
        running = [
            actor.fit.remote(task, meeting, rank, size, n)
            for rank, (actor, n) in enumerate(zip(actors, threads, strict=True))
        ]
        waiting = list(running)
        while waiting:  # one by one, so that a lost process is known while the others wait for it
            done, waiting = ray.wait(waiting, num_returns=1)
            found = ray.get(done[0])
            if isinstance(found, Failure):
                raise found.error()
        state: State = ray.get(running[0])
        return state
    finally:
        for actor in actors:
            ray.kill(actor)
