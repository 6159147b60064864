"""What drives a tool from texts to label names, and the values they share; runs in the environment of the tool.

Both ends are the same for all: texts in, a list of (name, score) per text out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

K, BEAM = 5, 10
N_GRAMS, MIN_DF = 2, 2  # word 1-2-grams that stand in two texts or more

Answer = list[tuple[str, float]]


class TextAdapter(ABC):
    """Drive one tool from texts to names."""

    @abstractmethod
    def train(self, texts: list[str], labels: list[list[str]], folder: Path, threads: int) -> None:
        """Train and write everything that answering needs to a new folder; counted."""

    @abstractmethod
    def load(self, folder: Path, mode: dict[str, Any], threads: int) -> Any:
        """Return what answers; timed."""

    @abstractmethod
    def one(self, model: Any, text: str) -> Answer:
        """Return the best labels of one text; timed."""

    @abstractmethod
    def many(self, model: Any, texts: list[str]) -> list[Answer]:
        """Return the best labels of many texts; counted."""
