"""JSON without its traps: duplicate keys, NaN, infinity and deep nesting are all refused as ValueError."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from tagwood.storage.state import Json


def parse_json(raw: bytes) -> Json:
    """Parse UTF-8 JSON strictly; raise ValueError with the reason for anything doubtful.

    Examples
    --------
    >>> parse_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: it names 'a' twice
    """
    try:
        value: Json = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text ({error.reason} at byte {error.start:,})") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not valid JSON ({error})") from None
    return value


def render_json(value: Any) -> bytes:
    """Return `value` as indented UTF-8 JSON with a final newline."""
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False).encode("utf-8") + b"\n"


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"it names {key!r} twice")
            seen.add(key)
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"it holds {text}, which is too large for a float")
    return number
