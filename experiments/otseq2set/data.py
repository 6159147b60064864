"""Data of the OTSeq2Set experiment: three text sets with label names.

In: names of sets. Out: training rows, held-out rows of the training part (for all choices) and test rows. A cut keeps
the most frequent labels (all of EURLEX57K), rows that have one of them, and the first words of each text.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import sparse

from benchmarks import SHARED
from benchmarks.problems import read_splits
from tagwood._sparse import check_labels
from tagwood.data.dataset import Dataset
from tagwood.metrics import set_scores

VECTORS = SHARED / "glove" / "vectors.f16.npy"


@dataclass(frozen=True)
class Cut:
    """How much of a set is used: training, held-out and test rows, labels, words of a text, steps of the decoder."""

    rows: int
    held: int
    test: int
    labels: int
    words: int
    steps: int


CUTS = {
    "cooking-stackexchange": Cut(2_048, 1_000, 2_500, 150, 15, 5),
    "tate-subjects": Cut(2_048, 1_000, 2_500, 150, 16, 8),
    "eurlex57k": Cut(15_000, 1_000, 3_000, 5_000, 100, 10),
}
QUICK = Cut(256, 100, 100, 50, 12, 4)


@dataclass(frozen=True)
class Part:
    """Texts and their label sets."""

    texts: list[str]
    Y: sparse.csr_array

    def take(self, rows: np.ndarray) -> Part:
        """Return some of the rows."""
        return Part([self.texts[row] for row in rows], self.Y[rows])


@dataclass(frozen=True)
class TextSet:
    """A cut set."""

    name: str
    cut: Cut
    train: Part
    held: Part
    test: Part
    label_texts: list[str]


@cache
def read_set(name: str, quick: bool = False) -> TextSet:
    """Return a set as `CUTS` says, or a few rows of it; the same rows each time."""
    cut = QUICK if quick else CUTS[name]
    train, test = read_splits(name)
    counts = np.bincount(train.labels.indices, minlength=train.n_labels)
    labels = np.sort(np.argsort(-counts, kind="stable")[: cut.labels])
    whole, rest = (_cut(part, labels, cut.words) for part in (train, test))
    rng = np.random.default_rng(0)
    order = rng.permutation(len(whole.texts))[: cut.rows + cut.held]
    chosen = rng.permutation(len(rest.texts))[: cut.test]
    keys = [train.vocab.name(int(label)) for label in labels]
    name_of = NAMES[name]()
    return TextSet(
        name,
        cut,
        whole.take(np.sort(order[: cut.rows])),
        whole.take(np.sort(order[cut.rows :])),
        rest.take(np.sort(chosen)),
        [name_of(key) for key in keys],
    )


def set_measures(Y: sparse.csr_array, found: sparse.csr_array) -> dict[str, float]:
    """Return P, R, F1 in the averages of Tables 3 and 6 in percent, and the mean absolute error of the set size."""
    micro = set_scores(Y, found)
    values = {"P": micro.precision, "R": micro.recall, "F1": micro.f1}
    values |= {name: set_scores(Y, found, name).f1 for name in ("macro", "weighted", "example")}
    error = np.abs(np.diff(Y.indptr) - np.diff(found.indptr)).mean()
    return {
        **{name: round(100 * value, 2) for name, value in values.items()},
        "size_error": round(float(error), 3),
    }


def _cut(part: Dataset, labels: np.ndarray, words: int) -> Part:
    Y = check_labels(part.labels[:, labels])
    rows = np.flatnonzero(np.diff(Y.indptr))
    texts = list(part.texts or ())
    return Part([" ".join(texts[row].split()[:words]) for row in rows], Y[rows])


def tate_names() -> Callable[[str], str]:
    with gzip.open(SHARED / "tate-subjects" / "labels.tsv.gz", "rt") as lines:
        names = dict(line.rstrip("\n").split("\t")[:2] for line in lines)
    return lambda key: names.get(key, key)


def eurovoc_names() -> Callable[[str], str]:
    names = json.loads((SHARED / "eurlex57k" / "eurovoc_labels.json").read_text())
    return lambda key: names[key]["label"] if key in names else key


def plain_names() -> Callable[[str], str]:
    return lambda key: key.replace("-", " ").replace(".", " ").replace("_", " ")


NAMES: dict[str, Callable[[], Callable[[str], str]]] = {
    "cooking-stackexchange": plain_names,
    "eurlex57k": eurovoc_names,
    "tate-subjects": tate_names,
}
