"""The generated problem of the PRIME benchmark, and the process in which the memory of a training is measured.

A label's name is two words; the text of a row has words of its labels' names and others. Labels are drawn by a power
law, so that most are rare, as in a library.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.measure import Meter
from tagwood.neural.encoders.text_encoder import TextEncoder
from tagwood.neural.prime.batches import Positives, QueryBatches
from tagwood.neural.prime.model import PrototypeModel
from tagwood.neural.prime.network import PrototypeModule
from tagwood.neural.prime.training import PrototypeData, PrototypeStep, new_module

WORDS = 30_000
PER_ROW = 3


class Texts(NamedTuple):
    """Rows, their label sets and the labels' names."""

    texts: list[str]
    Y: sparse.csr_array
    label_texts: list[str]


def make_texts(n_rows: int, n_labels: int, seed: int = 0) -> Texts:
    """Return rows of about 14 words with three labels each."""
    random = np.random.default_rng(seed)
    words = np.array([f"{a}{b}" for a in _syllables(173) for b in _syllables(174)])[:WORDS]
    names = words[random.integers(0, words.size, (n_labels, 2))]
    popular = 1.0 / np.arange(1, n_labels + 1) ** 0.6
    labels = random.choice(n_labels, (n_rows, PER_ROW), p=popular / popular.sum())
    common = words[(words.size * random.random((n_rows, 8)) ** 3).astype(int)]
    texts = [" ".join([*names[own].ravel(), *rest]) for own, rest in zip(labels, common, strict=True)]
    rows = np.repeat(np.arange(n_rows), PER_ROW)
    Y = sparse.csr_array((np.ones(rows.size, np.float32), (rows, labels.ravel())), shape=(n_rows, n_labels))
    Y.data[:] = 1.0
    return Texts(texts, Y, [" ".join(pair) for pair in names])


def _syllables(count: int) -> list[str]:
    found = [a + b + c for a in "bdfgklmnprstvz" for b in "aeiou" for c in ("", "n", "r")]
    return found[:count]


class Bench(NamedTuple):
    """A training at its start, taken apart."""

    module: PrototypeModule
    data: PrototypeData
    positives: Positives
    batches: QueryBatches
    step: PrototypeStep


def start_training(texts: Texts, encoder: str, threads: int, **options: Any) -> Bench:
    """Return what `PrototypeModel.fit` makes before its first step."""
    model = PrototypeModel(encoder=encoder, centroids=options.pop("centroids", "momentum"), **options)
    settings = model.resolved_settings()
    network = TextEncoder(encoder, threads=threads).fit([*texts.texts, *texts.label_texts])
    tokens = network.tokens(texts.texts), network.tokens(texts.label_texts)
    data = PrototypeData(*tokens, texts.Y, texts.texts)
    module = new_module(network, data, settings, 0, threads)
    own = settings.batches
    positives = Positives(data.Y, own.positives, by_propensity=own.by_propensity, seed=0)
    memory = module.memory if own.clustered else None
    batches = QueryBatches(data.Y, settings.training.batch_size, memory, threads=threads)
    return Bench(module, data, positives, batches, PrototypeStep(data, positives, settings.loss))


def main() -> None:
    job = json.loads(sys.argv[1])
    texts = make_texts(job["rows"], job["n_labels"])
    encoder = TextEncoder("bag", dimension=job["dimension"], threads=1)
    model = PrototypeModel(encoder=encoder, centroids="momentum", epochs=1, batch_size=job["batch"], threads=1)
    with Meter() as meter:
        model.fit(texts.texts, texts.Y, label_texts=texts.label_texts)
    Path(job["answer"]).write_text(json.dumps(meter.as_dict("fit")))


if __name__ == "__main__":
    main()
