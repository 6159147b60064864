"""Markdown tables and machine facts that benchmark pages share."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.reading import processor


def machine() -> dict[str, Any]:
    """Return what a reader must know of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    vector = [name for name in ("avx2", "fma", "avx512f") if f" {name} " in flags.replace("\n", " ")]
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "vector_units": vector,
        "memory_gb": round(memory, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def machine_line(facts: dict[str, Any]) -> str:
    """Return those facts as a sentence."""
    vector = ", ".join(facts["vector_units"]) or "no vector units known"
    return (
        f"Machine: {facts['processor']} ({vector}), {facts['cores']} cores, {facts['memory_gb']} GB, "
        f"{facts['system']}, Python {facts['python']}; {facts['date']}."
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, first column to the left and the others to the right.

    Examples
    --------
    >>> markdown_table(["tool", "s"], [["a", "1"]])
    ['| tool | s |', '|---|---:|', '| a | 1 |']
    """
    rule = "|".join(["---", *["---:"] * (len(header) - 1)])
    return [f"| {' | '.join(header)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)]


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with about `digits` figures and separators; nothing for None.

    Examples
    --------
    >>> number(12345.6), number(12.345), number(0.01234), number(None)
    ('12,346', '12.3', '0.0123', '')
    """
    if value is None:
        return ""
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    if whole >= digits:
        return f"{value:,.0f}"
    return f"{value:.{digits - whole}f}" if whole else f"{value:.{digits}g}"
