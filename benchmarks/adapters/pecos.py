"""libpecos: XR-Linear with its default pipeline, from matrices, or from texts by its own TF-IDF vectoriser."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pecos.utils.featurization.text.vectorizers import Vectorizer
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel
from scipy import sparse

from benchmarks.adapters.base import BEAM, MIN_DF, N_GRAMS, TEXT_LABELS, Adapter, Answer, TextAdapter

_FEATURES = {"ngram_range": (1, N_GRAMS), "min_df_cnt": MIN_DF, "sublinear_tf": True}
_TREE = {"nr_splits": 16, "max_leaf_size": 100, "threshold": 0.1, "negative_sampling_scheme": "tfn"}


def train_tree(X: Any, Y: Any, settings: dict[str, Any], threads: int) -> XLinearModel:
    """Train XR-Linear with PIFA label features and hierarchical k-means."""
    rest = dict(settings)
    shape = {key: rest.pop(key) for key in ("nr_splits", "max_leaf_size", "seed") if key in rest}
    label_features = LabelEmbeddingFactory.create(Y, X, method="pifa", threads=threads)
    clusters = Indexer.gen(label_features, indexer_type="hierarchicalkmeans", threads=threads, **shape)
    return XLinearModel.train(X, Y, C=clusters, threads=threads, **rest)


class Driver(Adapter):
    """A model is an `XLinearModel` and its number of threads."""

    def read(self, data: Path) -> Any:
        X, Y = super().read(data)
        return X, Y.tocsc()

    def train(self, data: Any, folder: Path, settings: dict[str, Any], threads: int) -> Any:
        return train_tree(*data, settings, threads), threads

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


class TextDriver(TextAdapter):
    """A model is a vectoriser, an `XLinearModel`, the label names and a number of threads."""

    def train(self, texts: list[str], labels: list[list[str]], folder: Path, threads: int) -> None:
        kwargs = {**_FEATURES, "threads": threads}
        vectorizer = Vectorizer.train(texts, config={"type": "tfidf", "kwargs": kwargs})
        X = vectorizer.predict(texts, threads=threads)
        names = sorted({name for row in labels for name in row})
        Y = _label_matrix(labels, names)
        model = train_tree(X, Y, _TREE, threads)
        vectorizer.save(str(folder / "vectorizer"))
        model.save(str(folder / "model"))
        (folder / "names.json").write_text(json.dumps(names))

    def load(self, folder: Path, mode: dict[str, Any], threads: int) -> Any:
        vectorizer = Vectorizer.load(str(folder / "vectorizer"))
        model = XLinearModel.load(str(folder / "model"), is_predict_only=True, **mode)
        return vectorizer, model, json.loads((folder / "names.json").read_text()), threads

    def one(self, model: Any, text: str) -> Answer:
        return self.many(model, [text])[0]

    def many(self, model: Any, texts: list[str]) -> list[Answer]:
        vectorizer, tree, names, threads = model
        X = vectorizer.predict(texts, threads=threads)
        found = tree.predict(X, beam_size=BEAM, only_topk=TEXT_LABELS, threads=threads)
        labels, scores = found.indices.tolist(), found.data.tolist()
        return [
            [(names[labels[i]], scores[i]) for i in range(begin, end)] for begin, end in pairwise(found.indptr.tolist())
        ]


def _label_matrix(labels: list[list[str]], names: list[str]) -> Any:
    ids = {name: i for i, name in enumerate(names)}
    indptr = np.cumsum([0, *map(len, labels)])
    indices = np.fromiter((ids[name] for row in labels for name in row), dtype=np.int32, count=indptr[-1])
    ones = np.ones(indices.size, dtype=np.float32)
    return sparse.csr_matrix((ones, indices, indptr), shape=(len(labels), len(names))).tocsc()
