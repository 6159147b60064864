"""Several processes that train one model: who takes which rows, and how gradients are put together.

In: nothing, or a process group that is running. Out: the same weights in every process. Alone, all of it does nothing.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable
from numpy.typing import NDArray
from torch import nn

from tagwood._check import check_int
from tagwood.errors import TagwoodError

_Value = TypeVar("_Value")


def world() -> tuple[int, int]:
    """Return the number of this process and how many there are; (0, 1) without a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def share_of(rows: NDArray[np.int64], rank: int, size: int) -> NDArray[np.int64]:
    """Return the part of a batch that process `rank` of `size` works on.

    Examples
    --------
    >>> [share_of(np.arange(5), rank, 2).tolist() for rank in range(2)]
    [[0, 1, 2], [3, 4]]
    """
    return np.array_split(rows, size)[rank]


def same_start(module: nn.Module) -> None:
    """Give every process the weights and buffers of the first one."""
    if world()[1] > 1:
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, src=0)


def average_gradients(weights: list[nn.Parameter], extra: list[float]) -> list[float]:
    """Replace gradients, and a few numbers, by their means over all processes; return the numbers."""
    size = world()[1]
    if size == 1:
        return extra
    grads = [w.grad if w.grad is not None else torch.zeros_like(w) for w in weights]
    numbers = torch.tensor(extra, dtype=grads[0].dtype, device=grads[0].device)
    flat = torch.cat([*(grad.reshape(-1) for grad in grads), numbers])
    dist.all_reduce(flat)
    flat /= size
    at = 0
    for weight in weights:
        weight.grad = flat[at : at + weight.numel()].view_as(weight)
        at += weight.numel()
    return [float(number) for number in flat[at:]]


def gather_rows(rows: torch.Tensor) -> torch.Tensor:
    """Return the rows of all processes, one below the other, with gradients to where each came from.

    For losses that compare the rows of a batch with each other. Every process then computes the loss of the whole
    batch; `train(..., shared_loss=True)` puts the gradients together. All processes must have as many rows.
    """
    if world()[1] == 1:
        return rows
    return torch.cat(differentiable.all_gather(rows))  # type: ignore[no-untyped-call]


def from_first(value: _Value) -> _Value:
    """Return what the first process has."""
    if world()[1] == 1:
        return value
    box: list[Any] = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]  # type: ignore[no-any-return]


def gather_objects(value: _Value) -> list[_Value]:
    """Return what every process has, in their order."""
    size = world()[1]
    if size == 1:
        return [value]
    found: list[Any] = [None] * size
    dist.all_gather_object(found, value)
    return found


def run_processes(count: int, work: Callable[..., _Value], *arguments: Any) -> _Value:
    """Run ``work(*arguments)`` in `count` new processes that form a gloo group; return what the first one returns.

    `work` must be a function of a module, and arguments and result must be picklable. On clusters, use ``torchrun``
    instead: training only looks at the process group it finds.
    """
    check_int(count, "count", low=1)
    context = torch.multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        meeting = (Path(folder) / "meeting").as_uri()
        pipes = [context.Pipe(duplex=False) for _ in range(count)]
        processes = [
            context.Process(
                target=_work, args=(rank, count, meeting, pipes[rank][1], work, arguments), daemon=True
            )
            for rank in range(count)
        ]
        for process, (_, sender) in zip(processes, pipes, strict=True):
            process.start()
            sender.close()  # so that the end of the process ends the pipe
        outcome = _outcomes([receiver for receiver, _ in pipes])
        for process in processes:
            if not all(ok for ok, _ in outcome):
                process.terminate()  # it may wait for one that failed
            process.join()
    failed = [words for ok, words in outcome if not ok]
    if failed:
        raise TagwoodError(f"every process must finish; {len(failed)} of {count} failed", given=failed[0])
    return outcome[0][1]  # type: ignore[no-any-return]


def _outcomes(receivers: list[Any]) -> list[tuple[bool, Any]]:
    """Return what the processes sent; after a failure, those that sent nothing yet are not waited for."""
    found: dict[Any, tuple[bool, Any]] = {}
    receiver: Any
    while len(found) < len(receivers) and all(ok for ok, _ in found.values()):
        for receiver in wait([r for r in receivers if r not in found]):
            try:
                found[receiver] = receiver.recv()
            except EOFError:
                found[receiver] = (False, "a process that ended without a word")
    return [found[receiver] for receiver in receivers if receiver in found]


def _work(rank: int, count: int, meeting: str, sender: Any, work: Callable[..., Any], arguments: Any) -> None:
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count)
        value = work(*arguments)
        dist.barrier()
        dist.destroy_process_group()
        sender.send((True, value if rank == 0 else None))
    except Exception:
        sender.send((False, traceback.format_exc()))
