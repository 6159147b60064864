"""Omikuji: trains from a repository file, predicts one row at a time from (feature, value) pairs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import omikuji
from omikuji._libomikuji import ffi, lib

from benchmarks.adapters.base import BEAM, Adapter, from_pairs


class Driver(Adapter):
    """A model is an `omikuji.Model`."""

    def read(self, data: Path) -> Any:
        """Read the file apart from training; `Model.train_on_data` does both in one."""
        pool = omikuji._ThreadPoolHandle(1)
        found = lib.load_omikuji_data_set(ffi.new("char[]", str(data / "trn.txt").encode()), pool.ptr)
        if found == ffi.NULL:
            raise RuntimeError(f"omikuji cannot read {data}")
        return ffi.gc(found, lib.free_omikuji_data_set)

    def train(self, data: Any, folder: Path, settings: dict[str, Any], threads: int) -> Any:
        parameters = omikuji.Model.default_hyper_param()
        for name, value in settings.items():
            setattr(parameters, name, value)
        trained = lib.train_omikuji_model(data, parameters, omikuji._ThreadPoolHandle(threads).ptr)
        if trained == ffi.NULL:
            raise RuntimeError("omikuji did not train")
        return omikuji.Model(trained)

    def save(self, model: Any, folder: Path) -> None:
        folder.mkdir(parents=True)
        model.save(str(folder))

    def load(self, folder: Path, mode: dict[str, Any], threads: int) -> Any:
        model = omikuji.Model.load(str(folder))
        model.init_prediction_thread_pool(threads)
        return model

    def batch_input(self, X: Any) -> list[list[tuple[int, float]]]:
        indptr, indices, data = X.indptr.tolist(), X.indices.tolist(), X.data.tolist()
        return [list(zip(indices[a:b], data[a:b], strict=True)) for a, b in pairwise(indptr)]

    def batch(self, model: Any, rows: Any, k: int) -> Any:
        return [self.one(model, row, k) for row in rows]

    def to_csr(self, answer: Any, n_labels: int) -> Any:
        return from_pairs(answer, n_labels)

    def single_rows(self, X: Any) -> list[Any]:
        return self.batch_input(X)

    def one(self, model: Any, row: Any, k: int) -> Any:
        return model.predict(row, beam_size=BEAM, top_k=k)
