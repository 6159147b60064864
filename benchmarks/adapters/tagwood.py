"""tagwood: `LinearTree` with its defaults, or with copies of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scipy import sparse

from benchmarks.adapters.base import BEAM, Adapter
from tagwood import Disentangled, LinearTree, load, save


class Driver(Adapter):
    """A model is a `LinearTree`, the search it is asked with and the width of a beam."""

    def train(self, data: Any, folder: Path, settings: dict[str, Any], threads: int) -> Any:
        copies = settings.get("copies")
        tree = LinearTree(threads=threads, **{key: settings[key] for key in settings if key != "copies"})
        return (Disentangled(tree, copies=copies, threads=threads) if copies else tree).fit(*data)

    def save(self, model: Any, folder: Path) -> None:
        save(model, folder)

    def load(self, folder: Path, mode: dict[str, Any], threads: int) -> Any:
        return load(folder).set_params(threads=threads), mode["search"], mode.get("width", BEAM)

    def batch(self, model: Any, rows: Any, k: int) -> Any:
        tree, search, width = model
        return tree.rank(rows, k=k, beam_width=width, search=search)

    def to_csr(self, answer: Any, n_labels: int) -> Any:
        shape = (answer.n_rows, n_labels)
        return sparse.csr_matrix((answer.scores, answer.labels, answer.indptr), shape=shape)

    def more_figures(self, model: Any, X: Any, k: int) -> dict[str, float]:
        tree, search, width = model
        nodes, _ = tree.search_effort(X, k, beam_width=width, search=search)
        return {"nodes_per_row": float(nodes.mean())}
