"""The measured constants of the forecast, and how sure it is. Written by ``python -m benchmarks.plan``; see its page.

Each group of constants belongs to a list of terms that `forecast` computes in the same order.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("coefficients.json")


@dataclass(frozen=True)
class Coefficients:
    """Constants by what they forecast.

    Parameters
    ----------
    features, label_features, tree, rest
        CPU seconds per unit of work of the stages of training.
    memory
        Bytes beyond those in use when the data have been read.
    entries
        Weights per feature of a label, and how fast they fall below the threshold.
    size
        Bytes of a model folder.
    latency, batch
        Seconds for one text alone, and CPU seconds for one of many.
    bands
        Quantity -> factor within which nine of ten measured sets lay.
    measured
        Where and when: machine, date, sets used and sets kept to check.
    """

    features: tuple[float, ...]
    label_features: tuple[float, ...]
    tree: tuple[float, ...]
    rest: tuple[float, ...]
    memory: tuple[float, ...]
    entries: tuple[float, ...]
    size: tuple[float, ...]
    latency: tuple[float, ...]
    batch: tuple[float, ...]
    bands: dict[str, float]
    measured: dict[str, str]

    def to_json(self) -> str:
        """Return the constants as JSON, with four figures each."""
        rounded = {
            name: [float(f"{one:.4g}") for one in value] if isinstance(value, list | tuple) else value
            for name, value in asdict(self).items()
        }
        return json.dumps(rounded, indent=2) + "\n"


def parse_coefficients(text: str) -> Coefficients:
    """Return the constants of a JSON text."""
    content: dict[str, Any] = json.loads(text)
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in content.items()}
    return Coefficients(**values)


@cache
def read_coefficients() -> Coefficients:
    """Return the constants that belong to this version."""
    return parse_coefficients(FILE.read_text(encoding="utf-8"))
