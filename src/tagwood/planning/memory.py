"""Memory of this process and of this machine, on Linux. Elsewhere: the process's own peak, and no limit known."""

from __future__ import annotations

import sys
from pathlib import Path

_STATUS, _MEMORY = Path("/proc/self/status"), Path("/proc/meminfo")
_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def used_bytes() -> float:
    """Return the resident memory of this process."""
    found = _kilobytes(_STATUS, "VmRSS")
    if found is not None:
        return found
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else 1024 * peak)


def largest_bytes() -> float | None:
    """Return how large this process can become: what it has and what is free, in the limits of its container."""
    free = _kilobytes(_MEMORY, "MemAvailable")
    limits = [] if free is None else [free + used_bytes()]
    for path in _GROUPS:
        try:
            limits.append(float(path.read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return min(limits, default=None)


def _kilobytes(path: Path, field: str) -> float | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith(f"{field}:")), None)
    return None if found is None else 1024 * float(found)
