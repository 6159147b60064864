"""tagwood: `LinearTree` with its defaults or with copies of labels, and `Tagger` from texts to label names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scipy import sparse

from benchmarks.adapters.base import MIN_DF, N_GRAMS, TEXT_LABELS, Adapter, Answer, TextAdapter
from tagwood import Disentangled, LinearTree, Tagger, TfidfEncoder, load, save


class Driver(Adapter):
    """A model is a `LinearTree`, a kind of search and a beam width."""

    def train(self, data: Any, folder: Path, settings: dict[str, Any], threads: int) -> Any:
        copies = settings.get("copies")
        tree = LinearTree(threads=threads, **{key: settings[key] for key in settings if key != "copies"})
        return (Disentangled(tree, copies=copies, threads=threads) if copies else tree).fit(*data)

    def save(self, model: Any, folder: Path) -> None:
        save(model, folder)

    def load(self, folder: Path, mode: dict[str, Any], threads: int) -> Any:
        return load(folder).set_params(threads=threads), mode["search"], mode.get("width")

    def batch(self, model: Any, rows: Any, k: int) -> Any:
        tree, search, width = model
        return tree.rank(rows, k=k, beam_width=width, search=search)

    def to_csr(self, answer: Any, n_labels: int) -> Any:
        shape = (answer.n_rows, n_labels)
        return sparse.csr_matrix((answer.scores, answer.labels, answer.indptr), shape=shape)

    def more_figures(self, model: Any, X: Any, k: int) -> dict[str, float]:
        tree, search, width = model
        nodes = tree.search_effort(X, k, beam_width=width, search=search).nodes
        return {"nodes_per_row": float(nodes.mean())}


class TextDriver(TextAdapter):
    """A model is a `Tagger`."""

    def train(self, texts: list[str], labels: list[list[str]], folder: Path, threads: int) -> None:
        encoder = TfidfEncoder(ngrams=(1, N_GRAMS), min_df=MIN_DF, threads=threads)
        tagger = Tagger(encoder, LinearTree(threads=threads))
        tagger.fit(texts, labels).save(folder / "model")

    def load(self, folder: Path, mode: dict[str, Any], threads: int) -> Any:
        tagger = Tagger.load(folder / "model")
        for part in (tagger.encoder_, tagger.model_):
            part.set_params(threads=threads)  # type: ignore[union-attr]
        return tagger

    def one(self, model: Any, text: str) -> Answer:
        return model.tag_one(text, TEXT_LABELS)

    def many(self, model: Any, texts: list[str]) -> list[Answer]:
        return model.tag(texts, TEXT_LABELS)
