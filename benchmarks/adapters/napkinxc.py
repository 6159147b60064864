"""napkinXC: a probabilistic label tree with its defaults (logistic loss, exact search)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from napkinxc.models import PLT

from benchmarks.adapters.base import Adapter, from_pairs


class Driver(Adapter):
    """A model is a `PLT`."""

    def train(self, data: Any, folder: Path, settings: dict[str, Any], threads: int) -> Any:
        folder.mkdir(parents=True)
        model = PLT(str(folder), threads=threads, **settings)
        model.fit(*data)
        return model

    def save(self, model: Any, folder: Path) -> None:
        """Do nothing: the model is written while it is trained."""

    def load(self, folder: Path, mode: dict[str, Any], threads: int) -> Any:
        model = PLT(str(folder), threads=threads, **mode)
        model.load()
        return model

    def batch(self, model: Any, rows: Any, k: int) -> Any:
        return model.predict_proba(rows, top_k=k)

    def to_csr(self, answer: Any, n_labels: int) -> Any:
        return from_pairs(answer, n_labels)
