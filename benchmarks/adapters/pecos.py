"""libpecos: XR-Linear with its default pipeline (PIFA, hierarchical k-means, one linear model per layer)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel

from benchmarks.adapters.base import BEAM, Adapter


class Driver(Adapter):
    """A model is an `XLinearModel` and its number of threads."""

    def read(self, data: Path) -> Any:
        X, Y = super().read(data)
        return X, Y.tocsc()

    def train(self, data: Any, folder: Path, settings: dict[str, Any], threads: int) -> Any:
        X, Y = data
        rest = dict(settings)
        shape = {key: rest.pop(key) for key in ("nr_splits", "max_leaf_size", "seed") if key in rest}
        label_features = LabelEmbeddingFactory.create(Y, X, method="pifa", threads=threads)
        clusters = Indexer.gen(label_features, indexer_type="hierarchicalkmeans", threads=threads, **shape)
        return XLinearModel.train(X, Y, C=clusters, threads=threads, **rest), threads

    def save(self, model: Any, folder: Path) -> None:
        model[0].save(str(folder))

    def compile(self, folder: Path, mode: dict[str, Any]) -> Path:
        if not mode.get("memory_mapped"):
            return folder
        mapped = folder.with_name("mapped")
        XLinearModel.compile_mmap_model(str(folder), str(mapped))
        return mapped

    def load(self, folder: Path, mode: dict[str, Any], threads: int) -> Any:
        rest = {key: value for key, value in mode.items() if key != "memory_mapped"}
        return XLinearModel.load(str(folder), is_predict_only=True, **rest), threads

    def batch(self, model: Any, rows: Any, k: int) -> Any:
        tree, threads = model
        return tree.predict(rows, beam_size=BEAM, only_topk=k, threads=threads)
