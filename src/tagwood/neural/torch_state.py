"""What neural models share: torch's settings, devices and precision, weights as arrays of a `State`, checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tagwood._check import check_stored_finite, check_threads
from tagwood.errors import InputError
from tagwood.storage import State

PRECISIONS = ("auto", "float32", "bfloat16")


def check_device(device: str) -> str:
    """Return a device; raise `InputError` if torch does not have it."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            "device must be available to torch",
            given=f"{device!r} ({str(error).splitlines()[0][:80]})",
            hint="Use device='cpu'.",
        ) from error
    return device


def mixed_precision(device: str, precision: str) -> AbstractContextManager[Any]:
    """Compute matrix products in bfloat16 for a while, if `precision` says so; ``"auto"``: on GPUs that support it.

    Examples
    --------
    >>> layer, row = torch.nn.Linear(2, 2), torch.ones(1, 2)
    >>> with mixed_precision("cpu", "auto"):
    ...     layer(row).dtype
    torch.float32
    >>> with mixed_precision("cpu", "bfloat16"):
    ...     layer(row).dtype
    torch.bfloat16
    """
    kind = torch.device(device).type
    half = precision == "bfloat16" or (precision == "auto" and kind == "cuda" and torch.cuda.is_bf16_supported())
    return torch.autocast(kind, torch.bfloat16, enabled=half)


def cpu_has_bfloat16() -> bool:
    """Whether this CPU multiplies matrices of bfloat16 faster than those of float32: AVX512-BF16 or AMX."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """Compute in float32 for a while: scores and losses inside of a mixed precision."""
    return torch.autocast(device.type, enabled=False)


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
