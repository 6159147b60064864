"""What neural models share: torch's process-wide settings, weights as arrays of a `State`, checks of settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tagwood._check import check_stored_finite, check_threads
from tagwood.errors import InputError
from tagwood.storage import State


@contextmanager
def torch_threads(threads: int | None) -> Iterator[int]:
    """Set torch's number of threads, None for all cores, and restore it afterwards."""
    before = torch.get_num_threads()
    count = check_threads(threads)
    torch.set_num_threads(count)
    try:
        yield count
    finally:
        torch.set_num_threads(before)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Treat numbers below 1e-38 as 0 for a while: gradients of long texts have many, and they are slow to compute."""
    before = bool((torch.tensor([1e-30]) * 1e-10 == 0).item())
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def module_arrays(module: nn.Module) -> dict[str, NDArray[Any]]:
    """Return the weights and buffers of a module; dots in names become underscores."""
    return {
        name.replace(".", "_"): np.ascontiguousarray(value.detach().cpu().numpy())
        for name, value in module.state_dict().items()
    }


def load_arrays(module: nn.Module, state: State) -> None:
    """Fill a module with stored weights; arrays of another shape or type raise an error."""
    weights = {}
    for name, value in module.state_dict().items():
        stored = state.array(name.replace(".", "_"), np.float32, tuple(value.shape))
        check_stored_finite(stored, f"the weights of a stored {state.kind}")
        weights[name] = torch.from_numpy(np.array(stored))
    module.load_state_dict(weights)


def check_parts(owner: object, kinds: Mapping[str, type[Any]]) -> None:
    """Raise `InputError` unless the named attributes of `owner` are settings of these kinds with valid values."""
    for name, kind in kinds.items():
        part = getattr(owner, name)
        if not isinstance(part, kind):
            raise InputError(f"{name} must be a {kind.__name__}", given=type(part).__name__)
        part.check()
