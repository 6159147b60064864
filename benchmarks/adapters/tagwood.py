"""tagwood: `LinearTree` with its defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scipy import sparse

from benchmarks.adapters.base import BEAM, Adapter
from tagwood import LinearTree, load, save


class Driver(Adapter):
    """A model is a `LinearTree` and the search it is asked with."""

    def train(self, data: Any, folder: Path, settings: dict[str, Any], threads: int) -> Any:
        return LinearTree(threads=threads, **settings).fit(*data)

    def save(self, model: Any, folder: Path) -> None:
        save(model, folder)

    def load(self, folder: Path, mode: dict[str, Any], threads: int) -> Any:
        return load(folder).set_params(threads=threads), mode["search"]

    def batch(self, model: Any, rows: Any, k: int) -> Any:
        tree, search = model
        return tree.rank(rows, k=k, width=BEAM, search=search)

    def to_csr(self, answer: Any, n_labels: int) -> Any:
        shape = (answer.n_rows, n_labels)
        return sparse.csr_matrix((answer.scores, answer.labels, answer.indptr), shape=shape)

    def more_figures(self, model: Any, X: Any, k: int) -> dict[str, float]:
        tree, search = model
        nodes, _ = tree.search_effort(X, k, width=BEAM, search=search)
        return {"nodes_per_row": float(nodes.mean())}
