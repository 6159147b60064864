"""How torch computes for the length of a ``with`` block: threads, and tiny numbers. Both are per process in torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tagwood._check import check_threads


@contextmanager
def torch_threads(threads: int | None) -> Iterator[int]:
    """Let torch use so many threads, None for all cores, and set it back afterwards.

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
    """Take numbers below 1e-38 as 0, and set it back afterwards: gradients of long texts have many, each very slow.

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
