"""A first try with few texts: 1,350 question titles, every encoder with its defaults, and the linear tree.

In: a name of `ENCODERS`, or ``linear tree``. Out: measures on 2,000 other titles of the training file.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np

from experiments.prime_data import SHARED, LabelledTexts, known_labels, label_matrix
from tagwood import LinearTree, PrototypeModel, TfidfEncoder
from tagwood.metrics import evaluate

NAME = "cooking-stackexchange"
ROWS, OTHERS = 1350, 2000
ENCODERS = ("bag", "small", "minilm")
FIRST = ("linear tree", *(f"PRIME, {kind}" for kind in ENCODERS))
MEASURES = ("P@1", "P@3", "P@5")


def read_titles() -> LabelledTexts:
    """Return few titles to learn from and others to measure on, all of the training file."""
    with gzip.open(SHARED / NAME / "train.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    order = np.random.default_rng(0).permutation(len(rows))[: ROWS + OTHERS]
    chosen = [rows[row] for row in order]
    names = sorted({label for row in chosen for label in row["labels"]})
    ids = {name: place for place, name in enumerate(names)}
    Y = label_matrix([[ids[label] for label in row["labels"]] for row in chosen], len(names))
    texts = [str(row["text"]) for row in chosen]
    return known_labels(NAME, texts[:ROWS], texts[ROWS:], Y[:ROWS], Y[ROWS:], names)


def run_first(row: str, seed: int = 0) -> dict[str, Any]:
    """Train one model with its defaults and measure it."""
    data = read_titles()
    if row == "linear tree":
        tfidf = TfidfEncoder(threads=1).fit(data.texts)
        tree = LinearTree(seed=seed, threads=1).fit(tfidf.transform(data.texts), data.Y)
        ranking = tree.rank(tfidf.transform(data.test_texts), k=5)
    else:
        model = PrototypeModel(encoder=row.removeprefix("PRIME, "), seed=seed, threads=1)
        ranking = model.fit(data.texts, data.Y, label_texts=data.label_texts).rank(data.test_texts, k=5)
    report = evaluate(data.Y_test, ranking, metrics=MEASURES)
    return {name: round(100 * report[name], 3) for name in MEASURES}
