"""How many threads torch may use, for the length of a ``with`` block: torch itself knows one number per process."""

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
