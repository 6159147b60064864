"""Interfaces of adapters, from matrices to rankings and from texts to label names, and conversions they share.

Adapters run in the environment of their tool, so this needs numpy and SciPy only. `train`, `load`, `batch`, `one` and
`many` are measured; converting data into the form of a tool is not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

BEAM = 10
TEXT_LABELS = 5  # labels per text
N_GRAMS, MIN_DF = 2, 2  # word 1-2-grams that occur in at least two texts

Answer = list[tuple[str, float]]


class Adapter(ABC):
    """Drive one tool: train, save, load, predict many rows, predict one row."""

    def read(self, data: Path) -> Any:
        """Return the training data in the tool's form; not counted."""
        return read_matrix(data / "X.trn.npz"), read_matrix(data / "Y.trn.npz")

    @abstractmethod
    def train(self, data: Any, folder: Path, settings: dict[str, Any], threads: int) -> Any:
        """Return a trained model; counted."""

    @abstractmethod
    def save(self, model: Any, folder: Path) -> None:
        """Write the model to a new folder; timed separately."""

    def compile(self, folder: Path, mode: dict[str, Any]) -> Path:
        """Return the folder to load from, converted if a mode needs it; not counted."""
        return folder

    @abstractmethod
    def load(self, folder: Path, mode: dict[str, Any], threads: int) -> Any:
        """Return a model for prediction; timed."""

    def batch_input(self, X: Any) -> Any:
        """Return rows in the form that `batch` takes; not counted."""
        return X

    @abstractmethod
    def batch(self, model: Any, rows: Any, k: int) -> Any:
        """Return the best `k` labels of each row, in the tool's form; counted."""

    def to_csr(self, answer: Any, n_labels: int) -> Any:
        """Return the result of `batch` as CSR scores, labels in the tool's order; not counted."""
        return answer

    def single_rows(self, X: Any) -> list[Any]:
        """Return every row in the form that `one` takes; not counted."""
        return [X[i : i + 1] for i in range(X.shape[0])]

    def one(self, model: Any, row: Any, k: int) -> Any:
        """Return the best `k` labels of one row; timed."""
        return self.batch(model, row, k)

    def more_figures(self, model: Any, X: Any, k: int) -> dict[str, float]:
        """Return further figures of a batch; not counted."""
        return {}


class TextAdapter(ABC):
    """Drive one tool from texts to names and scores of labels."""

    @abstractmethod
    def train(self, texts: list[str], labels: list[list[str]], folder: Path, threads: int) -> None:
        """Train and write everything that prediction needs to a new folder; counted."""

    @abstractmethod
    def load(self, folder: Path, mode: dict[str, Any], threads: int) -> Any:
        """Return a model for prediction; timed."""

    @abstractmethod
    def one(self, model: Any, text: str) -> Answer:
        """Return the best labels of one text; timed."""

    @abstractmethod
    def many(self, model: Any, texts: list[str]) -> list[Answer]:
        """Return the best labels of many texts; counted."""


def read_matrix(path: Path) -> Any:
    """Return a `csr_matrix`, which all tools take, from an ``.npz`` file."""
    return sparse.csr_matrix(sparse.load_npz(path))


def from_pairs(rows: Sequence[Sequence[tuple[int, float]]], n_labels: int) -> Any:
    """Return (label, score) pairs as CSR; the order inside a row stays."""
    indptr = np.cumsum([0, *map(len, rows)])
    labels = np.fromiter((label for row in rows for label, _ in row), dtype=np.int32, count=indptr[-1])
    scores = np.fromiter((score for row in rows for _, score in row), dtype=np.float32, count=indptr[-1])
    return sparse.csr_matrix((scores, labels, indptr), shape=(len(rows), n_labels))
