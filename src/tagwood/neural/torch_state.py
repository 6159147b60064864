"""Weights of a torch module as arrays of a `State`, and torch's process-wide settings as context managers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tagwood._check import check_threads
from tagwood.storage import State


@contextmanager
def torch_threads(threads: int | None) -> Iterator[int]:
    """Set torch's number of threads, None for all cores, and restore it afterwards.

    Examples
    --------
    >>> with torch_threads(1) as count:
    ...     count, torch.get_num_threads()
    (1, 1)
    """
    before = torch.get_num_threads()
    count = check_threads(threads)
    torch.set_num_threads(count)
    try:
        yield count
    finally:
        torch.set_num_threads(before)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Treat numbers below 1e-38 as 0, and restore it afterwards: gradients of long texts have many, and each is slow.

    Examples
    --------
    >>> with flushed_denormals():
    ...     float(torch.tensor([1e-30]) * 1e-10)
    0.0
    """
    before = bool((torch.tensor([1e-30]) * 1e-10 == 0).item())
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def module_arrays(module: nn.Module) -> dict[str, NDArray[Any]]:
    """Return the weights and buffers of a module; dots in names become underscores.

    Examples
    --------
    >>> sorted(module_arrays(nn.Sequential(nn.Linear(2, 1))))
    ['0_bias', '0_weight']
    """
    return {
        name.replace(".", "_"): np.ascontiguousarray(value.detach().cpu().numpy())
        for name, value in module.state_dict().items()
    }


def load_arrays(module: nn.Module, state: State) -> None:
    """Fill a module with stored weights; arrays of another shape or type raise an error."""
    module.load_state_dict(
        {
            name: torch.from_numpy(
                np.array(state.array(name.replace(".", "_"), np.float32, tuple(value.shape)))
            )
            for name, value in module.state_dict().items()
        }
    )
