"""tagwood from text to names: a `Tagger` with its defaults, calibrated probabilities included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.adapters.text import MIN_DF, N_GRAMS, Answer, K, TextAdapter
from tagwood import LinearTree, Tagger, TfidfEncoder


class Driver(TextAdapter):
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
        return model.tag_one(text, K)

    def many(self, model: Any, texts: list[str]) -> list[Answer]:
        return model.tag(texts, K)
