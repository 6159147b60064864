"""Data-parallel training: how the rows of a batch are divided among processes and how their gradients are averaged.

In: the `torch.distributed` process group of this process, if there is one. Out: equal weights in every process.
Without a process group every function is a no-op. `tagwood.scale` starts the processes on a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable
from numpy.typing import NDArray
from torch import nn

_Value = TypeVar("_Value")


@contextmanager
def process_group(meeting: str, rank: int, size: int, minutes: float = 30.0) -> Iterator[None]:
    """Join a group of processes, which meet at ``"tcp://HOST:PORT"`` of the first one, while the context is open.

    A process waits at most `minutes` for the others.
    """
    wait = timedelta(minutes=minutes)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size, timeout=wait)
    try:
        yield
    finally:
        dist.destroy_process_group()


def world() -> tuple[int, int]:
    """Return the rank of this process and the number of processes; (0, 1) without a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def share_of(rows: NDArray[np.int64], rank: int, size: int) -> NDArray[np.int64]:
    """Return the rows of a batch that process `rank` of `size` computes.

    Examples
    --------
    >>> [share_of(np.arange(5), rank, 2).tolist() for rank in range(2)]
    [[0, 1, 2], [3, 4]]
    """
    return np.array_split(rows, size)[rank]


def broadcast_weights(module: nn.Module) -> None:
    """Copy the weights and buffers of the first process to all others."""
    if world()[1] > 1:
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, src=0)


def average_gradients(weights: list[nn.Parameter], extra: list[float]) -> list[float]:
    """Replace gradients by their means over all processes; return the means of the extra numbers."""
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
    """Return the concatenated rows of all processes; gradients flow back to the process of each row.

    For losses that compare the rows of a batch with each other: every process computes the loss of the whole batch,
    and `train(..., shared_loss=True)` combines the gradients. All processes must have the same number of rows.
    """
    if world()[1] == 1:
        return rows
    return torch.cat(differentiable.all_gather(rows))  # type: ignore[no-untyped-call]


def from_first(value: _Value) -> _Value:
    """Return the value of the first process."""
    if world()[1] == 1:
        return value
    box: list[Any] = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]  # type: ignore[no-any-return]


def gather_objects(value: _Value) -> list[_Value]:
    """Return the values of all processes by rank."""
    size = world()[1]
    if size == 1:
        return [value]
    found: list[Any] = [None] * size
    dist.all_gather_object(found, value)
    return found
