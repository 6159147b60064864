"""Quantities with units, as users write and read them: bytes and seconds."""

from __future__ import annotations

import re

from tagwood.errors import InputError

_PARTS = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Zµ]*)\s*")
BYTES = {"b": 1.0, "kb": 1e3, "k": 1e3, "mb": 1e6, "m": 1e6, "gb": 1e9, "g": 1e9, "tb": 1e12}
BYTES |= {"kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def parse_quantity(text: str, name: str, units: dict[str, float], plain: str) -> float:
    """Return a quantity in bytes or seconds; a number without unit is in `plain`.

    Examples
    --------
    >>> parse_quantity("2.5GB", "--max-ram", BYTES, "mb"), parse_quantity("5", "--max-latency", SECONDS, "ms")
    (2500000000.0, 0.005)
    """
    match = _PARTS.fullmatch(text)
    unit = (match[2].lower() or plain) if match else ""
    if match is None or unit not in units or float(match[1]) <= 0:
        known = "500MB or 4GB" if units is BYTES else "2ms or 500us"
        raise InputError(
            f"{name} must be a number above 0 with a unit, such as {known}", given=repr(text[:40])
        )
    return float(match[1]) * units[unit]


def show_amount(size: float) -> str:
    """Return bytes as people read them.

    Examples
    --------
    >>> show_amount(2.34e9), show_amount(51e6), show_amount(800)
    ('2.3 GB', '51 MB', '0.8 kB')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale or unit == "kB":
            value = size / scale
            return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"
    raise AssertionError("kB takes all")


def show_time(seconds: float) -> str:
    """Return a time as people read it.

    Examples
    --------
    >>> show_time(150), show_time(4.2), show_time(0.0042), show_time(42e-6)
    ('2.5 min', '4.2 s', '4.2 ms', '42 µs')
    """
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    for unit, scale in (("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= (2 * scale if unit == "min" else scale) or unit == "µs":
            value = seconds / scale
            return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"
    raise AssertionError("µs takes all")
